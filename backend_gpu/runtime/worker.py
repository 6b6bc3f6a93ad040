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
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # a lazy load would wait for a spinning kernel

import torch
import torch.distributed as dist

from tdsim.errors import HangError, TdsimError, UsageError
from tdsim.records import Case, Job

from ..lowering.world import World
from . import sms
from .context import Context
from .environment import environment
from .hangs import WaitReport
from .heap import Heap
from .measure import Runner
from .traced import TracedContext, Tracer

MAX_CONNECTIONS = 32
"""Hardware queues at most, by CUDA; with too few a stream stands behind another's wait."""


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
        self.ctx: Context | None = None

    def start(self, device: int) -> None:
        """Join the group, take the GPU (or this PE's SMs of it) and bring NVSHMEM up."""
        place = self.job.placement
        shared = place.share_gpu and self.world > 1
        connections = sms.CONNECTIONS // self.world if shared else MAX_CONNECTIONS
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = str(min(connections, MAX_CONNECTIONS))
        torch.cuda.set_device(device)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{self.folder / 'store'}",
            rank=self.rank,
            world_size=self.world,
            timeout=datetime.timedelta(seconds=120),
        )
        torch.zeros(1, device="cuda")
        self.sms = sms.split(device, self.world, self.rank) if shared else None
        self.heap = Heap(device, self.rank, self.world, self.job.heap_bytes)
        if self.sms:
            self._check_sms(self.sms)
        found = self.from_all(environment(self.sms))
        if self.rank == 0:
            self.write("environment.json", {**found[0], "sms": [f["sms"] for f in found]})
        (self.folder / f"ready-{self.rank}").touch()

    def _check_sms(self, mine: sms.SmSet) -> None:
        """Refuse PEs that share SMs: each would be slower at the other's whim."""
        counts = self.heap.on(self.heap.allocate(8), 0)
        torch.cuda.synchronize()
        dist.barrier()
        if not all(self.from_all(sms.fill_together(mine, self.world, counts))):
            raise UsageError(
                what=f"the PEs' sets of {mine.num_sms} SMs overlap",
                where="--share-gpu",
                expected="SMs of its own for each PE",
                cure="free the GPU of other programs, or start fewer PEs",
            )
        self.heap.release()

    def from_all(self, value: Any) -> list[Any]:
        """The *value* of every PE, by number. Collective."""
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def run(self, number: int, case: Case) -> None:
        """Run one case with a limit on its time; PE 0 writes the result."""
        self.case = number
        self.ctx = Context(*self._place())
        found = self._measured(Runner(self.ctx, case))
        if self.job.trace:
            self.ctx = traced = TracedContext(*self._place())
            found = replace(found, timeline=self._measured(Tracer(traced, case)))
        if self.rank == 0:
            self.write(f"result-{number}.json", found.to_json())

    def _place(self) -> tuple[Heap, World, sms.SmSet | None, WaitReport | None]:
        """What a context is told."""
        world = World(self.rank, self.world, self.job.placement.pes_per_node)
        report = WaitReport(self.job.timeout_s / 2) if self.job.debug else None
        return self.heap, world, self.sms, report

    def _measured(self, task: Runner | Tracer) -> Any:
        """What *task* finds within its limit; its symmetric memory is freed."""
        task.prepare()  # compiling takes what it takes
        limit = threading.Timer(self.job.timeout_s, self._give_up)
        limit.daemon = True
        limit.start()
        found = task.run()
        self.heap.release()
        limit.cancel()
        return found

    def _give_up(self) -> None:
        """End a case that does not end: its kernels may wait for ever."""
        lines = self.ctx.hang_lines() if self.ctx else []
        hint = "no kernel's wait" if self.job.debug else "run it with --debug to see which wait"
        which = " of the traced call" if self.ctx and self.ctx.traced else ""
        what = f"no end{which} within {self.job.timeout_s:g} s ({hint})"
        text = {"kind": "hang", "what": what, "where": f"PE {self.rank}", "report": lines}
        self.write(f"error-{self.rank}.json", {"rank": self.rank, "case": self.case, **text})
        os._exit(1)

    def report(self, error: Exception) -> None:
        """Leave *error* where the parent looks for it."""
        usage, hang = isinstance(error, UsageError), isinstance(error, HangError)
        fields = {
            "rank": self.rank,
            "case": self.case,
            "kind": "usage" if usage else "hang" if hang else "failure",
            "what": error.what if isinstance(error, UsageError | HangError) else _line(error),
            "where": getattr(error, "where", "") or f"PE {self.rank}",
            "expected": getattr(error, "expected", ""),
            "cure": getattr(error, "cure", ""),
            "report": getattr(error, "report", None) or traceback.format_exc().splitlines(),
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
