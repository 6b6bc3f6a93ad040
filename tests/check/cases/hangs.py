"""Hangs by order and by count: who waits for whom, and who never comes."""

from __future__ import annotations

from cases.common import Case, from_previous, one_queue, program
from tdsim import lang as td


@td.kernel
def meet(arrived, met, i):
    """Tell the other PE that this one is here, then wait for it: a barrier of two."""
    td.signal_op(arrived, i, 1, "set", 1 - td.my_pe())
    token = td.signal_wait_until(arrived, i, "ge", 1)
    td.signal_op(met, i, td.after(token, 1), "set", td.my_pe())


def two_reductions(opposite: bool, channels: int):
    """A3: two collectives X and Y, on one stream or two, on one PE in the other order."""

    def host(ctx):
        arrived, met = ctx.signals(2), ctx.signals(2)
        streams = [ctx.stream(f"channel {i}") for i in range(channels)]
        for stream in streams:
            ctx.fork(stream)
        order = (1, 0) if opposite and ctx.my_pe == 1 else (0, 1)
        for i in order:
            ctx.launch(meet, 1, (arrived, met, i), stream=streams[i % channels])
        for stream in streams:
            ctx.join(stream)

    return program(host)


@td.kernel
def pairwise(arrived, met):
    """CTA i of each PE meets CTA i of the other."""
    me = td.program_id(0)
    td.signal_op(arrived, me, 1, "set", 1 - td.my_pe())
    token = td.signal_wait_until(arrived, me, "ge", 1)
    td.signal_op(met, td.after(token, me), 1, "set", td.my_pe())


def grids(mine: int, other: int):
    """A10: the two PEs of a pairwise barrier chose their grids apart from each other."""

    def host(ctx):
        arrived, met = ctx.signals(16), ctx.signals(16)
        ctx.launch(pairwise, mine if ctx.my_pe == 0 else other, (arrived, met))

    return program(host)


@td.kernel
def lock(held, SCOPE: td.constexpr):
    """PE 0 hands a lock over and waits for it to come back; PE 1 waits and gives it back."""
    if td.my_pe() == 0:
        td.signal_op(held, 0, 1, "set", 1, SCOPE)
        token = td.signal_wait_until(held, 1, "ge", 1)
        td.signal_op(held, 2, td.after(token, 1), "set", 0)
    else:
        token = td.signal_wait_until(held, 0, "ge", 1)
        td.signal_op(held, td.after(token, 1), 1, "set", 0)


def lock_of_scope(scope: str):
    """A14: a lock word that is written with the scope of one GPU and polled by another."""

    def host(ctx):
        ctx.launch(lock, 1, (ctx.signals(3), scope))

    return program(host)


@td.kernel
def count_to_two(count, CMP: td.constexpr):
    """PE 0 sets a counter to 1, then 2; PE 1 wants to see both."""
    if td.my_pe() == 0:
        td.signal_op(count, 0, 1, "set", 1)
        td.signal_op(count, 0, 2, "set", 1)
    else:
        token = td.signal_wait_until(count, 0, CMP, 1)
        token = td.signal_wait_until(count, td.after(token, 0), CMP, 2)
        td.signal_op(count, 1, td.after(token, 1), "set", 1)


def counter(cmp: str):
    """A15: a wait for equality on a counter that nothing holds back."""

    def host(ctx):
        ctx.launch(count_to_two, 1, (ctx.signals(2, per_call=2), cmp))

    return program(host)


@td.kernel
def rounds(count, seen, HOW: td.constexpr):
    """Two rounds of a barrier that counts with sets, with sets and a fence, or with adds."""
    other = 1 - td.my_pe()
    if HOW == "add":
        td.signal_op(count, 0, 1, "add", other)
        td.signal_op(count, 0, 1, "add", other)
    else:
        td.signal_op(count, 0, 1, "set", other)
        if HOW == "fence":
            td.fence()
        td.signal_op(count, 0, 2, "set", other)
    token = td.signal_wait_until(count, 0, "ge", 2)
    td.signal_op(seen, 0, td.after(token, 1), "set", td.my_pe())
    if HOW == "fence":
        td.quiet()


