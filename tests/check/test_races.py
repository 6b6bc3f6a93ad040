"""Races: what nothing orders is found, whatever the timing was; what is ordered is not."""

from __future__ import annotations

import pytest
from helpers import program

from tdsim import lang as td
from tdsim.check import check

ROWS, COLS = 4, 8
TILE = (ROWS, COLS)
IB = "h800x2x1"
"""Two nodes of one GPU each: nothing keeps the order of what is sent."""
NVLINK = "h800x2"


def verdict(host, topology=NVLINK, seeds=1, **tensors):
    return check(program(host, **tensors), topology=topology, seeds=seeds).verdict


def first(host, topology=NVLINK, seed=0, **tensors):
    return check(program(host, **tensors), topology=topology, seed=seed).findings[0]


@td.function
def tile_of(view, value):
    """Fill *view* with *value*."""
    td.store(view, (0, 0), td.full((4, 8), value, td.float32))


@td.function
def hold(sig, i, cmp: td.constexpr, value):
    """Wait, and return *i* afterwards."""
    token = td.signal_wait_until(sig, i, cmp, value)
    return td.after(token, i)


@td.kernel
def two_copies(mail, a, b, fenced: td.constexpr):
    """Two puts to one place of the other PE, in this order if *fenced*."""
    other = 1 - td.my_pe()
    td.putmem_nbi(mail, a, other)
    if fenced:
        td.fence()
    td.putmem_nbi(mail, b, other)
    td.quiet()


def copies(fenced):
    def host(ctx):
        mail, a, b = (ctx.symmetric(TILE, td.float32) for _ in range(3))
        ctx.barrier_all()
        if ctx.my_pe == 0:
            ctx.launch(two_copies, 1, (mail, a, b, fenced))
        ctx.barrier_all()

    return host


def test_two_asynchronous_copies_to_one_place_are_found_in_every_schedule():
    for seed in range(20):
        found = first(copies(False), IB, seed)
        assert found.verdict == "RACE"
        assert [a["kind"] for a in found.details["accesses"]] == ["put (write)"] * 2
        assert found.details["bytes"] == [0, ROWS * COLS * 4 - 1]


def test_a_fence_between_the_copies_and_an_ordered_path_are_enough():
    assert verdict(copies(True), IB, seeds=5) == "CLEAN"
    assert verdict(copies(False), NVLINK, seeds=5) == "CLEAN"


@td.kernel
def ring_steps(buffers, x, got, steps: td.constexpr, shared: td.constexpr):
    """Pass tiles round a ring; each step has a buffer, and a signal of its own if not *shared*."""
    me = td.my_pe()
    following = (me + 1) % td.n_pes()
    td.putmem_signal(td.rows(buffers, 0, 4), x, got, 0, 1, "add", following)
    for step in range(1, steps):
        word = 0 if shared else step - 1
        token = td.signal_wait_until(got, word, "ge", step if shared else 1)
        mine = td.rows(buffers, td.after(token, step - 1) * 4, 4)
        sent = 0 if shared else step
        td.putmem_signal(td.rows(buffers, step * 4, 4), mine, got, sent, 1, "add", following)
    last = 0 if shared else steps - 1
    hold(got, last, "ge", steps if shared else 1)


@td.kernel
def scatter_in_chunks(buffers, x, got, chunks: td.constexpr, shared: td.constexpr):
    """All chunks at once, one counter for all if *shared*; the receiver takes them in turn."""
    if td.my_pe() == 0:
        for chunk in range(chunks):
            word = 0 if shared else chunk
            td.putmem_signal_nbi(td.rows(buffers, chunk * 4, 4), x, got, word, 1, "add", 1)
        td.quiet()
    else:
        for chunk in range(chunks):
            word = 0 if shared else chunk
            token = td.signal_wait_until(got, word, "ge", chunk + 1 if shared else 1)
            row = td.after(token, chunk * 4)
            td.store(x, (0, 0), td.load(buffers, (row, 0), (4, 8)))


