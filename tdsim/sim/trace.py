"""Chrome trace JSON of a run, for Perfetto: a process per rank, a thread per SM and stream.

Times are simulated, from 0, in microseconds; every span also carries its length in whole
picoseconds. The same run gives the same bytes: no wall clock, no hash order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tdsim.engine.timeline import Segment, critical_path
from tdsim.files import write_whole
from tdsim.sim.recorder import Recorder
from tdsim.sim.simulate import Run
from tdsim.sim.trace_lanes import Threads, assign

MAX_SPANS = 400_000
"""Perfetto stays quick below about this many; whole ranks are left out above it."""
GZIP_ABOVE = 16 * 2**20
"""Traces longer than this many bytes are compressed; Perfetto opens them as they are."""
PATH_PROCESS, LINK_PROCESS = 1_000_000, 1_000_001
COLOURS = {
    "compute": "good", "comm": "yellow", "reduce": "olive", "copy": "yellow", "link": "yellow",
    "wait": "bad", "barrier": "terrible", "launch": "grey", "host": "grey", "signal": "black",
}  # fmt: skip
"""Reserved colour names of the Chrome trace format, by kind of segment."""
_NS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """What was written: the file, how many spans and arrows, and the ranks left out."""

    path: str
    bytes: int
    gzipped: bool
    spans: int
    arrows: int
    left_out: tuple[int, ...]

    def text(self) -> str:
        """One line for people."""
        size = f"{self.bytes:,} bytes{', gzipped' if self.gzipped else ''}"
        line = f"{self.path}: {self.spans:,} spans, {self.arrows:,} arrows, {size}"
        return f"{line}; left out: {_said(self.left_out)}" if self.left_out else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Events of one timeline, ready to be written, and the number of its spans and arrows."""

    lines: Sequence[str]
    spans: int
    arrows: int = 0
    left_out: tuple[int, ...] = ()


def write_trace(path: str, run: Run, recorder: Recorder, title: str) -> TraceSummary:
    """Write the trace of *run*, whole or not at all; gzipped if large or named ``.gz``.

    Above ``MAX_SPANS`` the spans of the highest ranks are left out; the file and the summary
    say which. The critical path, the links and all counters stay.
    """
    return write_parts(path, (part_of(run, recorder, MAX_SPANS),), title)


