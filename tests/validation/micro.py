"""Programs that show one cost of the machine at a time, on the GPU and in the simulator alike.

Each repeats one thing *count* times or does it for one size: the slope over count or size is
the cost, what is left at 0 is the frame of a call. ``case_lists.py`` has the cases;
``benchmarks/calibrate.py`` reads constants off their records.
"""

import numpy as np
from tdsim.kernels.copying import launch_copy, part
from tdsim.kernels.gemm import TILE_TUNABLES, main_loop
from tdsim.kernels.reduce_scatter import launch_sum
from tdsim.kernels.tile_order import grouped

from tdsim import lang as td

COUNTS = (0, 1, 2, 4, 8, 16, 32, 64)
CTAS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128)
OP = {"op": td.Tunable("set", ("set", "add"), "how a word is updated")}
COUNT = {"count": td.Tunable(8, COUNTS, "how often")}
ACTIVE = {"active": td.Tunable(0, (0, 1), "1: only PE 0 works; 0: all PEs at once")}


def nothing(tensors):
    """No output, nothing to compare."""
    return {}


def frame(**tunables):
    """The declaration of a program without tensors."""
    return td.program(
        shape=("n",),
        tensors={},
        tunables=tunables,
        work=(),
        reference=nothing,
        small_shape="n=1",
    )


def is_active(ctx, active):
    """Whether this PE takes part."""
    return active == 0 or ctx.my_pe == 0


@td.kernel
def do_nothing(n):
    """End at once."""


@frame(**COUNT)
def launches(ctx, *, count):
    """Empty kernels of one CTA, one after another on the main stream."""
    for _ in range(count):
        ctx.launch(do_nothing, 1, (16,))


@frame(**COUNT)
def wide_launches(ctx, *, count):
    """Empty kernels on all SMs."""
    for _ in range(count):
        ctx.launch(do_nothing, ctx.num_sms, (16,))


@frame(**COUNT)
def barriers(ctx, *, count):
    """Barriers of all PEs in stream order."""
    for _ in range(count):
        ctx.barrier_all()


@frame(**COUNT, **OP)
def stream_signals(ctx, *, count, op):
    """Signals from the main stream to the next PE, which nobody waits for."""
    sig = ctx.signals(65)
    for i in range(count):
        ctx.signal_op(sig, i, 1, op, (ctx.my_pe + 1) % ctx.n_pes)


@frame(**COUNT, **OP)
def stream_ping_pong(ctx, *, count, op):
    """PE 0 and 1 signal each other from their streams, each after it has waited: *count* rounds."""
    sig = ctx.signals(65)
    for i in range(count):
        if ctx.my_pe == 0:
            ctx.signal_op(sig, i, 1, op, 1)
            ctx.signal_wait_until(sig, i, "ge", 1)
        elif ctx.my_pe == 1:
            ctx.signal_wait_until(sig, i, "ge", 1)
            ctx.signal_op(sig, i, 1, op, 0)


@td.kernel
def bounce(sig, count):
    """Signals between PE 0 and 1, *count* rounds."""
    me = td.my_pe()
    if me < 2:
        for i in range(count):
            if me == 0:
                td.signal_op(sig, i, 1, "set", 1)
            token = td.signal_wait_until(sig, i, "ge", 1)
            if me == 1:
                td.signal_op(sig, td.after(token, i), 1, "set", 0)


@frame(**COUNT)
def kernel_ping_pong(ctx, *, count):
    """The same from inside a kernel of one CTA."""
    sig = ctx.signals(65)
    ctx.launch(bounce, 1, (sig, count))


@td.program(
    shape=("M", "K"),
    tensors={"x": td.Input("M", "K")},
    tunables={**COUNT, **ACTIVE},
    work=(),
    reference=nothing,
    small_shape="M=16,K=64",
)
def engine_copies(ctx, x, *, count, active):
    """Copy-engine copies of M x K to the next PE, one after another."""
    box = ctx.symmetric(x.shape, x.dtype)
    if is_active(ctx, active):
        for _ in range(count):
            ctx.copy(box.at((ctx.my_pe + 1) % ctx.n_pes), x)


