"""A listener that keeps everything a trace or a picture needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tdsim.engine.timeline import Segment
from tdsim.sim.hooks import Listener

BUSY_KINDS = ("compute", "comm", "reduce", "copy", "link")


@dataclass(frozen=True, slots=True)
class SignalLanding:
    """A signal that arrived: from *rank*'s *lane* (since *sent*) at word *i* on *pe*."""

    sent: int
    landed: int
    rank: int
    lane: str
    pe: int
    name: str
    i: int


class Recorder(Listener):
    """Keeps segments in the order of their ends, signals and link rates."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.signals: list[SignalLanding] = []
        self.rates: list[tuple[Any, int, int]] = []

    def segment(self, segment: Segment) -> None:
        self.segments.append(segment)

    def signal(
        self, now: int, cause: Segment | None, rank: int, lane: str, pe: int, name: str, i: int
    ) -> None:
        sent = cause.end if cause is not None else now
        origin = cause.lane if cause is not None and cause.rank == rank else lane
        self.signals.append(SignalLanding(sent, now, rank, origin, pe, name, i))

    def rate(self, link: Any, now: int, rate: int) -> None:
        self.rates.append((link, now, rate))

    def busy(self) -> Counter[int]:
        """Picoseconds of SM work per rank: the sum of its CTAs' segments, waits left out."""
        total: Counter[int] = Counter()
        for s in self.segments:
            if s.lane.startswith("SM ") and s.kind not in ("wait", "barrier"):
                total[s.rank] += s.end - s.begin
        return total
