"""Collective calls and groups: who takes part, and whose signal it was."""

from __future__ import annotations

import numpy as np

from cases.common import Case, call_of, copy_tile, program
from tdsim import lang as td


@td.kernel
def pair_meets(arrived, other):
    """Meet the PE *other*."""
    td.signal_op(arrived, 0, 1, "set", other)
    token = td.signal_wait_until(arrived, 0, "ge", 1)
    td.signal_op(arrived, 1, td.after(token, 1), "set", td.my_pe())


def rendezvous(everybody: bool):
    """A11: two groups of two; the first allocates its workspace, for all PEs or for itself."""

    def host(ctx):
        group = ctx.team((0, 1) if ctx.my_pe < 2 else (2, 3))
        if ctx.my_pe < 2:
            arrived = ctx.signals(2) if everybody else group.signals(2)
            ctx.launch(pair_meets, 1, (arrived, group.pe(1 - group.my_pe)))

    return program(host)


def team_barriers(all_come: bool):
    """A barrier of a team, to which one of its members may not come."""

    def host(ctx):
        if ctx.my_pe == 0:
            return
        team = ctx.team((1, 2))
        if all_come or ctx.my_pe == 1:
            team.barrier_all()

    return program(host)


@td.kernel
def world_arrives(pad, slot):
    """PE 1's part of a barrier over all PEs: set its slot on PE 0."""
    td.signal_op(pad, slot, 1, "set", 0)


@td.kernel
def sends_in_subgroup(mail, x, pad, slot):
    """PE 2's part of an exchange in the group of PE 0 and PE 2."""
    td.putmem(mail, x, 0)
    td.signal_op(pad, slot, 1, "set", 0)


@td.kernel
def receives_in_subgroup(y, mail, pad, slot):
    """PE 0's part: wait for the slot of the group's second member, then read."""
    token = td.signal_wait_until(pad, slot, "ge", 1)
    copy_tile(y, td.after(token, mail))


def shared_pad(own_pads: bool):
    """B12: the slot of PE 1 in the world is the slot of PE 2 in the group of PE 0 and PE 2."""

    def host(ctx, x, y):
        mail, world_pad = ctx.symmetric((4, 8), x.dtype), ctx.signals(4)
        pad = world_pad
        if own_pads and ctx.my_pe != 1:
            pad = ctx.team((0, 2)).signals(2)
        ctx.barrier_all()
        if ctx.my_pe == 0:
            ctx.launch(receives_in_subgroup, 1, (y, mail, pad, 1))
        elif ctx.my_pe == 1:
            ctx.launch(world_arrives, 1, (world_pad, 1))
        else:
            ctx.launch(sends_in_subgroup, 1, (mail, x, pad, 1))
        if ctx.my_pe != 0:
            ctx.copy(y, x)

    def reference(inputs):
        x = inputs["x"]
        return {"y": [x[2], x[1], x[2]]}

    return program(host, reference)


@td.kernel
def neighbours_meet(arrived, i, y, x, mail, sent):
    """Meet both neighbours of a ring; then PE 1 puts into PE 2's mail, which PE 2 reads."""
    me, n = td.my_pe(), td.n_pes()
    td.signal_op(arrived, i, 1, "add", (me + 1) % n)
    td.signal_op(arrived, i, 1, "add", (me + n - 1) % n)
    token = td.signal_wait_until(arrived, i, "ge", 2)
    td.signal_op(arrived, td.after(token, i), -2, "add", me)
    if me == 1:
        td.putmem_signal(mail, x, sent, 0, 1, "set", 2)
    if me == 2:
        token = td.signal_wait_until(sent, 0, "ge", 1)
        copy_tile(y, td.after(token, mail))
    else:
        copy_tile(y, x)


def neighbour_barrier(semaphores: int):
    """A17: a barrier of ring neighbours whose semaphore the next call uses again."""

    def host(ctx, x, y):
        arrived, sent = ctx.signals(semaphores, per_call=0), ctx.signals(1)
        mail = ctx.symmetric((4, 8), x.dtype)
        i = call_of(ctx) % semaphores
        ctx.launch(neighbours_meet, 1, (arrived, i, y, x, mail, sent))

    def reference(inputs):
        y = [a.copy() for a in inputs["x"]]
        y[2] = np.copy(inputs["x"][1])
        return {"y": y}

    return program(host, reference)


CASES = (
    Case(
        id="A11 workspace allocated with the world",
        program=lambda: rendezvous(True),
        topology="h800x4",
        verdict="HANG!",
        says=("PE 0, 1: in ctx.signals, allocation 0", "PE 2, 3 never makes it"),
    ),
    Case(
        id="A11 workspace allocated with the group",
        program=lambda: rendezvous(False),
        topology="h800x4",
        verdict="CLEAN",
    ),
    Case(
        id="A11 a member misses the barrier",
        program=lambda: team_barriers(False),
        topology="h800x3",
        verdict="HANG!",
        says=("barrier_all of team 1,2: PE 2 has not arrived",),
    ),
    Case(
        id="A11 all members come to the barrier",
        program=lambda: team_barriers(True),
        topology="h800x3",
        verdict="CLEAN",
    ),
    Case(
        id="B12 one pad for two groups",
        program=lambda: shared_pad(False),
        topology="h800x3",
        verdict="RACE",
    ),
    Case(
        id="B12 a pad for each group",
        program=lambda: shared_pad(True),
        topology="h800x3",
        verdict="CLEAN",
    ),
    Case(
        id="A17 one semaphore, ring of 4",
        program=lambda: neighbour_barrier(1),
        topology="h800x4",
        verdict="RACE",
        seeds=40,
    ),
    Case(
        id="A17 one semaphore, ring of 3",
        program=lambda: neighbour_barrier(1),
        topology="h800x3",
        verdict="CLEAN",
        seeds=12,
    ),
    Case(
        id="A17 two semaphores, ring of 4",
        program=lambda: neighbour_barrier(2),
        topology="h800x4",
        verdict="CLEAN",
        seeds=12,
    ),
)
