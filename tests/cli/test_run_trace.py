"""``tdsim run --trace``: the file, the table over the prediction, and what is refused at once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tdsim.cli import main, run_command
from tdsim.records import Measurement, Record, Span, Timeline

ASK = ("run", "ag_gemm", "--nproc", "2", "--shape", "M=512,N=512,K=256")
TIMELINE = Timeline(
    spans=(
        Span("wait", 0, "SM 000 compute", 0, 3_000, "signal 1"),
        Span("compute", 1, "SM 000 compute", 0, 5_000, "gemm, tile"),
    ),
    step_ns=32, offsets_ns=(0, 0), stream_uncertainty_ns=1_200,
)  # fmt: skip


class Backend:
    """Answers a case with *answer*, and remembers the jobs."""

    def __init__(self, **answer):
        self.answer, self.asked = answer, []

    def run(self, job, on_result):
        self.asked.append(job)
        found = Measurement(case=job.cases[0], **self.answer)
        return Record(
            date="2026-01-02", command="tdsim run", environment={"device": "H200"},
            placement=job.placement, measurements=(found,),
        )  # fmt: skip


@pytest.fixture
def backend(monkeypatch):
    made = Backend(time_us=((10.0,) * 4, (11.0,) * 4), timeline=TIMELINE)
    monkeypatch.setattr(run_command, "load_backend", lambda name: made)
    return made


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_run_without_trace_asks_for_no_timeline(capsys, backend):
    assert run(capsys, *ASK)[0] == 0
    assert not backend.asked[0].trace


def test_the_timeline_is_written_and_summed_up(capsys, backend, tmp_path):
    path = tmp_path / "x.json"
    code, out, err = run(capsys, *ASK, "--trace", str(path))
    assert (code, err) == (0, "")
    assert backend.asked[0].trace
    size = path.stat().st_size
    assert out.endswith(
        "Traced call, summed over all lanes\n"
        "time              measured\n"
        "tiles             5.0 us\n"
        "waits of CTAs     3.0 us\n"
        "waits of streams  0.0 us\n"
        "copies            0.0 us\n"
        "barriers          0.0 us\n"
        "the call          5.0 us\n"
        "the timer's step is 32 ns, streams are within 1,200 ns\n"
        f"wrote {path}: 2 spans, 0 arrows, {size:,} bytes\n"
    )
    document = json.loads(path.read_text())
    assert document["otherData"]["title"] == (
        "ag_gemm on 2 PEs of H200: M 512, N 512, K 256, bf16\n11.0 us without trace"
    )


def test_with_a_topology_the_prediction_stands_beside_it(capsys, backend, tmp_path):
    path = tmp_path / "x.json"
    code, out, _ = run(capsys, *ASK, "--trace", str(path), "--topology", "h800x2")
    assert code == 0
    rows = {line[:16].strip(): line[16:].split() for line in out.splitlines()}
    assert rows["time"] == ["predicted", "measured"]
    predicted, unit, *measured = rows["tiles"]
    assert (unit, measured) == ("us", ["5.0", "us"])
    assert float(predicted.replace(",", "")) > 0
    names = {
        e["args"]["name"]
        for e in json.loads(path.read_text())["traceEvents"]
        if e["name"] == "process_name"
    }
    assert {"predicted rank 1 (node 0)", "measured rank 1"} <= names


def test_json_names_the_file_and_the_totals_and_leaves_the_spans_to_the_file(
    capsys, backend, tmp_path
):
    path = str(tmp_path / "x.json")
    code, out, _ = run(capsys, *ASK, "--trace", path, "--topology", "h800x2", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["trace"]["file"]["path"] == path
    assert report["trace"]["totals"][0]["measured_us"] == 5.0
    assert report["measurement"]["timeline"] is None


def test_events_that_are_missing_are_said(capsys, backend, tmp_path):
    backend.answer["timeline"] = replace(TIMELINE, dropped=1_000, unpaired=2, uncertainty_ns=80)
    _, out, _ = run(capsys, *ASK, "--trace", str(tmp_path / "x.json"))
    assert "within 1,200 ns, ranks within 80 ns of each other\n" in out
    assert "1,000 events found no room and are missing\n" in out
    assert "2 events are missing, for their other end is\n" in out


def test_a_case_without_a_result_leaves_no_file(capsys, backend, tmp_path):
    backend.answer = {"error": "out of memory"}
    code, out, _ = run(capsys, *ASK, "--trace", str(tmp_path / "x.json"))
    assert code == 1
    assert out.endswith("no result: out of memory\n")
    assert list(tmp_path.iterdir()) == []


def test_a_backend_that_gives_no_timeline_is_one_line(capsys, backend, tmp_path):
    del backend.answer["timeline"]
    code, _, err = run(capsys, *ASK, "--trace", str(tmp_path / "x.json"))
    assert (code, err) == (1, "tdsim run: backend gpu: gave no timeline\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--trace", "nowhere/x.json"),
            "--trace: no folder 'nowhere'; expected an existing folder; create it first",
        ),
        (
            ("--trace", "x.svg"),
            "--trace: x.svg; expected a name in .json or .json.gz; rename it",
        ),
        (
            ("--topology", "h800x2"),
            "--topology: h800x2 without --trace; "
            "expected a timeline to lay the predicted one beside; add --trace FILE",
        ),
        (
            ("--trace", "x.json", "--topology", "h800x4"),
            "--topology: h800x4 has 4 GPUs in 1 node; "
            "expected 2 GPUs in 1 node, as the job has; name a machine of the job's size",
        ),
        (
            ("--trace", "x.json", "--topology", "h800y4"),
            "unknown topology 'h800y4'; expected one of ",
        ),
    ],
)
def test_what_cannot_be_traced_is_refused_before_anything_starts(
    capsys, monkeypatch, backend, tmp_path, arguments, line
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *ASK, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"tdsim run: {line}")
    assert err.count("\n") == 1
    assert backend.asked == []
    assert list(tmp_path.iterdir()) == []
