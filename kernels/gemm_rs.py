"""GEMM + ReduceScatter: scatter each segment of the product as soon as its tiles are done.

c[M/world, N] = rows of sum over ranks of a[M, K/world] @ b[K/world, N]. GEMM CTAs write the
partial product and count their tiles per segment; whoever completes a segment sets
``done[segment]``, for which the scatter (see ``reduce_scatter``) waits. Tiles start at the next
PE's segment and end with the own one, the order in which the scatter wants them. The scatter
runs on copy engines, or in the first ``num_comm_sms`` CTAs of the same launch.
"""

from tdsim import lang as td

from . import reference, tile_order
from .copying import comm_ctas
from .gemm import TILE_TUNABLES, main_loop
from .reduce_scatter import (
    NUM_SEND_SMS,
    SCATTER_TUNABLES,
    reduce_slots,
    scatter_by_copy_engine,
    scatter_parts,
)


@td.function
def count_tile(done, counter, row, M, num_n, BLOCK_M: td.constexpr):
    """Count one finished tile in each segment it touches; the last one sets the signal.

    The counter goes back to 0 with the last tile, so the next call finds it as this one did.
    """
    segment_rows = M // td.n_pes()
    last = (min(row + BLOCK_M, M) - 1) // segment_rows
    for segment in range(row // segment_rows, last + 1):
        first_tile = segment * segment_rows // BLOCK_M
        last_tile = ((segment + 1) * segment_rows - 1) // BLOCK_M
        tiles = (last_tile - first_tile + 1) * num_n
        if td.atomic_add(counter, segment, 1) == tiles - 1:
            td.atomic_add(counter, segment, 0 - tiles)
            td.signal_op(done, segment, 1, "set", td.my_pe())


@td.function
def multiply_tiles(
    a, b, partial, counter, done, first, stride,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """Compute tiles *first*, *first + stride* ... of the partial product and count them."""
    M = partial.shape[0]
    N = partial.shape[1]
    K = a.shape[1]
    num_m = td.cdiv(M, BLOCK_M)
    num_n = td.cdiv(N, BLOCK_N)
    first_pe = (td.my_node() + 1) % td.n_nodes() * td.n_local_pes()
    first_pe = first_pe + (td.local_pe() + 1) % td.n_local_pes()
    for step in range(first, num_m * num_n, stride):
        index, col = tile_order.grouped(step, num_m, num_n, GROUP_M)
        row = tile_order.row_of(index, first_pe, M, BLOCK_M) * BLOCK_M
        acc = main_loop(a, b, row, col * BLOCK_N, K, BLOCK_M, BLOCK_N, BLOCK_K)
        td.store(partial, (row, col * BLOCK_N), acc)
        count_tile(done, counter, row, M, num_n, BLOCK_M)


@td.kernel
def gemm_scatter(
    a, b, partial, counter, slots, arrived, done, num_comm,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """The first *num_comm* CTAs scatter segments, the others multiply."""
    cta = td.program_id(0)
    if cta < num_comm:
        scatter_parts(partial, slots, arrived, done, cta, num_comm, True)
    else:
        multiply_tiles(
            a, b, partial, counter, done, cta - num_comm, td.num_programs(0) - num_comm,
            BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        )  # fmt: skip


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
def gemm_rs(
    ctx, a, b, c, *, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
    comm, num_comm_sms, num_reduce_sms, final_reduce_sms, copy_own,
):  # fmt: skip
    """GEMM + ReduceScatter, tensor-parallel rows of b, overlapped segment by segment."""
    num_comm = comm_ctas(ctx, comm, num_comm_sms)
    parts = max(num_comm, 1)
    shape = (a.shape[0], b.shape[1])
    partial = ctx.symmetric(shape, a.dtype)
    slots = ctx.symmetric(shape, a.dtype)
    counter = ctx.local((ctx.n_pes,), td.int32, zero=True)
    done = ctx.signals(ctx.n_pes)
    arrived = ctx.signals(ctx.n_pes, per_call=parts)
    ctx.barrier_all()  # every PE has read its slots of the last call
    ctx.fork(ctx.stream("reduce"))
    comm_stream = ctx.stream("comm")
    ctx.fork(comm_stream)
    beside = num_reduce_sms + NUM_SEND_SMS if ctx.n_nodes > 1 else 0
    args = (
        a.tiled(BLOCK_M, BLOCK_K), b.tiled(BLOCK_K, BLOCK_N), partial.tiled(BLOCK_M, BLOCK_N),
        counter, slots, arrived, done, num_comm, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
    )  # fmt: skip
    ctx.launch(gemm_scatter, ctx.num_sms - beside, args)
    if num_comm == 0:  # after the launch: the host's time to queue copies hides behind the GEMM
        scatter_by_copy_engine(ctx, partial, slots, arrived, done, copy_own)
    reduce_slots(ctx, c, partial, slots, arrived, parts, num_reduce_sms, final_reduce_sms)
    ctx.join(comm_stream)
