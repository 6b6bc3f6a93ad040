"""Ring scale: each PE sends its rows to the next PE, which doubles them chunk by chunk.

Producer CTAs put chunk i of this PE's rows into the next PE's inbox and set ``arrived[i]``
there. Consumer CTAs wait for ``arrived[i]``, read chunk i of their own inbox and double it.
"""

import numpy as np

from tdsim import lang as td


@td.function
def push(x, inbox, arrived, first, stride, BLOCK_M: td.constexpr):
    """Producer: put every *stride*-th chunk from *first* on to the next PE, and say so."""
    next_pe = (td.my_pe() + 1) % td.n_pes()
    for i in range(first, td.cdiv(x.shape[0], BLOCK_M), stride):
        start = i * BLOCK_M
        count = min(BLOCK_M, x.shape[0] - start)
        dst = td.rows(inbox, start, count)
        src = td.rows(x, start, count)
        td.putmem_signal(dst, src, arrived, i, 1, "set", next_pe)


@td.function
def scale(inbox, y, arrived, first, stride, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr):
    """Consumer: wait for every *stride*-th chunk from *first* on, double it."""
    for i in range(first, td.cdiv(y.shape[0], BLOCK_M), stride):
        token = td.signal_wait_until(arrived, i, "ge", 1)
        chunk = td.after(token, inbox)
        for col in range(0, y.shape[1], BLOCK_N):
            tile = td.load(chunk, (i * BLOCK_M, col), (BLOCK_M, BLOCK_N))
            td.store(y, (i * BLOCK_M, col), tile * 2.0)


@td.kernel
def push_and_scale(
    x, inbox, y, arrived, num_push, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr
):
    """The first *num_push* CTAs produce, the others consume."""
    cta = td.program_id(0)
    if cta < num_push:
        push(x, inbox, arrived, cta, num_push, BLOCK_M)
    else:
        others = td.num_programs(0) - num_push
        scale(inbox, y, arrived, cta - num_push, others, BLOCK_M, BLOCK_N)


def reference(tensors):
    """Rank r ends with twice the rows of rank r - 1."""
    x = tensors["x"]
    return {"y": [2 * x[rank - 1].astype(np.float32) for rank in range(len(x))]}


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("M/world", "N"), "y": td.Output("M/world", "N")},
    tunables={"num_push": td.Tunable(8, (1, 2, 4, 8, 16), "CTAs that push")},
    work=(),
    reference=reference,
    small_shape="M=200*world,N=96",
)
def ring_scale(ctx, x, y, *, num_push):
    """Send rows to the next PE, which doubles them."""
    inbox = ctx.symmetric(x.shape, x.dtype)
    arrived = ctx.signals(-(-x.shape[0] // 32))
    ctx.barrier_all()  # every PE has read what the last call put into its inbox
    args = (x, inbox, y, arrived, num_push, 32, 64)
    ctx.launch(push_and_scale, ctx.num_sms, args)
