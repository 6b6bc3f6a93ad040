"""One GPU as several PEs: each has its own SMs, all share memory, L2 cache and copy engines.

Bytes that CTAs move go from their PE's port into the L2 cache and through the hub to memory;
copy engines enter the L2 cache by a link that all of them share. Where PEs divide a resource
without a queue (tensor cores, L2 and memory for tile loads), each has an equal part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import networkx as nx

from tdsim.topology.builders import Platform
from tdsim.topology.machine import Machine
from tdsim.topology.specs import GpuSpec, HostSpec, LinkSpec
from tdsim.units import Bandwidth

FRONT_END = (
    "launch_latency_ps", "kernel_gap_ps", "stream_op_ps", "stream_add_ps", "stream_wait_ps",
    "copy_issue_ps", "barrier_ps", "call_end_ps",
)  # fmt: skip
"""What the GPU's one front end does for streams: it serves the PEs in turn, so that each waits
as many times as long as there are PEs."""
ENGINE_LINKS = (("copy_engines", "l2"), ("l2", "hbm"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedHub:
    """The parts by which the PEs on one GPU reach each other's memory."""

    port: LinkSpec
    """All SMs of the GPU to the L2 cache, of which each PE has its part; and memory to a PE."""
    hub: LinkSpec
    """From L2 to memory: the one link that all copies share."""
    engines: LinkSpec
    """What all copy engines of the GPU carry together."""
    copy_engine: Bandwidth
    """One copy engine, both ends on this GPU."""
    copy_engine_source: str
    connections: int
    """Hardware queues of all PEs together."""
    connections_source: str
    sm_step: int
    """SMs are given to PEs in multiples of this."""
    sm_step_source: str


def shared_gpu(platform: Platform, hub: SharedHub, *, name: str, ways: int) -> Machine:
    """One GPU as *ways* PEs of equal parts, which form one node.

    The hub's bandwidth is the whole GPU's copy rate: all copies between PEs share it.
    """
    gpu = _part_of(platform.gpu, hub, ways)
    out = replace(
        hub.port, bandwidth=hub.port.bandwidth.scaled(gpu.num_sms, platform.gpu.num_sms)
    )
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edge("l2", "hbm", link=hub.hub)
    graph.add_edge("copy_engines", "l2", link=hub.engines)
    for rank in range(ways):
        graph.add_edge(f"gpu{rank}", "l2", link=out)
        graph.add_edge("hbm", f"gpu{rank}", link=hub.port)
    share = hub.hub.bandwidth.scaled(9, 10 * ways)
    source = f"assumed: 0.9 of 1/{ways} of the hub (NCCL itself refuses two ranks on one GPU)"
    collective = replace(
        platform.collective,
        scale_up=share,
        scale_out=share,
        sources={**platform.collective.sources, "scale_up": source, "scale_out": source},
    )
    return Machine(
        name=name,
        gpu=gpu,
        host=_in_turn(platform.host, hub, ways),
        collective=collective,
        num_nodes=1,
        gpus_per_node=ways,
        graph=nx.freeze(graph),
        engine_links=ENGINE_LINKS,
    )


def _in_turn(host: HostSpec, hub: SharedHub, ways: int) -> HostSpec:
    """*host* as each of *ways* PEs sees it."""
    times = {name: getattr(host, name) * ways for name in FRONT_END}
    turns = {name: f"{ways} times, for as many PEs: {host.sources[name]}" for name in FRONT_END}
    return replace(
        host,
        **times,
        connections=max(1, hub.connections // ways),
        sources={**host.sources, **turns, "connections": hub.connections_source},
    )


def _part_of(gpu: GpuSpec, hub: SharedHub, ways: int) -> GpuSpec:
    """One of *ways* parts of *gpu*: SMs in steps, an equal share of memory and cache."""
    sms = gpu.num_sms // ways // hub.sm_step * hub.sm_step
    part = f"1/{ways} of: "
    divided = ("hbm", "hbm_bytes", "l2", "l2_bytes")
    return replace(
        gpu,
        name=f"{gpu.name}/{ways}",
        num_sms=sms,
        flops={dtype: rate * sms // gpu.num_sms for dtype, rate in gpu.flops.items()},
        hbm=gpu.hbm.scaled(1, ways),
        hbm_bytes=gpu.hbm_bytes // ways,
        l2=gpu.l2.scaled(1, ways),
        l2_bytes=gpu.l2_bytes // ways,
        copy_engine=hub.copy_engine,
        local_copy=hub.copy_engine,
        sources={
            **gpu.sources,
            **{field: part + gpu.sources[field] for field in divided},
            "flops": f"{sms} of {gpu.num_sms} SMs of: {gpu.sources['flops']}",
            "num_sms": f"1/{ways} of {gpu.num_sms}, {hub.sm_step_source}",
            "copy_engine": hub.copy_engine_source,
            "local_copy": hub.copy_engine_source,
        },
    )
