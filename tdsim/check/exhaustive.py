"""Schedules of a program, one or all: what each ends in, the shortest bad one as a story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tdsim.check.compare import first_difference
from tdsim.check.explore import Exploration, Taken, explore
from tdsim.check.findings import Finding
from tdsim.check.verdicts import CERTAIN_HANG, CLEAN, HANG, RACE, UNKNOWN, WRONG_RESULT
from tdsim.errors import DeadlockError, ProgramError
from tdsim.sim import Job, simulate
from tdsim.sim.choices import Chooser, RandomChooser, Step

MAX_SCHEDULES = 100_000
"""Runs after which an exploration gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """How far an exploration went: *schedules* that differ, and whether these are all.

    *left* says what other behaviour was not tried, if any.
    """

    schedules: int
    covered: bool
    left: tuple[str, ...] = ()

    def text(self) -> str:
        extent = "all" if self.covered else "not all"
        why = "".join(f"; not tried: {what}" for what in self.left)
        noun = "schedule" if self.schedules == 1 else "schedules"
        return f"{self.schedules} {noun}, {extent} there are{why}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule: what it ended in, why, and who did what."""

    verdict: str
    message: str
    steps: tuple[str, ...]


def run_under(job: Job, chooser: Chooser) -> tuple[str, str]:
    """The verdict of one schedule and its explanation; RACE for wrong data."""
    try:
        message = first_difference(job, simulate(job, chooser=chooser))
    except DeadlockError as error:
        return HANG, str(error)
    except ProgramError as error:
        return error.verdict, str(error)
    return (RACE, message) if message else (CLEAN, "")


def random_schedule(job: Job, seed: int) -> Schedule:
    """The schedule that *seed* stands for, the same each time; a check takes odd ones so."""
    chooser = RandomChooser(seed)
    verdict, message = run_under(replace(job, seed=seed), chooser)
    return Schedule(verdict, message, lines_of(chooser.taken))


def lines_of(steps: Sequence[Step | Taken]) -> tuple[str, ...]:
    """Steps as numbered lines."""
    return tuple(f"{n}. {step}" for n, step in enumerate(steps, 1))


def explore_job(
    job: Job, limit: int = MAX_SCHEDULES, advance: Callable[[str], Any] = lambda _: None
) -> tuple[list[Finding], Explored]:
    """All schedules of *job*: a finding for each way to go wrong, and how much was covered.

    Wrong data is a RACE if another schedule does better, else a WRONG-RESULT; in the same way
    a HANG is possible and a HANG! certain. What only some of the schedules showed when *limit*
    was reached counts as possible. No finding without full coverage is an UNKNOWN. *advance* is
    called after each run.
    """
    result = explore(lambda chooser: run_under(job, chooser), limit, advance)
    explored = Explored(
        schedules=result.schedules, covered=result.covered, left=tuple(sorted(result.left))
    )
    findings = [
        Finding(
            verdict=_verdict(outcome, result),
            seed=job.seed,
            message=_message(message, schedule),
            stuck=outcome == HANG,
        )
        for outcome, (message, schedule) in sorted(result.shortest.items())
        if outcome != CLEAN
    ]
    if not findings and not (explored.covered and not explored.left):
        message = f"{explored.text()}: none of these went wrong"
        findings = [Finding(verdict=UNKNOWN, seed=job.seed, message=message)]
    return findings, explored


def _verdict(outcome: str, result: Exploration) -> str:
    certain = {HANG: CERTAIN_HANG, RACE: WRONG_RESULT}
    if result.covered and len(result.shortest) == 1:
        return certain.get(outcome, outcome)
    return outcome


def _message(message: str, schedule: Any) -> str:
    steps = "\n".join(f"  {line}" for line in lines_of(schedule))
    return f"{message}\n  the schedule, shortest found:\n{steps}"
