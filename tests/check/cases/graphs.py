"""Captured graphs: what the host counted at capture is what every replay is given."""

from __future__ import annotations

from cases.common import Case, call_of, copy_tile, from_previous, program, total
from tdsim import lang as td


@td.kernel
def shift_in_round(y, x, mail, ready, number):
    """Put x to the next PE with the number of the round; wait for that number."""
    td.putmem_signal(mail, x, ready, 0, number, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", number)
    copy_tile(y, td.after(token, mail))


def replayed(counter: str):
    """B8: the number of the round is a host scalar, baked into a graph or counted on."""

    def host(ctx, x, y):
        mail = ctx.symmetric((4, 8), x.dtype)
        ready = ctx.signals(1, per_call=1 if counter == "device" else 0)
        number = 1 if counter == "device" else 1 + call_of(ctx)
        ctx.barrier_all()

        def capture():
            ctx.launch(shift_in_round, 1, (y, x, mail, ready, number))

        if counter == "host, no graph":
            capture()
        else:
            ctx.replay("shift", capture)
        ctx.barrier_all()

    return program(host, from_previous)


@td.kernel
def reduce_in_turn(y, x, stage, entered, number):
    """One all-reduce of several in a call: stage x, tell all, pull and add up."""
    n, me = td.n_pes(), td.my_pe()
    copy_tile(stage, x)
    for pe in range(n):
        td.signal_op(entered, me, number, "set", pe)
    acc = td.zeros((4, 8), td.float32)
    for pe in range(n):
        token = td.signal_wait_until(entered, pe, "ge", number)
        there = td.after(token, td.symm_at(stage, pe))
        acc = acc + td.load(there, (0, 0), (4, 8))
    td.store(y, (0, 0), acc)


def reductions_in_a_graph(count: int):
    """B8: *count* all-reduces in a graph use two stages in turn, by a host-side parity."""

    def host(ctx, x, y):
        stages = ctx.symmetric((8, 8), x.dtype)
        entered = ctx.signals(ctx.n_pes, per_call=count)

        def capture():
            for k in range(count):
                stage = stages.rows(4 * (k % 2), 4)
                ctx.launch(reduce_in_turn, 1, (y, x, stage, entered, k + 1))

        ctx.replay("reductions", capture)

    return program(host, total, sums=True)


CASES = (
    Case(id="B8 round baked into a graph", program=lambda: replayed("host"), verdict="RACE"),
    Case(id="B8 round counted without a graph", program=lambda: replayed("host, no graph"),
         verdict="CLEAN"),
    Case(id="B8 round counted on the device", program=lambda: replayed("device"),
         verdict="CLEAN"),
    Case(id="B8 odd number in a graph", program=lambda: reductions_in_a_graph(3),
         verdict="RACE"),
    Case(id="B8 even number in a graph", program=lambda: reductions_in_a_graph(4),
         verdict="CLEAN"),
)  # fmt: skip
