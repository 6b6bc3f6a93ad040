"""One PE of a job: ``python -m tdsim.backend_gpu.runtime.worker JOBDIR``.

The parent and the PEs share the job folder and nothing else: ``job.json`` goes in,
``ready-R``, ``environment.json``, ``result-N.json`` (by PE 0) and ``error-R.json`` come out.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # a lazy load would wait for a spinning kernel

import torch
import torch.distributed as dist

from tdsim.errors import TdsimError, UsageError
from tdsim.records import Case, Job

from ..lowering.world import World
from . import driver
from .context import Context
from .environment import environment
from .heap import Heap
from .measure import Runner


def main() -> int:
    """Run the job of the folder named on the command line as the PE that RANK says."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    status = run_rank(Path(sys.argv[1]), rank, world, int(os.environ.get("LOCAL_RANK", "0")))
    sys.stderr.flush()
    if status:
        os._exit(status)  # a close would wait for peers that may never come to theirs
    return 0


def run_rank(folder: Path, rank: int, world: int, local_rank: int) -> int:
    """Run the job in *folder* as PE *rank* on GPU *local_rank*; return the exit status.

    Errors end this PE only; whoever started it stops the others.
    """
    job = Job.from_json(json.loads((folder / "job.json").read_text()))
    pe = _Pe(folder, job, rank, world)
    try:
        pe.start(local_rank)
        for number, case in enumerate(job.cases):
            pe.run(number, case)
        pe.close()
    except Exception as error:
        pe.report(error)
        return 2 if isinstance(error, UsageError) else 1
    return 0


class _Pe:
    """This process's part of the job."""

    def __init__(self, folder: Path, job: Job, rank: int, world: int) -> None:
        self.folder, self.job, self.rank, self.world = folder, job, rank, world
        self.case: int | None = None

    def start(self, device: int) -> None:
        """Join the group, take the GPU (or this PE's SMs of it) and bring NVSHMEM up."""
        torch.cuda.set_device(device)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{self.folder / 'store'}",
            rank=self.rank,
            world_size=self.world,
            timeout=datetime.timedelta(seconds=120),
        )
        torch.zeros(1, device="cuda")
        place = self.job.placement
        shared = place.share_gpu and self.world > 1
        self.sms = driver.split_sms(device, self.world, self.rank) if shared else None
        self.heap = Heap(device, self.rank, self.world)
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, environment(self.sms))
        if self.rank == 0:
            self.write("environment.json", {**found[0], "sms": [f["sms"] for f in found]})
        (self.folder / f"ready-{self.rank}").touch()

    def run(self, number: int, case: Case) -> None:
        """Run one case with a limit on its time; PE 0 writes the result."""
        self.case = number
        limit = threading.Timer(self.job.timeout_s, self._give_up)
        limit.daemon = True
        limit.start()
        world = World(self.rank, self.world, self.job.placement.pes_per_node)
        found = Runner(Context(self.heap, world, self.sms), case).run()
        limit.cancel()
        if self.rank == 0:
            self.write(f"result-{number}.json", found.to_json())

    def _give_up(self) -> None:
        """End a case that does not end: its kernels may wait for ever."""
        what = f"case {self.case} did not end within {self.job.timeout_s} s"
        text = {"kind": "hang", "what": what, "where": f"PE {self.rank}", "report": []}
        self.write(f"error-{self.rank}.json", {"rank": self.rank, "case": self.case, **text})
        os._exit(1)

    def report(self, error: Exception) -> None:
        """Leave *error* where the parent looks for it."""
        usage = isinstance(error, UsageError)
        fields = {
            "rank": self.rank,
            "case": self.case,
            "kind": "usage" if usage else "failure",
            "what": error.what if isinstance(error, UsageError) else _line(error),
            "where": getattr(error, "where", "") or f"PE {self.rank}",
            "expected": getattr(error, "expected", ""),
            "cure": getattr(error, "cure", ""),
            "report": traceback.format_exc().splitlines(),
        }
        self.write(f"error-{self.rank}.json", fields)

    def write(self, name: str, value: Any) -> None:
        """Write a file of the job folder, whole or not at all."""
        part = self.folder / f".{name}.{self.rank}"
        part.write_text(json.dumps(value))
        part.replace(self.folder / name)

    def close(self) -> None:
        """Take everything down in order, so that nothing is said at the interpreter's exit."""
        self.heap.close()
        dist.destroy_process_group()


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, TdsimError) else f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    sys.exit(main())
