"""Buffers that are used again before their readers are done."""

from __future__ import annotations

import numpy as np

from cases.common import Case, call_of, copy_tile, from_previous, program, total
from tdsim import lang as td


@td.kernel
def one_shot(y, x, stage, entered, left, EXIT: td.constexpr, ENTRY: td.constexpr):
    """Stage x, tell all, then pull and add up the stages of all PEs."""
    n, me = td.n_pes(), td.my_pe()
    copy_tile(stage, x)
    for pe in range(n):
        td.signal_op(entered, me, 1, "set", pe)
    acc = td.zeros((4, 8), td.float32)
    for pe in range(n):
        there = td.symm_at(stage, pe)
        if ENTRY:
            token = td.signal_wait_until(entered, pe, "ge", 1)
            there = td.after(token, there)
        acc = acc + td.load(there, (0, 0), (4, 8))
    td.store(y, (0, 0), acc)
    if EXIT:
        for pe in range(n):
            td.signal_op(left, me, 1, "set", pe)
        done = 0
        for pe in range(n):
            token = td.signal_wait_until(left, pe, "ge", 1)
            done = td.after(token, 1)
        td.signal_op(left, n, done, "set", me)


def all_reduce(stages: int, exit_barrier: bool, entry_barrier: bool = True):
    """B6: a one-shot all-reduce may stage its next input while a peer still pulls this one."""

    def host(ctx, x, y):
        n = ctx.n_pes
        stage = ctx.symmetric((4 * stages, 8), x.dtype).rows(4 * (call_of(ctx) % stages), 4)
        entered, left = ctx.signals(n), ctx.signals(n + 1)
        ctx.launch(one_shot, 1, (y, x, stage, entered, left, exit_barrier, entry_barrier))

    return program(host, total, sums=True)


@td.kernel
def swap(y, x, mail, ready, first, BUFFERS: td.constexpr):
    """Four rounds: put to the other PE, wait for what it has put, use it."""
    other = 1 - td.my_pe()
    for k in range(4):
        buffer = (first + k) % BUFFERS
        there = td.rows(mail, 4 * buffer, 4)
        td.putmem_signal(there, td.rows(x, 4 * k, 4), ready, 0, k + 1, "set", other)
        token = td.signal_wait_until(ready, 0, "ge", k + 1)
        row = td.after(token, 4 * buffer)
        td.store(y, (4 * k, 0), td.load(mail, (row, 0), (4, 8)))


def symmetric_exchange(buffers: int):
    """B28: both PEs send in each round, so two buffers are enough, and one is not."""

    def host(ctx, x, y):
        mail = ctx.symmetric((4 * buffers, 8), x.dtype)
        ready = ctx.signals(1, per_call=4)
        ctx.launch(swap, 1, (y, x, mail, ready, 4 * call_of(ctx), buffers))

    return program(host, from_previous, x=td.Input("16", "8"), y=td.Output("16", "8"))


@td.kernel
def one_way(y, x, mail, ready, credit, ACKED: td.constexpr):
    """PE 0 sends four rounds through two buffers, PE 1 reads them."""
    for k in range(4):
        row = 4 * (k % 2)
        if td.my_pe() == 0:
            if ACKED:
                token = td.signal_wait_until(credit, 0, "ge", k - 1)
                row = td.after(token, row)
            td.putmem_signal(
                td.rows(mail, row, 4), td.rows(x, 4 * k, 4), ready, 0, k + 1, "set", 1
            )
            td.store(y, (4 * k, 0), td.load(x, (4 * k, 0), (4, 8)))
        else:
            token = td.signal_wait_until(ready, 0, "ge", k + 1)
            row = td.after(token, row)
            td.store(y, (4 * k, 0), td.load(mail, (row, 0), (4, 8)))
            td.signal_op(credit, 0, k + 1, "set", 0)


def one_directional(acked: bool):
    """B28: a sender that never hears that its reader has read."""

    def host(ctx, x, y):
        mail = ctx.symmetric((8, 8), x.dtype)
        ready, credit = ctx.signals(1, per_call=4), ctx.signals(1, per_call=4)
        if acked:
            ctx.barrier_all()
        ctx.launch(one_way, 1, (y, x, mail, ready, credit, acked))

    def reference(inputs):
        x = inputs["x"]
        return {"y": [x[0], x[0]]}

    return program(host, reference, x=td.Input("16", "8"), y=td.Output("16", "8"))


@td.kernel
def neighbours(out, x, OVERLAP: td.constexpr):
    """Two CTAs write rows of seven elements side by side, or one element over the edge."""
    part = td.program_id(0)
    for i in range(7 + (OVERLAP if part == 0 else 0)):
        at = 7 * part + i
        td.store(out, at, td.load(x, at, 1))


def adjacent(overlap: int):
    """E14: neighbours of two bytes are no race; the same element is."""

    def host(ctx, x, y):
        ctx.launch(neighbours, 2, (y, x, overlap))

    def reference(inputs):
        return {"y": [np.copy(a) for a in inputs["x"]]}

    return program(host, reference, x=td.Input("14"), y=td.Output("14"))


@td.kernel
def append(queue, tail, OWN: td.constexpr):
    """Take the tail of a send queue, write an entry there, move the tail on."""
    mine = td.program_id(0) if OWN else 0
    seen = td.load(tail, mine, 1)
    td.store(queue, (td.program_id(0), 0), td.full((1, 8), 1, td.float32))
    td.store(tail, mine, seen + 1)


def queue_pair(own: bool):
    """A20: two CTAs post to one queue pair, or each to its own."""

    def host(ctx):
        tail, queue = ctx.local((2,), td.int32, zero=True), ctx.local((2, 8), td.float32)
        ctx.launch(append, 2, (queue, tail, own))

    return program(host)


CASES = (
    Case(id="B6 one stage, no exit barrier", program=lambda: all_reduce(1, False), verdict="RACE"),
    Case(id="B6 one stage, exit barrier", program=lambda: all_reduce(1, True), verdict="CLEAN"),
    Case(
        id="B6 two stages in turn",
        program=lambda: all_reduce(2, False),
        topology="h800x4",
        verdict="CLEAN",
    ),
    Case(
        id="F8 no entry barrier",
        program=lambda: all_reduce(1, True, entry_barrier=False),
        verdict="RACE",
    ),
    Case(id="B28 one buffer", program=lambda: symmetric_exchange(1), verdict="RACE"),
    Case(id="B28 two buffers", program=lambda: symmetric_exchange(2), verdict="CLEAN"),
    Case(id="B28 one way, no answer", program=lambda: one_directional(False), verdict="RACE"),
    Case(id="B28 one way, credits", program=lambda: one_directional(True), verdict="CLEAN"),
    Case(
        id="E14 adjacent elements of 2 bytes",
        program=lambda: adjacent(0),
        dtype="fp16",
        topology="h800x1",
        verdict="CLEAN",
    ),
    Case(
        id="E14 the same element",
        program=lambda: adjacent(1),
        dtype="fp16",
        topology="h800x1",
        verdict="RACE",
    ),
    Case(
        id="A20 one queue pair", program=lambda: queue_pair(False), topology="h800x1",
        verdict="RACE",
    ),
    Case(
        id="A20 a queue pair for each channel", program=lambda: queue_pair(True),
        topology="h800x1", verdict="CLEAN",
    ),
)  # fmt: skip
