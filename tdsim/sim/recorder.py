"""A listener that keeps everything a trace or a picture needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tdsim.engine.timeline import Segment
from tdsim.sim.hooks import Listener


@dataclass(frozen=True, slots=True)
class SignalLanding:
    """Word *i* of *name* on *pe*, written at *landed* ps; *cause* is the sender's segment."""

    cause: Segment | None
    landed: int
    pe: int
    name: str
    i: int


class Recorder(Listener):
    """Keeps segments, signals and link rates as they come.

    CTAs run ahead of the event queue, so segments are not in time order.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.signals: list[SignalLanding] = []
        self.rates: list[tuple[Any, int, int]] = []

    def segment(self, segment: Segment) -> None:
        self.segments.append(segment)

    def signal(
        self, now: int, cause: Segment | None, rank: int, lane: str, pe: int, name: str, i: int
    ) -> None:
        self.signals.append(SignalLanding(cause, now, pe, name, i))

    def rate(self, link: Any, now: int, rate: int) -> None:
        self.rates.append((link, now, rate))

    def busy(self) -> Counter[int]:
        """Picoseconds of SM work per rank: the sum of its CTAs' segments, waits left out."""
        total: Counter[int] = Counter()
        for s in self.segments:
            if is_busy(s):
                total[s.rank] += s.end - s.begin
        return total


def on_sm(segment: Segment) -> bool:
    """Whether *segment* is a CTA's."""
    return segment.lane.startswith("SM ")


def is_busy(segment: Segment) -> bool:
    """Whether *segment* is a CTA's work, not its wait."""
    return on_sm(segment) and segment.kind not in ("wait", "barrier")
