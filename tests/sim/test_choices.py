"""Choosers: the same seed makes the same run, a recorded one is repeated, all orders occur."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import DeadlockError
from tdsim.sim.choices import RandomChooser, Replay, Sharing, Touch


@td.kernel
def two_puts(mail, x):
    """PE 0 puts both rows of x to one row of PE 1's mail."""
    if td.my_pe() == 0:
        td.putmem_nbi(mail, td.rows(x, 0, 1), 1)
        td.putmem_nbi(mail, td.rows(x, 1, 1), 1)
        td.quiet()


@td.kernel
def fill(x):
    td.store(x, (0, 0), td.full((1, 4), 1.0, td.float32))
    td.store(x, (1, 0), td.full((1, 4), 2.0, td.float32))


def race(ctx):
    mail, x = ctx.symmetric((1, 4), td.float32), ctx.local((2, 4), td.float32)
    ctx.launch(fill, 1, (x,))
    ctx.launch(two_puts, 1, (mail, x))


def last_of(chooser, on="h800x2x1"):
    done = run(race, on, chooser=chooser)
    return done.world.buffers[0].arrays[1][0, 0]


def test_a_seed_makes_the_same_choices_and_others_make_others():
    values = [last_of(RandomChooser(seed)) for seed in range(12)]
    assert values == [last_of(RandomChooser(seed)) for seed in range(12)]
    assert set(values) == {1.0, 2.0}


def test_an_ordered_path_leaves_no_choice():
    assert {last_of(RandomChooser(seed), "h800x2") for seed in range(12)} == {2.0}


def test_a_recorded_schedule_is_repeated():
    for seed in range(6):
        chooser = RandomChooser(seed)
        value = last_of(chooser)
        again = Replay([step.actor for step in chooser.taken])
        assert last_of(again) == value
        assert [str(step) for step in again.taken] == [str(step) for step in chooser.taken]


def test_a_replay_of_nothing_takes_the_steps_in_order():
    assert last_of(Replay([])) == 2.0


@td.kernel
def never(sig):
    token = td.signal_wait_until(sig, 0, "ge", 1)
    td.signal_op(sig, 0, td.after(token, 1), "set", 0)


def test_what_waits_for_ever_is_told_to_the_chooser_and_reported():
    def host(ctx):
        ctx.launch(never, 1, (ctx.signals(1),))

    replay = Replay([])
    with pytest.raises(DeadlockError, match=r"sig\[0\] ge 1; it is 0, never written"):
        run(host, "h800x1", chooser=replay)
    assert [step.what for step in replay.stuck] == [
        "PE 0 never[0] passes its wait for sig[0] ge 1"
    ]


def test_touches_meet_where_they_overlap_and_one_writes():
    place = ("memory", "mail", 0)
    first, second = ((0, 2), (0, 8)), ((1, 3), (0, 8))
    apart = ((2, 3), (0, 8))
    assert Touch(place, "read", first).meets(Touch(place, "write", second))
    assert not Touch(place, "read", first).meets(Touch(place, "read", second))
    assert not Touch(place, "write", first).meets(Touch(place, "write", apart))
    assert not Touch(place, "write", first).meets(Touch(("memory", "mail", 1), "write", first))


def test_places_become_shared_when_a_second_actor_comes():
    sharing, write = Sharing(), [Touch(("memory", "mail", 0), "write", ((0, 1),))]
    assert not sharing.has("a", write)
    assert not sharing.has("a", write)
    assert not sharing.grew
    assert sharing.has("b", write)
    assert sharing.grew
    assert sharing.has("a", write)


@td.kernel
def exchange(y, x, mail, sig):
    other = 1 - td.my_pe()
    td.putmem_signal(mail, x, sig, 0, 1, "set", other)
    token = td.signal_wait_until(sig, 0, "ge", 1)
    td.store(y, (0, 0), td.load(td.after(token, mail), (0, 0), (2, 4)))


def test_a_right_program_gets_the_same_data_under_any_chooser():
    def host(ctx, x, y):
        ctx.launch(exchange, 1, (y, x, ctx.symmetric((2, 4), td.float32), ctx.signals(1)))
        ctx.barrier_all()

    tensors = {"x": td.Input("2", "4"), "y": td.Output("2", "4")}
    for seed in range(6):
        done = run(host, "h800x2x1", tensors=tensors, calls=3, chooser=RandomChooser(seed))
        for inputs, outputs in zip(done.inputs, done.outputs, strict=True):
            for pe in (0, 1):
                np.testing.assert_array_equal(outputs["y"][pe], inputs["x"][1 - pe])
