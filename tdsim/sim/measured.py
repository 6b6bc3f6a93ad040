"""A measured timeline as a trace, alone or beside the predicted one of the same call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tdsim.engine.timeline import Segment
from tdsim.records import Timeline
from tdsim.sim import trace
from tdsim.sim.recorder import Recorder, is_busy, on_sm
from tdsim.sim.simulate import Run
from tdsim.sim.trace_lanes import assign
from tdsim.units import ns

FIRST_PROCESS = 2_000_000
"""Process of the measured rank 0; the others follow."""
KINDS = ("tiles", "waits of CTAs", "waits of streams", "copies", "barriers")
"""What :func:`totals` tells apart."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A simulated run and what was recorded of it."""

    run: Run
    recorder: Recorder


def segments_of(timeline: Timeline) -> list[Segment]:
    """The measured spans as the simulator's segments, in picoseconds."""
    return [
        Segment(s.kind, s.rank, s.lane, ns(s.begin), ns(s.end), None, s.detail)
        for s in timeline.spans
    ]


def write_measured(
    path: str, timeline: Timeline, title: str, predicted: Predicted | None = None
) -> trace.TraceSummary:
    """Write *timeline* in the format of ``tdsim trace``, beside *predicted* if given.

    Both begin at 0 and each has a group of processes of its own. Written whole or not at all.
    """
    most = trace.MAX_SPANS // (1 if predicted is None else 2)
    parts = [_part(timeline, most)]
    if predicted is not None:
        run, recorder = predicted.run, predicted.recorder
        parts.insert(0, trace.part_of(run, recorder, most, "predicted "))
    return trace.write_parts(path, parts, title, _facts(timeline))


def _part(timeline: Timeline, most: int) -> trace.Part:
    n_pes = len(timeline.offsets_ns)
    kept, left_out = trace.fit(segments_of(timeline), n_pes, most)
    threads = assign(kept)
    lines = [
        line
        for rank in range(n_pes - len(left_out))
        for line in trace.process(FIRST_PROCESS + rank, f"measured rank {rank}", 2 * rank + 2)
    ]
    lines += trace.thread_names(threads, FIRST_PROCESS)
    lines += trace.spans(kept, threads, first=FIRST_PROCESS)
    return trace.Part(lines=lines, spans=len(kept), left_out=left_out)


def _facts(timeline: Timeline) -> dict[str, Any]:
    """What a reader of the measured times must know."""
    return {
        "timer step (ns)": timeline.step_ns,
        "timers taken back to rank 0's by (ns)": list(timeline.offsets_ns),
        "uncertainty between ranks (ns)": timeline.uncertainty_ns,
        "uncertainty of streams (ns)": timeline.stream_uncertainty_ns,
        "events without room": timeline.dropped,
        "events without their other end": timeline.unpaired,
    }


def totals(segments: Iterable[Segment]) -> dict[str, int]:
    """Picoseconds by what the time went to, summed over all lanes of all ranks."""
    total = dict.fromkeys(KINDS, 0)
    for s in segments:
        kind = _kind(s)
        if kind:
            total[kind] += s.end - s.begin
    return total


def _kind(s: Segment) -> str:
    """The one of ``KINDS`` that a segment belongs to; empty for none."""
    if s.kind == "barrier":
        return "barriers"
    if s.kind == "wait":
        return "waits of CTAs" if on_sm(s) else "waits of streams"
    if is_busy(s):
        return "tiles"
    return "copies" if s.kind == "copy" else ""
