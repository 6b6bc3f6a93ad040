"""Delivery: what a signal promises about data, on ordered and on unordered paths."""

import numpy as np
import pytest
from helpers import frictionless, run

from tdsim import lang as td
from tdsim.errors import ApiError
from tdsim.units import Bandwidth

NODE, NODES = "h800x2", "h800x2x1"
SEEDS = range(12)
SHAPE = (4, 64)


@td.kernel
def put_signal(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_signal(mail, x, ready, 0, 1, "set", other)
    receive(y, mail, ready)


@td.kernel
def put_signal_nbi(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_signal_nbi(mail, x, ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def put_then_signal(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem(mail, x, other)
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)


@td.kernel
def unfenced(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(mail, x, other)
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def fenced(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(mail, x, other)
    td.fence()
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def quieted(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(mail, x, other)
    td.quiet()
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)


@td.kernel
def barred(y, x, mail, ready):
    td.putmem_nbi(mail, x, 1 - td.my_pe())
    td.barrier_all()
    copy(y, mail)


@td.kernel
def synced_only(y, x, mail, ready):
    td.putmem_nbi(mail, x, 1 - td.my_pe())
    td.sync_all()
    copy(y, mail)
    td.quiet()


@td.kernel
def signal_of_another_put(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(td.rows(mail, 0, 2), td.rows(x, 0, 2), other)
    td.putmem_signal_nbi(td.rows(mail, 2, 2), td.rows(x, 2, 2), ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def fence_between_puts(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(td.rows(mail, 0, 2), td.rows(x, 0, 2), other)
    td.fence()
    td.putmem_signal_nbi(td.rows(mail, 2, 2), td.rows(x, 2, 2), ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def get(y, x, mail, ready):
    copy(mail, x)
    td.barrier_all()
    td.getmem(y, mail, 1 - td.my_pe())


@td.function
def receive(y, mail, ready):
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy(y, td.after(token, mail))


@td.function
def copy(y, x):
    td.store(y, (0, 0), td.load(x, (0, 0), (4, 64)))


@td.kernel
def store_then_signal(y, x, mail, ready):
    other = 1 - td.my_pe()
    copy(td.symm_at(mail, other), x)
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)


@td.kernel
def load_there(y, x, mail, ready):
    copy(mail, x)
    td.signal_op(ready, 0, 1, "set", 1 - td.my_pe())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy(y, td.after(token, td.symm_at(mail, 1 - td.my_pe())))


def swapped(kernel, on, seed=0, before=True, **job):
    """Whether each PE ends with the other's x in each of three calls."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric(SHAPE, x.dtype), ctx.signals(1)
        if before:
            ctx.barrier_all()  # the other has read its mail of the last call
        ctx.launch(kernel, 1, (y, x, mail, ready))

    tensors = {"x": td.Input("4", "64"), "y": td.Output("4", "64")}
    done = run(host, on, tensors=tensors, seed=seed, calls=3, skewed=True, **job)
    return all(
        np.array_equal(done.outputs[call]["y"][pe], done.inputs[call]["x"][1 - pe])
        for call in range(3)
        for pe in range(2)
    )


ALWAYS = [
    put_signal,
    put_signal_nbi,
    put_then_signal,
    fenced,
    quieted,
    barred,
    fence_between_puts,
    get,
]
SOMETIMES_STALE = [unfenced, synced_only, signal_of_another_put]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("on", [NODE, NODES])
@pytest.mark.parametrize("kernel", ALWAYS, ids=lambda k: k.name)
def test_a_pe_that_sees_the_signal_may_read_the_data(kernel, on, seed):
    assert swapped(kernel, on, seed)


@pytest.mark.parametrize("kernel", [store_then_signal, load_there], ids=lambda k: k.name)
def test_a_release_makes_earlier_stores_visible_inside_a_node(kernel):
    assert all(swapped(kernel, NODE, seed) for seed in SEEDS)


@pytest.mark.parametrize("kernel", SOMETIMES_STALE, ids=lambda k: k.name)
def test_what_orders_nothing_shows_stale_data_between_nodes_for_some_seed(kernel):
    assert not all(swapped(kernel, NODES, seed) for seed in SEEDS)


@td.kernel
def slow_reader(y, x, mail, ready):
    td.putmem_signal(mail, x, ready, 0, 1, "set", 1 - td.my_pe())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    if td.my_pe() == 1:
        zeros = td.zeros((64, 64), td.bfloat16)
        td.dot(zeros, zeros, td.zeros((64, 64), td.float32))
        td.fence()
    copy(y, td.after(token, mail))


def test_without_a_barrier_between_calls_a_fast_pe_overwrites_unread_mail():
    slow = {"slowdown": 20_000.0}  # the product takes longer than ranks are apart
    assert swapped(slow_reader, NODE, before=True, **slow)
    assert not swapped(slow_reader, NODE, before=False, **slow)


@td.kernel
def only_put(y, x, mail, ready):
    td.putmem(mail, x, 1 - td.my_pe())


@td.kernel
def only_put_nbi(y, x, mail, ready):
    td.putmem_nbi(mail, x, 1 - td.my_pe())


@td.kernel
def only_copy(y, x, mail, ready):
    copy(y, mail)


@td.kernel
def only_receive(y, x, mail, ready):
    receive(y, mail, ready)


def swapped_by_streams(put, order, seed, on):
    """As *swapped*, with the release between two kernels made by the stream."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric(SHAPE, x.dtype), ctx.signals(1)
        ctx.launch(put, 1, (y, x, mail, ready))
        if order == "signal":
            ctx.signal_op(ready, 0, 1, "set", 1 - ctx.my_pe)
            ctx.launch(only_receive, 1, (y, x, mail, ready))
        else:
            ctx.barrier_all()
            ctx.launch(only_copy, 1, (y, x, mail, ready))

    tensors = {"x": td.Input("4", "64"), "y": td.Output("4", "64")}
    done = run(host, on, tensors=tensors, seed=seed)
    return all(
        np.array_equal(done.outputs[0]["y"][pe], done.inputs[0]["x"][1 - pe]) for pe in (0, 1)
    )


@pytest.mark.parametrize("on", [NODE, NODES])
@pytest.mark.parametrize("order", ["signal", "barrier"])
def test_a_stream_releases_what_kernels_before_have_put(order, on):
    assert all(swapped_by_streams(only_put, order, seed, on) for seed in SEEDS)


def test_a_stream_barrier_completes_non_blocking_puts_and_a_stream_signal_does_not():
    assert all(swapped_by_streams(only_put_nbi, "barrier", seed, NODES) for seed in SEEDS)
    assert not all(swapped_by_streams(only_put_nbi, "signal", seed, NODES) for seed in SEEDS)


@td.kernel
def reuse_source(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem_nbi(mail, x, other)
    td.store(x, (0, 0), td.zeros((4, 64), td.float32))
    td.quiet()
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)
    td.quiet()  # the source is free for the next call


@td.kernel
def reuse_source_after_blocking_put(y, x, mail, ready):
    other = 1 - td.my_pe()
    td.putmem(mail, x, other)
    td.store(x, (0, 0), td.zeros((4, 64), td.float32))
    td.signal_op(ready, 0, 1, "set", other)
    receive(y, mail, ready)


@pytest.mark.parametrize("on", [NODE, NODES])
def test_the_source_of_a_blocking_put_may_be_reused_and_of_a_non_blocking_one_not(on):
    assert swapped(reuse_source_after_blocking_put, on)
    assert not swapped(reuse_source, on)


@td.kernel
def set_twice(ready, FENCED: td.constexpr):
    if td.my_pe() == 0:
        td.signal_op(ready, 0, 1, "set", 1)
        if FENCED:
            td.quiet()
        td.signal_op(ready, 0, 2, "set", 1)


def last_value(seed, on):
    arrays = []

    def host(ctx):
        arrays.append(ctx.signals(1, per_call=2))
        ctx.launch(set_twice, 1, (arrays[0], False))

    run(host, on, seed=seed)
    return arrays[0].words[1][0]


def test_two_sets_may_overtake_each_other_on_an_unordered_path_only():
    assert {last_value(seed, NODE) for seed in SEEDS} == {2}
    assert {last_value(seed, NODES) for seed in SEEDS} == {1, 2}


def test_the_same_seed_delivers_in_the_same_order():
    assert [last_value(s, NODES) for s in SEEDS] == [last_value(s, NODES) for s in SEEDS]


@td.kernel
def put_in_lines(x, mail, ready, line):
    td.putmem_lines(mail, x, ready, 0, 1, line, 1)


@pytest.mark.parametrize(("line", "carried"), [(8, 2 * 30_000), (128, 32_000)])
def test_lines_with_flags_cost_their_flags(line, carried):
    """B31: LL carries half data, LL128 120 bytes of 128; one byte takes a picosecond here."""

    def host(ctx):
        x, mail = (ctx.symmetric((7500,), td.float32) for _ in range(2))
        if ctx.my_pe == 0:
            ctx.launch(put_in_lines, 1, (x, mail, ctx.signals(1), line))
        else:
            ctx.signals(1)

    on = frictionless("h800x2", sm_copy=Bandwidth(10**12))
    assert max(run(host, on, functional=False).ends) == carried


def test_a_length_of_line_that_is_none_is_named():
    with pytest.raises(ApiError, match=r"line=64; write 8 \(LL\) or 128 \(LL128\)"):
        td.putmem_lines(None, None, None, 0, 1, 64, 1)
