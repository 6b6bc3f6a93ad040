"""Hangs: who waits for what, seen and expected, who wrote last, the cycle, the missing ones."""

import pytest
from helpers import frictionless, run, with_host

from tdsim import lang as td
from tdsim.errors import DeadlockError


@td.kernel
def wait_kernel(ready, i, value):
    token = td.signal_wait_until(ready, i, "ge", value)
    td.after(token, i)


@td.kernel
def signal_then_wait(mine, theirs):
    other = 1 - td.my_pe()
    token = td.signal_wait_until(theirs, 0, "ge", 1)
    td.signal_op(mine, 0, td.after(token, 1), "set", other)


@td.kernel
def swapped(ping, pong):
    other = 1 - td.my_pe()
    if td.my_pe() == 0:
        token = td.signal_wait_until(ping, 0, "ge", 1)
        td.signal_op(pong, 0, td.after(token, 1), "set", other)
    else:
        token = td.signal_wait_until(pong, 0, "ge", 1)
        td.signal_op(ping, 0, td.after(token, 1), "set", other)


@td.kernel
def all_arrive(sig):
    td.grid_barrier(sig, 0)


@td.kernel
def leave_out_last():
    if td.my_pe() != td.n_pes() - 1:
        td.sync_all()


def line_of(kernel, offset=0):
    return f"{__file__}:{kernel.source.tree.body[0].lineno + offset}"


def hang(host, on="h800x2", functional=False, **job):
    with pytest.raises(DeadlockError) as stopped:
        run(host, on, functional=functional, **job)
    assert stopped.value.verdict == "HANG"
    assert str(stopped.value).startswith(f"deadlock at {stopped.value.now_ps} ps, ")
    return stopped.value


@pytest.mark.parametrize("functional", [True, False])
def test_a_signal_that_nobody_sends_is_named_with_the_line_and_what_was_seen(functional):
    def host(ctx):
        ready = ctx.signals(4)
        if ctx.my_pe == 1:
            ctx.launch(wait_kernel, 1, (ready, 3, 1))

    stopped = hang(host, functional=functional)
    assert stopped.count == 1
    assert stopped.waiters == (
        f"PE 1 wait_kernel[0] at {line_of(wait_kernel)}: waits for ready[3] ge 1; "
        "it is 0, never written",
    )
    assert stopped.notes == ()


def test_the_last_writer_of_a_signal_that_is_too_small_is_named():
    def host(ctx):
        ready = ctx.signals(4)
        if ctx.my_pe == 0:
            ctx.signal_op(ready, 2, 1, "set", 1)
        ctx.launch(wait_kernel, 1, (ready, 2, 2))

    stopped = hang(host)
    assert sorted(w.partition(": ")[2] for w in stopped.waiters) == [
        "waits for ready[2] ge 2; it is 0, never written",
        "waits for ready[2] ge 2; it is 1, last written by PE 0 stream main",
    ]


def test_values_are_shown_as_the_call_sees_them_not_as_the_words_count():
    calls = []

    def host(ctx):
        ready = ctx.signals(1)
        ctx.signal_op(ready, 0, 1, "set", 0)
        calls.append(ctx.my_pe)
        ctx.launch(wait_kernel, 1, (ready, 0, len(calls)))

    stopped = hang(host, "h800x1", calls=3)
    assert stopped.waiters[0].endswith(
        "waits for ready[0] ge 2; it is 1, last written by PE 0 stream main"
    )


def test_instances_that_wait_at_one_place_are_one_line():
    def host(ctx):
        ctx.launch(wait_kernel, 5, (ctx.signals(1), 0, 1))

    stopped = hang(host, "h800x1")
    assert stopped.count == 5
    (line,) = stopped.waiters
    assert line.endswith("(and 4 more instances there)")


def test_many_places_are_cut_to_a_readable_number():
    def host(ctx):
        for i in range(20):
            ctx.launch(wait_kernel, 1, (ctx.signals(1), 0, 1), stream=ctx.stream(f"s{i}"))

    stopped = hang(host, with_host(frictionless("h800x1"), connections=32))
    assert stopped.count == 20
    assert len(stopped.waiters) == 13
    assert stopped.waiters[-1] == "... and 8 more places"


def test_a_cycle_of_two_pes_is_drawn():
    def host(ctx):
        ctx.launch(swapped, 1, (ctx.signals(1), ctx.signals(1)))

    stopped = hang(host)
    assert stopped.count == 2
    assert "PE 0 swapped[0]" in stopped.waiters[0]
    assert "waits for ping[0] ge 1; it is 0, never written" in stopped.waiters[0]
    assert stopped.waiters[0].startswith(f"PE 0 swapped[0] at {line_of(swapped, 2)}")
    assert stopped.waiters[1].startswith(f"PE 1 swapped[0] at {line_of(swapped, 5)}")
    assert stopped.notes == (
        "wait-for cycle: PE 0 swapped[0] -> PE 1 swapped[0] -> PE 0 swapped[0]",
    )


