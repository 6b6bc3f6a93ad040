"""Random small programs: the checker agrees with the oracle.

``benchmarks/check_differential.py`` does the same for thousands; its record lies in records/.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from differential import compare, summary
from oracle import DEADLOCK, OK, WRONG, outcomes
from random_programs import MAX_OPS, random_program
from translated import job_of

from tdsim.check.exhaustive import run_under
from tdsim.sim.choices import RandomChooser

PROGRAMS = 240
RECORD = Path(__file__).parent / "records" / "differential.json"


@pytest.fixture(scope="module")
def rows():
    return [compare(seed, most_seeds=1) for seed in range(PROGRAMS)]


def test_all_schedules_end_as_the_oracle_says(rows):
    assert summary(rows)["exhaustive_disagrees"] == []


def test_the_default_mode_never_cries_wolf(rows):
    assert summary(rows)["default_false_alarms"] == []


def test_the_default_mode_misses_at_most_one_in_a_hundred(rows):
    assert summary(rows)["default_misses_percent"] <= 1


def test_the_programs_are_a_healthy_mixture(rows):
    ends = Counter(end for row in rows for end in row.ends)
    assert all(ends[end] > PROGRAMS // 8 for end in (OK, WRONG, DEADLOCK))
    assert sum(len(row.ends) > 1 for row in rows) > PROGRAMS // 8
    assert sum(row.is_right for row in rows) > PROGRAMS // 4
    assert max(row.schedules for row in rows) > 20


def test_programs_are_small_and_made_from_their_seed_alone():
    for seed in range(50):
        program = random_program(seed)
        assert program == random_program(seed)
        assert program.n_pes <= 3
        assert len(program.ctas) <= 5
        assert all(len(cta.ops) <= MAX_OPS for cta in program.ctas)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_schedule_ends_in_one_of_the_ways_there_are(seed):
    program = random_program(seed)
    told = {"CLEAN": OK, "RACE": WRONG, "HANG": DEADLOCK}
    for number in range(5):
        verdict, _ = run_under(job_of(program), RandomChooser(number))
        assert told[verdict] in outcomes(program)


def test_the_long_run_is_on_record():
    record = json.loads(RECORD.read_text())
    assert record["programs"] >= 5000
    assert record["exhaustive_disagrees"] == record["default_false_alarms"] == []
    assert record["default_misses_percent"] <= 1
    assert all(record["default_misses"].values())
