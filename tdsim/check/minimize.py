"""Which synchronisation a program needs: leave out each in turn and check what is left.

A removal that stays CLEAN under every seed tried is a candidate, not a proof: what the seeds
do not show may still need it. One that is caught is load-bearing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tdsim.check.checker import check_seed
from tdsim.check.verdicts import CLEAN
from tdsim.errors import ProgramError
from tdsim.sim import Job, simulate
from tdsim.sim.sites import Site, Sites


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A run without *site*, which was reached *times* times: its verdict and what it saves.

    *saved_ps* is the predicted time of all calls that the removal saves, None if the program
    does not come to its end without the site.
    """

    site: Site
    times: int
    verdict: str
    message: str
    saved_ps: int | None

    def to_json(self) -> dict[str, Any]:
        """Names as on the command line; the time in microseconds."""
        return {
            "operation": self.site.operation,
            "place": self.site.place,
            "times": self.times,
            "verdict": self.verdict,
            "message": self.message,
            "saved_us": None if self.saved_ps is None else self.saved_ps / 1e6,
        }

    @property
    def needed(self) -> bool:
        return self.verdict != CLEAN


def minimize_sync(
    job: Job, seeds: int = 3, advance: Callable[[str], Any] = lambda _: None
) -> tuple[Removal, ...]:
    """One removal for each synchronising place of *job*, in the order they are reached.

    *job* is functional (see ``functional_job``) and CLEAN as it is.
    """
    reached = sites_of(job)
    whole = _time(job, None)
    removals = []
    for site, times in reached.items():
        verdict, message = _verdict(job, site, seeds)
        time = _time(job, site)
        saved = None if time is None or whole is None else whole - time
        removals.append(
            Removal(site=site, times=times, verdict=verdict, message=message, saved_ps=saved)
        )
        advance(str(site))
    return tuple(removals)


def sites_of(job: Job) -> dict[Site, int]:
    """The synchronising places that *job* reaches, with how often."""
    sites = Sites()
    simulate(job, sites=sites)
    return sites.reached


def _verdict(job: Job, site: Site, seeds: int) -> tuple[str, str]:
    for seed in range(job.seed, job.seed + seeds):
        found = check_seed(replace(job, seed=seed), Sites(without=site))
        if found:
            return found[0].verdict, found[0].message
    return CLEAN, ""


def _time(job: Job, site: Site | None) -> int | None:
    timed = replace(job, functional=False, skewed=False)
    try:
        return simulate(timed, sites=Sites(without=site)).time_ps
    except ProgramError:
        return None