def part_of(run: Run, recorder: Recorder, most: int, label: str = "") -> Part:
    """The events of *run*, at most about *most* spans; *label* begins each process's name."""
    kept, left_out = fit(recorder.segments, run.world.n_pes, most)
    threads = assign(kept)
    arrows = list(_arrows(run, recorder, kept, threads))
    lines = [
        *_names(run, threads, left_out, label),
        *spans(kept, threads, critical_path(run.last, 0)),
        *_path_spans(run),
        *arrows,
        *_counters(recorder),
    ]
    return Part(lines=lines, spans=len(kept), arrows=len(arrows) // 2, left_out=left_out)


def write_parts(
    path: str, parts: Sequence[Part], title: str, facts: Mapping[str, Any] | None = None
) -> TraceSummary:
    """Write *parts* as one trace as :func:`write_trace` does, with more *facts* in its head."""
    left_out = tuple(sorted({rank for part in parts for rank in part.left_out}))
    head = {
        "baseTimeNanoseconds": 0,
        "displayTimeUnit": "ns",
        "otherData": {"title": title, "left out": _said(left_out), **(facts or {})},
    }
    lines = [line for part in parts for line in part.lines]
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
    data = text.encode()
    gzipped = path.endswith(".gz") or len(data) > GZIP_ABOVE
    if gzipped:
        data = gzip.compress(data, 6, mtime=0)
    write_whole(path, data)
    return TraceSummary(
        path=path,
        bytes=len(data),
        gzipped=gzipped,
        spans=sum(part.spans for part in parts),
        arrows=sum(part.arrows for part in parts),
        left_out=left_out,
    )


def fit(
    segments: Sequence[Segment], n_pes: int, most: int
) -> tuple[list[Segment], tuple[int, ...]]:
    """The segments of as many ranks as fit, in a fixed order, and the ranks that do not."""
    counts = [0] * n_pes
    for s in segments:
        counts[s.rank] += 1
    keep, total = 1, counts[0]
    while keep < n_pes and total + counts[keep] <= most:
        total += counts[keep]
        keep += 1
    kept = [s for s in segments if s.rank < keep]
    kept.sort(key=lambda s: (s.rank, s.lane, s.begin, s.end))
    return kept, tuple(range(keep, n_pes))


def _said(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return "nothing"
    several = f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
    return f"spans of {several}"


def _event(
    phase: str, pid: int, ts: int | None = None, dur: int | None = None, **rest: Any
) -> str:
    """One event as JSON; *ts* and *dur* are picoseconds and become exact microseconds."""
    times = "" if ts is None else f'"ts":{_us(ts)},'
    times += "" if dur is None else f'"dur":{_us(dur)},'
    body = json.dumps({"pid": pid, **rest}, separators=(",", ":"))
    return f'{{"ph":"{phase}",{times}{body[1:]}'


def _us(ps: int) -> str:
    return f"{ps // 10**6}.{ps % 10**6:06d}"


def _names(run: Run, threads: Threads, left_out: tuple[int, ...], label: str) -> Iterator[str]:
    yield from process(PATH_PROCESS, f"{label}critical path", 0)
    for rank in range(run.world.n_pes - len(left_out)):
        node = run.world.machine.node_of(rank)
        yield from process(rank, f"{label}rank {rank} (node {node})", 2 * rank + 1)
    yield from process(LINK_PROCESS, f"{label}links", 2 * run.world.n_pes + 1)
    yield from thread_names(threads)


def process(pid: int, name: str, order: int) -> Iterator[str]:
    """The name of a process and its place on the screen."""
    yield _event("M", pid, name="process_name", args={"name": name})
    yield _event("M", pid, name="process_sort_index", args={"sort_index": order})


def thread_names(threads: Threads, first: int = 0) -> Iterator[str]:
    """The names of all threads; the process of a rank is its number plus *first*."""
    for (rank, tid), name in threads.names.items():
        pid = first + rank
        yield _event("M", pid, tid=tid, name="thread_name", args={"name": name})
        yield _event("M", pid, tid=tid, name="thread_sort_index", args={"sort_index": tid})


def spans(
    kept: Iterable[Segment], threads: Threads, path: Sequence[Segment] = (), first: int = 0
) -> Iterator[str]:
    """One span per segment; those on the critical *path* are marked."""
    critical = {(s.rank, s.lane, s.begin, s.kind) for s in path}
    for s in kept:
        marked = (s.rank, s.lane, s.begin, s.kind) in critical
        args: dict[str, Any] = {"ps": s.end - s.begin}
        if s.detail:
            args["detail"] = s.detail
        if marked:
            args["critical"] = True
        yield _event(
            "X",
            first + s.rank,
            s.begin,
            s.end - s.begin,
            tid=threads.of[id(s)],
            name=f"{s.kind} (critical)" if marked else s.kind,
            cat=s.kind,
            cname=COLOURS.get(s.kind, "grey"),
            args=args,
        )


def _path_spans(run: Run) -> Iterator[str]:
    """The path on one thread, without gaps: what no segment accounts for is latency."""
    yield _event("M", PATH_PROCESS, tid=1, name="thread_name", args={"name": "all ranks"})
    clock = 0
    for s in critical_path(run.last, 0):
        if s.begin > clock:
            yield _path_span("signal and latency", s.rank, clock, s.begin, {})
        args = {"lane": s.lane, "detail": s.detail} if s.detail else {"lane": s.lane}
        yield _path_span(s.kind, s.rank, s.begin, s.end, args)
        clock = s.end


def _path_span(kind: str, rank: int, begin: int, end: int, args: dict[str, Any]) -> str:
    return _event(
        "X",
        PATH_PROCESS,
        begin,
        end - begin,
        tid=1,
        name=f"{kind}, rank {rank}",
        cat="critical path",
        args={"ps": end - begin, "rank": rank, **args},
    )


def _arrows(
    run: Run, recorder: Recorder, kept: list[Segment], threads: Threads
) -> Iterator[str]:
    """Two events for each wait that a signal ended: an arrow from the sender's span to it."""
    landings = {(x.pe, f"{x.name}[{x.i}]", x.landed): x.cause for x in recorder.signals}
    number = 0
    for s in kept:
        if s.kind != "wait":
            continue
        landed = s.end - (run.world.machine.host.stream_wait_ps if _on_stream(s) else 0)
        cause = landings.get((s.rank, s.detail, landed)) if landed > s.begin else None
        if cause is None or id(cause) not in threads.of:
            continue
        number += 1
        for phase, end in (("s", cause), ("f", s)):
            yield _event(
                phase,
                end.rank,
                max(end.begin, end.end - 2 * _NS),  # inside the span, also in whole ns
                tid=threads.of[id(end)],
                cat="signal",
                name=s.detail,
                id=number,
                bp="e",
            )


def _on_stream(segment: Segment) -> bool:
    return segment.lane.startswith("stream ")


def _counters(recorder: Recorder) -> Iterator[str]:
    """GB/s on each link, at every change."""
    for link, now, rate in recorder.rates:
        name = f"{link[0]} to {link[1]} (GB/s)"
        yield _event("C", LINK_PROCESS, now, name=name, args={"GB/s": rate / 10**9})
