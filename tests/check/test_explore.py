"""Exploration: all schedules of a program, or one at random, and how they are told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from oracle import Cta, Fence, Program, Put, PutSignal, Read, Signal, Wait
from translated import machine_for, translate

from tdsim import lang as td
from tdsim.check import check
from tdsim.cli import main
from tdsim.errors import UsageError


def verdict(program, **options):
    found = check(
        translate(program),
        topology=machine_for(program),
        calls=1,
        dtype="fp32",
        exhaustive=True,
        **options,
    )
    assert options or found.explored.covered
    return found.verdict


def pair(sender, receiver, ordered=False):
    return Program(2, (Cta(0, tuple(sender)), Cta(1, tuple(receiver))), ordered=ordered)


def chunks(ordered):
    sender = [PutSignal(1, f"d{i}", i + 1, "s0", "add", 1) for i in range(3)]
    receiver = [op for i in range(3) for op in (Wait("s0", "ge", i + 1), Read(f"d{i}", i + 1))]
    return pair(sender, receiver, ordered)


def test_chunks_on_one_counter_are_right_on_an_ordered_path_only():
    assert verdict(chunks(ordered=True)) == "CLEAN"
    assert verdict(chunks(ordered=False)) == "RACE"


def test_an_exact_wait_that_can_be_lapped_is_a_possible_hang():
    sender = [Signal(1, "s0", "set", 1), Signal(1, "s0", "set", 2)]
    assert verdict(pair(sender, [Wait("s0", "eq", k) for k in (1, 2)], True)) == "HANG"
    assert verdict(pair(sender, [Wait("s0", "ge", k) for k in (1, 2)], True)) == "CLEAN"


def test_what_goes_wrong_in_every_schedule_is_certain():
    flag = Signal(1, "s0", "set", 1)
    assert verdict(pair([flag], [Wait("s0", "ge", 2)])) == "HANG!"
    assert verdict(pair([flag], [Wait("s0", "ge", 1), Read("d0", 7)])) == "WRONG-RESULT"


def test_a_threshold_that_falls_behind_shows_in_the_third_round():
    def rounds(step):
        sender, receiver = [], []
        for k in range(3):
            sender += [
                Wait("s1", "ge", k),
                Put(1, "d0", k + 1),
                Signal(1, "s0", "add", step(k)),
            ]
            receiver += [Wait("s0", "ge", k + 1), Read("d0", k + 1), Signal(0, "s1", "add", 1)]
        return pair(sender, receiver)

    assert verdict(rounds(lambda k: 1)) == "CLEAN"
    assert verdict(rounds(lambda k: k + 1)) == "RACE"


def test_waiting_ctas_without_a_slot_for_their_producer_hang():
    consumer, producer = Cta(0, (Wait("s0", "ge", 1),)), Cta(0, (Signal(0, "s0", "add", 1),))
    assert verdict(Program(1, (consumer, consumer, producer), slots=2)) == "HANG!"
    assert verdict(Program(1, (producer, consumer, consumer), slots=2)) == "CLEAN"


def test_a_schedule_is_told_step_by_step_with_lines():
    program = pair(
        [Put(1, "d0", 7, nbi=True), Signal(1, "s0", "set", 1)],
        [Wait("s0", "ge", 1), Read("d0", 7)],
    )
    found = check(translate(program), topology=machine_for(program), calls=1, exhaustive=True)
    steps = found.findings[0].message.splitlines()[2:]
    assert [step.split(" (")[0].strip() for step in steps] == [
        "1. set of words[0] on PE 1 from PE 0 interpret[0] lands",
        "2. PE 1 interpret[0] passes its wait for words[0] ge 1",
        "3. PE 1 interpret[0] loads rows 0 to 0 of symmetric#0 on PE 1",
        "4. write of rows 0 to 0 of symmetric#0 on PE 1 from PE 0 interpret[0] lands",
    ]
    assert all("translated.py:" in step for step in steps)
    assert "schedules, all there are" in found.text()


def test_what_was_not_covered_is_unknown_and_says_so():
    ordered = pair([Put(1, "d0", 7), Fence(), Put(1, "d0", 8)], [])
    assert verdict(ordered) == "CLEAN"
    found = check(
        translate(chunks(True)), topology="h800x2", calls=1, exhaustive=True, schedules=1
    )
    assert (found.verdict, found.exit_code, found.explored.covered) == ("UNKNOWN", 1, False)
    assert "not all there are: none of these went wrong" in found.findings[0].message
    with pytest.raises(UsageError, match="schedules = 0"):
        check(translate(ordered), exhaustive=True, schedules=0)


@td.kernel
def send(mail, x, sig, value: td.constexpr):
    td.putmem_signal(mail, x, sig, 0, value, "set", 1 - td.my_pe())


@td.kernel
def receive(y, mail, sig, value: td.constexpr):
    token = td.signal_wait_until(sig, 0, "ge", value)
    td.store(y, (0, 0), td.load(td.after(token, mail), (0, 0), (1, 8)))


def program_of(host, out="8"):
    """Each PE gets the other's x."""
    return td.program(
        shape=("M",),
        tensors={"x": td.Input("1", out), "y": td.Output("1", out)},
        work=(),
        reference=lambda t: {"y": [np.array(x) for x in t["x"][::-1]]},
        small_shape="M=1",
    )(host)


