"""Signals that are shared, reused or counted wrongly: a wait that another signal satisfies."""

from __future__ import annotations

import numpy as np

from cases.common import Case, copy_tile, from_previous, program, unchanged
from tdsim import lang as td


@td.kernel
def chunks(y, x, mail, arrived, HOW: td.constexpr):
    """Put three chunks of x, each with a signal; use each chunk when its wait is over."""
    following = (td.my_pe() + 1) % td.n_pes()
    for k in range(3):
        word = k if HOW == "word each" else 0
        td.putmem_signal_nbi(
            td.rows(mail, 4 * k, 4), td.rows(x, 4 * k, 4), arrived, word, 1, "add", following
        )
    row = 0
    for k in range(3):
        if HOW == "word each":
            token = td.signal_wait_until(arrived, k, "ge", 1)
        elif HOW == "total":
            token = td.signal_wait_until(arrived, 0, "ge", 3)
        else:
            token = td.signal_wait_until(arrived, 0, "ge", k + 1)
        row = td.after(token, 4 * k)
        td.store(y, (row, 0), td.load(mail, (row, 0), (4, 8)))
    td.quiet()


def ring_step(how: str):
    """B1: all chunks add to one counter, and chunk 3 may satisfy the wait for chunk 2."""

    def host(ctx, x, y):
        words = 3 if how == "word each" else 1
        mail = ctx.symmetric((12, 8), x.dtype)
        arrived = ctx.signals(words, per_call=3 // words)
        ctx.barrier_all()
        ctx.launch(chunks, 1, (y, x, mail, arrived, how))

    return program(host, from_previous, x=td.Input("12", "8"), y=td.Output("12", "8"))


@td.kernel
def shift_with_word(y, x, mail, ready, expected, OP: td.constexpr):
    """Put x to the next PE, wait for the one of the PE before."""
    td.putmem_signal(mail, x, ready, 0, 1, OP, (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", expected)
    copy_tile(y, td.after(token, mail))


@td.kernel
def reset(ready):
    """Set this PE's own signal to 0."""
    td.signal_op(ready, 0, 0, "set", td.my_pe())


def reused_flag(cure: str):
    """B9: the flags of the call before are still set when the next one waits for them."""

    def host(ctx, x, y):
        mail = ctx.symmetric((4, 8), x.dtype)
        ready = ctx.signals(1, per_call=1 if cure == "epoch" else 0)
        if cure == "reset":
            ctx.launch(reset, 1, (ready,))
        ctx.barrier_all()
        ctx.launch(shift_with_word, 1, (y, x, mail, ready, 1, "set"))

    return program(host, from_previous)


@td.kernel
def stages(y, x, mail, full, free, K: td.constexpr, RUNNING: td.constexpr):
    """PE 0 sends two tiles of K steps through two stages; PE 1 expects each in its place."""
    if td.my_pe() == 0:
        for k in range(2 * K):
            stage, turn = k % 2, k // 2
            token = td.signal_wait_until(free, stage, "ge", turn)
            row = td.after(token, 4 * stage)
            td.putmem_signal(
                td.rows(mail, row, 4), td.rows(x, 4 * k, 4), full, stage, 1, "add", 1
            )
    else:
        for tile in range(2):
            for step in range(K):
                k = tile * K + step
                stage = k % 2
                turn = k // 2 if RUNNING else step // 2
                token = td.signal_wait_until(full, stage, "ge", turn + 1)
                row = td.after(token, 4 * stage)
                td.store(y, (4 * k, 0), td.load(mail, (row, 0), (4, 8)))
                td.signal_op(free, stage, 1, "add", 0)


def pipeline(steps: int, running: bool):
    """B21: the expected value of a stage's signal starts anew in each tile, or runs on."""

    def host(ctx, x, y):
        mail = ctx.symmetric((8, 8), x.dtype)
        full, free = ctx.signals(2, per_call=steps), ctx.signals(2, per_call=steps)
        ctx.barrier_all()
        ctx.launch(stages, 1, (y, x, mail, full, free, steps, running))
        if ctx.my_pe == 0:
            ctx.copy(y, x)

    def reference(inputs):
        x = inputs["x"]
        return {"y": [x[0], x[0]]}

    rows = str(8 * steps)
    return program(host, reference, x=td.Input(rows, "8"), y=td.Output(rows, "8"))


@td.kernel
def growing(y, x, mail, count, GROWS: td.constexpr):
    """PE 0 puts three tiles and counts each; PE 1 takes tile k once the count is k + 1."""
    if td.my_pe() == 0:
        for k in range(3):
            td.putmem(td.rows(mail, 4 * k, 4), td.rows(x, 4 * k, 4), 1)
            td.signal_op(count, 0, k + 1 if GROWS else 1, "add", 1)
            td.store(y, (4 * k, 0), td.load(x, (4 * k, 0), (4, 8)))
    else:
        for k in range(3):
            token = td.signal_wait_until(count, 0, "ge", k + 1)
            row = td.after(token, 4 * k)
            td.store(y, (row, 0), td.load(mail, (row, 0), (4, 8)))


def threshold(grows: bool):
    """B24: what is added grows faster than what is waited for, so the third wait is none."""

    def host(ctx, x, y):
        mail = ctx.symmetric((12, 8), x.dtype)
        count = ctx.signals(1, per_call=6 if grows else 3)
        ctx.barrier_all()
        ctx.launch(growing, 1, (y, x, mail, count, grows))

    def reference(inputs):
        x = inputs["x"]
        return {"y": [x[0], x[0]]}

    return program(host, reference, x=td.Input("12", "8"), y=td.Output("12", "8"))


@td.kernel
def add_by_hand(count, arrived):
    """Count on PE 0 with a load, an addition and a store."""
    there = td.symm_at(count, 0)
    td.store(there, 0, td.load(there, 0, 1) + 1)
    td.signal_op(arrived, 0, 1, "add", 0)


@td.kernel
def read_count(y, count, arrived):
    """PE 0 reads the count once both have been."""
    token = td.signal_wait_until(arrived, 0, "ge", 2)
    td.store(y, 0, td.cast(td.load(td.after(token, count), 0, 1), td.float32))


@td.kernel
def add_signal(arrived):
    """Count on PE 0 with a signal."""
    td.signal_op(arrived, 0, 1, "add", 0)


@td.kernel
def read_signal(y, arrived):
    """PE 0 knows the count when its wait is over."""
    token = td.signal_wait_until(arrived, 0, "ge", 2)
    td.store(y, 0, td.full(1, td.after(token, 2), td.float32))


def counted(atomic: bool):
    """B35: two PEs count on one word, by load and store or by an atomic signal."""

    def host(ctx, y):
        arrived = ctx.signals(1, per_call=2)
        count = ctx.symmetric((1,), td.int32)
        one = ctx.local((1,), td.float32)
        if atomic:
            ctx.launch(add_signal, 1, (arrived,))
        else:
            ctx.launch(clear_count, 1, (count,))
            ctx.barrier_all()
            ctx.launch(add_by_hand, 1, (count, arrived))
        if ctx.my_pe == 0:
            known = (y, arrived) if atomic else (y, count, arrived)
            ctx.launch(read_signal if atomic else read_count, 1, known)
        else:
            ctx.launch(two, 1, (y,))
        ctx.launch(two, 1, (one,))

    return program(host, lambda inputs: {"y": [np.full(1, 2.0)] * 2}, y=td.Output("1"))


@td.kernel
def clear_count(count):
    """Start from 0."""
    td.store(count, 0, td.zeros(1, td.int32))


@td.kernel
def two(y):
    """The count that is right."""
    td.store(y, 0, td.full(1, 2, td.float32))


@td.kernel
def tickets(y, x, tickets_taken, served, log):
    """A lock: take a ticket, wait for one's turn, change shared memory, let the next one in."""
    ticket = td.atomic_add(tickets_taken, 0, 1)
    token = td.signal_wait_until(served, 0, "ge", ticket % td.num_programs(0))
    row = td.after(token, 0)
    td.store(log, (row, 0), td.load(log, (row, 0), (4, 8)) + 1.0)
    td.signal_op(served, 0, 1, "add", td.my_pe())


def ticket_lock(ctas: int = 8):
    """E13: a lock of tickets, taken by several CTAs."""

    def host(ctx, x, y):
        taken, served = ctx.local((1,), td.int32, zero=True), ctx.signals(1, per_call=ctas)
        log = ctx.local((4, 8), td.float32)
        ctx.launch(zero_kernel, 1, (log,))
        ctx.launch(tickets, ctas, (y, x, taken, served, log))
        ctx.copy(y, log)

    def reference(inputs):
        return {"y": [np.full((4, 8), float(ctas)) for _ in inputs["x"]]}

    return program(host, reference)


@td.kernel
def zero_kernel(dst):
    """Clear 4 x 8 elements."""
    td.store(dst, (0, 0), td.zeros((4, 8), td.float32))


@td.kernel
def many_barriers(y, x, count):
    """Meet very often, then copy."""
    for _i in range(count):
        td.barrier_all()
    copy_tile(y, x)


def barriers(count: int):
    """E14: so many barriers that a narrow clock would begin anew."""

    def host(ctx, x, y):
        ctx.launch(many_barriers, 1, (y, x, count))

    return program(host, unchanged)


CASES = (
    Case(
        id="B1 one counter, no order",
        program=lambda: ring_step("counter"),
        topology="h800x2x1",
        verdict="RACE",
    ),
    Case(id="B1 one counter, ordered", program=lambda: ring_step("counter"), verdict="CLEAN"),
    Case(
        id="B1 a word for each chunk",
        program=lambda: ring_step("word each"),
        topology="h800x2x1",
        verdict="CLEAN",
    ),
    Case(
        id="B1 wait for the total",
        program=lambda: ring_step("total"),
        topology="h800x2x1",
        verdict="CLEAN",
    ),
    Case(id="B9 flags not reset", program=lambda: reused_flag("none"), verdict="RACE"),
    Case(id="B9 flags reset", program=lambda: reused_flag("reset"), verdict="CLEAN"),
    Case(id="B9 flags by call", program=lambda: reused_flag("epoch"), verdict="CLEAN"),
    Case(
        id="B21 expected value of the tile", program=lambda: pipeline(6, False), verdict="RACE"
    ),
    Case(id="B21 expected value runs on", program=lambda: pipeline(6, True), verdict="CLEAN"),
    Case(id="B24 threshold falls behind", program=lambda: threshold(True), verdict="RACE"),
    Case(id="B24 threshold keeps up", program=lambda: threshold(False), verdict="CLEAN"),
    Case(id="B35 count by load and store", program=lambda: counted(False), verdict="RACE"),
    Case(id="B35 count by signal", program=lambda: counted(True), verdict="CLEAN"),
    Case(id="E13 lock of tickets", program=ticket_lock, topology="h800x1", verdict="CLEAN"),
    Case(
        id="E14 very many barriers",
        program=lambda: barriers(70_000),
        verdict="CLEAN",
        calls=1,
        seeds=1,
    ),
)
