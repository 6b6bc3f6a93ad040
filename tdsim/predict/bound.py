"""The bound: no schedule of the same work can be faster than its scarcest resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsim.lang import DType, Gemm, Program
from tdsim.lang.expr import evaluate
from tdsim.topology import Machine
from tdsim.units import PS_PER_S


@dataclass(frozen=True, slots=True)
class Bound:
    """Least times in picoseconds by resource: compute, memory, nvlink, network."""

    by_resource: Mapping[str, int]

    @property
    def resource(self) -> str:
        """The scarcest one."""
        return max(self.by_resource, key=lambda name: self.by_resource[name])

    @property
    def ps(self) -> int:
        return self.by_resource[self.resource]


def bound(program: Program, sizes: Mapping[str, int], machine: Machine, dtype: DType) -> Bound:
    """Compute at data-sheet FLOP/s, unique bytes at HBM speed, links at reachable speed."""
    gpu = machine.gpu
    flops = unique = up = out = 0
    world, local = machine.world_size, machine.gpus_per_node
    for step in program.work:
        if isinstance(step, Gemm):
            m, n, k = (evaluate(text, sizes, "work") for text in (step.m, step.n, step.k))
            flops += 2 * m * n * k
            unique += (m * k + k * n + m * n) * dtype.itemsize
        else:
            nbytes = evaluate(step.elements, sizes, "work") * dtype.itemsize
            unique += nbytes
            # a two-level schedule crosses the network once per shard and twin
            out += nbytes * (machine.num_nodes - 1) // world
            up += nbytes * (local - 1) // local
    rate = gpu.flops.get(dtype.short, gpu.flops["fp32"])
    times = {
        "compute": flops * PS_PER_S // rate,
        "memory": unique * PS_PER_S // gpu.hbm.bytes_per_s,
    }
    if local > 1:
        times["nvlink"] = up * PS_PER_S // machine.route(0, 1).bandwidth.bytes_per_s
    if machine.num_nodes > 1:
        times["network"] = out * PS_PER_S // machine.route(0, local).bandwidth.bytes_per_s
    return Bound(times)
