"""The trace: what Perfetto needs, spans that add up, arrows, and the same bytes every time."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal

import pytest

from tdsim import lang as td
from tdsim.engine.timeline import Segment
from tdsim.errors import UsageError
from tdsim.predict import make_job
from tdsim.predict.timeline import record, title_of, trace
from tdsim.sim import simulate
from tdsim.sim import trace as trace_module
from tdsim.sim.recorder import Recorder
from tdsim.sim.trace import PATH_PROCESS, write_trace
from tdsim.sim.trace_lanes import assign

CASES = [
    ("ag_gemm", "h800x4", {"M": 1024, "N": 2048, "K": 1024}, {"comm": "sm"}),
    ("ag_gemm", "h800x16", {"M": 2048, "N": 2048, "K": 512}, {}),
    ("gemm_rs", "h800x4", {"M": 1024, "N": 1024, "K": 1024}, {"comm": "sm"}),
    ("allgather", "h800x4", {"M": 1024, "K": 1024}, {}),
]
IDS = [f"{kernel} {topology}" for kernel, topology, *_ in CASES]


def recorded(kernel="ag_gemm", topology="h800x4", shape=None, tunables=None):
    recorder = Recorder()
    job = make_job(kernel, topology, shape or CASES[0][2], tunables)
    return simulate(job, (recorder,)), recorder


def written(path, run, recorder):
    summary = write_trace(str(path), run, recorder, "a title")
    data = path.read_bytes()
    text = gzip.decompress(data) if summary.gzipped else data
    return json.loads(text, parse_float=Decimal), summary


def spans(document, process=None):
    return [
        e
        for e in document["traceEvents"]
        if e["ph"] == "X" and (e["pid"] == process if process is not None else e["pid"] < 10**6)
    ]


def ps(microseconds):
    value = microseconds * 10**6
    assert value == int(value)
    return int(value)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    run, recorder = recorded(*CASES[0])
    path = tmp_path_factory.mktemp("trace") / "x.json"
    document, summary = written(path, run, recorder)
    return run, recorder, document, summary


@pytest.mark.parametrize(("kernel", "topology", "shape", "tunables"), CASES, ids=IDS)
def test_listening_changes_no_prediction(kernel, topology, shape, tunables):
    job = make_job(kernel, topology, shape, tunables)
    alone, heard = simulate(job), simulate(job, (Recorder(),))
    assert heard.time_ps == alone.time_ps
    assert heard.ends == alone.ends
    assert [x.busy for x in heard.world.launches] == [x.busy for x in alone.world.launches]


@pytest.mark.parametrize(("kernel", "topology", "shape", "tunables"), CASES, ids=IDS)
def test_busy_spans_add_up_to_the_reports_busy_time(
    tmp_path, kernel, topology, shape, tunables
):
    run, recorder = recorded(kernel, topology, shape, tunables)
    document, _ = written(tmp_path / "x.json", run, recorder)
    threads = thread_names(document)
    busy: Counter[int] = Counter()
    for span in spans(document):
        on_sm = threads[span["pid"], span["tid"]].startswith("SM ")
        if on_sm and span["cat"] not in ("wait", "barrier"):
            assert ps(span["dur"]) == span["args"]["ps"]
            busy[span["pid"]] += span["args"]["ps"]
    report: Counter[int] = Counter()
    for launch in run.world.launches:
        report[launch.rank] += sum(launch.busy.values())
    assert busy == report
    assert busy == recorder.busy()


def thread_names(document):
    return {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in document["traceEvents"]
        if e["name"] == "thread_name"
    }


def test_the_top_level_is_what_perfetto_and_trace_mergers_read(example):
    _, _, document, summary = example
    assert document["baseTimeNanoseconds"] == 0
    assert document["displayTimeUnit"] == "ns"
    assert document["otherData"] == {"title": "a title", "left out": "nothing"}
    assert summary.spans == len(spans(document))


def test_there_is_one_process_per_rank_in_rank_order(example):
    _, _, document, _ = example
    names = {e["pid"]: e["args"]["name"] for e in meta(document, "process_name")}
    order = {e["pid"]: e["args"]["sort_index"] for e in meta(document, "process_sort_index")}
    assert [names[pid] for pid in sorted(order, key=order.__getitem__)] == [
        "critical path", *(f"rank {rank} (node 0)" for rank in range(4)), "links",
    ]  # fmt: skip


def meta(document, name):
    return [e for e in document["traceEvents"] if e["ph"] == "M" and e["name"] == name]


def test_threads_are_host_streams_links_and_sms_by_role(example):
    _, _, document, _ = example
    names = [name for (pid, _), name in sorted(thread_names(document).items()) if pid == 0]
    groups = [name.split()[0] for name in names]
    assert [group for group, _ in itertools.groupby(groups)] == ["host", "stream", "to", "SM"]
    roles = [name.split()[2] for name in names if name.startswith("SM")]
    assert roles == sorted(roles)
    peers = [int(name.split()[2]) for name in names if name.startswith("to")]
    assert peers == sorted(peers)


def test_no_two_spans_overlap_on_one_thread(example):
    _, _, document, _ = example
    by_thread: dict = {}
    for span in spans(document):
        by_thread.setdefault((span["pid"], span["tid"]), []).append(span)
    for row in by_thread.values():
        row.sort(key=lambda span: span["ts"])
        for before, after in itertools.pairwise(row):
            assert before["ts"] + before["dur"] <= after["ts"]


def test_overlapping_segments_of_a_lane_take_threads_of_their_own():
    first, second = (Segment("link", 0, "to PE 10", 0, 9, None) for _ in range(2))
    third, other = (
        Segment("link", 0, "to PE 10", 9, 12, None),
        Segment("link", 0, "to PE 2", 0, 1, None),
    )
    threads = assign([third, second, first, other])
    assert threads.names == {(0, 1): "to PE 2", (0, 2): "to PE 10", (0, 3): "to PE 10 (2)"}
    assert threads.of[id(first)] != threads.of[id(second)]
    assert threads.of[id(third)] == 2


def test_each_arrow_leads_from_a_senders_span_to_the_wait_that_its_signal_ended(example):
    _, _, document, summary = example
    ends: dict = {}
    for e in document["traceEvents"]:
        if e["ph"] in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = e
    assert len(ends) == summary.arrows > 0
    assert any(pair["s"]["pid"] != pair["f"]["pid"] for pair in ends.values())
    for pair in ends.values():
        source, target = (around(document, pair[phase]) for phase in "sf")
        assert target["cat"] == "wait"
        assert target["args"]["detail"] == pair["f"]["name"]
        assert source["ts"] + source["dur"] <= target["ts"] + target["dur"]


def around(document, event):
    """The one span that holds *event*, also when a viewer rounds to nanoseconds."""
    (span,) = [
        s
        for s in spans(document, event["pid"])
        if s["tid"] == event["tid"] and s["ts"] <= event["ts"] <= s["ts"] + s["dur"]
    ]
    return span


def test_every_wait_of_a_cta_for_a_put_signal_has_an_arrow(example):
    _, recorder, _, summary = example
    waits = [s for s in recorder.segments if s.kind == "wait" and s.detail.startswith("ready")]
    assert summary.arrows == len(waits)


def test_the_critical_path_spans_the_whole_time_and_is_marked_on_the_ranks(example):
    run, _, document, _ = example
    path = spans(document, PATH_PROCESS)
    assert sum(span["args"]["ps"] for span in path) == run.time_ps
    for before, after in itertools.pairwise(path):
        assert before["ts"] + before["dur"] == after["ts"]
    marked = {
        (s["pid"], s["cat"], s["ts"]) for s in spans(document) if s["args"].get("critical")
    }
    wanted = {
        (s["args"]["rank"], s["name"].split(",")[0], s["ts"]) for s in path
        if not s["name"].startswith(("signal and latency", "barrier"))
    }  # fmt: skip
    assert wanted <= marked
    assert all("(critical)" in s["name"] for s in spans(document) if s["args"].get("critical"))


def test_links_have_counters_that_start_and_end_at_zero_load(example):
    run, _, document, _ = example
    counters: dict = {}
    for e in document["traceEvents"]:
        if e["ph"] == "C":
            counters.setdefault(e["name"], []).append(e["args"]["GB/s"])
    assert "gpu0 to nvswitch0 (GB/s)" in counters
    limit = run.world.machine.route(0, 1).bandwidth.bytes_per_s / 10**9
    assert 0 < max(counters["gpu0 to nvswitch0 (GB/s)"]) <= limit
    assert all(values[-1] == 0 for values in counters.values())


def test_ranks_that_do_not_fit_are_left_out_whole_and_named(tmp_path, monkeypatch, example):
    run, recorder, whole, _ = example
    per_rank = Counter(span["pid"] for span in spans(whole))
    monkeypatch.setattr(trace_module, "MAX_SPANS", per_rank[0] + per_rank[1])
    document, summary = written(tmp_path / "x.json", run, recorder)
    assert {span["pid"] for span in spans(document)} == {0, 1}
    assert summary.left_out == (2, 3)
    assert document["otherData"]["left out"] == "spans of ranks 2 to 3"
    assert summary.text().endswith("left out: spans of ranks 2 to 3")
    assert len(spans(document, PATH_PROCESS)) == len(spans(whole, PATH_PROCESS))


def test_a_large_trace_and_one_named_gz_are_gzipped_without_a_clock(
    tmp_path, monkeypatch, example
):
    run, recorder, whole, plain = example
    named, summary = written(tmp_path / "x.json.gz", run, recorder)
    assert (named, summary.gzipped, plain.gzipped) == (whole, True, False)
    assert (tmp_path / "x.json.gz").read_bytes()[4:8] == bytes(4)  # the time field of gzip
    monkeypatch.setattr(trace_module, "GZIP_ABOVE", 1000)
    large, summary = written(tmp_path / "large.json", run, recorder)
    assert (large, summary.gzipped) == (whole, True)
    assert ", gzipped" in summary.text()


WRITE_BOTH = """
import sys
from tdsim.predict.timeline import trace
for suffix in (".json", ".json.gz", ".svg"):
    trace("gemm_rs", topology="h800x4", shape={"M": 512, "N": 512, "K": 512}, seed=7,
          path=sys.argv[1] + suffix)
