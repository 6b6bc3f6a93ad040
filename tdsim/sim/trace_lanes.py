"""Threads of a trace: one per lane of a rank, more where a lane does two things at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tdsim.engine.timeline import Segment

_GROUPS = ("host", "stream", "to", "SM")


@dataclass(slots=True)
class Threads:
    """Which thread number each segment goes to, and the name of each thread.

    Viewers nest spans that overlap on one thread, so overlapping segments of a lane (two CTAs
    on an SM, two puts to one PE) take threads of their own.
    """

    names: dict[tuple[int, int], str] = field(default_factory=dict)
    of: dict[int, int] = field(default_factory=dict)
    """Thread number by ``id`` of the segment."""


def assign(segments: Iterable[Segment]) -> Threads:
    """Give every segment a thread, numbered from 1 in each rank, in the order of display."""
    lanes: dict[tuple[int, str], list[Segment]] = {}
    for s in segments:
        lanes.setdefault((s.rank, s.lane), []).append(s)
    threads = Threads()
    last: dict[int, int] = {}
    for rank, lane in sorted(lanes, key=lambda key: (key[0], *_order(key[1]))):
        first = last.get(rank, 0) + 1
        ends: list[int] = []
        for s in sorted(lanes[rank, lane], key=lambda s: (s.begin, s.end)):
            row = next((r for r, end in enumerate(ends) if end <= s.begin), len(ends))
            if row == len(ends):
                ends.append(0)
                suffix = f" ({row + 1})" if row else ""
                threads.names[rank, first + row] = lane + suffix
            ends[row] = s.end
            threads.of[id(s)] = first + row
        last[rank] = first + len(ends) - 1
    return threads


def _order(lane: str) -> tuple[int, str, int, str]:
    """Host, streams, links by PE, SMs by role and number."""
    words = lane.split()
    group = _GROUPS.index(words[0]) if words[0] in _GROUPS else len(_GROUPS)
    role = words[2] if words[0] == "SM" else ""
    number = next((int(w) for w in words if w.isdigit()), 0)
    return group, role, number, lane
