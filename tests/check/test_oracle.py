"""The oracle against programs whose outcomes are known by hand."""

from __future__ import annotations

import pytest
from oracle import (
    DEADLOCK,
    OK,
    RACY,
    WRONG,
    Add,
    Cta,
    Fence,
    Program,
    Put,
    PutSignal,
    Quiet,
    Read,
    Signal,
    Store,
    TooLargeError,
    Wait,
)
from oracle import outcomes as all_outcomes


def outcomes(program, limit=200_000):
    """How *program* can end; that accesses can meet is another matter."""
    return all_outcomes(program, limit) - {RACY}


RACE, HANG, CLEAN, CERTAIN = {OK, WRONG}, {OK, DEADLOCK}, {OK}, {DEADLOCK}


def pair(sender, receiver, **options):
    """PE 0 sends, PE 1 receives."""
    return outcomes(Program(2, (Cta(0, tuple(sender)), Cta(1, tuple(receiver))), **options))


RECEIVE = (Wait("s0", "eq", 1), Read("d0", 7))
FLAG = Signal(1, "s0", "set", 1)


@pytest.mark.parametrize(
    ("sender", "expected"),
    [
        ([Put(1, "d0", 7), FLAG], CLEAN),  # a signal releases blocking puts
        ([Put(1, "d0", 7, nbi=True), FLAG], RACE),
        ([Put(1, "d0", 7, nbi=True), Fence(), FLAG], CLEAN),
        ([Put(1, "d0", 7, nbi=True), Quiet(), FLAG], CLEAN),
        ([PutSignal(1, "d0", 7, "s0", "set", 1)], CLEAN),
        ([PutSignal(1, "d0", 7, "s0", "set", 1, nbi=True)], CLEAN),
        ([Put(1, "d0", 7), PutSignal(1, "d1", 8, "s0", "set", 1)], RACE),
        ([Put(1, "d0", 7), Fence(), PutSignal(1, "d1", 8, "s0", "set", 1)], CLEAN),
        ([FLAG, Put(1, "d0", 7)], RACE),
        ([Put(1, "d0", 7)], CERTAIN),
        ([FLAG], {WRONG}),
    ],
)
def test_a_flag_covers_what_the_contract_says(sender, expected):
    assert pair(sender, RECEIVE) == expected


def test_a_fence_orders_one_pe_only():
    sender = (Put(1, "d0", 7, nbi=True), Fence(), Signal(2, "s0", "set", 1))
    relay = (Wait("s0", "eq", 1), Signal(1, "s0", "set", 1))
    ctas = (Cta(0, sender), Cta(1, RECEIVE), Cta(2, relay))
    assert outcomes(Program(3, ctas)) == RACE
    blocking = (Put(1, "d0", 7), Signal(2, "s0", "set", 1))
    assert outcomes(Program(3, (Cta(0, blocking), *ctas[1:]))) == CLEAN


def chunks(words):
    return [PutSignal(1, f"d{i}", i + 1, word, "add", 1) for i, word in enumerate(words)]


def test_a_shared_counter_does_not_tell_which_chunk_has_come():
    shared, own = chunks(["s0"] * 3), chunks(["s0", "s1", "s2"])
    reads = [Read(f"d{i}", i + 1) for i in range(3)]
    each = [op for i in range(3) for op in (Wait("s0", "ge", i + 1), reads[i])]
    apart = [op for i in range(3) for op in (Wait(f"s{i}", "ge", 1), reads[i])]
    assert pair(shared, each) == RACE
    assert pair(shared, each, ordered=True) == CLEAN
    assert pair(own, apart) == CLEAN
    assert pair(shared, [Wait("s0", "ge", 3), *reads]) == CLEAN


def test_an_exact_wait_is_lapped_and_a_threshold_is_not():
    sender = [Signal(1, "s0", "set", 1), Signal(1, "s0", "set", 2)]
    exact = [Wait("s0", "eq", 1), Wait("s0", "eq", 2)]
    threshold = [Wait("s0", "ge", 1), Wait("s0", "ge", 2)]
    assert pair(sender, exact, ordered=True) == HANG
    assert pair(sender, threshold, ordered=True) == CLEAN
    assert pair(sender, threshold) == HANG  # the second may land first and be overwritten
    assert pair([sender[0], Fence(), sender[1]], threshold) == CLEAN


def rounds(step, tiles=3):
    """Tile k is announced by adding step(k), awaited as >= k + 1, and acknowledged."""
    sender, receiver = [], []
    for k in range(tiles):
        sender += [Wait("s1", "ge", k), Put(1, "d0", k + 1), Signal(1, "s0", "add", step(k))]
        receiver += [Wait("s0", "ge", k + 1), Read("d0", k + 1), Signal(0, "s1", "add", 1)]
    return pair(sender, receiver)


def test_a_threshold_that_falls_behind_needs_three_rounds_to_show():
    assert rounds(lambda k: 1) == CLEAN
    assert rounds(lambda k: k + 1, tiles=2) == CLEAN
    assert rounds(lambda k: k + 1) == RACE


def exchange(epochs, buffers, ordered=True):
    """Both PEs send and wait in each epoch, with so many mailboxes."""

    def ops(peer):
        for e in range(epochs):
            place = f"d{e % buffers}"
            yield PutSignal(peer, place, e + 1, "s0", "add", 1)
            yield Wait("s0", "ge", e + 1)
            yield Read(place, e + 1)

    ctas = (Cta(0, tuple(ops(1))), Cta(1, tuple(ops(0))))
    return outcomes(Program(2, ctas, ordered=ordered))