"""


def test_the_same_seed_gives_the_same_bytes_in_another_process(tmp_path):
    files = []
    for number, hash_seed in enumerate(("0", "1", "4242")):
        stem = tmp_path / f"run{number}"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(
            [sys.executable, "-c", WRITE_BOTH, str(stem)], env=environment, check=True
        )
        files.append([stem.with_suffix(s).read_bytes() for s in (".json", ".json.gz", ".svg")])
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x.txt", "x.txt; expected a name in .json, .json.gz or .svg; rename it"),
        ("no/x.json", "no folder '.*no'; expected an existing folder; create it first"),
        ("folder.json", "'.*folder.json' is a folder; expected a file name; add a name"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(
    tmp_path, monkeypatch, name, sentence
):
    (tmp_path / "folder.json").mkdir()
    monkeypatch.setattr("tdsim.predict.timeline.simulate", None)
    with pytest.raises(UsageError, match=sentence):
        trace("ag_gemm", shape=CASES[0][2], path=str(tmp_path / name))


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, example
):
    run, recorder, *_ = example
    path = tmp_path / "x.json"
    path.write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fdopen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_trace(str(path), run, recorder, "a title")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_one_run_is_written_to_several_files(tmp_path):
    job = make_job("ag_gemm", "h800x2", CASES[0][2])
    paths = [str(tmp_path / name) for name in ("x.json", "x.svg")]
    prediction, summaries = record(job, paths)
    assert [summary.path for summary in summaries] == paths
    assert f"{prediction.time_us:,.1f} us predicted" in (tmp_path / "x.svg").read_text()
    title = json.loads((tmp_path / "x.json").read_text())["otherData"]["title"]
    assert title.startswith("ag_gemm on h800x2: M 1024, N 2048, K 1024, bf16\n")


def test_a_program_without_work_has_no_baseline_in_its_title(tmp_path):
    @td.program(shape=("M",), tensors={}, work=(), reference=lambda t: {}, small_shape="M=1")
    def idle(ctx):
        """Only waits for the other ranks."""
        ctx.barrier_all()

    prediction, _ = record(make_job(idle, "h800x2", {"M": 1}), [str(tmp_path / "x.svg")])
    assert (
        title_of(prediction)
        == f"idle on h800x2: M 1, bf16\n{prediction.time_us:,.1f} us predicted"
    )
