"""A machine: equal GPUs on a frozen graph of endpoints and links, and the routes between them.

Endpoints are strings of a kind and a number: ``gpu5`` is rank 5's GPU, ``nic5`` its adapter.
Knows nothing of events, tiles or kernels.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import networkx as nx

from tdsim.errors import TopologyError
from tdsim.topology.specs import CollectiveSpec, GpuSpec, HostSpec, LinkId, LinkSpec, Route

Path = tuple[str, ...]
"""Endpoints in the order that bytes pass them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machine:
    """`num_nodes` nodes of `gpus_per_node` GPUs each; ranks are numbered node by node."""

    name: str
    gpu: GpuSpec
    host: HostSpec
    collective: CollectiveSpec
    num_nodes: int
    gpus_per_node: int
    graph: nx.DiGraph[str]
    """Directed and frozen; every edge carries ``link``, a `LinkSpec`."""
    engine_links: tuple[LinkId, ...] = ()
    """What a copy engine's copy crosses instead of its route, where that differs."""
    _paths: dict[int, dict[str, Path]] = field(default_factory=dict, init=False, repr=False)
    _routes: dict[tuple[int, int], Route] = field(default_factory=dict, init=False, repr=False)

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.gpus_per_node

    def node_of(self, rank: int) -> int:
        return rank // self.gpus_per_node

    def local_rank(self, rank: int) -> int:
        return rank % self.gpus_per_node

    def ranks_of(self, node: int) -> range:
        return range(node * self.gpus_per_node, (node + 1) * self.gpus_per_node)

    def reachable(self, a: int, b: int) -> bool:
        """Whether rank *a* can load from and store to rank *b*'s memory: they share a node."""
        return self.node_of(a) == self.node_of(b)

    def link(self, link: LinkId) -> LinkSpec:
        spec: LinkSpec = self.graph.edges[link]["link"]
        return spec

    def capacities(self) -> dict[LinkId, int]:
        """Bytes per second of every link, in a fixed order."""
        return {edge: self.link(edge).bandwidth.bytes_per_s for edge in self.graph.edges}

    def route(self, src_rank: int, dst_rank: int) -> Route:
        """The way from *src_rank*'s memory to *dst_rank*'s.

        It has the fewest links, among those the least latency, and passes through no third GPU.
        Raises `TopologyError` if there is none.
        """
        key = (src_rank, dst_rank)
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = self._find_route(src_rank, dst_rank)
        return found

    def soft_links(self) -> frozenset[LinkId]:
        """The links that slow down before they are full."""
        return frozenset(edge for edge in self.graph.edges if self.link(edge).soft)

    def _find_route(self, src: int, dst: int) -> Route:
        if src == dst:
            return Route(
                links=(), latency_ps=0, bandwidth=self.gpu.hbm, ordered=True, kind="local"
            )
        if src not in self._paths:
            self._paths[src] = shortest_paths(self.graph, f"gpu{src}")
        path = self._paths[src].get(f"gpu{dst}")
        if path is None:
            raise no_route(f"machine '{self.name}'", src, dst)
        links = tuple(itertools.pairwise(path))
        specs = [self.link(link) for link in links]
        return Route(
            links=links,
            latency_ps=sum(spec.latency_ps for spec in specs),
            bandwidth=min(spec.bandwidth for spec in specs),
            ordered=all(spec.ordered for spec in specs),
            line_bytes=min(spec.line_bytes for spec in specs),
            kind="scale_up" if self.reachable(src, dst) else "scale_out",
        )


def no_route(where: str, src: int, dst: int) -> TopologyError:
    """The error for two GPUs that no path of links joins."""
    return TopologyError(
        f"no route from gpu{src} to gpu{dst}",
        where,
        "a path of links that passes through no third GPU",
        "add the missing link",
    )


def is_gpu(endpoint: str) -> bool:
    return endpoint.startswith("gpu")


def shortest_paths(graph: nx.DiGraph[str], source: str) -> dict[str, Path]:
    """The best path from *source* to every endpoint; endpoints' names decide between equals."""
    best: dict[str, Path] = {}
    heap: list[tuple[int, int, Path]] = [(0, 0, (source,))]
    while heap:
        hops, latency, path = heapq.heappop(heap)
        end = path[-1]
        if end in best:
            continue
        best[end] = path
        if is_gpu(end) and end != source:  # a GPU forwards nothing
            continue
        for neighbour, edge in graph.adj[end].items():
            if neighbour not in best:
                cost = latency + edge["link"].latency_ps
                heapq.heappush(heap, (hops + 1, cost, (*path, neighbour)))
    return best
