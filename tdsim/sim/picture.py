"""An SVG timeline of a run: what the SMs of each rank do, what moves, the critical path.

Self-contained and small: areas are binned, so its size does not grow with the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tdsim.engine.timeline import Segment
from tdsim.files import write_whole
from tdsim.sim.occupancy import STACK, path_pieces, shares, stacked, stretches
from tdsim.sim.recorder import Recorder, is_busy, on_sm
from tdsim.sim.simulate import Run

MAX_RANKS = 8
"""Rows that stay readable; the ranks on the critical path go first."""
BINS = 500
MAX_STRETCHES = 150
LEFT, WIDTH, RIGHT = 84, 1000, 104
STRIP, TOP = 98, 136
AREA, LANE, PATH, GAP = 40, 8, 7, 14
COLOURS = {
    "compute": "#3569b3",
    "reduce": "#7d59a8",
    "comm": "#e9a83f",
    "wait": "#d3dae3",
    "copy": "#cf7418",
    "link": "#1f9e8f",
    "host": "#8a97a6",
    "launch": "#8a97a6",
    "barrier": "#5c6773",
    "signal": "#b9889a",
    "latency": "#b9889a",
}
WORDS = {
    "compute": "SMs compute",
    "reduce": "SMs reduce",
    "comm": "SMs communicate",
    "wait": "SM slots held by waiting CTAs",
    "copy": "copy engines",
    "link": "puts on the network",
    "host": "host",
    "launch": "launch",
    "barrier": "barrier",
    "signal": "signal",
    "latency": "latency",
}
PATH_COLOUR, INK, FAINT, GRID, EMPTY = "#c8283c", "#1d2733", "#66727f", "#e3e8ed", "#f5f7f9"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MOVERS = (("copy", "stream "), ("link", "to "))
"""Lanes below the SMs: kind of segment, and how the names of its lanes begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSummary:
    """What was written, and the ranks that are in it."""

    path: str
    bytes: int
    shown: tuple[int, ...]
    world_size: int

    def text(self) -> str:
        """One line for people."""
        line = f"{self.path}: {self.bytes:,} bytes"
        if len(self.shown) < self.world_size:
            line += f"; shown: {len(self.shown)} of {self.world_size} ranks"
        return line


def write_picture(path: str, run: Run, recorder: Recorder, title: str) -> PictureSummary:
    """Draw *run* to *path*, whole or not at all; each line of *title* gets a line."""
    picture = _Picture(run, recorder)
    data = ("\n".join(picture.parts(title)) + "\n").encode()
    write_whole(path, data)
    return PictureSummary(
        path=path, bytes=len(data), shown=picture.ranks, world_size=run.world.n_pes
    )


