"""A machine's graph from a list of links, checked so that every GPU reaches every other."""

from __future__ import annotations

import re
from typing import Any

import networkx as nx

from tdsim.errors import TopologyError
from tdsim.topology import sections
from tdsim.topology.machine import is_gpu, no_route, shortest_paths

_ENDPOINT = re.compile(r"[a-z][a-z0-9]*")
_ENTRY: sections.Schema = {
    "from": sections.read_text,
    "to": sections.read_text,
    "kind": sections.read_kind,
    "one_way": sections.read_flag,
    **sections.LINK,
}
_REQUIRED = ("from", "to", "kind", "bandwidth", "latency")


def free_graph(entries: object, *, world: int, file: str) -> nx.DiGraph[str]:
    """The frozen graph of *world* GPUs with the links of *entries*, each in both directions.

    An entry with ``one_way: true`` has one direction only. Raises `TopologyError`.
    """
    where = f"{file}, links"
    if not isinstance(entries, list):
        raise TopologyError(
            f"{entries!r} is no list", where, "one '- {from: ..., to: ...}' each"
        )
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(f"gpu{rank}" for rank in range(world))
    for index, entry in enumerate(entries):
        _add(graph, entry, f"{where}[{index}]", world, file)
    _check_routes(graph, world, where)
    nx.freeze(graph)
    return graph


def _add(graph: nx.DiGraph[str], entry: object, where: str, world: int, file: str) -> None:
    given: dict[str, Any] = sections.read_section(_ENTRY, entry, where, required=_REQUIRED)
    ends = (given.pop("from"), given.pop("to"))
    both_ways = not given.pop("one_way", False)
    kind = given.pop("kind")
    link = sections.new_link(given, file, kind)
    for end in ends:
        _check_endpoint(end, where, world)
    if ends[0] == ends[1]:
        raise TopologyError(f"a link from {ends[0]} to itself", where, "two endpoints")
    for edge in (ends, ends[::-1]) if both_ways else (ends,):
        if graph.has_edge(*edge):
            raise TopologyError(
                f"a second link from {edge[0]} to {edge[1]}",
                where,
                "one link in each direction",
                "add the bandwidths up, or mark both links with 'one_way: true'",
            )
        graph.add_edge(*edge, link=link)


def _check_endpoint(end: str, where: str, world: int) -> None:
    if not _ENDPOINT.fullmatch(end):
        raise TopologyError(
            f"{end!r} is no endpoint", where, "a kind and a number, such as nic3"
        )
    if is_gpu(end) and not _is_rank(end.removeprefix("gpu"), world):
        raise TopologyError(
            f"{end} is none of the machine's GPUs",
            where,
            f"gpu0 to gpu{world - 1}",
            "change nodes or gpus_per_node, or the link",
        )


def _is_rank(digits: str, world: int) -> bool:
    return digits.isdecimal() and str(int(digits)) == digits and int(digits) < world


def _check_routes(graph: nx.DiGraph[str], world: int, where: str) -> None:
    for src in range(world):
        reached = shortest_paths(graph, f"gpu{src}")
        for dst in range(world):
            if f"gpu{dst}" not in reached:
                raise no_route(where, src, dst)
