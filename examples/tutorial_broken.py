"""Three ways to break ``tutorial.ring_scale``; the tutorial reads the report on each."""

from tutorial import push, push_and_scale, reference, scale

from tdsim import lang as td

CONTRACT = {
    "shape": ("M", "N"),
    "tensors": {"x": td.Input("M/world", "N"), "y": td.Output("M/world", "N")},
    "work": (),
    "reference": reference,
    "small_shape": "M=200*world,N=96",
}


@td.function
def push_silently(x, inbox, first, stride, BLOCK_M: td.constexpr):
    """Wrong: the data go, but nobody is told."""
    next_pe = (td.my_pe() + 1) % td.n_pes()
    for i in range(first, td.cdiv(x.shape[0], BLOCK_M), stride):
        start = i * BLOCK_M
        count = min(BLOCK_M, x.shape[0] - start)
        td.putmem(td.rows(inbox, start, count), td.rows(x, start, count), next_pe)


@td.function
def scale_early(inbox, y, arrived, first, stride, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr):
    """Wrong: a signal is never less than 0, so the wait does not wait."""
    for i in range(first, td.cdiv(y.shape[0], BLOCK_M), stride):
        token = td.signal_wait_until(arrived, i, "ge", 0)
        chunk = td.after(token, inbox)
        for col in range(0, y.shape[1], BLOCK_N):
            tile = td.load(chunk, (i * BLOCK_M, col), (BLOCK_M, BLOCK_N))
            td.store(y, (i * BLOCK_M, col), tile * 2.0)


@td.kernel
def push_silently_and_scale(
    x, inbox, y, arrived, num_push, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr
):
    cta = td.program_id(0)
    if cta < num_push:
        push_silently(x, inbox, cta, num_push, BLOCK_M)
    else:
        others = td.num_programs(0) - num_push
        scale(inbox, y, arrived, cta - num_push, others, BLOCK_M, BLOCK_N)


@td.kernel
def push_and_scale_early(
    x, inbox, y, arrived, num_push, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr
):
    cta = td.program_id(0)
    if cta < num_push:
        push(x, inbox, arrived, cta, num_push, BLOCK_M)
    else:
        others = td.num_programs(0) - num_push
        scale_early(inbox, y, arrived, cta - num_push, others, BLOCK_M, BLOCK_N)


@td.program(**CONTRACT)
def no_signal(ctx, x, y):
    """The producer forgets the signal."""
    inbox = ctx.symmetric(x.shape, x.dtype)
    arrived = ctx.signals(-(-x.shape[0] // 32))
    ctx.barrier_all()
    ctx.launch(push_silently_and_scale, ctx.num_sms, (x, inbox, y, arrived, 8, 32, 64))


@td.program(**CONTRACT)
def early(ctx, x, y):
    """The consumer waits for too little."""
    inbox = ctx.symmetric(x.shape, x.dtype)
    arrived = ctx.signals(-(-x.shape[0] // 32))
    ctx.barrier_all()
    ctx.launch(push_and_scale_early, ctx.num_sms, (x, inbox, y, arrived, 8, 32, 64))


@td.program(**CONTRACT)
def no_barrier(ctx, x, y):
    """Nobody waits until the next PE has read the inbox that is overwritten."""
    inbox = ctx.symmetric(x.shape, x.dtype)
    arrived = ctx.signals(-(-x.shape[0] // 32))
    ctx.launch(push_and_scale, ctx.num_sms, (x, inbox, y, arrived, 8, 32, 64))
