"""What a traced call left behind, as spans: events of kernels paired, marks of streams placed.

All times here are nanoseconds. Nothing here needs a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tdsim.records import Span, Timeline

from ..lowering.words import END, SM, Event, EventKind, Trace
from .offsets import Offsets, offsets

_MOVED = {EventKind.PUT: "put to PE", EventKind.GET: "get from PE"}


def shared_out(wanted: Sequence[int], most: int) -> list[int]:
    """Room for events: what is wanted and a bit more, but *most* in all, in proportion."""
    room = [n + n // 8 + 16 for n in wanted]
    total = sum(room)
    return room if total <= most else [n * most // total for n in room]


class Launched(NamedTuple):
    """The events of one kernel: its trace buffer, the kernel's name and its launches' role."""

    words: Sequence[int]
    name: str
    role: str


class Mark(NamedTuple):
    """One operation of a stream between two events; *launches*: the kernel that it starts."""

    kind: str
    lane: str
    detail: str
    begin: int
    end: int
    launches: str = ""


@dataclass(slots=True)
class Found:
    """The spans of the events of one PE, and what could not be told."""

    spans: list[Span] = field(default_factory=list)
    starts: dict[str, list[int]] = field(default_factory=dict)
    """When program instances started, by kernel, in order."""
    dropped: int = 0
    unpaired: int = 0


def of_events(rank: int, launched: Iterable[Launched]) -> Found:
    """Pair the events of every program instance.

    The buffer mixes instances, but has the events of each in its own order. What lies between
    its operations is the work of its kernel's role, up to a store each: a tile.
    """
    found = Found()
    for kernel in launched:
        room = (len(kernel.words) - Trace.EVENTS) // Trace.EVENT_WORDS
        written = min(kernel.words[Trace.COUNT], room)
        found.dropped += kernel.words[Trace.COUNT] - written
        instances: dict[tuple[int, int], _Instance] = {}
        for number in range(written):
            first = Trace.EVENTS + number * Trace.EVENT_WORDS
            event = kernel.words[first : first + Trace.EVENT_WORDS]
            sm, what = divmod(event[Event.WHAT], SM)
            key = (sm, event[Event.PROGRAM])
            if key not in instances:
                instances[key] = _Instance(found, rank, kernel, sm)
            instances[key].take(what, event[Event.TIME], event[Event.PAYLOAD])
        found.unpaired += sum(instance.open is not None for instance in instances.values())
    for times in found.starts.values():
        times.sort()
    return found


class _Instance:
    """One program instance on its SM, while its events are read in their order."""

    def __init__(self, found: Found, rank: int, kernel: Launched, sm: int) -> None:
        self.found, self.rank, self.kernel = found, rank, kernel
        self.lane = f"SM {sm:03d} {kernel.role}"
        self.open: tuple[int, int] | None = None
        """Kind and begin of the operation that is under way."""
        self.since: int | None = None
        """Until when its time is accounted for; unknown before its first event."""

    def take(self, what: int, time: int, payload: int) -> None:
        """Read one event."""
        kind, ends = what % END, what >= END
        if kind == EventKind.START:
            self._close()
            self.found.starts.setdefault(self.kernel.name, []).append(time)
        elif kind == EventKind.STORE:
            self._close()
            self._work(time, "tile")
        elif not ends:
            self._close()
            self._work(time, "")
            self.open = (kind, time)
        elif self.open is not None and self.open[0] == kind:
            self._span(*self._said(kind, payload), self.open[1], time)
            self.open = None
        else:
            self.found.unpaired += 1
        self.since = time

    def _close(self) -> None:
        """Forget an operation whose end is missing."""
        self.found.unpaired += self.open is not None
        self.open = None

    def _work(self, until: int, detail: str) -> None:
        if self.since is not None:
            name = self.kernel.name
            self._span(
                self.kernel.role, f"{name}, {detail}" if detail else name, self.since, until
            )

    def _said(self, kind: int, payload: int) -> tuple[str, str]:
        """Kind and detail of an operation's span."""
        if kind in _MOVED:
            return "comm", f"{_MOVED[EventKind(kind)]} {payload}"
        if kind == EventKind.BARRIER_ALL:
            return "barrier", "barrier_all"
        if kind == EventKind.SIGNAL_OP:
            return "signal", f"signal {payload}"
        of = "grid barrier" if kind == EventKind.GRID_BARRIER else "signal"
        return "wait", f"{of} {payload}"

    def _span(self, kind: str, detail: str, begin: int, end: int) -> None:
        if end > begin:
            self.found.spans.append(Span(kind, self.rank, self.lane, begin, end, detail))


def of_marks(
    rank: int, marks: Iterable[Mark], starts: Mapping[str, Sequence[int]], slack: int
) -> Iterator[Span]:
    """The spans of a PE's streams; a launch lasts until its first program instance starts.

    The marks may be off by *slack* against the starts.
    """
    for mark in marks:
        end = mark.end
        if mark.launches:
            times = starts.get(mark.launches, ())
            end = next((t for t in times if mark.begin - slack <= t < mark.end), end)
        if end > mark.begin:
            yield Span(mark.kind, rank, mark.lane, mark.begin, end, mark.detail)


class Bound(NamedTuple):
    """The timer less the clock of events, in nanoseconds, and how wrong that may be."""

    value: int
    uncertainty: int


def event_clock(rounds: Sequence[tuple[float, int, float]], step: int) -> Bound:
    """What to add to times of events, from *rounds* of (event, reading of the timer, event).

    A reading lies between its events; with all rounds the bounds grow tight. It may have been
    taken up to one *step* of the timer later than it says.
    """
    # Whole numbers: a float of today's timer is off by up to 128 ns.
    low = max(time - round(after) for _, time, after in rounds)
    high = min(time + step - round(before) for before, time, _ in rounds)
    return Bound((low + high) // 2, -(-abs(high - low) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one PE knows of the traced call, in times of its own timer."""

    spans: Sequence[Span]
    left: int
    """When it left the aligning barrier."""
    step: int
    stream_uncertainty: int
    dropped: int
    unpaired: int
    meetings: Sequence[int]
    """When it left each of some later barriers."""


def timeline(parts: Sequence[Part], one_timer: bool) -> Timeline:
    """All PEs' parts on PE 0's timer, from the instant at which the first left the barrier."""
    same = Offsets((0,) * len(parts), 0)
    clocks = same if one_timer else offsets([part.meetings for part in parts])
    begin = min(part.left - of for part, of in zip(parts, clocks.of, strict=True))
    spans = [
        Span(s.kind, s.rank, s.lane, max(s.begin - of - begin, 0), s.end - of - begin, s.detail)
        for part, of in zip(parts, clocks.of, strict=True)
        for s in part.spans
        if s.end - of > begin
    ]
    return Timeline(
        spans=tuple(sorted(spans, key=lambda s: (s.rank, s.lane, s.begin, s.end))),
        step_ns=max(part.step for part in parts),
        offsets_ns=clocks.of,
        uncertainty_ns=clocks.uncertainty,
        stream_uncertainty_ns=max(part.stream_uncertainty for part in parts),
        dropped=sum(part.dropped for part in parts),
        unpaired=sum(part.unpaired for part in parts),
    )
