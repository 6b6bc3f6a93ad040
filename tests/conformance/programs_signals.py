"""Contracts of signals, tokens and atomics: what a wait lets a CTA see, and how often words count.

Values are relative to the call, so none of these programs resets anything or needs a barrier
between calls: ``"ge", 0`` waits for what the call before has sent.
"""

import numpy as np
from conformance_tools import contract, copy_tiles, from_previous, same

from tdsim import lang as td


@td.function
def copy_row(dst, src, row):
    """Copy one row of *src* to the same row of *dst*."""
    to = td.rows(dst, row, 1)
    part = td.rows(src, row, 1)
    for col in range(0, src.shape[1], 64):
        td.store(to, (0, col), td.load(part, (0, col), (1, 64)))


@td.function
def publish(box, x, row, sig, value):
    """Write row *row*, then set its signal to *value*."""
    copy_row(box, x, row)
    td.signal_op(sig, row, value, "set", td.my_pe())


@td.kernel
def six_compares(y, box, x, sig):
    """Instance 0 writes six rows; instance 1 waits for each with another comparison."""
    if td.program_id(0) == 0:
        publish(box, x, 0, sig, 3)
        publish(box, x, 1, sig, 2)
        publish(box, x, 2, sig, 3)
        publish(box, x, 3, sig, 3)
        publish(box, x, 4, sig, 1)
        publish(box, x, 5, sig, 1)
    else:
        equal = td.signal_wait_until(sig, 0, "eq", 3)
        copy_row(y, td.after(equal, box), 0)
        other = td.signal_wait_until(sig, 1, "ne", 1)
        copy_row(y, td.after(other, box), 1)
        above = td.signal_wait_until(sig, 2, "gt", 2)
        copy_row(y, td.after(above, box), 2)
        enough = td.signal_wait_until(sig, 3, "ge", 3)
        copy_row(y, td.after(enough, box), 3)
        below = td.signal_wait_until(sig, 4, "lt", 2)
        copy_row(y, td.after(below, box), 4)
        little = td.signal_wait_until(sig, 5, "le", 1)
        copy_row(y, td.after(little, box), 5)


def first_six_rows(tensors):
    return {"y": [x[:6] for x in tensors["x"]]}


@contract(out=("6", "N"), reference=first_six_rows)
def waits_end_when_their_comparison_holds(ctx, x, y):
    """eq, ne, gt, ge, lt and le: the data of the signal that ends a wait lie behind it."""
    sig = ctx.signals(6, per_call=3)
    for i, not_yet in enumerate((1, 1, 2, 2, 2, 2)):
        ctx.signal_op(sig, i, not_yet, "set", ctx.my_pe)
    ctx.launch(six_compares, 2, (y, ctx.local((6, x.shape[1]), x.dtype), x, sig))


HOW = ("signal_op", "putmem_signal", "putmem_signal_nbi")
SIGNAL_OP, PUTMEM_SIGNAL, PUTMEM_SIGNAL_NBI = range(3)


@td.kernel
def one_by_one(y, mail, x, sent, taken, how):
    """Instance 0 sends the rows of x to the next PE, each once the last was taken.

    *sent* counts the pieces that have arrived, *taken* the last one that was copied.
    """
    me = td.my_pe()
    n = td.n_pes()
    if td.program_id(0) == 0:
        to = (me + 1) % n
        for i in range(x.shape[0]):
            token = td.signal_wait_until(taken, 0, "ge", i)
            src = td.after(token, td.rows(x, i, 1))
            dst = td.rows(mail, i, 1)
            if how == SIGNAL_OP:
                td.putmem(dst, src, to)
                td.signal_op(sent, 0, 1, "add", to)
            if how == PUTMEM_SIGNAL:
                td.putmem_signal(dst, src, sent, 0, 1, "add", to)
            if how == PUTMEM_SIGNAL_NBI:
                td.putmem_signal_nbi(dst, src, sent, 0, 1, "add", to)
        td.quiet()
    else:
        for i in range(x.shape[0]):
            token = td.signal_wait_until(sent, 0, "ge", i + 1)
            copy_row(y, td.after(token, mail), i)
            td.signal_op(taken, 0, i + 1, "set", (me + n - 1) % n)


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("M", "N", symmetric=True), "y": td.Output("M", "N")},
    work=(),
    reference=from_previous,
    small_shape="M=6,N=37",
    tunables={
        "how": td.Tunable("signal_op", HOW, "which call adds"),
        "num_warps": td.Tunable(4, (4, 8, 16), "threads that must count as one"),
    },
)
def an_add_counts_once(ctx, x, y, *, how, num_warps):
    """A CTA of any size adds its value once: an add too many would show the row before it.

    The first wait of a call asks for value 0, all that the call before has counted, so no
    barrier keeps the calls apart: this is the epoch at work.
    """
    mail = ctx.symmetric(x.shape, x.dtype)
    sent = ctx.signals(1, per_call=x.shape[0])
    taken = ctx.signals(1, per_call=x.shape[0])
    args = (y, mail, x, sent, taken, HOW.index(how))
    ctx.launch(one_by_one, 2, args, num_warps=num_warps)


