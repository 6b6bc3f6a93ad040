"""AllGather + GEMM in one launch: multiply the shards that have arrived, while others travel.

c[M, N/world] = gather(a[M/world, K]) @ b[K, N/world]. The first ``num_comm`` CTAs put this PE's
shard to every other PE; ``ready[p]`` counts the parts of shard p that are here. All other CTAs
multiply, own shard first, and wait for the shard that holds their rows.
"""

import numpy as np

from tdsim import lang as td


@td.function
def push_shard(gathered, ready, part, parts):
    """Put part *part* of *parts* of the own shard to every other PE, previous PE first."""
    me = td.my_pe()
    count = gathered.shape[0] // td.n_pes()
    begin = part * count // parts
    end = (part + 1) * count // parts
    rows = td.rows(gathered, me * count + begin, end - begin)
    for step in range(1, td.n_pes()):
        pe = (me + td.n_pes() - step) % td.n_pes()
        td.putmem_signal(rows, rows, ready, me, 1, "add", pe)


@td.function
def multiply_tiles(
    gathered, b, c, ready, first, stride, parts,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr,
):  # fmt: skip
    """Compute every *stride*-th tile of c from *first* on, own shard first."""
    count = gathered.shape[0] // td.n_pes()
    num_n = td.cdiv(c.shape[1], BLOCK_N)
    per_shard = td.cdiv(count, BLOCK_M) * num_n
    for step in range(first, td.n_pes() * per_shard, stride):
        shard = (td.my_pe() + step // per_shard) % td.n_pes()
        tile = step % per_shard
        row = tile // num_n * BLOCK_M
        col = tile % num_n * BLOCK_N
        token = td.signal_wait_until(ready, shard, "ge", parts)
        a = td.after(token, td.rows(gathered, shard * count, count))
        acc = td.zeros((BLOCK_M, BLOCK_N), td.float32)
        for k in range(0, a.shape[1], BLOCK_K):
            a_tile = td.load(a, (row, k), (BLOCK_M, BLOCK_K))
            b_tile = td.load(b, (k, col), (BLOCK_K, BLOCK_N))
            acc = td.dot(a_tile, b_tile, acc)
        td.store(td.rows(c, shard * count, count), (row, col), acc)


@td.kernel
def push_and_multiply(
    gathered, b, c, ready, num_comm,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr,
):  # fmt: skip
    """The first *num_comm* CTAs push, the others multiply."""
    cta = td.program_id(0)
    if cta < num_comm:
        push_shard(gathered, ready, cta, num_comm)
    else:
        multiply_tiles(
            gathered, b, c, ready, cta - num_comm, td.num_programs(0) - num_comm, num_comm,
            BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip


def reference(tensors):
    """What the kernel must compute, from the inputs of all ranks, in NumPy."""
    a = np.concatenate(tensors["a"]).astype(np.float32)
    return {"c": [a @ b.astype(np.float32) for b in tensors["b"]]}


@td.program(
    shape=("M", "N", "K"),
    tensors={
        "a": td.Input("M/world", "K"),
        "b": td.Input("K", "N/world"),
        "c": td.Output("M", "N/world"),
    },
    tunables={"num_comm": td.Tunable(8, (1, 2, 4, 8, 16), "CTAs that push")},
    work=(td.AllGather("M*K"), td.Gemm("M", "N/world", "K")),
    reference=reference,
    small_shape="M=160*world,N=288*world,K=96",
)
def overlap(ctx, a, b, c, *, num_comm):
    """AllGather + GEMM, communication by CTAs of the same launch."""
    gathered = ctx.symmetric((a.shape[0] * ctx.n_pes, a.shape[1]), a.dtype)
    ready = ctx.signals(ctx.n_pes, per_call=num_comm)
    ctx.barrier_all()  # every PE has read what the last call gathered
    ctx.copy(gathered.rows(ctx.my_pe * a.shape[0], a.shape[0]), a)
    ctx.signal_op(ready, ctx.my_pe, num_comm, "add", ctx.my_pe)
    args = (gathered, b, c, ready, num_comm, 128, 256, 64)
    ctx.launch(push_and_multiply, ctx.num_sms, args)
