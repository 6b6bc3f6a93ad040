"""SM slots: CTAs that wait for CTAs which have no place to run."""

from __future__ import annotations

from cases.common import Case, from_previous, program, with_sms
from tdsim import lang as td


@td.kernel
def all_meet(arrived):
    """Every CTA of the grid waits for every other."""
    td.grid_barrier(arrived, 0)


def cooperative(*counts: int):
    """A5: grids whose CTAs all wait for each other, each on a stream of its own."""

    def host(ctx):
        for i, count in enumerate(counts):
            arrived, stream = ctx.signals(1, per_call=count), ctx.stream(f"s{i}")
            ctx.fork(stream)
            ctx.launch(all_meet, count, (arrived,), stream=stream)
        for i in range(len(counts)):
            ctx.join(ctx.stream(f"s{i}"))

    return program(host)


@td.kernel
def waits_for_the_grid(inside, done):
    """Hold a slot until the big grid has met."""
    td.signal_op(inside, 0, 1, "set", td.my_pe())
    token = td.signal_wait_until(done, 0, "ge", 1)
    td.signal_op(done, 1, td.after(token, 1), "set", td.my_pe())


@td.kernel
def takes_a_while(inside, out):
    """Hold a slot for some time, and wait for nobody."""
    td.signal_op(inside, 0, 1, "set", td.my_pe())
    total = td.zeros((4, 8), td.float32)
    for _ in range(64):
        total = total + 1.0
    td.store(out, (0, 0), total)


@td.kernel
def meet_and_tell(arrived, done):
    """Every CTA waits for every other; the first one then tells the side kernel."""
    td.grid_barrier(arrived, 0)
    if td.program_id(0) == 0:
        td.signal_op(done, 0, 1, "set", td.my_pe())


def beside(count: int, waits: bool):
    """A7 without clusters: a grid that fills the GPU, and a small kernel that has a slot."""

    def host(ctx):
        arrived, done = ctx.signals(1, per_call=count), ctx.signals(2)
        inside = ctx.signals(1)
        out, side = ctx.local((4, 8), td.float32), ctx.stream("side")
        ctx.fork(side)
        if waits:
            ctx.launch(waits_for_the_grid, 1, (inside, done), stream=side)
        else:
            ctx.launch(takes_a_while, 1, (inside, out), stream=side)
        ctx.signal_wait_until(inside, 0, "ge", 1)
        ctx.launch(meet_and_tell, count, (arrived, done))
        ctx.join(side)

    return program(host)


@td.kernel
def scheduler(inside, told, workers):
    """Wait until all workers are in, then tell them to go."""
    token = td.signal_wait_until(inside, 0, "ge", workers)
    if td.program_id(0) == 0:
        td.signal_op(told, td.after(token, 0), 1, "add", td.my_pe())


@td.kernel
def whole_sm_worker(inside, told, seen):
    """Count in, wait for a scheduler, count out."""
    td.signal_op(inside, 0, 1, "add", td.my_pe())
    token = td.signal_wait_until(told, 0, "ge", 1)
    td.signal_op(seen, td.after(token, 0), 1, "add", td.my_pe())


def two_persistent_grids(gated: bool):
    """A8: 128 workers of a whole SM each and 80 schedulers that fit between them, or not."""

    def host(ctx):
        inside, told = ctx.signals(1, per_call=128), ctx.signals(1, per_call=1)
        seen = ctx.signals(2, per_call=128)
        side = ctx.stream("schedulers")
        ctx.fork(side)
        ctx.launch(whole_sm_worker, 128, (inside, told, seen))
        if gated:
            ctx.signal_wait_until(inside, 0, "ge", 128, stream=side)
        ctx.launch(scheduler, 80, (inside, told, 128), stream=side, ctas_per_sm=16)
        ctx.join(side)

    return program(host)


@td.kernel
def consumer(y, mail, ready, started):
    """Tell that a slot is taken, then wait for the producer's data."""
    td.signal_op(started, 0, 1, "add", td.my_pe())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    row = td.after(token, 0)
    if td.program_id(0) == 0:
        td.store(y, (row, 0), td.load(mail, (row, 0), (4, 8)))


@td.kernel
def producer(mail, x, ready):
    """Put x to the next PE."""
    td.putmem_signal(mail, x, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())


def consumers_first(engine: str):
    """A25: three consumers hold all three SMs before the producer of their data is launched."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        started, comm = ctx.signals(1, per_call=3), ctx.stream("comm")
        following = (ctx.my_pe + 1) % ctx.n_pes
        ctx.barrier_all()
        ctx.fork(comm)
        ctx.launch(consumer, 3, (y, mail, ready, started))
        ctx.signal_wait_until(started, 0, "ge", 3, stream=comm)
        if engine == "sm":
            ctx.launch(producer, 1, (mail, x, ready), stream=comm)
        else:
            ctx.copy(mail.at(following), x, stream=comm)
            ctx.signal_op(ready, 0, 1, "set", following, stream=comm)
        ctx.join(comm)

    return program(host, from_previous)


CASES = (
    Case(
        id="A5 64 CTAs on 58 SMs",
        program=lambda: cooperative(64),
        topology=with_sms(58),
        verdict="HANG!",
        says=("6 of 64 CTAs have no SM slot",),
    ),
    Case(
        id="A5 58 CTAs on 58 SMs",
        program=lambda: cooperative(58),
        topology=with_sms(58),
        verdict="CLEAN",
    ),
    Case(
        id="A5 twice 40 CTAs on 58 SMs",
        program=lambda: cooperative(40, 40),
        topology=with_sms(58),
        verdict="HANG",
        seeds=12,
    ),
    Case(
        id="A5 twice 29 CTAs on 58 SMs",
        program=lambda: cooperative(29, 29),
        topology=with_sms(58),
        verdict="CLEAN",
    ),
    Case(
        id="A7 148 CTAs and a waiting kernel",
        program=lambda: beside(148, True),
        topology=with_sms(148),
        verdict="HANG!",
        says=("1 of 148 CTAs have no SM slot",),
    ),
    Case(
        id="A7 146 CTAs and a waiting kernel",
        program=lambda: beside(146, True),
        topology=with_sms(148),
        verdict="CLEAN",
    ),
    Case(
        id="A7 148 CTAs and a kernel that only takes time",
        program=lambda: beside(148, False),
        topology=with_sms(148),
        verdict="CLEAN",
    ),
    Case(
        id="A8 two persistent grids at once",
        program=lambda: two_persistent_grids(False),
        topology=with_sms(148),
        verdict="HANG",
        seeds=8,
    ),
    Case(
        id="A8 workers first",
        program=lambda: two_persistent_grids(True),
        topology=with_sms(148),
        verdict="CLEAN",
    ),
    Case(
        id="A25 consumers hold all SMs",
        program=lambda: consumers_first("sm"),
        topology=with_sms(3, "h800x2"),
        verdict="HANG!",
        says=("1 of 1 CTAs have no SM slot",),
    ),
    Case(
        id="A25 a copy engine produces",
        program=lambda: consumers_first("ce"),
        topology=with_sms(3, "h800x2"),
        verdict="CLEAN",
    ),
)