class _Picture:
    """Where everything goes: rows of the shown ranks, one pixel scale for time."""

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self.run = run
        self.time = max(run.time_ps, 1)
        self.pieces = path_pieces(run)
        self.ranks = _chosen(run, self.pieces)
        self.segments: dict[int, list[Segment]] = {rank: [] for rank in self.ranks}
        for s in recorder.segments:
            if s.rank in self.segments:
                self.segments[s.rank].append(s)
        shown = [s for rank in self.ranks for s in self.segments[rank]]
        self.on_sms = {stacked(s.kind) for s in shown if on_sm(s)}
        self.movers = [m for m in MOVERS if any(_moves(s, *m) for s in shown)]
        self.row = AREA + LANE * len(self.movers) + PATH + GAP
        self.bottom = TOP + self.row * len(self.ranks)

    def x(self, ps: int) -> float:
        return round(LEFT + ps * WIDTH / self.time, 1)

    def parts(self, title: str) -> Iterator[str]:
        width, height = LEFT + WIDTH + RIGHT, self.bottom + 44
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" font-family="{FONT}" '
            f'font-size="12" fill="{INK}">'
        )
        yield f"<title>{escape(title)}</title>"
        yield '<rect width="100%" height="100%" fill="#fff"/>'
        yield from _heading(title)
        yield from self._legend()
        yield from self._axis()
        yield from self._strip()
        for number, rank in enumerate(self.ranks):
            yield from self._rank(rank, TOP + self.row * number)
        yield from self._path()
        yield "</svg>"

    def _legend(self) -> Iterator[str]:
        kinds = [k for k in STACK if k in self.on_sms]
        kinds += [k for k, _ in self.movers]
        x = LEFT
        for kind in kinds:
            yield _rect(x, 66, 11, 11, COLOURS[kind])
            yield _text(x + 16, 76, WORDS[kind])
            x += 36 + 7 * len(WORDS[kind])
        yield f'<path d="M{x} 72h16" stroke="{PATH_COLOUR}" stroke-width="3"/>'
        yield _text(x + 21, 76, "critical path")

    def _note(self) -> str:
        """What the heights mean, and which ranks are left out."""
        note = f"full height: all {self.run.world.machine.gpu.num_sms} SMs"
        shown, n_pes = len(self.ranks), self.run.world.n_pes
        if shown < n_pes:
            note += f"; {shown} of {n_pes} ranks shown, those on the critical path first"
        return note

    def _axis(self) -> Iterator[str]:
        step = _tick(self.time)
        for tick in range(0, self.time + 1, step):
            x = self.x(tick)
            yield f'<path d="M{x} {STRIP}V{self.bottom - 6}" stroke="{GRID}"/>'
            yield _text(x, self.bottom + 10, f"{tick / 10**6:g}", anchor="middle", fill=FAINT)
        yield _text(LEFT, self.bottom + 30, self._note(), fill=FAINT)
        yield _text(LEFT + WIDTH, self.bottom + 30, "time in us", anchor="end", fill=FAINT)

    def _strip(self) -> Iterator[str]:
        """The critical path by itself: what each stretch of the time went to, and where."""
        yield _text(LEFT - 10, STRIP + 13, "critical", anchor="end", fill=PATH_COLOUR)
        for kind, rank, begin, end in self.pieces:
            x, width = self.x(begin), max(round((end - begin) * WIDTH / self.time, 1), 0.3)
            word = WORDS.get(kind, kind)
            label = f"{word}, rank {rank}"
            tip = f"{label}: {(end - begin) / 10**6:.1f} us"
            yield _rect(x, STRIP, width, 18, COLOURS.get(kind, FAINT), tip)
            fits = [text for text in (label, word) if width > 7 * len(text) + 6]
            if fits:
                yield _text(x + width / 2, STRIP + 13, fits[0], anchor="middle", fill="#fff")

    def _rank(self, rank: int, y: int) -> Iterator[str]:
        num_sms = self.run.world.machine.gpu.num_sms
        yield _text(LEFT - 10, y + AREA // 2 + 4, f"rank {rank}", anchor="end")
        yield _rect(LEFT, y, WIDTH, AREA, EMPTY)
        segments = self.segments[rank]
        held = shares(segments, self.time, num_sms, BINS)
        totals = [sum(held[kind][b] for kind in STACK) for b in range(BINS)]
        for kind in reversed(STACK):  # the whole stack first, then lower ones over it
            if any(held[kind]):
                yield _area(totals, y, COLOURS[kind])
            totals = [a - b for a, b in zip(totals, held[kind], strict=True)]
        for number, (kind, prefix) in enumerate(self.movers):
            lane = [s for s in segments if _moves(s, kind, prefix)]
            yield self._lane(lane, y + AREA + 2 + LANE * number, COLOURS[kind])
        busy = sum(s.end - s.begin for s in segments if is_busy(s))
        share = 100 * busy / (self.time * num_sms)
        yield _text(
            LEFT + WIDTH + 8, y + AREA // 2 + 4, f"SMs {share:.0f}% busy", fill=FAINT, size=11
        )

    def _lane(self, segments: list[Segment], y: int, colour: str) -> str:
        gap = max(self.time // WIDTH, 1)
        path = []
        for begin, end in stretches(segments, gap, MAX_STRETCHES):
            width = max(round((end - begin) * WIDTH / self.time - 0.4, 1), 0.3)
            path.append(f"M{self.x(begin)} {y}h{width}v{LANE - 2}h{-width}z")
        return f'<path d="{"".join(path)}" fill="{colour}"/>'

    def _path(self) -> Iterator[str]:
        """The critical path as a line that runs below each rank and jumps between them."""
        commands: list[str] = []
        for _, rank, begin, end in self.pieces:
            if rank in self.segments:
                number = self.ranks.index(rank)
                y = TOP + self.row * (number + 1) - GAP - PATH / 2 + 2
                move = f"H{self.x(begin)}V{y:g}" if commands else f"M{self.x(begin)} {y:g}"
                commands.append(f"{move}H{self.x(end)}")
        line = "".join(commands)
        common = f'<path d="{line}" fill="none" stroke-linejoin="round"'
        yield f'{common} stroke="#fff" stroke-width="5"/>'
        yield f'{common} stroke="{PATH_COLOUR}" stroke-width="2.5"/>'


def _chosen(run: Run, pieces: Sequence[tuple[str, int, int, int]]) -> tuple[int, ...]:
    """The ranks to show: those longest on the critical path first, then the lowest."""
    on_path: Counter[int] = Counter()
    for _, rank, begin, end in pieces:
        on_path[rank] += end - begin
    order = sorted(range(run.world.n_pes), key=lambda rank: (-on_path[rank], rank))
    return tuple(sorted(order[:MAX_RANKS]))


def _moves(segment: Segment, kind: str, prefix: str) -> bool:
    return segment.kind == kind and segment.lane.startswith(prefix)


def _heading(title: str) -> Iterator[str]:
    first, *others = title.splitlines() or [""]
    yield (f'<text x="{LEFT}" y="28" font-size="17" font-weight="600">{escape(first)}</text>')
    if others:
        yield _text(LEFT, 49, "; ".join(others), size=13)


def _tick(time_ps: int) -> int:
    """A round step in picoseconds that gives at most 12 ticks."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if time_ps <= 12 * step * factor:
                return step * factor
        step *= 10


def _area(values: Sequence[float], y: int, colour: str) -> str:
    """A step area over ``BINS`` bins of equal width; corners only where the height changes."""
    wide = WIDTH // BINS
    commands, height = [f"M{LEFT} {y + AREA}"], 0.0
    for b, value in enumerate(values):
        new = round(min(max(value, 0.0), 1.0) * AREA, 1)
        if new != height:
            commands.append(f"H{LEFT + b * wide}V{round(y + AREA - new, 1):g}")
            height = new
    commands.append(f"H{LEFT + BINS * wide}V{y + AREA}z")
    return f'<path d="{"".join(commands)}" fill="{colour}"/>'


def _rect(x: float, y: float, width: float, height: float, colour: str, tip: str = "") -> str:
    box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"'
    return f"{box}><title>{escape(tip)}</title></rect>" if tip else f"{box}/>"


def _text(
    x: float, y: float, text: str, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" '
        f'font-size="{size}">{escape(text)}</text>'
    )
