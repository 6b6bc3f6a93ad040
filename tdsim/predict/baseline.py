"""The best unfused baseline: NCCL collective and cuBLAS GEMM, one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tdsim.lang import DType, Gemm, Program, Step
from tdsim.lang.expr import evaluate
from tdsim.sim.cost import LIBRARY_TILE_PS, Costs
from tdsim.topology import Machine
from tdsim.units import PS_PER_S

LIBRARY_TILES = (
    (256, 256), (256, 192), (192, 192), (256, 128), (128, 256), (192, 128), (128, 192),
    (128, 128), (64, 256), (64, 128), (64, 64),
)  # fmt: skip
"""Output tiles that a vendor GEMM chooses from (shapes that CUTLASS ships for Hopper)."""
LIBRARY_DEPTH = 64
MAX_SPLIT = 8
"""Most parts of K that a vendor GEMM computes apart when there are fewer tiles than SMs."""


def step_ps(step: Step, sizes: Mapping[str, int], machine: Machine, dtype: DType) -> int:
    """Time of one unfused step, in picoseconds."""
    if isinstance(step, Gemm):
        m, n, k = (evaluate(text, sizes, "work") for text in (step.m, step.n, step.k))
        return gemm_ps(m, n, k, machine, dtype)
    elements = evaluate(step.elements, sizes, "work")
    return collective_ps(elements * dtype.itemsize, machine)


def baseline_ps(
    program: Program, sizes: Mapping[str, int], machine: Machine, dtype: DType
) -> int:
    """Sum over the program's unfused steps."""
    return sum(step_ps(step, sizes, machine, dtype) for step in program.work)


def collective_ps(nbytes: int, machine: Machine) -> int:
    """NCCL all-gather or reduce-scatter of *nbytes* (the whole result or input of a rank).

    nccl-tests' definition: each rank moves ``nbytes * (W - 1) / W`` at the bus bandwidth. Over
    nodes the slower of the in-node and between-node figures holds.
    """
    world, nccl = machine.world_size, machine.collective
    if world == 1:
        return 0
    rate = nccl.scale_up.bytes_per_s
    if machine.num_nodes > 1:
        rate = min(rate, nccl.scale_out.bytes_per_s)
    return (
        nccl.launch_ps
        + (world - 1) * nccl.hop_ps
        + -(-_moved(nbytes, world) * PS_PER_S // rate)
    )


def _moved(nbytes: int, world: int) -> int:
    return nbytes * (world - 1) // world


def gemm_ps(m: int, n: int, k: int, machine: Machine, dtype: DType) -> int:
    """cuBLAS GEMM: the best library tile in whole waves, never below the HBM's time."""
    costs = Costs(machine)
    best = min(_waves_ps(m, n, k, bm, bn, costs, dtype) for bm, bn in LIBRARY_TILES)
    nbytes = (m * k + k * n + m * n) * dtype.itemsize
    memory = nbytes * PS_PER_S // machine.gpu.hbm.bytes_per_s
    return max(best, memory) + machine.host.launch_latency_ps


def _waves_ps(m: int, n: int, k: int, bm: int, bn: int, costs: Costs, dtype: DType) -> int:
    tiles = math.ceil(m / bm) * math.ceil(n / bn)
    split = max(1, min(MAX_SPLIT, costs.num_sms // tiles)) if tiles < costs.num_sms else 1
    depth = math.ceil(math.ceil(k / LIBRARY_DEPTH) / split)
    waves = math.ceil(tiles * split / costs.num_sms)
    product = costs.mma_ps(bm, bn, LIBRARY_DEPTH, dtype.short)
    loaded = (min(bm, m) + min(bn, n)) * LIBRARY_DEPTH * dtype.itemsize
    active = min(costs.num_sms, tiles * split)
    share = min(costs.l2_bytes_per_s // active, 2 * costs.l2_bytes_per_s // costs.num_sms)
    return waves * (depth * max(product, loaded * PS_PER_S // share) + LIBRARY_TILE_PS)
