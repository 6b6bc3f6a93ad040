"""Stream operations: what each one does to time and memory when its turn comes.

Each function returns a callable that takes the stream and yields events until it is complete.
The stream's ``state`` is the last segment of its timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from tdsim.engine.stream import Stream
from tdsim.engine.timeline import Segment
from tdsim.sim.delivery import Sent
from tdsim.sim.hooks import OrderListener
from tdsim.sim.launch import Launch
from tdsim.sim.signals import Waiter

Steps = Generator[simpy.Event, Any, None]
OnStream = Callable[[Stream], Steps]


def observed(
    steps: Callable[[], Steps], order: OrderListener, stream: Stream, rank: int, place: str
) -> Callable[[], Steps]:
    """*steps* between the calls that tell *order* of a stream's operation."""

    def told() -> Steps:
        order.stream_begins(stream, rank, place)
        yield from steps()
        order.stream_ends(stream)

    return told


def _note(
    ctx: Any, stream: Stream, kind: str, begin: int, detail: str, cause: Any = None
) -> None:
    """Append a segment from *begin* until now to the stream's timeline."""
    now = ctx.env.now
    if now > begin:
        own = stream.state
        if cause is None or (own is not None and own.end > cause.end):
            cause = own
        lane = f"stream {stream.name}"
        stream.state = Segment(kind, ctx.rank, lane, begin, now, cause, detail)
        ctx.world.emit(stream.state)


def launch(
    ctx: Any, kernel: Any, grid: Any, args: Any, ctas_per_sm: int, role: str, enqueued: int
) -> OnStream:
    """Start a grid after the launch latency, most of which hides behind earlier work."""

    def steps(stream: Stream) -> Steps:
        begin = ctx.env.now
        host = ctx.world.machine.host
        yield ctx.env.timeout(
            max(host.kernel_gap_ps, host.launch_latency_ps - (begin - enqueued))
        )
        _note(ctx, stream, "launch", begin, kernel.name)
        started = Launch(ctx.world, ctx.rank, kernel, grid, args, ctas_per_sm, role, stream)
        stream.leave_queue()
        yield started.done
        stream.state = started.last

    return steps


def copy(ctx: Any, dst: Any, src: Any) -> OnStream:
    """A copy-engine copy; complete when the data are visible."""

    def steps(stream: Stream) -> Steps:
        world, gpu = ctx.world, ctx.world.machine.gpu
        begin = ctx.env.now
        if world.order is not None:
            world.order.access(stream, "read", src)
            world.order.access(stream, "write", dst)
        engines = world.gpus[ctx.rank].copy_engines
        engine = yield from engines.acquire()
        stream.leave_queue()
        yield ctx.env.timeout(world.machine.host.copy_issue_ps)
        cap = gpu.local_copy if dst.pe == src.pe else gpu.copy_engine
        sent = world.transfer(src.nbytes, src.pe, dst.pe, cap.bytes_per_s, engine=True)
        if sent.callbacks is not None:
            yield sent
        engines.release(engine)
        yield ctx.env.timeout(world.machine.route(src.pe, dst.pe).latency_ps)
        if dst.data is not None:
            dst.data[...] = src.data
        world.copy_busy[ctx.rank] += ctx.env.now - begin
        _note(ctx, stream, "copy", begin, f"PE {src.pe} to PE {dst.pe}, {src.nbytes} bytes")

    return steps