def test_a_symmetric_exchange_needs_two_buffers_and_an_ordered_path():
    assert exchange(4, 2) == CLEAN
    assert exchange(2, 1) == RACE
    assert exchange(4, 2, ordered=False) == RACE  # one counter for two puts under way


@pytest.mark.parametrize(
    ("buffers", "credits", "expected"),
    [(1, False, RACE), (2, False, RACE), (2, True, CLEAN), (1, True, CLEAN)],
)
def test_one_way_traffic_needs_credits(buffers, credits, expected):
    sender, receiver = [], []
    for e in range(3):
        place = f"d{e % buffers}"
        if credits and e >= buffers:
            sender.append(Wait("s1", "ge", e - buffers + 1))
        sender.append(PutSignal(1, place, e + 1, "s0", "add", 1))
        receiver += [Wait("s0", "ge", e + 1), Read(place, e + 1)]
        if credits:
            receiver.append(Signal(0, "s1", "add", 1))
    assert pair(sender, receiver, ordered=True) == expected


@pytest.mark.parametrize(("words", "expected"), [(1, RACE), (2, CLEAN)])
def test_a_neighbour_barrier_needs_alternating_words(words, expected):
    """A fast neighbour's second arrival stands in for the first one of a slow neighbour."""

    def ops(pe):
        for call in range(2):
            word = f"s{call % words}"
            for q in ((pe - 1) % 4, (pe + 1) % 4):
                if q == 0 and call == 0:
                    yield Put(q, f"d{pe}", 1)
                yield Signal(q, word, "add", 1)
            yield Wait(word, "ge", 2 * (call // words + 1))
            if pe == 0 and call == 0:  # PE 0 alone reads, to keep the states few
                yield from (Read("d1", 1), Read("d3", 1))

    ctas = tuple(Cta(pe, tuple(ops(pe))) for pe in range(4))
    assert outcomes(Program(4, ctas, ordered=True)) == expected


def test_a_pull_from_a_reused_buffer_needs_an_exit_barrier():
    def ops(peer, barrier):
        for e in (1, 2):
            yield Put(peer, "d0", e)
            yield Signal(peer, "s0", "add", 1)
            yield Wait("s0", "ge", e)
            yield Read("d0", e)
            if barrier:
                yield Signal(peer, "s1", "add", 1)
                yield Wait("s1", "ge", e)

    for barrier, expected in ((True, CLEAN), (False, RACE)):
        ctas = tuple(Cta(pe, tuple(ops(1 - pe, barrier))) for pe in (0, 1))
        assert outcomes(Program(2, ctas)) == expected


def test_consumers_that_take_all_slots_starve_their_producer():
    consumer, producer = Cta(0, (Wait("s0", "ge", 1),)), Cta(0, (Signal(0, "s0", "add", 1),))
    assert outcomes(Program(1, (*[consumer] * 3, producer), slots=3)) == CERTAIN
    assert outcomes(Program(1, (producer, *[consumer] * 3), slots=3)) == CLEAN
    assert outcomes(Program(1, (*[consumer] * 3, producer), slots=4)) == CLEAN


def test_a_reset_is_safe_behind_an_acknowledgement_and_erases_without():
    sender = [Signal(1, "s0", "add", 1), Wait("s1", "ge", 1), Signal(1, "s0", "add", 1)]
    reset = Signal(1, "s0", "set", 0)
    receiver = [Wait("s0", "ge", 1), reset, Signal(0, "s1", "add", 1), Wait("s0", "ge", 1)]
    assert pair(sender, receiver) == CLEAN
    hasty = [op for op in sender if not isinstance(op, Wait)]
    assert pair(hasty, receiver) == HANG


def test_a_cta_sees_its_own_reset_at_once():
    assert (
        pair([FLAG], [Wait("s0", "eq", 1), Signal(1, "s0", "set", 0), Wait("s0", "eq", 1)])
        == CERTAIN
    )


def test_atomic_adds_are_never_lost_and_wait_for_nobody():
    adder = Cta(0, (Add("c0", 1), Signal(0, "s0", "add", 1)))
    late = Cta(0, (Wait("s0", "ge", 2), Read("c0", 2)))
    early = Cta(0, (Wait("s0", "ge", 1), Read("c0", 2)))
    assert outcomes(Program(1, (adder, adder, late))) == CLEAN
    assert outcomes(Program(1, (adder, adder, early))) == RACE


def test_stores_race_with_puts_that_no_signal_orders():
    assert pair([Put(1, "d0", 7), FLAG], [Store("d0", 0), *RECEIVE]) == RACE
    ready = [Wait("s0", "eq", 1), Put(1, "d0", 7), FLAG]
    assert pair(ready, [Store("d0", 0), Signal(0, "s0", "set", 1), *RECEIVE]) == CLEAN


def test_the_oracle_gives_up_aloud():
    ctas = tuple(Cta(0, (Store("d0", p), Store("d0", p))) for p in range(6))
    with pytest.raises(TooLargeError):
        outcomes(Program(1, ctas), limit=100)


def test_accesses_that_can_meet_are_racy_even_if_nobody_can_tell():
    twice = [Put(1, "d0", 7), Put(1, "d0", 7), FLAG]
    ctas = (Cta(0, tuple(twice)), Cta(1, RECEIVE))
    assert all_outcomes(Program(2, ctas)) == {OK, RACY}
    fenced = (twice[0], Fence(), *twice[1:])
    assert all_outcomes(Program(2, (Cta(0, fenced), Cta(1, RECEIVE)))) == {OK}
    assert all_outcomes(Program(2, ctas, ordered=True)) == {OK}
