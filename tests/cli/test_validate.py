"""``tdsim validate``: measuring with a backend, reading a record, and what both print."""

from __future__ import annotations

import json

import pytest

from tdsim.check.checker import functional_job
from tdsim.cli import main, validate_command
from tdsim.predict import predict
from tdsim.predict.caselist import KEY, CaseList, label
from tdsim.records import Case, Measurement, Placement, Record
from tdsim.samples import sample
from tdsim.sim import simulate

SHAPE = {"M": 256, "K": 256}
CASES = tuple(
    Case(program="allgather", shape=SHAPE, tunables={"comm": comm})
    for comm in ("pull", "push", "sm")
)
LIST = CaseList(
    topology="h200-shared-2",
    placement=Placement(n_pes=2, pes_per_node=2, share_gpu=True),
    cases=CASES,
    held_back=frozenset({label(CASES[2])}),
)


def predicted(case):
    return predict(
        "allgather", topology="h200-shared-2", shape=SHAPE, tunables=case.tunables
    ).time_us


class Backend:
    """Measures twice what is predicted; stops before case number *stop*."""

    def __init__(self, stop=None, error=None):
        self.stop, self.error, self.asked = stop, error, []

    def run(self, job, on_result):
        self.asked.append(job)
        found = []
        for i, case in enumerate(job.cases):
            if i == self.stop:
                raise KeyboardInterrupt
            us = 2 * predicted(case)
            times = ((us - 1, us, us, us, us + 1),) * job.placement.n_pes
            if self.error and i == 1:
                found.append(Measurement(case=case, error=self.error))
            else:
                found.append(Measurement(case=case, time_us=times))
            on_result(i, found[-1])
        return Record(
            date="2026-01-02",
            command="tdsim validate",
            environment={"device": "H200"},
            placement=job.placement,
            measurements=tuple(found),
        )


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps(LIST.to_json()))
    return str(path)


def use(monkeypatch, backend):
    monkeypatch.setattr(validate_command, "load_backend", lambda name: backend)
    return backend