def round_numbers(how: str):
    """A22: on a network without order an earlier set can overtake a later one."""

    def host(ctx):
        ctx.launch(rounds, 1, (ctx.signals(1, per_call=2), ctx.signals(1), how))

    return program(host)


@td.kernel
def gather_and_use(y, shards, ready, SOURCES: td.constexpr):
    """Wait for the shard of every source, then use the one of the PE before."""
    last = 0
    for source in range(SOURCES):
        token = td.signal_wait_until(ready, source, "ge", 1)
        last = td.after(token, 0)
    previous = (td.my_pe() + td.n_pes() - 1) % td.n_pes()
    td.store(y, (0, 0), td.load(shards, (4 * previous + last, 0), (4, 8)))


def gather(sources: int):
    """A25: a consumer that waits for more sources than the job has PEs."""

    def host(ctx, x, y):
        shards, ready = ctx.symmetric((32, 8), x.dtype), ctx.signals(8)
        ctx.barrier_all()
        for pe in range(ctx.n_pes):
            ctx.copy(shards.rows(4 * ctx.my_pe, 4).at(pe), x)
            ctx.signal_op(ready, ctx.my_pe, 1, "set", pe)
        ctx.launch(gather_and_use, 1, (y, shards, ready, sources))

    return program(host, from_previous)


@td.kernel
def other_order(sent):
    """PE 1's part: signal s2, wait for t2, signal s1, wait for t1."""
    td.signal_op(sent, 1, 1, "set", 0)
    token = td.signal_wait_until(sent, 3, "ge", 1)
    td.signal_op(sent, td.after(token, 0), 1, "set", 0)
    token = td.signal_wait_until(sent, 2, "ge", 1)
    td.signal_op(sent, 4, td.after(token, 1), "set", 1)


def two_waiting_streams():
    """A26: streams that wait on the device, and signals that come in the other order."""

    def host(ctx):
        sent = ctx.signals(5)
        if ctx.my_pe == 1:
            ctx.launch(other_order, 1, (sent,))
            return
        for i in range(2):
            stream = ctx.stream(f"s{i}")
            ctx.fork(stream)
            ctx.signal_wait_until(sent, i, "ge", 1, stream=stream)
            ctx.signal_op(sent, 2 + i, 1, "set", 1, stream=stream)
        for i in range(2):
            ctx.join(ctx.stream(f"s{i}"))

    return program(host)


def tail_and_cycle():
    """E16: PE 0 waits for PE 1, and PE 1 and PE 2 wait for each other."""

    def host(ctx):
        first, second = ctx.signals(3), ctx.signals(3)
        of_0 = ctx.signals(3)
        if ctx.my_pe == 0:
            ctx.launch(wait_for_one, 1, (first, of_0))
        elif ctx.my_pe == 1:
            ctx.launch(answer_after, 1, (second, first))
        else:
            ctx.launch(answer_after, 1, (first, second))

    return program(host)


@td.kernel
def wait_for_one(theirs, mine):
    """Wait for *theirs*, then write *mine*."""
    token = td.signal_wait_until(theirs, 0, "ge", 1)
    td.signal_op(mine, td.after(token, 0), 1, "set", 0)


@td.kernel
def answer_after(theirs, mine):
    """Wait for *theirs*, then write *mine* on all PEs."""
    token = td.signal_wait_until(theirs, 0, "ge", 1)
    for pe in range(td.n_pes()):
        td.signal_op(mine, td.after(token, 0), 1, "set", pe)


@td.kernel
def parts_meet(arrived, expected):
    """Count this part in and wait until *expected* have come."""
    td.signal_op(arrived, 0, 1, "add", td.my_pe())
    token = td.signal_wait_until(arrived, 0, "ge", expected)
    td.signal_op(arrived, 1, td.after(token, 1), "add", td.my_pe())