def test_waiting_for_a_kernel_that_only_waits_itself_is_no_cycle():
    def host(ctx):
        ctx.launch(wait_kernel, 1, (ctx.signals(1), 0, 1))

    assert hang(host).notes == ()


def test_ctas_that_hold_every_slot_keep_the_missing_ones_out():
    """A grid barrier of 64 CTAs on a GPU of 58 SMs."""

    def host(ctx):
        ctx.launch(all_arrive, 64, (ctx.signals(1, per_call=64),))

    stopped = hang(host, frictionless("h800x1", num_sms=58))
    assert stopped.count == 58
    assert "waits for sig[0] ge 64; it is 58, last written by PE 0 all_arrive[" in str(stopped)
    assert stopped.notes[-1] == (
        "PE 0 all_arrive: 6 of 64 CTAs have no SM slot; "
        "all 58 SMs of PE 0 are held by waiting CTAs"
    )


@pytest.mark.parametrize("ctas", [58, 32])
def test_a_grid_that_fits_passes_its_barrier(ctas):
    def host(ctx):
        ctx.launch(all_arrive, ctas, (ctx.signals(1, per_call=ctas),))

    run(host, frictionless("h800x1", num_sms=58), functional=False, calls=3)


@pytest.mark.parametrize("consumers", [2, 3])
def test_consumers_that_take_all_slots_before_the_producer_hang(consumers):
    def host(ctx):
        ready = ctx.signals(1)
        ctx.launch(wait_kernel, consumers, (ready, 0, 1))
        producer = ctx.stream("producer")
        ctx.launch(produce, 1, (ready,), stream=producer)

    on = frictionless("h800x1", num_sms=3)
    if consumers < 3:
        run(host, on, functional=False)
        return
    stopped = hang(host, on)
    assert stopped.count == 3
    assert stopped.notes == (
        "PE 0 produce: 1 of 1 CTAs have no SM slot; all 3 SMs of PE 0 are held by waiting CTAs",
    )


@td.kernel
def produce(ready):
    td.signal_op(ready, 0, 1, "set", td.my_pe())


@pytest.mark.parametrize("functional", [True, False])
def test_a_barrier_that_a_pe_leaves_out_names_it(functional):
    def host(ctx):
        ctx.launch(leave_out_last, 1, ())

    stopped = hang(host, "h800x4", functional=functional)
    assert stopped.notes == ("sync_all: PE 3 has not arrived",)
    assert stopped.count == 3
    assert stopped.waiters == tuple(
        f"PE {pe} leave_out_last[0] at {line_of(leave_out_last, 1)}: waits for the other PEs"
        for pe in range(3)
    )


def test_a_stream_barrier_that_pes_leave_out_names_them():
    def host(ctx):
        if ctx.my_pe == 0:
            ctx.barrier_all()

    stopped = hang(host, "h800x3")
    assert stopped.waiters == ("PE 0: waits in barrier_all on the stream",)
    assert stopped.notes == ("barrier_all on the stream: PE 1, 2 has not arrived",)


def test_a_stream_that_waits_for_ever_is_named():
    def host(ctx):
        ctx.signal_wait_until(ctx.signals(1), 0, "ge", 1)

    stopped = hang(host, "h800x1")
    assert stopped.waiters == (
        "PE 0 stream main: waits for signals#0[0] ge 1; it is 0, never written",
    )


def test_streams_that_share_a_hardware_queue_can_hang_where_two_queues_do_not():
    """Case A26: stream a waits s1 then signals t1, b waits s2 then signals t2, crosswise."""

    def host(ctx):
        s, t = ctx.signals(2), ctx.signals(2)
        if ctx.my_pe == 0:
            for i, name in enumerate(("a", "b")):
                ctx.signal_wait_until(s, i, "ge", 1, stream=ctx.stream(name))
                ctx.signal_op(t, i, 1, "set", 1, stream=ctx.stream(name))
        else:
            ctx.signal_op(s, 1, 1, "set", 0)
            ctx.signal_wait_until(t, 1, "ge", 1)
            ctx.signal_op(s, 0, 1, "set", 0)
            ctx.signal_wait_until(t, 0, "ge", 1)

    def waits(connections):
        return with_host(frictionless("h800x2"), connections=connections)

    run(host, waits(4), functional=False)
    stopped = hang(host, waits(1))
    assert (
        "PE 0 stream a: waits for signals#0[0] ge 1; it is 0, never written" in stopped.waiters
    )
