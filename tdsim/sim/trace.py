"""Chrome trace JSON of a run, for Perfetto: a process per rank, a thread per SM and stream."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tdsim.engine.timeline import Segment, critical_path
from tdsim.sim.recorder import Recorder
from tdsim.sim.simulate import Run

MAX_SPANS = 400_000
"""Perfetto stays quick below about this many; whole ranks are left out above it."""
GZIP_ABOVE = 4 * 2**20
"""Traces longer than this many bytes are compressed; Perfetto opens them as they are."""
PATH_PROCESS, LINK_PROCESS = 1_000_000, 1_000_001
COLOURS = {
    "compute": "good", "comm": "yellow", "reduce": "olive", "copy": "yellow", "link": "yellow",
    "wait": "bad", "barrier": "terrible", "launch": "grey", "host": "grey", "signal": "black",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What was written: the file, how many spans, and the ranks that were left out."""

    path: str
    spans: int
    bytes: int
    left_out: tuple[int, ...]


def encode(run: Run, recorder: Recorder, title: str, name: str) -> tuple[bytes, TraceSummary]:
    """The bytes of a trace file called *name*; gzipped if large or if the name ends in .gz.

    No wall clock and a fixed order: the same run gives the same bytes.
    """
    segments = sorted(recorder.segments, key=lambda s: (s.rank, s.lane, s.begin, s.end))
    kept, left_out = _fit(segments, run.world.n_pes)
    path = critical_path(run.last, 0)
    on_path = {(s.rank, s.lane, s.begin) for s in path}
    threads = _threads(kept)
    events = [
        *_names(run, threads),
        *(_span(s, threads, (s.rank, s.lane, s.begin) in on_path) for s in kept),
        *_path_spans(path),
        *_arrows(recorder, kept, threads),
        *_counters(recorder),
    ]
    document = {
        "baseTimeNanoseconds": 0,
        "displayTimeUnit": "ns",
        "otherData": {"title": title, "left out": _say_left_out(left_out)},
        "traceEvents": events,
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    if name.endswith(".gz") or len(data) > GZIP_ABOVE:
        data = gzip.compress(data, 6, mtime=0)
    return data, TraceSummary(name, len(kept), len(data), left_out)


def _fit(segments: list[Segment], n_pes: int) -> tuple[list[Segment], tuple[int, ...]]:
    """All segments, or those of the first ranks that fit."""
    if len(segments) <= MAX_SPANS:
        return segments, ()
    counts = [0] * n_pes
    for s in segments:
        counts[s.rank] += 1
    total = keep = 0
    while keep < n_pes and (keep == 0 or total + counts[keep] <= MAX_SPANS):
        total += counts[keep]
        keep += 1
    return [s for s in segments if s.rank < keep], tuple(range(keep, n_pes))


def _say_left_out(ranks: tuple[int, ...]) -> str:
    return f"spans of ranks {ranks[0]} to {ranks[-1]}" if ranks else "nothing"


def _threads(segments: list[Segment]) -> dict[tuple[int, str], int]:
    """A thread number for each lane of each rank: host, streams, links, then SMs by role."""
    order = {"host": 0, "stream": 1, "to": 2, "SM": 3}
    lanes = sorted(
        {(s.rank, s.lane) for s in segments},
        key=lambda x: (x[0], order.get(x[1].split()[0], 4), _role(x[1]), x[1]),
    )
    numbers: dict[tuple[int, str], int] = {}
    count: dict[int, int] = {}
    for rank, lane in lanes:
        count[rank] = count.get(rank, 0) + 1
        numbers[rank, lane] = count[rank]
    return numbers


def _role(lane: str) -> str:
    parts = lane.split()
    return parts[2] if parts[0] == "SM" else ""


def _names(run: Run, threads: dict[tuple[int, str], int]) -> Iterator[dict[str, Any]]:
    for rank in range(run.world.n_pes):
        node = run.world.machine.node_of(rank)
        yield from _process(rank, f"rank {rank} (node {node})", rank + 2)
    yield from _process(PATH_PROCESS, "critical path", 0)
    yield from _process(LINK_PROCESS, "links", 1)
    for (rank, lane), number in threads.items():
        yield _meta("thread_name", rank, number, {"name": lane})
        yield _meta("thread_sort_index", rank, number, {"sort_index": number})


def _process(pid: int, name: str, order: int) -> Iterator[dict[str, Any]]:
    yield _meta("process_name", pid, 0, {"name": name})
    yield _meta("process_sort_index", pid, 0, {"sort_index": order})


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _us(ps: int) -> float:
    """Microseconds; whole picoseconds survive in a double for runs of up to hours."""
    return ps / 1_000_000


def _span(s: Segment, threads: dict[tuple[int, str], int], critical: bool) -> dict[str, Any]:
    args = {"detail": s.detail, "ps": s.end - s.begin}
    if critical:
        args["critical path"] = "yes"
    return {
        "ph": "X",
        "name": s.kind if not critical else f"{s.kind} (critical)",
        "cat": s.kind,
        "cname": COLOURS.get(s.kind, "grey"),
        "pid": s.rank,
        "tid": threads[s.rank, s.lane],
        "ts": _us(s.begin),
        "dur": _us(s.end - s.begin),
        "args": args,
    }


def _path_spans(path: list[Segment]) -> Iterator[dict[str, Any]]:
    for s in path:
        yield {
            "ph": "X",
            "name": f"{s.kind}, rank {s.rank}",
            "cat": "critical path",
            "pid": PATH_PROCESS,
            "tid": 1,
            "ts": _us(s.begin),
            "dur": _us(s.end - s.begin),
            "args": {"lane": s.lane, "detail": s.detail},
        }


def _arrows(
    recorder: Recorder, kept: list[Segment], threads: dict[tuple[int, str], int]
) -> Iterator[dict[str, Any]]:
    """A flow arrow from each signal to each wait that it ended."""
    waits: dict[tuple[int, str, int], list[Segment]] = {}
    for s in kept:
        if s.kind == "wait":
            waits.setdefault((s.rank, s.detail, s.end), []).append(s)
    number = 0
    for landing in recorder.signals:
        ended = waits.get((landing.pe, f"{landing.name}[{landing.i}]", landing.landed), ())
        source = threads.get((landing.rank, landing.lane))
        for s in ended if source is not None else ():
            number += 1
            common = {"cat": "signal", "name": s.detail, "id": number}
            yield {
                **common, "ph": "s", "pid": landing.rank, "tid": source,
                "ts": _us(max(landing.sent - 1, 0)),
            }  # fmt: skip
            yield {
                **common, "ph": "f", "bp": "e", "pid": s.rank, "tid": threads[s.rank, s.lane],
                "ts": _us(s.end - 1),
            }  # fmt: skip


def _counters(recorder: Recorder) -> Iterator[dict[str, Any]]:
    for link, now, rate in recorder.rates:
        yield {
            "ph": "C",
            "name": f"{link[0]} to {link[1]} (GB/s)",
            "pid": LINK_PROCESS,
            "ts": _us(now),
            "args": {"GB/s": rate / 1e9},
        }
