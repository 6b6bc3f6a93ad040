"""A job whose processes torchrun made: each is one rank, and rank 0 keeps the folder.

torchrun ends the other ranks when one fails, so nothing is started or killed here.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from tdsim.backends import OnResult
from tdsim.errors import BackendFailure, UsageError
from tdsim.records import Job, Measurement

from .failures import of_reports
from .job import JobFolder

RunRank = Callable[[Path, int, int, int], int]
"""``runtime.worker.run_rank``: folder, rank, world, local rank; returns an exit code."""
_POLL_S = 0.05
_LIMIT_S = 60.0
"""How long ranks may start, and end, apart from each other."""


def agreed_folder(environment: Mapping[str, str]) -> JobFolder:
    """The folder that all ranks of this torchrun agree on without a word between them."""
    if (
        environment.get("LOCAL_WORLD_SIZE", environment["WORLD_SIZE"])
        != environment["WORLD_SIZE"]
    ):
        raise UsageError(
            what=f"{environment['LOCAL_WORLD_SIZE']} of {environment['WORLD_SIZE']} ranks here",
            where="torchrun",
            expected="all ranks on one machine",
            cure="run torchrun with --nnodes 1; --pes-per-node makes logical nodes",
        )
    names = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    words = [environment.get(name, "").replace("/", "-") for name in names]
    name = "-".join(["tdsim", str(os.getuid()), *filter(None, words)])
    return JobFolder(Path(tempfile.gettempdir()) / name)


def lead(
    folder: JobFolder, job: Job, on_result: OnResult, run_rank: RunRank | None = None
) -> tuple[Measurement, ...]:
    """Rank 0: write the job, take part in it, and return its results."""
    folder.write_job(job)
    _take_part(folder, job, 0, run_rank)
    results = []
    for index in range(len(job.cases)):
        found = folder.result(index)
        assert found is not None, "rank 0 writes every result before it ends well"
        on_result(index, found)
        results.append(found)
    _await(lambda: folder.left() == job.placement.n_pes)
    return tuple(results)


def follow_rank_0(
    folder: JobFolder, rank: int, job: Job, run_rank: RunRank | None = None
) -> None:
    """Another rank: wait for the job of rank 0 and take part in it."""
    if not _await((folder.path / "job.json").exists):
        raise BackendFailure(f"rank 0 wrote no job for {_LIMIT_S:.0f} s", f"rank {rank}")
    _take_part(folder, job, rank, run_rank)


def _take_part(folder: JobFolder, job: Job, rank: int, run_rank: RunRank | None) -> None:
    """Run this process's rank; what it reports as wrong is raised here."""
    if run_rank is None:
        found: RunRank = import_module("..runtime.worker", __package__).run_rank
        run_rank = found
    local = int(os.environ["LOCAL_RANK"])
    code = run_rank(folder.path, rank, job.placement.n_pes, local)
    own = [report for report in folder.reports() if report.rank == rank]
    folder.leave(rank)
    if own:
        raise of_reports(folder, job, own)
    if code:
        raise BackendFailure(f"ended with exit code {code}", f"rank {rank}")


def _await(condition: Callable[[], bool]) -> bool:
    """Whether *condition* came true within the limit."""
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
