"""AllGather + GEMM: multiply the shards that have arrived while others are on the wire.

c[M, N/world] = gather(a[M/world, K]) @ b[K, N/world]. The gather (see ``allgather``) counts the
parts of shard p in ``ready[p]``; each tile waits for the shards that hold its rows. Tiles start
at the own shard and follow the order of arrival. Communication runs on copy engines beside the
GEMM, or in the first ``num_comm_sms`` CTAs of the same launch.
"""

from tdsim import lang as td

from . import reference, tile_order
from .allgather import (
    COMM_TUNABLES,
    gather_by_copy_engine,
    place_own_shard,
    push_shards,
)
from .copying import comm_ctas
from .gemm import TILE_TUNABLES, main_loop


@td.function
def wait_for_rows(ready, row, M, parts, BLOCK_M: td.constexpr):
    """*row*, usable only after every shard that tile row *row* touches has arrived."""
    shard_rows = M // td.n_pes()
    last = (min(row + BLOCK_M, M) - 1) // shard_rows
    arrived_row = row
    for shard in range(row // shard_rows, last + 1):
        token = td.signal_wait_until(ready, shard, "ge", parts)
        arrived_row = td.after(token, arrived_row)
    return arrived_row


@td.function
def multiply_tiles(
    a, b, c, ready, first, stride, parts,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """Compute tiles *first*, *first + stride* ... of c in the order of arrival."""
    M = c.shape[0]
    N = c.shape[1]
    K = a.shape[1]
    num_m = td.cdiv(M, BLOCK_M)
    num_n = td.cdiv(N, BLOCK_N)
    for step in range(first, num_m * num_n, stride):
        index, col = tile_order.grouped(step, num_m, num_n, GROUP_M)
        row = tile_order.row_of(index, td.my_pe(), M, BLOCK_M) * BLOCK_M
        arrived_row = wait_for_rows(ready, row, M, parts, BLOCK_M)
        acc = main_loop(a, b, arrived_row, col * BLOCK_N, K, BLOCK_M, BLOCK_N, BLOCK_K)
        td.store(c, (row, col * BLOCK_N), acc)


@td.kernel
def all_gather_gemm(
    a, b, c, ready, num_comm, parts,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr, GROUP_M: td.constexpr,
):  # fmt: skip
    """The first *num_comm* CTAs push shards, the others multiply."""
    cta = td.program_id(0)
    if cta < num_comm:
        push_shards(a, ready, cta, num_comm)
    else:
        multiply_tiles(
            a, b, c, ready, cta - num_comm, td.num_programs(0) - num_comm, parts,
            BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        )  # fmt: skip


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
def ag_gemm(ctx, a, b, c, *, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, comm, num_comm_sms):
    """AllGather + GEMM, tensor-parallel columns: c = gather(a) @ b, overlapped tile by tile."""
    num_comm = comm_ctas(ctx, comm, num_comm_sms)
    parts = max(num_comm, 1)
    gathered = ctx.symmetric((a.shape[0] * ctx.n_pes, a.shape[1]), a.dtype)
    ready = ctx.signals(ctx.n_pes, per_call=parts)
    place_own_shard(ctx, gathered, ready, a, parts)
    senders = 0
    if comm != "sm":
        gather_by_copy_engine(ctx, gathered, ready, pull=comm == "pull")
        senders = min(ctx.n_nodes - 1, 1)  # holds an SM until the last put has left
    args = (
        gathered.tiled(BLOCK_M, BLOCK_K), b.tiled(BLOCK_K, BLOCK_N), c.tiled(BLOCK_M, BLOCK_N),
        ready, num_comm, parts, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
    )  # fmt: skip
    ctx.launch(all_gather_gemm, ctx.num_sms - senders, args)
    ctx.join(ctx.stream("comm"))
