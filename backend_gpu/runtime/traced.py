"""A context whose calls leave behind when everything happened, and the one call that is kept.

Kernels stamp their operations themselves. Operations of streams stand between two events: an
event needs no SM, where a kernel that stamps the time would wait for a persistent kernel to end
that may wait for the operation behind it. Events have a clock of their own, so readings of the
timer between events tie the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from tdsim.lang import Kernel
from tdsim.records import Case, Timeline

from ..lowering.words import Trace, Word
from . import driver
from .clock import Clock, meet_at, stamp_at, step_at
from .context import HOUSEKEEPING, Context
from .gate import Gate
from .measure import Runner
from .memory import Signals, View
from .spans import (
    Bound,
    Launched,
    Mark,
    Part,
    event_clock,
    of_events,
    of_marks,
    shared_out,
    timeline,
)

MAX_EVENTS = 1 << 20
"""Events that one PE keeps: 32 MiB of them."""
_ROUNDS = 16
"""Readings of the timer between events, before the traced call and again after it."""
_BARRIERS = 32
"""Barriers whose ends tell the offsets between several GPUs' timers."""
_LEFT, _STEP, _ANCHORS = 0, 1, 2
_MEETINGS = _ANCHORS + 2 * _ROUNDS
_WORDS = _MEETINGS + _BARRIERS
"""Words of the clock: the aligning barrier's end, the timer's step, readings between events,
ends of barriers."""
_UNSEEN = (*HOUSEKEEPING, stamp_at, meet_at, step_at)
"""Kernels that are no part of the program: their operations are shown on their stream."""


class _Stretch(NamedTuple):
    """An operation of a stream, between two events."""

    kind: str
    stream: str
    detail: str
    launches: str
    begin: torch.cuda.Event
    end: torch.cuda.Event


