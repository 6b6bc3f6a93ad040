"""Segments reduced to what a picture can show: shares per bin of time, merged stretches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tdsim.engine.timeline import Segment, critical_path
from tdsim.sim.recorder import on_sm
from tdsim.sim.simulate import Run

STACK = ("compute", "reduce", "comm", "wait")
"""What an SM slot is held for, from the bottom of a stacked area to its top."""
Stretch = tuple[int, int]


def shares(
    segments: Iterable[Segment], time_ps: int, num_sms: int, bins: int
) -> dict[str, list[float]]:
    """Share of *num_sms* SMs that each kind of ``STACK`` holds, in each of *bins* bins."""
    width = max(time_ps / bins, 1)
    held = {kind: [0.0] * bins for kind in STACK}
    for s in segments:
        if not on_sm(s):
            continue
        row = held[stacked(s.kind)]
        first, last = min(int(s.begin / width), bins - 1), min(int(s.end / width), bins - 1)
        if first == last:
            row[first] += s.end - s.begin
            continue
        row[first] += (first + 1) * width - s.begin
        for b in range(first + 1, last):
            row[b] += width
        row[last] += s.end - last * width
    whole = width * num_sms
    return {kind: [value / whole for value in row] for kind, row in held.items()}


def stacked(kind: str) -> str:
    """The kind of ``STACK`` that work of *kind* on an SM is drawn as."""
    if kind == "barrier":
        return "wait"
    return kind if kind in STACK else "comm"


def stretches(segments: Iterable[Segment], gap_ps: int, limit: int) -> list[Stretch]:
    """When a lane is busy; if more than *limit*, those closer than *gap_ps* are joined."""
    spans = sorted((s.begin, s.end) for s in segments)
    merged = _merged(spans, 0)
    return merged if len(merged) <= limit else _merged(spans, gap_ps)


def _merged(spans: Sequence[Stretch], gap_ps: int) -> list[Stretch]:
    """Stretches joined if they overlap or are closer than *gap_ps*; touching ones stay."""
    result: list[Stretch] = []
    for begin, end in spans:
        if result and begin < result[-1][1] + gap_ps:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def path_pieces(run: Run) -> list[tuple[str, int, int, int]]:
    """The critical path as (kind, rank, begin, end): neighbours joined, gaps as latency."""
    pieces: list[tuple[str, int, int, int]] = []
    clock = 0
    for s in critical_path(run.last, 0):
        if s.begin > clock:
            pieces.append(("latency", s.rank, clock, s.begin))
        if pieces and pieces[-1][:2] == (s.kind, s.rank):
            pieces[-1] = (s.kind, s.rank, pieces[-1][2], s.end)
        else:
            pieces.append((s.kind, s.rank, s.begin, s.end))
        clock = s.end
    return pieces
