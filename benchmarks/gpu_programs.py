# ruff: noqa: ANN001, ANN003, ANN201 - as in kernels, parameters are views and ints
"""The programs that ``gpu_speed.py`` times: a GEMM with signals, unfused sequences, puts.

All are made of the library's own parts, are one text for the GPU and the simulator, and have a
NumPy reference.
"""

import numpy as np
from tdsim.kernels import reference
from tdsim.kernels.ag_gemm import wait_for_rows
from tdsim.kernels.allgather import COMM_TUNABLES, allgather
from tdsim.kernels.copying import part
from tdsim.kernels.gemm import TILE_TUNABLES, main_loop
from tdsim.kernels.reduce_scatter import SCATTER_TUNABLES, reduce_scatter
from tdsim.kernels.tile_order import grouped

from tdsim import lang as td

MAX_TILES = 16384
"""Signals for finished tiles; one number for all shapes, so that they share a context."""
BUILD_TUNABLES = {
    "NUM_WARPS": td.Tunable(8, (4, 8), "warps of a CTA"),
    "NUM_STAGES": td.Tunable(3, (2, 3, 4, 5, 6), "tiles of a and b in flight"),
    "CTAS_PER_SM": td.Tunable(1, (1, 2), "CTAs that share an SM"),
    "SPLIT": td.Tunable(1, (1, 2), "pieces in which a tile is stored"),
}
SIGNAL_TUNABLES = {
    "ANNOUNCE": td.Tunable(
        "at_once",
        ("at_once", "before_next", "after_next"),
        "when a tile is announced: behind its store, or around the next tile's main loop",
    ),
}


@td.kernel
def multiply_and_signal(
    a, b, c, ready, done,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
    ANNOUNCE: td.constexpr,
):  # fmt: skip
    """Persistent GEMM: each tile waits for its rows of *a* and sets its own word of *done*.

    A tile that is not announced at once has left by the time that it is, so nobody waits for
    its store; whoever waits for the tile hears of it later.
    """
    M = c.shape[0]
    num_m = td.cdiv(M, BLOCK_M)
    num_n = td.cdiv(c.shape[1], BLOCK_N)
    before = -1
    for step in range(td.program_id(0), num_m * num_n, td.num_programs(0)):
        index, col = grouped(step, num_m, num_n, GROUP_M)
        row = index * BLOCK_M
        arrived_row = wait_for_rows(ready, row, M, 1, BLOCK_M)
        if ANNOUNCE == "before_next":
            announce(done, before)
        acc = main_loop(a, b, arrived_row, col * BLOCK_N, a.shape[1], BLOCK_M, BLOCK_N, BLOCK_K)
        if ANNOUNCE == "after_next":
            announce(done, before)
        td.store(c, (row, col * BLOCK_N), acc)
        before = index * num_n + col
        if ANNOUNCE == "at_once":
            td.signal_op(done, before, 1, "set", td.my_pe())
    if ANNOUNCE != "at_once":
        announce(done, before)


@td.function
def announce(done, tile):
    """Say that *tile* is stored, if it is one."""
    if tile >= 0:
        td.signal_op(done, tile, 1, "set", td.my_pe())