def barrier_of_parts(come: int):
    """F4: a barrier that expects three parts of a kernel, of which *come* take part."""

    def host(ctx):
        ctx.launch(parts_meet, come, (ctx.signals(2, per_call=3), 3))

    return program(host)


def straggler():
    """C17: an exchange in which one PE is very late."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(shift, 1, (y, x, mail, ready))

    return program(host, from_previous)


@td.kernel
def shift(y, x, mail, ready):
    """Put x to the next PE, wait for the one of the PE before."""
    td.putmem_signal(mail, x, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.store(y, (0, 0), td.load(td.after(token, mail), (0, 0), (4, 8)))


CASES = (
    Case(
        id="A3 opposite orders on one channel",
        program=lambda: two_reductions(True, 1),
        verdict="HANG!",
        says=("PE 0 meet[0]", "waits for arrived[0]", "PE 1 meet[0]", "waits for arrived[1]"),
    ),
    Case(
        id="A3 one order on one channel",
        program=lambda: two_reductions(False, 1),
        verdict="CLEAN",
    ),
    Case(
        id="A3 opposite orders on two channels",
        program=lambda: two_reductions(True, 2),
        verdict="CLEAN",
    ),
    Case(
        id="A10 16 CTAs against 12",
        program=lambda: grids(16, 12),
        verdict="HANG!",
        says=("pairwise has different grids: [16] on PE 0, [12] on PE 1",),
    ),
    Case(id="A10 16 CTAs against 16", program=lambda: grids(16, 16), verdict="CLEAN"),
    Case(id="A14 lock of scope gpu", program=lambda: lock_of_scope("gpu"), verdict="HANG"),
    Case(id="A14 lock of scope sys", program=lambda: lock_of_scope("sys"), verdict="CLEAN"),
    Case(id="A15 wait for equality", program=lambda: counter("eq"), verdict="HANG"),
    Case(id="A15 wait for at least", program=lambda: counter("ge"), verdict="CLEAN"),
    Case(
        id="A22 rounds with set, no order",
        program=lambda: round_numbers("set"),
        topology="h800x2x1",
        verdict="HANG",
    ),
    Case(
        id="A22 rounds with set, ordered", program=lambda: round_numbers("set"), verdict="CLEAN"
    ),
    Case(
        id="A22 rounds with a fence",
        program=lambda: round_numbers("fence"),
        topology="h800x2x1",
        verdict="CLEAN",
        seeds=12,
    ),
    Case(
        id="A22 rounds with add",
        program=lambda: round_numbers("add"),
        topology="h800x2x1",
        verdict="CLEAN",
        seeds=12,
    ),
    Case(
        id="A25 eight sources in a world of two",
        program=lambda: gather(8),
        verdict="HANG!",
        says=("waits for ready[2] ge 1; it is 0, never written",),
    ),
    Case(id="A25 as many sources as PEs", program=lambda: gather(2), verdict="CLEAN"),
    Case(id="A26 streams side by side", program=two_waiting_streams, verdict="CLEAN"),
    Case(
        id="A26 streams in one queue",
        program=two_waiting_streams,
        topology=one_queue("h800x2"),
        verdict="HANG!",
    ),
    Case(
        id="E16 a tail into a cycle",
        program=tail_and_cycle,
        topology="h800x3",
        verdict="HANG!",
        says=(
            "wait-for cycle: PE 1 answer_after[0] -> PE 2 answer_after[0] -> PE 1",
            "waits for the cycle: PE 0 wait_for_one[0]",
        ),
    ),
    Case(
        id="F4 two of three parts",
        program=lambda: barrier_of_parts(2),
        verdict="HANG!",
        says=("waits for arrived[0] ge 3; it is 2",),
    ),
    Case(id="F4 three of three parts", program=lambda: barrier_of_parts(3), verdict="CLEAN"),
    Case(id="C17 nobody is late", program=straggler, topology="h800x4", verdict="CLEAN"),
)