def run(capsys, *arguments):
    code = main(("validate", *arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


MEASURE = ("--backend", "gpu", "--nproc", "2", "--share-gpu")


def test_a_list_is_run_and_shown_beside_its_predictions(capsys, monkeypatch, listed):
    backend = use(monkeypatch, Backend())
    code, out, err = run(capsys, listed, *MEASURE, "--timeout", "7", "--heap-size", "2G")
    assert (code, err) == (0, "")
    (job,) = backend.asked
    assert job.cases == CASES
    assert (job.placement, job.timeout_s, job.heap_bytes) == (LIST.placement, 7, 2**31)
    assert "2026-01-02, H200, beside h200-shared-2" in out
    rows = [line for line in out.splitlines() if line.startswith("allgather M=256")]
    assert ["used" in row for row in rows[:3]] == [True, True, False]
    assert all(row.endswith("0.50") for row in rows[:3])
    assert "held back  1       50.0%" in out


def test_the_placement_comes_from_the_list_unless_it_is_given(capsys, monkeypatch, listed):
    backend = use(monkeypatch, Backend())
    assert run(capsys, listed, "--backend", "gpu")[0] == 0
    assert backend.asked[0].placement == LIST.placement


def test_json_has_every_case_and_the_summaries(capsys, monkeypatch, listed):
    use(monkeypatch, Backend())
    code, out, _ = run(capsys, listed, *MEASURE, "--json")
    data = json.loads(out)
    assert code == 0
    assert [case["held_back"] for case in data["cases"]] == [False, False, True]
    assert [case["ratio"] for case in data["cases"]] == pytest.approx([0.5] * 3)
    assert data["summary"]["used"]["count"] == 2
    assert data["summary"]["held_back"]["median_error"] == pytest.approx(0.5)
    assert data["failed"] == []


def test_a_record_is_written_and_read_again_without_hardware_or_list(
    capsys, monkeypatch, listed, tmp_path
):
    use(monkeypatch, Backend())
    record = str(tmp_path / "record.json")
    _, measured, _ = run(capsys, listed, *MEASURE, "--record", record)
    monkeypatch.setattr(validate_command, "load_backend", None)
    code, read, _ = run(capsys, "--record", record)
    assert (code, read) == (0, measured)
    assert Record.read(record).environment == {"device": "H200", KEY: LIST.note()}


def test_an_interrupted_run_keeps_what_was_measured(capsys, monkeypatch, listed, tmp_path):
    use(monkeypatch, Backend(stop=2))
    path = tmp_path / "record.json"
    assert run(capsys, listed, *MEASURE, "--record", str(path))[0] == 130
    kept = Record.read(path)
    assert [found.case for found in kept.measurements] == list(CASES[:2])
    assert kept.environment["partial"] == "2 of 3 cases"
    code, out, _ = run(capsys, "--record", str(path))
    assert code == 0
    assert "used   2" in out


def test_a_case_that_failed_is_shown_and_fails_the_command(capsys, monkeypatch, listed):
    use(monkeypatch, Backend(error="no such luck"))
    code, out, _ = run(capsys, listed, *MEASURE)
    assert code == 1
    assert "FAILED allgather M=256 K=256 comm=push: no such luck" in out
    code, out, _ = run(capsys, listed, *MEASURE, "--json")
    assert code == 1
    assert json.loads(out)["failed"] == [{"case": label(CASES[1]), "error": "no such luck"}]


def test_a_choice_that_is_not_the_best_is_named(capsys, monkeypatch, listed, tmp_path):
    backend = use(monkeypatch, Backend())
    path = str(tmp_path / "record.json")
    run(capsys, listed, *MEASURE, "--record", path)
    record = Record.read(path).to_json()
    for found in record["measurements"]:
        slow = found["case"]["tunables"]["comm"] == "sm"
        found["time_us"] = [[200.0 if slow else 100.0] * 4] * 2
    Record.from_json(record).write(path)
    _, out, _ = run(capsys, "--record", path)
    assert backend.asked
    assert "allgather M=256 K=256 comm=sm  allgather M=256 K=256 comm=pull  100.0%" in out


def test_mistakes_get_one_clear_line_before_hardware_is_touched(
    capsys, monkeypatch, listed, tmp_path
):
    backend = use(monkeypatch, Backend())
    bare = tmp_path / "bare.json"
    Record(date="", command="", environment={}, placement=LIST.placement,
           measurements=()).write(bare)  # fmt: skip
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**LIST.to_json(), "cases": [
        {"program": "allgather", "shape": {"M": 3, "K": 64}}]}))  # fmt: skip
    for arguments, line in (
        ((), "nothing to compare with; expected --backend NAME to measure or --record FILE"),
        (MEASURE, "no list; expected LIST to measure"),
        ((listed, "--backend", "gpu", "--nproc", "4"), "4 PEs, 4 to a node, and h200-shared-2"),
        ((listed, "--backend", "gpu", "--nproc", "0"), "--nproc: 0; expected at least 1"),
        ((listed, *MEASURE, "--record", "none/x.json"), "--record: no folder 'none'"),
        ((str(wrong), *MEASURE), "M = 3 does not divide by world = 2"),
        (("--record", str(bare)), "the record names no topology"),
        (("--record", str(bare), "--topology", "h200-shared-2"), "no timed case and no data"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert err.startswith("tdsim validate: ")
        assert line in err
        assert err.count("\n") == 1
    assert backend.asked == []


def data_record(path, flipped=0):
    """Writes a record of one data run that shows what the simulator does, but for one bit."""
    case = Case(program="allgather", shape={"M": 32, "K": 32}, runs=1, calls=1, repeats=0)
    job = functional_job(
        case.program, "h200-shared-2", case.shape, {}, case.dtype, 1, case.seed
    )
    arrays = simulate(job).outputs[0]["y"]
    arrays[1].view("uint16")[0, 0] ^= flipped
    samples = tuple(
        sample(array, call=0, rank=rank, output="y") for rank, array in enumerate(arrays)
    )
    Record(
        date="2026-01-02",
        command="",
        environment={KEY: LIST.note()},
        placement=LIST.placement,
        measurements=(Measurement(case=case, wrong_runs=0, max_error=0.0, samples=samples),),
    ).write(path)
    return str(path)


def test_data_of_a_record_are_compared_with_the_simulators(capsys, tmp_path):
    path = data_record(tmp_path / "data.json")
    code, out, _ = run(capsys, "--record", path)
    assert code == 0
    assert out.splitlines()[-1].split()[-6:] == ["2", "2", "0.0e+00", "no", "bit", "right"]
    code, out, _ = run(capsys, "--record", path, "--json")
    (data,) = json.loads(out)["data"]
    assert code == 0
    assert (data["compared"], data["equal"], data["right"]) == (2, 2, True)


def test_data_that_differ_fail_the_command(capsys, tmp_path):
    path = data_record(tmp_path / "data.json", flipped=1)
    code, out, _ = run(capsys, "--record", path)
    assert code == 1
    assert out.splitlines()[-1].endswith("WRONG")
    code, out, _ = run(capsys, "--record", path, "--json")
    assert code == 1
    assert json.loads(out)["data"][0]["equal"] == 1
