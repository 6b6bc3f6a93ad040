"""The bound: no schedule of the same work can be faster than its scarcest resource."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tdsim.lang import DType, Gemm, Program
from tdsim.lang.expr import evaluate
from tdsim.topology import LinkId, Machine
from tdsim.topology.machine import is_gpu
from tdsim.units import PS_PER_S


@dataclass(frozen=True, slots=True)
class Bound:
    """Least times in picoseconds by resource: compute, memory and each kind of links."""

    by_resource: Mapping[str, int]

    @property
    def resource(self) -> str:
        """The scarcest one."""
        return max(self.by_resource, key=lambda name: self.by_resource[name])

    @property
    def ps(self) -> int:
        return self.by_resource[self.resource]


def bound(program: Program, sizes: Mapping[str, int], machine: Machine, dtype: DType) -> Bound:
    """Data-sheet FLOP/s; inputs and outputs at HBM speed; links at reachable speed."""
    gpu = machine.gpu
    flops = collected = 0
    for step in program.work:
        if isinstance(step, Gemm):
            m, n, k = (evaluate(text, sizes, "work") for text in (step.m, step.n, step.k))
            flops += 2 * m * n * k
        else:
            collected += evaluate(step.elements, sizes, "work") * dtype.itemsize
    rate = gpu.flops.get(dtype.short, gpu.flops["fp32"])
    given = sum(math.prod(t.shape(sizes, "work")) for t in program.tensors.values())
    times = {
        "compute": flops * PS_PER_S // rate,
        "memory": given * dtype.itemsize * PS_PER_S // gpu.hbm.bytes_per_s,
    }
    return Bound({**times, **_links(collected, machine)})


def _links(nbytes: int, machine: Machine) -> dict[str, int]:
    """Least times of the links into one GPU for collectives of *nbytes* in all.

    Every GPU must be sent ``(W - 1) / W`` of it, through all its links together: no split
    between NVLink and network is ruled out. ``(nodes - 1) / nodes`` of it must enter each node,
    through the links to the network of all its GPUs.
    """
    world, local = machine.world_size, machine.gpus_per_node
    inside = _rates(machine, range(1, local))
    outside = _rates(machine, machine.ranks_of(1)) if machine.num_nodes > 1 else {}
    if not inside and not outside:
        return {}
    names = [_kind(machine)] if inside else []
    names += ["network"] if outside else []
    moved = nbytes * (world - 1) // world
    times = {" and ".join(names): moved * PS_PER_S // sum({**inside, **outside}.values())}
    if inside and outside:
        entering = nbytes * (machine.num_nodes - 1) // world
        times["network"] = entering * PS_PER_S // sum(outside.values())
    return times


def _rates(machine: Machine, peers: range) -> dict[LinkId, int]:
    """The links by which *peers* reach rank 0, each with the most bytes/s it can deliver."""
    links = {machine.route(peer, 0).links[-1] for peer in peers}
    return {link: _inflow(machine, link) for link in sorted(links)}


def _inflow(machine: Machine, link: LinkId, depth: int = 3) -> int:
    """Most bytes/s out of *link*: what enters its source, followed *depth* links back."""
    own = machine.link(link).bandwidth.bytes_per_s
    source = link[0]
    if depth == 1 or is_gpu(source):
        return own
    before = [edge for edge in machine.graph.in_edges(source) if edge[0] != link[1]]
    return min(own, sum(_inflow(machine, edge, depth - 1) for edge in before))


def _kind(machine: Machine) -> str:
    """The kind of the slowest link from rank 1 to rank 0, in one node."""
    links = [machine.link(link) for link in machine.route(1, 0).links]
    return min(links, key=lambda spec: spec.bandwidth).kind
