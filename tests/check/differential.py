"""The checker beside the oracle, program by program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from oracle import DEADLOCK, OK, RACY, WRONG, outcomes
from random_programs import random_program
from translated import job_of

from tdsim.check.checker import check_seed
from tdsim.check.exhaustive import run_under
from tdsim.check.explore import explore

ENDS = {"CLEAN": OK, "RACE": WRONG, "HANG": DEADLOCK}
MAX_SCHEDULES = 50_000


@dataclass(frozen=True)
class Comparison:
    """What oracle and checker say of the program of *seed*.

    *found_at*: how many seeds a default check needs until it finds something; 0 if none of
    those tried did.
    """

    seed: int
    ends: frozenset[str]
    racy: bool
    explored: frozenset[str]
    covered: bool
    schedules: int
    found_at: int

    @property
    def agrees(self):
        """Whether the exhaustive mode found all and only the ends that there are."""
        return self.covered and self.explored == self.ends

    @property
    def is_right(self):
        return self.ends == {OK} and not self.racy

    @property
    def is_wrong(self):
        return self.ends != {OK}


def compare(seed, most_seeds=1):
    """Explore the program of *seed*, and check it with up to *most_seeds* seeds."""
    program = random_program(seed)
    told, job = outcomes(program), job_of(program)
    found = explore(lambda chooser: run_under(job, chooser), MAX_SCHEDULES)
    return Comparison(
        seed=seed,
        ends=told - {RACY},
        racy=RACY in told,
        explored=frozenset(ENDS.get(verdict, verdict) for verdict in found.shortest),
        covered=found.covered,
        schedules=found.schedules,
        found_at=next(
            (n + 1 for n in range(most_seeds) if check_seed(replace(job, seed=n))), 0
        ),
    )


def summary(rows):
    """The figures that matter, as JSON has them."""
    wrong = [row for row in rows if row.is_wrong]
    late = [row for row in wrong if row.found_at != 1]
    return {
        "programs": len(rows),
        "seeds": [rows[0].seed, rows[-1].seed],
        "ends": dict(sorted(Counter(" ".join(sorted(row.ends)) for row in rows).items())),
        "right": sum(row.is_right for row in rows),
        "wrong": len(wrong),
        "racy_but_never_wrong": sum(row.ends == {OK} and row.racy for row in rows),
        "schedules": sum(row.schedules for row in rows),
        "most_schedules": max(row.schedules for row in rows),
        "exhaustive_disagrees": [row.seed for row in rows if not row.agrees],
        "default_false_alarms": [row.seed for row in rows if row.is_right and row.found_at],
        "default_misses_percent": round(100 * len(late) / max(1, len(wrong)), 2),
        "default_misses": {str(row.seed): row.found_at for row in late},
    }
