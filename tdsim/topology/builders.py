"""Machines as functions from numbers to an immutable graph.

`rail_optimized` puts the GPUs of a node around one NVSwitch and, over several nodes, gives
every GPU a PCIe switch and a NIC of its own; NIC *i* of every node meets leaf switch *i* (rail
*i*), and one non-blocking spine joins the rails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import networkx as nx

from tdsim.errors import TopologyError
from tdsim.topology.machine import Machine
from tdsim.topology.specs import CollectiveSpec, GpuSpec, HostSpec, LinkSpec

MAX_GPUS = 16384
"""Above this a machine takes longer to build than a simulation of it could be worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The parts that machines of one family are built from."""

    gpu: GpuSpec
    host: HostSpec
    collective: CollectiveSpec
    """`rail_optimized` lowers `scale_out` to what a node's NICs carry together."""
    nvlink: LinkSpec
    """GPU to NVSwitch."""
    pcie: LinkSpec
    """GPU to its PCIe switch, and PCIe switch to NIC."""
    nic: LinkSpec
    """NIC to leaf switch."""
    spine: LinkSpec
    """Leaf to spine; the bandwidth is one NIC's share."""


def check_size(nodes: int, gpus_per_node: int, where: str) -> None:
    """Raises `TopologyError` unless a machine of that size can be built."""
    if nodes < 1 or gpus_per_node < 1 or nodes * gpus_per_node > MAX_GPUS:
        raise TopologyError(
            f"{nodes} nodes of {gpus_per_node} GPUs",
            where,
            f"at least one node and one GPU in it, and at most {MAX_GPUS} GPUs in all",
            "change the numbers",
        )


def rail_optimized(platform: Platform, *, name: str, nodes: int, gpus_per_node: int) -> Machine:
    """*nodes* nodes of *gpus_per_node* GPUs; a single node has no NICs."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for rank in range(nodes * gpus_per_node):
        node, rail = divmod(rank, gpus_per_node)
        _connect(graph, f"gpu{rank}", f"nvswitch{node}", platform.nvlink)
        if nodes > 1:
            _connect(graph, f"gpu{rank}", f"pcie{rank}", platform.pcie)
            _connect(graph, f"pcie{rank}", f"nic{rank}", platform.pcie)
            _connect(graph, f"nic{rank}", f"leaf{rail}", platform.nic)
    if nodes > 1:
        # Every leaf can send all that its NICs can: non-blocking.
        uplink = replace(platform.spine, bandwidth=platform.spine.bandwidth.scaled(nodes))
        for rail in range(gpus_per_node):
            _connect(graph, f"leaf{rail}", "spine0", uplink)
    return Machine(
        name=name,
        gpu=platform.gpu,
        host=platform.host,
        collective=_limited_by_nics(platform, gpus_per_node),
        num_nodes=nodes,
        gpus_per_node=gpus_per_node,
        graph=nx.freeze(graph),
    )


def _connect(graph: nx.DiGraph[str], a: str, b: str, link: LinkSpec) -> None:
    graph.add_edge(a, b, link=link)
    graph.add_edge(b, a, link=link)


def _limited_by_nics(platform: Platform, gpus_per_node: int) -> CollectiveSpec:
    """The platform's collective, no faster over nodes than all NICs of one node together."""
    nics = platform.nic.bandwidth.scaled(gpus_per_node)
    inside = platform.collective.scale_out
    if inside <= nics:
        return platform.collective
    source = f"all {gpus_per_node} NICs of a node together: {platform.nic.source}"
    sources = {**platform.collective.sources, "scale_out": source}
    return replace(platform.collective, scale_out=nics, sources=sources)