@td.kernel
def put_rows(box, x, pe):
    """Every CTA puts its part of *x* to *pe*."""
    i = td.program_id(0)
    parts = td.num_programs(0)
    td.putmem(part(box, 0, x.shape[0], i, parts), part(x, 0, x.shape[0], i, parts), pe)


@td.program(
    shape=("M", "K"),
    tensors={"x": td.Input("M", "K")},
    tunables={"ctas": td.Tunable(8, CTAS, "CTAs that put"), **ACTIVE},
    work=(),
    reference=nothing,
    small_shape="M=64,K=64",
)
def puts(ctx, x, *, ctas, active):
    """CTAs put M x K to the next PE, each one a part."""
    box = ctx.symmetric(x.shape, x.dtype)
    if is_active(ctx, active):
        ctx.launch(put_rows, ctas, (box, x, (ctx.my_pe + 1) % ctx.n_pes), role="comm")


@td.program(
    shape=("M", "K"),
    tensors={"x": td.Input("M", "K"), "y": td.Output("M", "K")},
    tunables={"ctas": td.Tunable(8, CTAS, "CTAs that copy"), **ACTIVE},
    work=(),
    reference=lambda tensors: {"y": tensors["x"]},
    small_shape="M=64,K=128",
)
def local_copies(ctx, x, y, *, ctas, active):
    """The library's copy kernel within one PE."""
    if is_active(ctx, active):
        launch_copy(ctx, y, x, ctas)


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("M*4", "N")},
    tunables={
        "ctas": td.Tunable(8, CTAS, "CTAs that add"),
        "slots": td.Tunable(4, (2, 4), "segments to add, of the four in x"),
    },
    work=(),
    reference=nothing,
    small_shape="M=64,N=256",
)
def sums(ctx, x, *, ctas, slots):
    """The library's sum of *slots* segments of M x N, all of which are there."""
    y = ctx.local((x.shape[0] // 4, x.shape[1]), x.dtype)
    arrived = ctx.signals(slots)
    for i in range(slots):
        ctx.signal_op(arrived, i, 1, "set", ctx.my_pe)
    launch_sum(ctx, ctas, (y, x, 0, x, arrived, 0, 0, slots, 1))


@td.kernel
def multiply(
    a, b, c, ready,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """Persistent GEMM with a wait per tile, as the fused kernels have one."""
    num_m = td.cdiv(c.shape[0], BLOCK_M)
    num_n = td.cdiv(c.shape[1], BLOCK_N)
    for step in range(td.program_id(0), num_m * num_n, td.num_programs(0)):
        i, j = grouped(step, num_m, num_n, GROUP_M)
        token = td.signal_wait_until(ready, 0, "ge", 1)
        row = td.after(token, i * BLOCK_M)
        acc = main_loop(a, b, row, j * BLOCK_N, a.shape[1], BLOCK_M, BLOCK_N, BLOCK_K)
        td.store(c, (i * BLOCK_M, j * BLOCK_N), acc)


def product(tensors):
    """c = a @ b on each PE."""
    pairs = zip(tensors["a"], tensors["b"], strict=True)
    return {"c": [a.astype(np.float32) @ b.astype(np.float32) for a, b in pairs]}


@td.program(
    shape=("M", "N", "K"),
    tensors={"a": td.Input("M", "K"), "b": td.Input("K", "N"), "c": td.Output("M", "N")},
    tunables={**TILE_TUNABLES, **ACTIVE},
    work=(td.Gemm("M", "N", "K"),),
    reference=product,
    small_shape="M=256,N=256,K=128",
)
def gemm(ctx, a, b, c, *, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, active):
    """A GEMM of M x N x K on each PE, without communication."""
    ready = ctx.signals(1)
    if is_active(ctx, active):
        ctx.signal_op(ready, 0, 1, "set", ctx.my_pe)
        args = (
            a.tiled(BLOCK_M, BLOCK_K), b.tiled(BLOCK_K, BLOCK_N), c.tiled(BLOCK_M, BLOCK_N),
            ready, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        )  # fmt: skip
        ctx.launch(multiply, ctx.num_sms, args)