def signal(ctx: Any, sig: Any, i: int, value: int, op: str, pe: int) -> OnStream:
    """Write a signal word once everything before it on the stream is visible."""

    def steps(stream: Stream) -> Steps:
        world = ctx.world
        begin, host = ctx.env.now, world.machine.host
        yield ctx.env.timeout(host.stream_add_ps if op == "add" else host.stream_op_ps)
        _note(ctx, stream, "signal", begin, f"{sig.name}[{i}] on PE {pe}")
        cause, name = stream.state, f"PE {ctx.rank} stream {stream.name}"
        word = sig.word_of(ctx.rank, value) if op == "set" else value
        route, order = world.machine.route(ctx.rank, pe), world.order
        released = order and order.release(stream, pe)

        def land(_: Any) -> None:
            world.signalled(cause, ctx.rank, f"stream {stream.name}", pe, sig, i)
            sig.update(pe, i, word, op, name, cause)
            if order:
                order.landed(released, sig, pe, i, op)
            landed.succeed()

        landed = simpy.Event(ctx.env)
        gates = world.under_way(ctx.rank, non_blocking=False)
        delay = route.latency_ps + world.jitter(route.ordered)
        about = Sent(name, ctx.rank, pe, word=(sig, i, op))
        world.deliver(None, delay, gates, land, about)
        if pe == ctx.rank and world.functional:
            yield landed  # what follows on the stream must see its own PE's word

    return steps


def wait_until(ctx: Any, sig: Any, i: int, cmp: str, value: int) -> OnStream:
    """Hold the stream until the signal compares true."""

    def steps(stream: Stream) -> Steps:
        begin = ctx.env.now
        word = sig.word_of(ctx.rank, value)
        cause = sig.causes.get((ctx.rank, i))
        if not sig.holds(ctx.rank, i, cmp, word):
            key = (ctx.rank, stream.name)
            name = f"PE {ctx.rank} stream {stream.name}"
            ctx.world.stream_waits[key] = Waiter(name, ctx.rank, sig, i, cmp, value, None)
            cause = yield sig.wait(ctx.env, ctx.rank, i, cmp, word)
            del ctx.world.stream_waits[key]
        if ctx.world.order is not None:
            ctx.world.order.acquire(stream, sig, ctx.rank, i, cmp, word)
        yield ctx.env.timeout(ctx.world.machine.host.stream_wait_ps)
        _note(ctx, stream, "wait", begin, f"{sig.name}[{i}]", cause)

    return steps


def record(ctx: Any, stream: Stream, event: simpy.Event) -> OnStream:
    """Let *event* happen with the stream's timeline as its value."""

    def steps(_: Stream) -> Steps:
        if ctx.world.order is not None:
            ctx.world.order.record(event, stream)
        event.succeed(stream.state)
        return
        yield  # makes this a generator, as every operation is

    return steps


def wait_event(ctx: Any, stream: Stream, event: simpy.Event) -> OnStream:
    """Hold *stream* until *event*, whose value is the timeline it waited for."""

    def steps(_: Stream) -> Steps:
        other = event.value if event.callbacks is None else (yield event)
        if other is not None and (stream.state is None or stream.state.end < other.end):
            stream.state = other
        if ctx.world.order is not None:
            ctx.world.order.wait_event(event, stream)

    return steps


def barrier(ctx: Any, name: str = "stream") -> OnStream:
    """Complete this rank's puts, then wait for the streams of all ranks of barrier *name*."""

    def steps(stream: Stream) -> Steps:
        begin = ctx.env.now
        for arrival in ctx.world.under_way(ctx.rank, non_blocking=True):
            if arrival.callbacks is not None:
                yield arrival
        order = ctx.world.order
        arrived = order and order.arrive(name, stream, ctx.rank)
        cause = yield ctx.world.barriers[name].arrive(ctx.rank, stream.state)
        if order:
            order.leave(arrived, stream)
        _note(ctx, stream, "barrier", begin, "barrier_all")
        if cause is not None:
            stream.state = cause

    return steps


def call_end(ctx: Any, finish: Callable[[], None]) -> OnStream:
    """The end of a call: the epochs of its signals advance on the device."""

    def steps(stream: Stream) -> Steps:
        begin = ctx.env.now
        if ctx.world.machine.host.call_end_ps:
            yield ctx.env.timeout(ctx.world.machine.host.call_end_ps)
            _note(ctx, stream, "launch", begin, "end of the call")
        for sig in ctx.world.signal_arrays:
            sig.epoch[ctx.rank] += 1
        finish()

    return steps
