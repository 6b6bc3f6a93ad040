"""The GPU backend as the core sees it: jobs in, records out."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tdsim.backends import Finding, OnResult
from tdsim.records import Job, Measurement, Placement, Record

from . import ranks, torchrun
from .doctor import examine
from .job import JobFolder
from .preflight import check_job, check_machine
from .wait import follow
from .watchdog import watched

WORKER = (sys.executable, "-P", "-m", "tdsim.backend_gpu.runtime.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBackend:
    """Runs jobs on this machine's GPUs.

    *worker* is the command of one PE, *run_rank* the same as a call (None: the runtime's);
    *require* raises UsageError if the machine cannot take a placement.
    """

    worker: Sequence[str] = WORKER
    run_rank: torchrun.RunRank | None = None
    require: Callable[[Placement], None] = check_machine

    def run(self, job: Job, on_result: OnResult) -> Record:
        """Start all PEs of *job*, run its cases, end the PEs."""
        check_job(job)
        self.require(job.placement)
        folder, started = JobFolder.temporary(), ranks.Processes()
        try:
            with watched(folder):
                folder.write_job(job)
                running = ranks.start(folder, job, self.worker, started)
                return record(folder, job, follow(folder, job, running, on_result))
        finally:
            ranks.reap(started)

    def join(self, job: Job, on_result: OnResult) -> Record | None:
        """Run *job* as the rank that torchrun made of this process; rank 0 gets the record."""
        check_job(job)
        self.require(job.placement)
        folder, rank = torchrun.agreed_folder(os.environ), int(os.environ["RANK"])
        if rank:
            torchrun.follow_rank_0(folder, rank, job, self.run_rank)
            return None
        folder.renew()
        with watched(folder):
            results = torchrun.lead(folder, job, on_result, self.run_rank)
            return record(folder, job, results)

    def doctor(self) -> Sequence[Finding]:
        """What is installed, what is missing, and the command that mends it."""
        return examine()


def record(folder: JobFolder, job: Job, results: tuple[Measurement, ...]) -> Record:
    """The results with the day, the command and what the ranks said of the machine."""
    return Record(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        environment={"tdsim": version("tdsim"), **folder.environment()},
        placement=job.placement,
        measurements=results,
    )
