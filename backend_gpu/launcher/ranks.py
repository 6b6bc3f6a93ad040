"""The ranks of a job: what each process is told by its environment, and how all are started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from tdsim.records import Job, Placement

from . import mps, processes
from .job import JobFolder

Processes = list[subprocess.Popen[bytes]]


def start(folder: JobFolder, job: Job, worker: Sequence[str], started: Processes) -> Processes:
    """Start *worker* once per rank, on one GPU through a daemon if that is to be shared.

    Each process is in *started* as soon as it runs; the ranks alone are returned.
    """
    if job.placement.share_gpu:
        started.append(mps.start(folder.mps))
        mps.await_answer(folder.mps, started[-1])
    for rank in range(job.placement.n_pes):
        told = environment(folder, job, rank)
        started.append(processes.start([*worker, str(folder.path)], folder.log(rank), told))
        folder.add_pid(started[-1].pid)
    return started[-job.placement.n_pes :]


def reap(started: Processes) -> None:
    """Take notice that the watchdog ended them, so that none stays a zombie."""
    for process in started:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)


def environment(folder: JobFolder, job: Job, rank: int) -> dict[str, str | None]:
    """The variables of *rank*; None is a variable that must not be inherited."""
    place = job.placement
    result: dict[str, str | None] = {
        processes.MARK: str(folder.path),
        "RANK": str(rank),
        "WORLD_SIZE": str(place.n_pes),
        "LOCAL_RANK": "0" if place.share_gpu else str(rank),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(_threads(place.n_pes))),
    }
    if place.share_gpu:
        result |= mps.environment(folder.mps)
        result["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = thread_percentage(place)
        # Else NVSHMEM takes PEs without a percentage for ones that may starve each other, waits
        # on the host in its barriers, and shares memory under a name that other jobs use too.
        result["NVSHMEM_IGNORE_CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "1"
    if job.heap_bytes is not None:
        result["NVSHMEM_SYMMETRIC_SIZE"] = str(job.heap_bytes)
    return result


def _threads(n_pes: int) -> int:
    """Threads for a PE's NumPy: all PEs' together no more than there are processors."""
    return max(1, len(os.sched_getaffinity(0)) // n_pes)


def thread_percentage(placement: Placement) -> str | None:
    """The share of a GPU's SMs that MPS gives each client, in per cent; None: all of them."""
    return None