@pytest.mark.parametrize(("barrier", "expected"), [(True, "CLEAN"), (False, "RACE")])
def test_calls_share_a_mailbox_only_with_a_barrier_between(barrier, expected):
    """Without it the next call's put may land before this call's data are read."""

    def calls(ctx, x, y):
        """Exchange through one mailbox."""
        mail, sig = ctx.symmetric(x.shape, x.dtype), ctx.signals(1)
        ctx.launch(send, 1, (mail, x, sig, 1))
        ctx.launch(receive, 1, (y, mail, sig, 1))
        if barrier:
            ctx.barrier_all()

    found = check(program_of(calls), topology="h800x2x1", calls=2, exhaustive=True)
    assert found.explored.covered
    assert expected in {found.verdict, *(f.verdict for f in found.findings)}


@pytest.mark.parametrize(("joined", "expected"), [(True, "CLEAN"), (False, "RACE")])
def test_streams_race_unless_they_are_joined(joined, expected):
    def streams(ctx, x, y):
        """Copy the mail on a side stream."""
        mail, sig = ctx.symmetric(x.shape, x.dtype), ctx.signals(1)
        side = ctx.stream("side")
        ctx.fork(side)
        ctx.launch(send, 1, (mail, x, sig, 1), stream=side)
        ctx.signal_wait_until(sig, 0, "ge", 1, side)
        ctx.copy(y, mail, side)
        if joined:
            ctx.join(side)

    found = check(program_of(streams), topology="h800x2", calls=1, exhaustive=True)
    assert found.explored.covered
    assert expected in {found.verdict, *(f.verdict for f in found.findings)}


def test_two_streams_on_too_few_slots_hang_in_one_order_only():
    """The waiting kernel may take the only slot before the one that it waits for."""
    program = Program(1, (), slots=1)

    def slots(ctx, x, y):
        """A waits for b, on one SM."""
        sig = ctx.signals(2)
        first, second = ctx.stream("first"), ctx.stream("second")
        ctx.fork(first)
        ctx.fork(second)
        ctx.launch(receive, 1, (y, x, sig, 1), stream=first)
        ctx.launch(signals, 1, (sig,), stream=second)
        ctx.join(first)
        ctx.join(second)

    prog = td.program(
        shape=("M",),
        tensors={"x": td.Input("1", "8"), "y": td.Output("1", "8")},
        work=(),
        reference=lambda t: {"y": t["x"]},
        small_shape="M=1",
    )(slots)
    found = check(prog, topology=machine_for(program), calls=1, exhaustive=True)
    assert found.verdict == "HANG"
    assert found.explored.covered


@td.kernel
def signals(sig):
    td.signal_op(sig, 0, 1, "set", td.my_pe())


def test_a_small_library_program_is_covered():
    found = check("allgather", topology="h800x2", calls=2, exhaustive=True)
    assert (found.verdict, found.explored.covered) == ("CLEAN", True)


def test_the_command_line_explores_and_replays(capsys):
    assert (
        main(["check", "allgather", "--topology", "h800x2", "--calls", "1", "--exhaustive"])
        == 0
    )
    assert "all there are" in capsys.readouterr().out
    shown = []
    for _ in range(2):
        assert (
            main(
                [
                    "check",
                    "allgather",
                    "--topology",
                    "h800x2",
                    "--calls",
                    "1",
                    "--replay",
                    "7",
                    "--json",
                ]
            )
            == 0
        )
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]
    assert shown[0]["verdict"] == "CLEAN"
    assert any("passes its wait" in step for step in shown[0]["steps"])


@td.kernel
def only_put(mail, x):
    td.putmem(mail, x, 1 - td.my_pe())


@td.kernel
def only_store(mail, x):
    there = td.symm_at(mail, 1 - td.my_pe())
    td.store(there, (0, 0), td.load(x, (0, 0), (1, 8)))


@td.kernel
def only_signal(sig):
    td.signal_op(sig, 0, 1, "set", 1 - td.my_pe())


@pytest.mark.parametrize(
    ("kernel", "topology", "expected"),
    [
        (only_put, "h800x2", "CLEAN"),
        (only_store, "h800x2", "CLEAN"),
        (only_put, "h800x2x1", "RACE"),
    ],
)
def test_the_end_of_a_kernel_completes_what_it_sent_in_its_node_only(
    kernel, topology, expected
):
    """The exploration and the happens-before analysis of one run judge alike."""

    def two_kernels(ctx, x, y):
        """One kernel sends, the next one says so."""
        mail, sig = ctx.symmetric(x.shape, x.dtype), ctx.signals(1)
        ctx.launch(kernel, 1, (mail, x))
        ctx.launch(only_signal, 1, (sig,))
        ctx.launch(receive, 1, (y, mail, sig, 1))

    for options in ({"seed": 0}, {"seed": 1}, {"exhaustive": True}):
        found = check(program_of(two_kernels), topology=topology, calls=1, **options)
        assert found.verdict == expected, options