@td.kernel
def multiply(
    a, b, c,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """The same GEMM without any signal."""
    num_m = td.cdiv(c.shape[0], BLOCK_M)
    num_n = td.cdiv(c.shape[1], BLOCK_N)
    for step in range(td.program_id(0), num_m * num_n, td.num_programs(0)):
        index, col = grouped(step, num_m, num_n, GROUP_M)
        row = index * BLOCK_M
        acc = main_loop(a, b, row, col * BLOCK_N, a.shape[1], BLOCK_M, BLOCK_N, BLOCK_K)
        td.store(c, (row, col * BLOCK_N), acc)


@td.kernel
def wait_for_tiles(done, count):
    """Hold the stream until all *count* tiles have been announced."""
    tile = 0
    for step in range(count):
        token = td.signal_wait_until(done, tile, "ge", 1)
        tile = td.after(token, step + 1)


def announce_rows(ctx):
    """Say on the main stream that the rows of this PE's *a* are there."""
    ready = ctx.signals(ctx.n_pes)
    for shard in range(ctx.n_pes):
        ctx.signal_op(ready, shard, 1, "set", ctx.my_pe)
    return ready


def launch_gemm(
    ctx, a, b, c, ready, done, *,
    BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, ANNOUNCE, NUM_WARPS, NUM_STAGES, CTAS_PER_SM, SPLIT,
):  # fmt: skip
    """Queue the GEMM with signals on all SMs."""
    args = (
        a.tiled(BLOCK_M, BLOCK_K), b.tiled(BLOCK_K, BLOCK_N),
        c.tiled(BLOCK_M, BLOCK_N // SPLIT),
        ready, done, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, ANNOUNCE,
    )  # fmt: skip
    ctx.launch(
        multiply_and_signal, ctx.num_sms * CTAS_PER_SM, args,
        num_warps=NUM_WARPS, num_stages=NUM_STAGES, ctas_per_sm=CTAS_PER_SM,
    )  # fmt: skip


def product(tensors):
    """c = a @ b on each PE."""
    pairs = zip(tensors["a"], tensors["b"], strict=True)
    return {"c": [a.astype(np.float32) @ b.astype(np.float32) for a, b in pairs]}


@td.program(
    shape=("M", "N", "K"),
    tensors={"a": td.Input("M", "K"), "b": td.Input("K", "N"), "c": td.Output("M", "N")},
    tunables={**TILE_TUNABLES, **BUILD_TUNABLES, **SIGNAL_TUNABLES},
    work=(td.Gemm("M", "N", "K"),),
    reference=product,
    small_shape="M=200,N=320,K=96",
)
def gemm_with_signals(ctx, a, b, c, **tunables):
    """Multiply behind waits and announce every tile, then wait for all of them."""
    ready = announce_rows(ctx)
    done = ctx.signals(MAX_TILES)
    launch_gemm(ctx, a, b, c, ready, done, **tunables)
    tiles = -(-c.shape[0] // tunables["BLOCK_M"]) * -(-c.shape[1] // tunables["BLOCK_N"])
    ctx.launch(wait_for_tiles, 1, (done, tiles), role="comm")


def launch_plain_gemm(ctx, a, b, c, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M):
    """Queue the GEMM without signals on all SMs."""
    args = (
        a.tiled(BLOCK_M, BLOCK_K), b.tiled(BLOCK_K, BLOCK_N), c.tiled(BLOCK_M, BLOCK_N),
        BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
    )  # fmt: skip
    ctx.launch(multiply, ctx.num_sms, args)


@td.program(
    shape=("M", "N", "K"),
    tensors={
        "a": td.Input("M/world", "K"),
        "b": td.Input("K", "N/world"),
        "c": td.Output("M", "N/world"),
    },
    tunables={**TILE_TUNABLES, **COMM_TUNABLES},
    work=(td.AllGather("M*K"), td.Gemm("M", "N/world", "K")),
    reference=reference.ag_gemm,
    small_shape="M=40*world,N=72*world,K=96",
)
def gather_then_multiply(
    ctx, a, b, c, *, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, comm, num_comm_sms
):
    """The parts of ``ag_gemm`` one after another: the whole gather, then the GEMM."""
    gathered = ctx.symmetric((a.shape[0] * ctx.n_pes, a.shape[1]), a.dtype)
    allgather.host(ctx, a, gathered, comm=comm, num_comm_sms=num_comm_sms)
    launch_plain_gemm(ctx, gathered, b, c, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M)


@td.program(
    shape=("M", "N", "K"),
    tensors={
        "a": td.Input("M", "K/world"),
        "b": td.Input("K/world", "N"),
        "c": td.Output("M/world", "N"),
    },
    tunables={**TILE_TUNABLES, **SCATTER_TUNABLES},
    work=(td.Gemm("M", "N", "K/world"), td.ReduceScatter("M*N")),
    reference=reference.gemm_rs,
    small_shape="M=40*world,N=136,K=48*world",
)
def multiply_then_scatter(ctx, a, b, c, *, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, **scatter):
    """The parts of ``gemm_rs`` one after another: the GEMM, then scatter and sum."""
    partial = ctx.symmetric((a.shape[0], b.shape[1]), a.dtype)
    launch_plain_gemm(ctx, a, b, partial, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M)
    reduce_scatter.host(ctx, partial, c, **scatter)


@td.kernel
def put_rows(box, x, pe):
    """Every CTA puts its part of *x* to *pe*."""
    i = td.program_id(0)
    parts = td.num_programs(0)
    td.putmem(part(box, 0, x.shape[0], i, parts), part(x, 0, x.shape[0], i, parts), pe)


@td.kernel
def collect(y, box):
    """Copy what has arrived, all CTAs alike."""
    rows = 8
    for row in range(td.program_id(0) * rows, y.shape[0], td.num_programs(0) * rows):
        for col in range(0, y.shape[1], 128):
            td.store(y, (row, col), td.load(box, (row, col), (8, 128)))


@td.program(
    shape=("M", "K"),
    tensors={"x": td.Input("M", "K"), "y": td.Output("M", "K")},
    tunables={
        "ctas": td.Tunable(8, (1, 2, 4, 8, 16, 32, 64, 128), "CTAs that put"),
        "NUM_WARPS": td.Tunable(8, (4, 8, 16, 32), "warps of a CTA"),
    },
    work=(),
    reference=lambda tensors: {"y": [tensors["x"][-1], *tensors["x"][:-1]]},
    small_shape="M=64,K=128",
)
def put_to_next(ctx, x, y, *, ctas, NUM_WARPS):
    """Each PE puts *x* to the next one, by *ctas* CTAs."""
    box = ctx.symmetric(x.shape, x.dtype)
    ctx.barrier_all()
    pe = (ctx.my_pe + 1) % ctx.n_pes
    ctx.launch(put_rows, ctas, (box, x, pe), num_warps=NUM_WARPS, role="comm")
    ctx.barrier_all()
    ctx.launch(collect, ctx.num_sms, (y, box), role="copy")
