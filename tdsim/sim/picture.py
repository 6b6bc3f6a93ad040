"""An SVG timeline of a run: what the SMs of each rank do, copies below, the critical path."""

from __future__ import annotations

from html import escape

from tdsim.engine.timeline import Segment, critical_path
from tdsim.sim.recorder import Recorder
from tdsim.sim.simulate import Run

MAX_RANKS = 8
"""Rows that stay readable; more ranks are left out, and the picture says so."""
BINS = 400
LEFT, TOP, WIDTH, ROW, AREA = 92, 96, 1040, 64, 36
COLOURS = {
    "compute": "#3b6fb6",
    "reduce": "#7a5aa6",
    "comm": "#e0902f",
    "copy": "#e0902f",
    "wait": "#e9edf2",
}
STACK = ("compute", "reduce", "comm", "copy")
PATH_COLOUR = "#c62f3e"


def draw(run: Run, recorder: Recorder, title: str) -> str:
    """The picture as SVG text: self-contained, the same bytes for the same run."""
    ranks = list(range(min(run.world.n_pes, MAX_RANKS)))
    width, height = LEFT + WIDTH + 40, TOP + ROW * len(ranks) + 64
    scale = WIDTH / max(run.time_ps, 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend(run),
        *_axis(run.time_ps, scale, TOP + ROW * len(ranks)),
    ]
    for row, rank in enumerate(ranks):
        segments = [s for s in recorder.segments if s.rank == rank]
        parts += _rank(run, rank, segments, TOP + ROW * row, scale)
    parts += _path(critical_path(run.last, 0), ranks, scale)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _legend(run: Run) -> list[str]:
    entries = [
        ("compute", COLOURS["compute"], "SMs computing"),
        ("reduce", COLOURS["reduce"], "SMs reducing"),
        ("comm", COLOURS["comm"], "communication (SMs above, copy engines below)"),
        ("wait", COLOURS["wait"], "SM slots held by waiting CTAs"),
        ("path", PATH_COLOUR, "critical path"),
    ]
    parts: list[str] = []
    x = LEFT
    for _, colour, text in entries:
        parts.append(f'<rect x="{x}" y="44" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="54" fill="#333">{text}</text>')
        x += 40 + round(6.8 * len(text))
    note = f"height of an area: share of the {run.world.machine.gpu.num_sms} SMs of a rank"
    if run.world.n_pes > MAX_RANKS:
        note += f"; ranks 0 to {MAX_RANKS - 1} of {run.world.n_pes} are shown"
    parts.append(f'<text x="{LEFT}" y="76" fill="#777">{note}</text>')
    return parts


def _axis(time_ps: int, scale: float, bottom: int) -> list[str]:
    step = _tick(time_ps)
    parts = []
    for tick in range(0, time_ps + 1, step):
        x = LEFT + tick * scale
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="#dde2e8"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">'
            f"{tick / 1e6:g}</text>"
        )
    parts.append(
        f'<text x="{LEFT + WIDTH}" y="{bottom + 38}" text-anchor="end" fill="#555">'
        "time in microseconds</text>"
    )
    return parts


def _tick(time_ps: int) -> int:
    """A round step that gives 5 to 12 ticks."""
    step = 1
    while time_ps // step > 12:
        for factor in (2, 5, 10):
            if time_ps // (step * factor) <= 12:
                return step * factor
        step *= 10
    return step


def _rank(run: Run, rank: int, segments: list[Segment], y: int, scale: float) -> list[str]:
    base, right = y + AREA, LEFT + WIDTH
    parts = [
        f'<text x="{LEFT - 10}" y="{y + 24}" text-anchor="end">rank {rank}</text>',
        f'<line x1="{LEFT}" y1="{base}" x2="{right}" y2="{base}" stroke="#bbb"/>',
    ]
    shares = _shares(segments, run.time_ps, run.world.machine.gpu.num_sms)
    floor = [0.0] * BINS
    for kind in (*STACK, "wait"):
        top = [a + b for a, b in zip(floor, shares[kind], strict=True)]
        if any(shares[kind]):
            parts.append(_area(floor, top, y, COLOURS[kind]))
        floor = top
    for s in segments:
        if s.kind in ("copy", "link") and not s.lane.startswith("SM"):
            x, width = LEFT + s.begin * scale, max((s.end - s.begin) * scale, 0.4)
            parts.append(
                f'<rect x="{x:.1f}" y="{y + AREA + 4}" width="{width:.1f}" height="9" '
                f'fill="{COLOURS["copy"]}" stroke="white" stroke-width="0.5">'
                f"<title>{escape(s.detail)}</title></rect>"
            )
    return parts


def _shares(segments: list[Segment], time_ps: int, num_sms: int) -> dict[str, list[float]]:
    """Share of the SMs that each kind of work holds, per bin of time."""
    width = max(time_ps / BINS, 1)
    shares = {kind: [0.0] * BINS for kind in (*STACK, "wait")}
    for s in segments:
        if not s.lane.startswith("SM "):
            continue
        kind = (
            "wait" if s.kind in ("wait", "barrier") else "comm" if s.kind == "link" else s.kind
        )
        if kind not in shares:
            continue
        first, last = int(s.begin / width), min(int(s.end / width), BINS - 1)
        for b in range(first, last + 1):
            inside = min(s.end, (b + 1) * width) - max(s.begin, b * width)
            shares[kind][b] += max(inside, 0) / width / num_sms
    return shares


def _area(floor: list[float], top: list[float], y: int, colour: str) -> str:
    def point(b: int, value: float) -> str:
        return f"{LEFT + b * WIDTH / BINS:.1f},{y + AREA - min(value, 1) * (AREA - 2):.1f}"

    def steps(values: list[float]) -> list[str]:
        """Corners of a step line; equal neighbours need none between them."""
        corners = [point(0, values[0])]
        for b in range(1, BINS):
            if values[b] != values[b - 1]:
                corners += [point(b, values[b - 1]), point(b, values[b])]
        return [*corners, point(BINS, values[-1])]

    outline = " ".join(steps(top) + steps(floor)[::-1])
    return f'<polygon points="{outline}" fill="{colour}"/>'


def _path(path: list[Segment], ranks: list[int], scale: float) -> list[str]:
    """The critical path as a line that moves from rank to rank."""
    points = []
    for s in path:
        if s.rank in ranks:
            y = TOP + ROW * ranks.index(s.rank) + AREA + 18
            points.append(f"{LEFT + s.begin * scale:.1f},{y}")
            points.append(f"{LEFT + s.end * scale:.1f},{y}")
    line = " ".join(points)
    return [
        f'<polyline points="{line}" fill="none" stroke="{PATH_COLOUR}" stroke-width="2.5" '
        'stroke-linejoin="round" opacity="0.9"/>'
    ]
