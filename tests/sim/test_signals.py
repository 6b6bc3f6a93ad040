"""Signals, counters and epochs: compares, atomics, calls back to back."""

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ApiError


@td.kernel
def compare(y, sig, CMP: td.constexpr, value):
    td.signal_op(sig, 0, 5, "add", td.my_pe())
    token = td.signal_wait_until(sig, 0, CMP, value)
    td.store(y, (0,), td.full((1,), td.after(token, 1), td.int32))


@pytest.mark.parametrize(
    ("cmp", "value"),
    [("eq", 5), ("ne", 0), ("gt", 4), ("ge", 5), ("lt", 6), ("le", 5), ("ge", 0)],
)
@pytest.mark.parametrize("functional", [True, False])
def test_every_compare_ends_its_wait_when_it_is_true(cmp, value, functional):
    def host(ctx):
        ctx.launch(
            compare, 1, (ctx.local((1,), td.int32), ctx.signals(1, per_call=5), cmp, value)
        )

    run(host, "h800x1", functional=functional)


def test_an_option_that_is_no_option_is_refused_with_its_line():
    def host(ctx):
        ctx.launch(compare, 1, (ctx.local((1,), td.int32), ctx.signals(1, per_call=5), "==", 1))

    line = compare.source.tree.body[1].lineno
    with pytest.raises(ApiError) as refused:
        run(host, "h800x1")
    assert str(refused.value) == (
        f'{__file__}:{line}: cmp=\'==\'; write one of "eq" "ne" "gt" "ge" "lt" "le"'
    )


@td.kernel
def count_up(counter, sig, width):
    for col in range(width):
        old = td.atomic_add(counter, (1, col), 1)
        if old == td.num_programs(0) - 1:
            td.signal_op(sig, col, 1, "add", td.my_pe())


@pytest.mark.parametrize("functional", [True, False])
def test_atomic_add_returns_each_value_once_so_one_instance_completes_a_count(functional):
    arrays = []

    def host(ctx):
        arrays.append(ctx.signals(3))
        counter = ctx.local((2, 3), td.int32, zero=True)
        ctx.launch(count_up, 64, (counter.rows(0, 2), arrays[0], 3))

    run(host, "h800x1", functional=functional)
    assert arrays[0].words == [[1, 1, 1]]


@td.kernel
def atomics_and_tiles(out, counter, start):
    td.store(counter, (1,), td.full((1,), start, td.int32))
    first = td.atomic_add(counter, 1, 5)
    td.store(out, (0,), td.full((1,), first, td.int32))
    td.store(out, (1,), td.load(counter, (1,), (1,)))


@pytest.mark.parametrize(("start", "end"), [(7, 12), (2**31 - 1, 4 - 2**31)])
def test_atomics_loads_and_stores_see_one_memory(start, end):
    seen = {}

    def host(ctx):
        seen["out"] = ctx.local((2,), td.int32)
        ctx.launch(atomics_and_tiles, 1, (seen["out"], ctx.local((4,), td.int32), start))

    run(host, "h800x1")
    assert seen["out"].data.tolist() == [start, end]


def test_epochs_let_calls_follow_without_a_reset_and_skipped_words_stay_right():
    """Words are used in every second call only; the epoch still moves on."""
    calls = {0: 0, 1: 0}

    def host(ctx):
        ready = ctx.signals(1)
        call = calls[ctx.my_pe]
        calls[ctx.my_pe] += 1
        if call % 2 == 0:
            ctx.signal_op(ready, 0, 1, "set", 1 - ctx.my_pe)
            ctx.signal_wait_until(ready, 0, "ge", 1)

    done = run(host, calls=5, skewed=True)
    assert done.world.signal_arrays[0].words == [[5], [5]]
    assert done.world.signal_arrays[0].epoch == [5, 5]


def test_a_fast_ranks_next_call_does_not_satisfy_a_wait_of_this_one():
    """PE 1 signals in its second call before PE 0 has left its first."""

    def host(ctx):
        ready = ctx.signals(1, per_call=1)
        if ctx.my_pe == 1:
            ctx.signal_op(ready, 0, 1, "set", 0)
        else:
            ctx.signal_wait_until(ready, 0, "ge", 1)

    done = run(host, calls=3, delays={0: 10**9})
    assert done.world.signal_arrays[0].words == [[3], [0]]