def chunked(shared, kernel=scatter_in_chunks, chunks=3):
    def host(ctx):
        buffers = ctx.symmetric((chunks * ROWS, COLS), td.float32)
        x = ctx.symmetric(TILE, td.float32)
        got = ctx.signals(1 if shared else chunks, per_call=chunks if shared else 1)
        ctx.barrier_all()
        if kernel is ring_steps or ctx.my_pe < 2:
            ctx.launch(kernel, 1, (buffers, x, got, chunks, shared))
        if shared and kernel is not ring_steps and ctx.my_pe == 0:
            ctx.signal_op(got, 0, chunks, "add", 0)
        ctx.barrier_all()

    return host


def test_one_signal_for_all_steps_of_a_ring_is_found_between_nodes_only():
    ring = chunked(True, ring_steps)
    assert verdict(ring, "h800x3x1", seeds=10) == "RACE"
    assert verdict(ring, "h800x3", seeds=10) == "CLEAN"
    assert verdict(chunked(False, ring_steps), "h800x3x1", seeds=10) == "CLEAN"


def test_a_counter_that_another_chunk_can_satisfy_is_found_between_nodes_only():
    assert verdict(chunked(True), IB, seeds=10) == "RACE"
    assert verdict(chunked(True), NVLINK, seeds=10) == "CLEAN"
    assert verdict(chunked(False), IB, seeds=10) == "CLEAN"


@td.kernel
def early(out, x, entered, told: td.constexpr):
    """Write to the other PE's *out*, which that PE clears when it enters."""
    other = 1 - td.my_pe()
    tile_of(out, 0.0)
    if told:
        td.signal_op(entered, 0, 1, "set", other)
        token = td.signal_wait_until(entered, 0, "ge", 1)
        td.store(td.symm_at(out, other), (td.after(token, 0), 0), td.load(x, (0, 0), (4, 8)))
    else:
        td.store(td.symm_at(out, other), (0, 0), td.load(x, (0, 0), (4, 8)))


def entering(told):
    def host(ctx):
        out, x = ctx.symmetric(TILE, td.float32), ctx.symmetric(TILE, td.float32)
        entered = ctx.signals(1)
        if told:
            ctx.barrier_all()
        ctx.launch(early, 1, (out, x, entered, told))
        ctx.barrier_all()

    return host


def test_a_peer_that_writes_before_the_other_has_entered_is_found():
    assert verdict(entering(False)) == "RACE"
    assert verdict(entering(True), seeds=5) == "CLEAN"


@td.kernel
def reuse_source(mail, x, wait: td.constexpr):
    """Overwrite the source of a non-blocking put, after td.quiet if *wait*."""
    td.putmem_nbi(mail, x, 1 - td.my_pe())
    if wait:
        td.quiet()
    tile_of(x, 1.0)
    td.quiet()


@pytest.mark.parametrize("topology", [NVLINK, IB])
def test_a_source_is_not_free_before_quiet(topology):
    def host(wait):
        def run(ctx):
            mail, x = ctx.symmetric(TILE, td.float32), ctx.symmetric(TILE, td.float32)
            ctx.barrier_all()
            if ctx.my_pe == 0:
                ctx.launch(reuse_source, 1, (mail, x, wait))
            ctx.barrier_all()

        return run

    found = first(host(False), topology)
    assert found.verdict == "RACE"
    assert "td.quiet" in found.message
    assert verdict(host(True), topology, seeds=3) == "CLEAN"


@td.kernel
def neighbours(y, columns: td.constexpr, apart: td.constexpr):
    """Two CTAs write rows of odd width, next to each other or (not *apart*) over each other."""
    row = td.program_id(0) if apart else 0
    td.store(y, (row, 0), td.full((1, columns), 1.0, y.dtype))


@pytest.mark.parametrize("dtype", [td.bfloat16, td.float32])
def test_neighbours_of_one_word_do_not_race_and_the_same_element_does(dtype):
    def host(apart):
        def run(ctx):
            ctx.launch(neighbours, 2, (ctx.local((2, 7), dtype), 8, apart))

        return run

    assert verdict(host(True)) == "CLEAN"
    found = first(host(False))
    assert (found.verdict, found.details["bytes"]) == ("RACE", [0, 7 * dtype.itemsize - 1])


