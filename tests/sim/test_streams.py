"""Streams of a host program: order, overlap, hardware queues, events, copy engines."""

import pytest
from helpers import frictionless, run, with_host

from tdsim import lang as td
from tdsim.sim import Listener
from tdsim.units import Bandwidth, us

US = us(1)


@td.kernel
def work(microseconds):
    for _ in range(microseconds):
        tile = td.zeros((128, 1700), td.float32)
        tile = td.exp(tile)


class Spans(Listener):
    """Begin and end (us) of the SM work of each role."""

    def __init__(self):
        self.of = {}

    def segment(self, segment):
        if segment.lane.startswith("SM "):
            begin, end = self.of.get(segment.kind, (segment.begin, segment.end))
            self.of[segment.kind] = min(begin, segment.begin), max(end, segment.end)


def spans(host, on):
    listener = Spans()
    run(host, on, functional=False, listeners=(listener,))
    return {kind: (b // US, e // US) for kind, (b, e) in listener.of.items()}


def machine_of(num_sms=132, connections=8, **gpu):
    return with_host(frictionless("h800x1", num_sms=num_sms, **gpu), connections=connections)


def launch(ctx, role, ctas, microseconds, stream=None):
    ctx.launch(work, ctas, (microseconds,), stream=stream and ctx.stream(stream), role=role)


def test_kernels_of_one_stream_run_one_after_another():
    def host(ctx):
        launch(ctx, "compute", 8, 10)
        launch(ctx, "comm", 8, 5)

    assert spans(host, machine_of()) == {"compute": (0, 10), "comm": (10, 15)}


def test_kernels_of_two_streams_share_the_gpu():
    def host(ctx):
        launch(ctx, "compute", 8, 10)
        launch(ctx, "comm", 8, 5, "comm")

    assert spans(host, machine_of()) == {"compute": (0, 10), "comm": (0, 5)}


# case C10 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("connections", [1, 8])
def test_communication_launched_behind_a_gemm_that_takes_all_sms_does_not_overlap(connections):
    def host(ctx):
        launch(ctx, "compute", 132, 10)
        launch(ctx, "comm", 8, 5, "comm")

    assert spans(host, machine_of(connections=connections)) == {
        "compute": (0, 10),
        "comm": (10, 15),
    }


@pytest.mark.parametrize("connections", [1, 8])
def test_communication_launched_first_overlaps(connections):
    def host(ctx):
        launch(ctx, "comm", 8, 5, "comm")
        launch(ctx, "compute", 124, 10)

    assert spans(host, machine_of(connections=connections)) == {
        "comm": (0, 5),
        "compute": (0, 10),
    }


@pytest.mark.parametrize(("connections", "begin"), [(1, 10), (2, 10), (3, 0), (8, 0)])
def test_with_too_few_hardware_queues_a_third_stream_waits_behind_what_is_not_its_own(
    connections, begin
):
    def host(ctx):
        ctx.stream("comm")
        launch(ctx, "compute", 100, 10)
        launch(ctx, "reduce", 100, 10)  # cannot leave the queue before the one above ends
        launch(ctx, "copy", 8, 5, "third")

    seen = spans(host, machine_of(connections=connections))
    assert seen["compute"] == (0, 10)
    assert seen["reduce"] == (10, 20)
    assert seen["copy"] == (begin, begin + 5)


# events -----------------------------------------------------------------------------------


def test_a_forked_stream_starts_after_what_the_other_held_at_the_fork():
    def host(ctx):
        launch(ctx, "compute", 8, 10)
        ctx.fork(ctx.stream("side"))
        launch(ctx, "reduce", 8, 10)
        launch(ctx, "comm", 8, 5, "side")

    assert spans(host, machine_of()) == {
        "compute": (0, 10),
        "reduce": (10, 20),
        "comm": (10, 15),
    }


def test_a_joined_stream_holds_the_other_back():
    def host(ctx):
        launch(ctx, "comm", 8, 5, "side")
        ctx.join(ctx.stream("side"))
        launch(ctx, "compute", 8, 10)

    assert spans(host, machine_of()) == {"comm": (0, 5), "compute": (5, 15)}


def test_forks_and_joins_may_name_both_streams():
    def host(ctx):
        a, b = ctx.stream("a"), ctx.stream("b")
        launch(ctx, "comm", 8, 5, "a")
        ctx.fork(b, of=a)
        launch(ctx, "reduce", 8, 5, "b")
        ctx.join(b, into=a)
        launch(ctx, "copy", 8, 5, "a")

    assert spans(host, machine_of()) == {"comm": (0, 5), "reduce": (5, 10), "copy": (10, 15)}


def test_a_fork_of_an_idle_stream_costs_nothing():
    def host(ctx):
        ctx.fork(ctx.stream("side"))
        launch(ctx, "comm", 8, 5, "side")

    assert spans(host, machine_of()) == {"comm": (0, 5)}


def test_a_stream_wait_holds_only_its_own_stream():
    def host(ctx):
        ready = ctx.signals(1)
        ctx.signal_wait_until(ready, 0, "ge", 1, stream=ctx.stream("side"))
        launch(ctx, "comm", 8, 5, "side")
        launch(ctx, "compute", 8, 10)
        ctx.signal_op(ready, 0, 1, "set", ctx.my_pe)

    assert spans(host, machine_of()) == {"compute": (0, 10), "comm": (10, 15)}


# copy engines -----------------------------------------------------------------------------


@pytest.mark.parametrize(("engines", "total"), [(1, 40), (2, 20), (3, 20), (4, 10), (9, 10)])
def test_copies_beyond_the_number_of_engines_wait(engines, total):
    on = frictionless("h800x1", copy_engines=engines, local_copy=Bandwidth(100 * 10**6))

    def host(ctx):
        for i in range(4):  # 1000 bytes at 100 MB/s are 10 us
            dst, src = ctx.local((250,), td.float32), ctx.local((250,), td.float32)
            ctx.copy(dst, src, stream=ctx.stream(f"s{i}"))

    done = run(host, with_host(on, connections=9), functional=False)
    assert done.world.env.now == total * US
    assert sum(done.world.copy_busy) >= 4 * 10 * US


def test_a_copy_engine_needs_no_sm():
    def host(ctx):
        launch(ctx, "compute", 1, 10)
        ctx.copy(
            ctx.local((250,), td.float32),
            ctx.local((250,), td.float32),
            stream=ctx.stream("copy"),
        )
        ctx.join(ctx.stream("copy"))

    on = machine_of(num_sms=1, local_copy=Bandwidth(100 * 10**6))
    assert run(host, on, functional=False).time_ps == 10 * US


def test_a_copy_moves_data_to_and_from_a_peer():
    seen = {}

    def host(ctx, x):
        out = ctx.local((4, 4), td.float32)
        ctx.barrier_all()
        ctx.copy(out, x.at(1 - ctx.my_pe))
        seen[ctx.my_pe] = out

    done = run(host, tensors={"x": td.Input("4", "4", symmetric=True)})
    for pe in (0, 1):
        assert (seen[pe].data == done.inputs[0]["x"][1 - pe]).all()


def test_a_stream_barrier_lets_no_rank_pass_before_the_last():
    def host(ctx):
        ctx.barrier_all()
        launch(ctx, "compute", 1, 10)

    done = run(host, frictionless("h800x4"), functional=False, delays={2: 7 * US})
    assert done.ends == [17 * US] * 4


def test_a_second_call_follows_the_first_on_the_same_streams():
    def host(ctx):
        launch(ctx, "compute", 8, 10)

    assert run(host, machine_of(), functional=False, calls=3).time_ps == 30 * US
