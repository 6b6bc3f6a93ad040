"""A measured timeline as a trace: the simulator's format, its own processes, beside a prediction."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest

from tdsim.engine.timeline import Segment
from tdsim.predict import make_job
from tdsim.predict.overlay import CALL, write_overlay
from tdsim.predict.timeline import record
from tdsim.records import Span, Timeline
from tdsim.sim import trace
from tdsim.sim.measured import FIRST_PROCESS, KINDS, segments_of, totals, write_measured

SPANS = (
    Span("launch", 0, "stream main", 0, 2_000, "gemm"),
    Span("copy", 0, "stream comm", 500, 9_500, "64 bytes"),
    Span("wait", 0, "SM 000 compute", 2_000, 9_600, "signal 1"),
    Span("compute", 0, "SM 000 compute", 9_600, 20_000, "gemm, tile"),
    Span("compute", 0, "SM 000 compute", 15_000, 21_000, "gemm, tile"),
    Span("barrier", 1, "stream main", 0, 1_500, "barrier_all"),
    Span("comm", 1, "SM 007 comm", 1_500, 4_000, "put to PE 0"),
)
MEASURED = Timeline(
    spans=SPANS, step_ns=32, offsets_ns=(0, -7), uncertainty_ns=12,
    stream_uncertainty_ns=900, dropped=3, unpaired=1,
)  # fmt: skip
JOB = make_job("ag_gemm", "h800x2", {"M": 512, "N": 512, "K": 256})


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def names(document, what):
    return {
        (e["pid"], e.get("tid")): e["args"]["name"]
        for e in document["traceEvents"]
        if e["name"] == what
    }


def spans(document):
    return [e for e in document["traceEvents"] if e["ph"] == "X"]


@pytest.fixture
def alone(tmp_path):
    path = tmp_path / "measured.json"
    summary = write_measured(str(path), MEASURED, "a title")
    return read(path), summary


@pytest.fixture(scope="module")
def overlaid(tmp_path_factory):
    path = tmp_path_factory.mktemp("overlay") / "both.json"
    overlay = write_overlay(str(path), MEASURED, "a title", JOB)
    return read(path), overlay


def test_a_measured_span_has_the_simulators_name_colour_and_lane(alone):
    document, summary = alone
    threads = names(document, "thread_name")
    found = {
        (threads[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in spans(document)
    }
    assert ("SM 000 compute", "wait", 2.0, 7.6) in found
    assert ("stream comm", "copy", 0.5, 9.0) in found
    assert ("SM 000 compute (2)", "compute", 15.0, 6.0) in found
    assert summary.spans == len(spans(document)) == len(SPANS)
    for event in spans(document):
        assert event["cname"] == trace.COLOURS[event["cat"]]


def test_the_lanes_of_a_rank_are_in_the_simulators_order(alone):
    document, _ = alone
    groups = [name.split()[0] for (pid, _), name in sorted(names(document, "thread_name").items())
              if pid == FIRST_PROCESS]  # fmt: skip
    assert [group for group, _ in itertools.groupby(groups)] == ["stream", "SM"]


def test_the_head_says_how_far_the_times_can_be_trusted(alone):
    document, _ = alone
    assert document["otherData"] == {
        "title": "a title",
        "left out": "nothing",
        "timer step (ns)": 32,
        "timers taken back to rank 0's by (ns)": [0, -7],
        "uncertainty between ranks (ns)": 12,
        "uncertainty of streams (ns)": 900,
        "events without room": 3,
        "events without their other end": 1,
    }


def test_a_timeline_too_long_to_show_loses_its_last_ranks(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "MAX_SPANS", 5)
    summary = write_measured(str(tmp_path / "x.json"), MEASURED, "")
    assert (summary.left_out, summary.spans) == ((1,), 5)
    assert read(tmp_path / "x.json")["otherData"]["left out"] == "spans of rank 1"


def test_each_measured_rank_stands_below_the_predicted_one(overlaid):
    document, _ = overlaid
    order = {e["pid"]: e["args"]["sort_index"] for e in document["traceEvents"]
             if e["name"] == "process_sort_index"}  # fmt: skip
    said = {pid: name for (pid, _), name in names(document, "process_name").items()}
    assert [said[pid] for pid in sorted(order, key=order.__getitem__)] == [
        "predicted critical path",
        "predicted rank 0 (node 0)",
        "measured rank 0",
        "predicted rank 1 (node 0)",
        "measured rank 1",
        "predicted links",
    ]


def test_the_predicted_spans_are_those_of_the_simulators_own_trace(overlaid, tmp_path):
    document, _ = overlaid
    record(JOB, (str(tmp_path / "own.json"),))
    own = [e for e in read(tmp_path / "own.json")["traceEvents"] if e["ph"] in "XsfC"]
    there = [
        e for e in document["traceEvents"] if e["ph"] in "XsfC" and e["pid"] < FIRST_PROCESS
    ]
    assert there == own


def test_both_timelines_begin_at_0(overlaid):
    document, _ = overlaid
    for measured in (False, True):
        times = [e["ts"] for e in spans(document) if (e["pid"] >= FIRST_PROCESS) == measured]
        assert min(times) == 0


def test_totals_tell_tiles_waits_copies_and_barriers_apart(overlaid):
    _, overlay = overlaid
    assert {t.kind: t.measured_us for t in overlay.totals} == {
        "tiles": 18.9, "waits of CTAs": 7.6, "waits of streams": 0.0, "copies": 9.0,
        "barriers": 1.5, CALL: 21.0,
    }  # fmt: skip
    prediction, _ = record(JOB, ())
    predicted = {t.kind: t.predicted_us for t in overlay.totals}
    assert predicted[CALL] == prediction.time_us
    assert predicted["tiles"] > prediction.compute_us > 0


def test_a_wait_of_a_stream_is_no_wait_of_a_cta():
    waits = [Segment("wait", 0, lane, 0, 5, None) for lane in ("stream comm", "SM 001 comm")]
    assert totals(waits) == {
        **dict.fromkeys(KINDS, 0),
        "waits of CTAs": 5,
        "waits of streams": 5,
    }


def test_a_timeline_without_a_prediction_has_no_predicted_totals(tmp_path):
    overlay = write_overlay(str(tmp_path / "x.json.gz"), MEASURED, "", None)
    assert overlay.summary.gzipped
    assert {t.predicted_us for t in overlay.totals} == {None}


def test_times_are_whole_picoseconds():
    (segment,) = segments_of(Timeline(spans=(Span("wait", 0, "SM 000 comm", 3, 10),)))
    assert (segment.begin, segment.end) == (3_000, 10_000)