@td.kernel
def all_reduce(staging, x, y, entered, left, call, leave: td.constexpr):
    """One-shot: publish, wait for all, read from all; and tell when done if *leave*."""
    me = td.my_pe()
    td.store(staging, (0, 0), td.load(x, (0, 0), (4, 8)))
    for step in range(td.n_pes()):
        td.signal_op(entered, me, 1, "set", (me + step) % td.n_pes())
    total = td.zeros((4, 8), td.float32)
    for step in range(td.n_pes()):
        pe = (me + step) % td.n_pes()
        token = td.signal_wait_until(entered, pe, "ge", 1)
        total = total + td.load(td.symm_at(staging, pe), (td.after(token, 0), 0), (4, 8))
    td.store(y, (0, 0), total)
    if leave:
        for step in range(td.n_pes()):
            td.signal_op(left, me, 1, "set", (me + step) % td.n_pes())
        for pe in range(td.n_pes()):
            hold(left, pe, "ge", 1)


def one_shot(buffers, leave):
    calls = {}

    def host(ctx):
        call = calls[ctx.my_pe] = calls.get(ctx.my_pe, -1) + 1
        staging = [ctx.symmetric(TILE, td.float32) for _ in range(buffers)]
        x, y = ctx.local(TILE, td.float32, zero=True), ctx.local(TILE, td.float32)
        entered, left = ctx.signals(ctx.n_pes), ctx.signals(ctx.n_pes)
        args = (staging[call % buffers], x, y, entered, left, call, leave)
        ctx.launch(all_reduce, 1, args)

    return host


def test_a_one_shot_all_reduce_needs_two_buffers_or_a_barrier_at_its_end():
    found = first(one_shot(1, False), "h800x4")
    assert (found.verdict, found.details["buffer"]) == ("RACE", "symmetric#0")
    assert verdict(one_shot(2, False), "h800x4", seeds=5) == "CLEAN"
    assert verdict(one_shot(1, True), "h800x4", seeds=5) == "CLEAN"


@td.kernel
def count_and_set(counter, done, y, sender: td.constexpr):
    """CTAs write a row each; the last to count sets the signal that the reader waits for."""
    cta = td.program_id(0)
    last = td.num_programs(0) - 1
    if cta < last:
        td.store(y, (cta, 0), td.full((1, 8), 1.0, td.float32))
        if td.atomic_add(counter, 0, 1) == last - 1:
            td.atomic_add(counter, 0, 0 - last)
            td.signal_op(done, 0, 1, "set", td.my_pe())
    elif sender:
        token = td.signal_wait_until(done, 0, "ge", 1)
        td.store(y, (last, 0), td.load(y, (td.after(token, 0), 0), (1, 8)))
    else:
        td.store(y, (last, 0), td.load(y, (0, 0), (1, 8)))


def test_what_program_instances_counted_is_passed_on_by_the_last_of_them():
    def host(waits):
        def run(ctx):
            counter = ctx.local((1,), td.int32, zero=True)
            y, done = ctx.local((5, 8), td.float32), ctx.signals(1)
            ctx.launch(count_and_set, 5, (counter, done, y, waits))

        return run

    assert verdict(host(True), seeds=5) == "CLEAN"
    assert verdict(host(False)) == "RACE"


@td.kernel
def lapped(word, cmp: td.constexpr):
    """PE 0 sets 1 and then 2; PE 1 waits for each."""
    if td.my_pe() == 0:
        td.signal_op(word, 0, 1, "set", 1)
        td.signal_op(word, 0, 2, "set", 1)
    else:
        i = hold(word, 0, cmp, 1)
        hold(word, i, cmp, 2)


def test_a_value_that_is_overwritten_before_its_waiter_sees_it_may_hang():
    def host(cmp):
        def run(ctx):
            word = ctx.signals(1, per_call=2)
            ctx.barrier_all()
            ctx.launch(lapped, 1, (word, cmp))
            ctx.barrier_all()

        return run

    found = [check(program(host("eq")), topology=NVLINK, seed=s).verdict for s in range(5)]
    assert all(one.startswith("HANG") for one in found)
    assert verdict(host("ge"), seeds=5) == "CLEAN"


def test_a_rank_that_is_a_million_times_late_is_no_finding():
    exchange = one_shot(2, False)

    def host(ctx):
        if ctx.my_pe == 1:
            ctx._spend(10**12, "sleep")
        exchange(ctx)

    assert verdict(host) == "CLEAN"
