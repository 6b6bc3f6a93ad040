"""Lists of cases as files: what they hold, how they round-trip, and one line for each mistake."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tdsim.errors import UsageError
from tdsim.predict.caselist import KEY, CaseList, label, note_of, read_list
from tdsim.records import Case, Measurement, Placement, Record

PLACE = Placement(n_pes=2, pes_per_node=2, share_gpu=True)
CASES = (
    Case(program="allgather", shape={"M": 64, "K": 64}, tunables={"comm": "pull"}),
    Case(program="allgather", shape={"M": 64, "K": 64}, tunables={"comm": "push"}, repeats=5),
)
LIST = CaseList(
    topology="h200-shared-2",
    placement=PLACE,
    cases=CASES,
    held_back=frozenset({label(CASES[1])}),
)


def write(tmp_path, data):
    path = tmp_path / "list.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_list_comes_back_from_its_file(tmp_path):
    assert read_list(write(tmp_path, LIST.to_json())) == LIST


def test_a_file_says_only_what_is_not_the_default():
    first, second = LIST.to_json()["cases"]
    assert first.keys() == {"program", "shape", "tunables"}
    assert second.keys() == {"program", "shape", "tunables", "repeats", "held_back"}


def test_a_program_file_is_relative_to_the_list(tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    data = LIST.to_json()
    data["cases"] = [{"program": "../own.py:it", "shape": {"n": 1}}]
    (case,) = read_list(write(folder, data)).cases
    assert case.program == f"{tmp_path}/own.py:it"


def test_how_often_a_case_runs_is_no_part_of_its_label():
    again = dataclasses.replace(CASES[0], seed=9, runs=3, repeats=1)
    assert label(again) == label(CASES[0]) != label(CASES[1])


def test_a_record_remembers_its_list():
    record = Record(
        date="2026-01-02",
        command="",
        environment={KEY: LIST.note()},
        placement=PLACE,
        measurements=tuple(Measurement(case=case) for case in CASES),
    )
    assert note_of(Record.from_json(json.loads(json.dumps(record.to_json())))) == LIST
    assert note_of(dataclasses.replace(record, environment={})) is None


BAD = {"program": "allgather", "shape": {"M": 64}}
MISTAKES = [
    ("[", "not a list of cases (JSONDecodeError"),
    ([], "no cases, placement, topology; expected a JSON object"),
    ({**LIST.to_json(), "cases": []}, "no case; expected"),
    ({**LIST.to_json(), "cases": [7]}, "case 0 is 7; expected program and shape"),
    ({**LIST.to_json(), "cases": [{"shape": {}}]}, "program None; expected a name or"),
    ({**LIST.to_json(), "cases": [{**BAD, "tunable": 1}]}, "unknown key 'tunable'"),
    ({**LIST.to_json(), "cases": [BAD, BAD]}, "is there twice; expected each case once"),
    ({**LIST.to_json(), "placement": {"n_pes": 2}}, "'pes_per_node'; expected the fields of"),
]


@pytest.mark.parametrize(("data", "line"), MISTAKES)
def test_a_file_that_is_no_list_gets_one_clear_line(tmp_path, data, line):
    path = write(tmp_path, data)
    with pytest.raises(UsageError) as error:
        read_list(path)
    assert str(error.value).startswith(f"{path}: ")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_does_not_exist_gets_one_clear_line(tmp_path):
    with pytest.raises(UsageError, match="not a list of cases"):
        read_list(tmp_path / "none.json")