class TracedContext(Context):
    """A :class:`Context` of traced kernels that also marks what its streams do."""

    traced = True

    def __init__(self, *args: Any) -> None:
        self._roles: dict[Kernel, str] = {}
        self._stretches: list[_Stretch] = []
        self._buffers: list[tuple[Kernel, torch.Tensor]] = []
        super().__init__(*args)

    def launch(
        self,
        kernel: Kernel,
        grid: int | tuple[int, ...],
        args: Sequence[Any],
        stream: torch.cuda.Stream | None = None,
        num_warps: int = 8,
        num_stages: int = 3,
        ctas_per_sm: int = 1,
        role: str = "compute",
        cluster: int = 1,
    ) -> None:
        seen = kernel not in _UNSEEN
        self._roles.setdefault(kernel, role)
        with (
            self._marked("launch", kernel.name, stream, kernel.name) if seen else nullcontext()
        ):
            super().launch(
                kernel, grid, args, stream, num_warps, num_stages, ctas_per_sm, role, cluster
            )

    def copy(self, dst: View, src: View, stream: torch.cuda.Stream | None = None) -> None:
        with self._marked("copy", f"{src.nbytes} bytes", stream):
            super().copy(dst, src, stream)

    def signal_op(
        self, sig: Signals, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        with self._marked("signal", f"signal {i} on PE {pe}", stream):
            super().signal_op(sig, i, value, op, pe, stream)

    def signal_wait_until(
        self, sig: Signals, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        with self._marked("wait", f"signal {i}", stream):
            super().signal_wait_until(sig, i, cmp, value, stream)

    def barrier_all(self, stream: torch.cuda.Stream | None = None) -> None:
        with self._marked("barrier", "barrier_all", stream):
            super().barrier_all(stream)

    def end_call(self) -> None:
        with self._marked("launch", "end of the call", None):
            super().end_call()

    @contextmanager
    def _marked(
        self, kind: str, detail: str, stream: torch.cuda.Stream | None, launches: str = ""
    ) -> Iterator[None]:
        """Put the operations inside between two events of *stream*."""
        if self.preparing:
            yield
            return
        on = stream or self.main
        name = next(name for name, known in self._streams.items() if known is on)
        begin, end = _event(), _event()
        begin.record(on)
        yield
        end.record(on)
        self._stretches.append(_Stretch(kind, name, detail, launches, begin, end))

    def keep(self, room: Sequence[int]) -> None:
        """From now on let each kernel of the program keep that many events (0: count them).

        No kernel may run. *room* is in the order of :meth:`offered`, empty for 0 everywhere.
        """
        self._stretches, self._buffers = [], []
        seen = [(key[0], x) for key, x in self.kernels.items() if key[0] not in _UNSEEN]
        for (kernel, loaded), events in zip(seen, room or [0] * len(seen), strict=True):
            size = Trace.EVENTS + events * Trace.EVENT_WORDS
            buffer = torch.zeros(size, dtype=torch.int64, device="cuda")
            self._buffers.append((kernel, buffer))
            place = {Word.TRACE: buffer.data_ptr(), Word.TRACE_CAPACITY: events}
            driver.tell(loaded, {**self._words, **place})
        torch.cuda.synchronize()

    def offered(self) -> list[int]:
        """How many events each kernel of the program has offered since :meth:`keep`."""
        return [int(buffer[Trace.COUNT]) for _, buffer in self._buffers]

    def events(self) -> list[Launched]:
        """The events of the program's kernels since :meth:`keep`."""
        return [Launched(b.tolist(), k.name, self._roles[k]) for k, b in self._buffers]

    def marks(self, origin: torch.cuda.Event, clock: Bound) -> list[Mark]:
        """What the streams did since :meth:`keep`; *clock* is for times from *origin* on."""

        def at(event: torch.cuda.Event) -> int:
            return clock.value + round(_after(origin, event))

        return [
            Mark(x.kind, f"stream {x.stream}", x.detail, at(x.begin), at(x.end), x.launches)
            for x in self._stretches
        ]


class Tracer:
    """Traces one call of *case* with *ctx*. Collective."""

    def __init__(self, ctx: TracedContext, case: Case) -> None:
        self._ctx = ctx
        self._runner = Runner(ctx, replace(case, runs=0, repeats=0))
        self._warmup = max(case.warmup, 1)
        self._clock = Clock(ctx, _WORDS)

    def prepare(self) -> None:
        """Allocate and compile everything."""
        for launch in (self._clock.stamp, self._clock.meet, self._clock.step):
            launch(0)
        self._runner.prepare()
        self._gate = Gate(self._ctx.main)

    def run(self) -> Timeline:
        """A few calls that count their events, then the one that keeps them."""
        ctx, clock = self._ctx, self._clock
        ctx.keep(())
        for _ in range(self._warmup):
            self._call()
        ctx.keep(shared_out([-(-n // self._warmup) for n in ctx.offered()], MAX_EVENTS))
        origin = _event()
        origin.record(ctx.main)
        between = self._anchors(_ANCHORS)
        self._call()
        between += self._anchors(_ANCHORS + _ROUNDS)
        for number in range(_BARRIERS):
            clock.meet(_MEETINGS + number)
        clock.step(_STEP)
        times = clock.read()
        rounds = [
            (_after(origin, before), time, _after(origin, after))
            for (before, after), time in zip(between, times[_ANCHORS:_MEETINGS], strict=True)
        ]
        return self._together(times, origin, event_clock(rounds, times[_STEP]))

    def _call(self) -> None:
        """One call as the timed ones: queued whole before any PE begins."""
        dist.barrier()
        self._gate.close()
        self._clock.meet(_LEFT)
        self._runner.call(self._runner.sets[0])
        dist.barrier()
        self._gate.open()
        self._ctx.synchronize()

    def _anchors(self, first: int) -> list[tuple[torch.cuda.Event, torch.cuda.Event]]:
        """Read the timer into words from *first* on, each reading between two events."""
        between = []
        for number in range(_ROUNDS):
            before, after = _event(), _event()
            before.record(self._ctx.main)
            self._clock.stamp(first + number)
            after.record(self._ctx.main)
            self._ctx.synchronize()  # nothing delays the reading
            between.append((before, after))
        return between

    def _together(self, times: list[int], origin: torch.cuda.Event, clock: Bound) -> Timeline:
        """The timeline of all PEs, from what each has kept."""
        ctx = self._ctx
        found = of_events(ctx.my_pe, ctx.events())
        marks = ctx.marks(origin, clock)
        streams = of_marks(ctx.my_pe, marks, found.starts, clock.uncertainty)
        part = Part(
            spans=(*found.spans, *streams), left=times[_LEFT], step=times[_STEP],
            stream_uncertainty=clock.uncertainty, dropped=found.dropped,
            unpaired=found.unpaired, meetings=tuple(times[_MEETINGS:]),
        )  # fmt: skip
        parts: list[Any] = [None] * ctx.n_pes
        dist.all_gather_object(parts, part)
        return timeline(parts, ctx.shares_gpu)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _after(origin: torch.cuda.Event, event: torch.cuda.Event) -> float:
    """Nanoseconds from *origin* to *event*."""
    return float(origin.elapsed_time(event)) * 1e6
