"""Does it hang always or only sometimes: other schedules of a program that has hung once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tdsim.check.findings import Finding
from tdsim.check.verdicts import CERTAIN_HANG
from tdsim.errors import DeadlockError, ProgramError
from tdsim.sim import Job, simulate
from tdsim.units import us

MORE_SEEDS = 4
"""Seeds tried after the one that hung."""
MAX_HELD = 8
"""PEs of which each is once held back alone."""
HELD_PS = us(3000)
"""How long: far beyond the skew, so that all others are far ahead."""


def tell_hangs_apart(job: Job, findings: list[Finding]) -> list[Finding]:
    """*findings* of *job*; a run that hung is HANG! if every other schedule tried hangs too."""
    first = findings[0]
    if not first.stuck:
        return findings
    tried = 1
    for how, other in _schedules(job):
        if not _hangs(other):
            note = f"it comes to an end {how}, so timing decides"
            return [replace(first, message=f"{first.message}\n  {note}"), *findings[1:]]
        tried += 1
    note = f"all of {tried} schedules hang: calm, skewed, each PE held back"
    certain = replace(first, verdict=CERTAIN_HANG, message=f"{first.message}\n  {note}")
    return [certain, *findings[1:]]


def _schedules(job: Job) -> Iterator[tuple[str, Job]]:
    """Other legal timings of *job*, each with words for it."""
    yield "with ranks that start together", replace(job, skewed=False)
    for rank in range(min(job.machine.world_size, MAX_HELD)):
        held = {**job.delays, rank: job.delays.get(rank, 0) + HELD_PS}
        yield f"with PE {rank} held back", replace(job, skewed=False, delays=held)
    for seed in range(job.seed + 1, job.seed + 1 + MORE_SEEDS):
        yield f"with seed {seed}", replace(job, seed=seed)


def _hangs(job: Job) -> bool:
    try:
        simulate(job)
    except DeadlockError:
        return True
    except ProgramError:
        return False
    return False