@td.kernel
def negate(box, x):
    """box = -x: what a reader must not see again."""
    for row in range(0, x.shape[0], 16):
        for col in range(0, x.shape[1], 32):
            td.store(box, (row, col), -td.load(x, (row, col), (16, 32)))


@td.kernel
def read_twice(y, box, x, sig, ON: td.constexpr):
    """Instance 1 reads the box, waits, and reads it again after instance 0 has changed it."""
    count = x.shape[0]
    if td.program_id(0) == 0:
        read = td.signal_wait_until(sig, 0, "ge", 1)
        copy_tiles(td.after(read, box), x, 0, 1)
        td.signal_op(sig, 1, 1, "set", td.my_pe())
    else:
        copy_tiles(td.rows(y, 0, count), box, 0, 1)
        td.signal_op(sig, 0, 1, "set", td.my_pe())
        changed = td.signal_wait_until(sig, 1, "ge", 1)
        new = td.rows(y, count, count)
        if ON == "view":
            copy_tiles(new, td.after(changed, box), 0, 1)
        else:
            copy_tiles(new, box, td.after(changed, 0), 1)


def old_and_new(tensors):
    return {"y": [np.concatenate([-x, x]) for x in tensors["x"]]}


@contract(out=("2*M", "N"), reference=old_and_new, tunables={"on": ("view", "offset")})
def a_wait_sees_past_a_warm_cache(ctx, x, y, *, on):
    """What lies behind a signal is seen even by a CTA that holds the old data in its L1.

    ``after`` may tie a view or an offset to the wait.
    """
    box = ctx.local(x.shape, x.dtype)
    sig = ctx.signals(2)
    ctx.launch(negate, 1, (box, x), num_warps=4)
    ctx.launch(read_twice, 2, (y, box, x, sig, on), num_warps=4)


@td.kernel
def running_maximum(y, box, x, sig):
    """Instance i waits for instance i - 1, and passes on the largest of the rows up to its own."""
    i = td.program_id(0)
    best = td.load(td.rows(x, i, 1), (0, 0), (1, 128))
    if i > 0:
        token = td.signal_wait_until(sig, i, "ge", 1)
        above = td.after(token, td.rows(box, i - 1, 1))
        best = td.maximum(best, td.load(above, (0, 0), (1, 128)))
    td.store(td.rows(box, i, 1), (0, 0), best)
    if i + 1 < td.num_programs(0):
        td.signal_op(sig, i + 1, 1, "set", td.my_pe())
    td.store(td.rows(y, i, 1), (0, 0), best)


def accumulated_maximum(tensors):
    return {
        "y": [np.maximum.accumulate(x.astype(np.float32)).astype(x.dtype) for x in tensors["x"]]
    }


@contract(out=("M", "N"), reference=accumulated_maximum)
def signals_chain_the_ctas_of_a_launch(ctx, x, y):
    """A signal releases the CTA's stores to another CTA of the same launch, link by link."""
    box = ctx.local(x.shape, x.dtype)
    ctx.launch(running_maximum, x.shape[0], (y, box, x, ctx.signals(x.shape[0])), num_warps=4)


STEP = 2**33


@td.kernel
def count_arrivals(y, ints, longs):
    """Instance i counts i + 1 times by one, and once by i + 1; mark each place it was given.

    Columns of y: single steps in int32, single steps of 2**33 in int64, one long step.
    """
    weight = td.program_id(0) + 1
    places = td.num_programs(0) * (td.num_programs(0) + 1) // 2
    for _ in range(weight):
        td.store(y, (td.atomic_add(ints, (1,), 1) % places, 0), 1.0)
        far = td.atomic_add(longs, (1, 2), STEP) // STEP
        td.store(y, (td.cast(far, td.int32) % places, 1), 1.0)
    below = td.atomic_add(ints, 2, weight) % places
    for i in range(weight):
        td.store(y, (below + i, 2), 1.0)


def ones(tensors):
    return {"y": [np.ones((78, 3), x.dtype) for x in tensors["x"]]}


@contract(out=("78", "3"), reference=ones)
def atomics_return_what_was_there(ctx, x, y):
    """Each instance adds once, in int32 and int64; what it gets is the sum of those before it.

    So the places that instances are given leave no gap. Counters go on from call to call.
    """
    ints = ctx.local((3,), td.int32, zero=True)
    longs = ctx.local((2, 3), td.int64, zero=True)
    ctx.launch(count_arrivals, 12, (y, ints, longs), num_warps=4)


@td.kernel
def last_one_copies(y, box, x, counter):
    """Each instance writes its rows; the one that completes the count copies all of them."""
    count = td.num_programs(0)
    for row in range(td.program_id(0), x.shape[0], count):
        copy_row(box, x, row)
    if td.atomic_add(counter, 0, 1) % count == count - 1:
        copy_tiles(y, box, 0, 1)


@contract(out=("M", "N"), reference=same)
def the_last_to_count_sees_all(ctx, x, y):
    """atomic_add acquires and releases: who completes a count may read for all it counted."""
    counter = ctx.local((1,), td.int32, zero=True)
    args = (y, ctx.local(x.shape, x.dtype), x, counter)
    ctx.launch(last_one_copies, 8, args)
