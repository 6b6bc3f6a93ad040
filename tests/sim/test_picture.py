"""The picture: well-formed, self-contained, small, and its areas and lines where they belong."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ET

import pytest

from tdsim import lang as td
from tdsim.engine.timeline import Segment
from tdsim.predict import make_job
from tdsim.sim import simulate
from tdsim.sim.occupancy import path_pieces, shares, stretches
from tdsim.sim.picture import LEFT, MAX_RANKS, WIDTH, write_picture
from tdsim.sim.recorder import Recorder

SHAPE = {"M": 1024, "N": 2048, "K": 1024}
SVG = "{http://www.w3.org/2000/svg}"


def recorded(kernel="ag_gemm", topology="h800x4", shape=SHAPE):
    recorder = Recorder()
    return simulate(make_job(kernel, topology, shape), (recorder,)), recorder


def drawn(path, run, recorder, title="first line\nsecond line"):
    summary = write_picture(str(path), run, recorder, title)
    return ET.fromstring(path.read_text()), summary


def texts(picture):
    return [element.text for element in picture.iter(f"{SVG}text")]


def test_it_shows_title_ranks_legend_and_axis(tmp_path):
    picture, summary = drawn(tmp_path / "x.svg", *recorded())
    words = texts(picture)
    assert words[:2] == ["first line", "second line"]
    assert [w for w in words if w.startswith("rank ")] == [f"rank {r}" for r in range(4)]
    for word in ("SMs compute", "copy engines", "critical path", "time in us", "0"):
        assert word in words
    assert "full height: all 132 SMs" in words
    assert summary.text() == f"{tmp_path / 'x.svg'}: {summary.bytes:,} bytes"


def test_every_colour_of_an_area_is_in_the_legend(tmp_path):
    """Copies by CTAs are drawn as communication, although no CTA of that role runs here."""
    picture, _ = drawn(tmp_path / "x.svg", *recorded())
    legend = {box.get("fill") for box in picture.iter(f"{SVG}rect") if box.get("y") == "66"}
    areas = {path.get("fill") for path in picture.iter(f"{SVG}path")} - {None, "none"}
    assert areas <= legend


def test_it_needs_nothing_from_outside(tmp_path):
    drawn(tmp_path / "x.svg", *recorded())
    text = (tmp_path / "x.svg").read_text()
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    for word in ("href", "url(", "<script", "<image", "@import"):
        assert word not in text


def test_everything_is_inside_the_frame(tmp_path):
    picture, _ = drawn(tmp_path / "x.svg", *recorded(topology="h800x16"))
    width, height = float(picture.get("width")), float(picture.get("height"))
    for box in picture.iter(f"{SVG}rect"):
        if box.get("width") != "100%":
            assert 0 <= float(box.get("x")) <= float(box.get("x")) + float(box.get("width"))
            assert float(box.get("x")) + float(box.get("width")) <= width
    for path in picture.iter(f"{SVG}path"):
        assert all(0 <= float(x) <= width for x in re.findall(r"[MH]([\d.]+)", path.get("d")))
        assert all(0 <= float(y) <= height for y in re.findall(r"V([\d.]+)", path.get("d")))


def test_of_many_ranks_those_on_the_critical_path_are_shown_and_it_says_so(tmp_path):
    run, recorder = recorded(topology="h800x16", shape={"M": 2048, "N": 2048, "K": 512})
    picture, summary = drawn(tmp_path / "x.svg", run, recorder)
    shown = [int(w.split()[1]) for w in texts(picture) if w.startswith("rank ")]
    assert (len(shown), tuple(shown)) == (MAX_RANKS, summary.shown)
    assert {rank for _, rank, _, _ in path_pieces(run)} <= set(shown)
    assert any(
        "8 of 16 ranks shown, those on the critical path first" in w for w in texts(picture)
    )
    assert summary.text().endswith("shown: 8 of 16 ranks")


def test_the_critical_path_runs_from_the_start_to_the_end(tmp_path):
    run, recorder = recorded()
    picture, _ = drawn(tmp_path / "x.svg", run, recorder)
    (line,) = [
        p.get("d") for p in picture.iter(f"{SVG}path")
        if p.get("stroke-width") == "2.5"
    ]  # fmt: skip
    places = [float(x) for x in re.findall(r"[MH]([\d.]+)", line)]
    assert (places[0], places[-1]) == (LEFT, LEFT + WIDTH)
    assert places == sorted(places)


def test_the_path_of_a_picture_has_no_gaps():
    run, _ = recorded("gemm_rs", shape={"M": 1024, "N": 1024, "K": 1024})
    pieces = path_pieces(run)
    assert (pieces[0][2], pieces[-1][3]) == (0, run.time_ps)
    assert all(a[3] == b[2] for a, b in itertools.pairwise(pieces))


def test_a_picture_of_the_busiest_run_stays_small(tmp_path):
    run, _ = recorded(topology="h800x8")
    noise, chance = Recorder(), random.Random(1)
    for rank in range(8):
        for sm in range(132):
            for _ in range(40):
                begin = chance.randrange(run.time_ps)
                end = min(begin + chance.randrange(run.time_ps // 10), run.time_ps)
                kind = chance.choice(("compute", "comm", "reduce", "wait"))
                noise.segment(Segment(kind, rank, f"SM {sm:03d} compute", begin, end, None))
                noise.segment(Segment("copy", rank, "stream comm", begin, begin + 1, None))
                noise.segment(Segment("link", rank, "to PE 1", begin, begin + 1, None))
    _, summary = drawn(tmp_path / "x.svg", run, noise)
    assert summary.bytes < 400_000


def test_a_program_that_does_nothing_has_a_picture(tmp_path):
    @td.program(shape=("M",), tensors={}, work=(), reference=lambda t: {}, small_shape="M=1")
    def nothing(ctx):
        """Does nothing."""

    picture, _ = drawn(
        tmp_path / "x.svg", *recorded(nothing, "h800x2", {"M": 1}), title="a < b"
    )
    assert "a < b" in texts(picture)


def test_shares_are_time_held_over_time_there_is():
    segments = [
        Segment("compute", 0, "SM 000 compute", 0, 50, None),
        Segment("wait", 0, "SM 000 compute", 50, 75, None),
        Segment("link", 0, "SM 001 comm", 0, 100, None),
        Segment("copy", 0, "stream main", 0, 100, None),
    ]
    held = shares(segments, 100, 2, 4)
    assert held["compute"] == [0.5, 0.5, 0, 0]
    assert held["wait"] == [0, 0, 0.5, 0]
    assert held["comm"] == [0.5] * 4
    assert held["reduce"] == [0] * 4


@pytest.mark.parametrize("limit", [2, 1])
def test_stretches_are_joined_only_where_there_are_too_many(limit):
    segments = [Segment("copy", 0, "x", begin, begin + 8, None) for begin in (0, 4, 20)]
    expected = {2: [(0, 12), (20, 28)], 1: [(0, 28)]}
    assert stretches(segments, 10, limit) == expected[limit]
