"""One case on one PE: its data against the reference, and its time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from tdsim import lang as td
from tdsim.programs import load_program, standard_inputs
from tdsim.records import Case, Measurement
from tdsim.samples import Sample, sample

from .clock import Clock
from .context import Context
from .gate import Gate
from .judge import as_numpy, as_torch, judged
from .memory import View
from .offsets import offsets, skew_us

_INPUT_SETS_BYTES = 256 << 20
"""Timed calls rotate through inputs of at least this size, several times any L2."""
_TORCH = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32,
          "int32": torch.int32, "int64": torch.int64}  # fmt: skip


class Runner:
    """Runs *case* with *ctx*. Collective: all PEs run the same case."""

    def __init__(self, ctx: Context, case: Case) -> None:
        self.ctx, self.case = ctx, case
        self.program = load_program(case.program)
        self.sizes = self.program.sizes(case.shape, ctx.n_pes, ctx.n_nodes)
        self.tunables = self.program.tuned(case.tunables)
        self.dtype = td.dtype(case.dtype)
        self.clock = Clock(ctx, max(self._timed, 1))
        self.sets: list[dict[str, View]] = []
        self._samples: list[Sample] = []
        self._held: list[torch.Tensor] = []

    def prepare(self) -> None:
        """Allocate and compile everything."""
        self.sets = [self._tensors() for _ in range(self._input_sets())]
        for views in self.sets:
            self.call(views)
        self.clock.meet(0)
        self.ctx.ready()

    def run(self) -> Measurement:
        """The data runs, then the timed calls."""
        wrong, error = self._data_runs(self.sets[0])
        times = self._timed_calls(self.sets)
        left = self.clock.read()[self.case.warmup :]
        found: list[Any] = [None] * self.ctx.n_pes
        dist.all_gather_object(found, (wrong, error, times, left, self._samples))
        wrongs, errors, all_times, all_left, samples = zip(*found, strict=True)
        runs, repeats = self.case.runs, self.case.repeats
        return Measurement(
            case=self.case,
            time_us=tuple(map(tuple, all_times)) if repeats else (),
            skew_us=skew_us(all_left, self._offsets(all_left)) if repeats else None,
            wrong_runs=max(wrongs) if runs else None,
            max_error=max(errors) if runs else None,
            heap_bytes=self.ctx.heap.in_use,
            kernels={
                loaded.compiled.name: {
                    "registers": loaded.compiled.resources.registers,
                    "shared_bytes": loaded.compiled.resources.shared_bytes,
                    "stack_bytes": loaded.compiled.resources.stack_bytes,
                }
                for loaded in self.ctx.kernels.values()
            },
            samples=tuple(one for of_rank in samples for one in of_rank),
        )

    def _offsets(self, left: Sequence[Sequence[int]]) -> Sequence[int]:
        """Of the PEs' timers; PEs on one GPU read the same one."""
        return (0,) * self.ctx.n_pes if self.ctx.shares_gpu else offsets(left).of

    @property
    def _timed(self) -> int:
        """Calls on the clock, those for warm-up included."""
        return self.case.warmup + self.case.repeats if self.case.repeats else 0

    def _input_sets(self) -> int:
        if not self.case.repeats:
            return 1
        size = sum(
            self.dtype.itemsize * int(np.prod(t.shape(self.sizes, n)))
            for n, t in self.program.tensors.items()
            if t.role == "input"
        )
        return max(1, min(4, _INPUT_SETS_BYTES // max(size, 1)))

    def _tensors(self) -> dict[str, View]:
        """Fresh memory for every tensor of the program, inputs filled with normal values."""
        views: dict[str, View] = {}
        for name, tensor in self.program.tensors.items():
            shape = tensor.shape(self.sizes, f"{self.program.name} tensor {name}")
            count = self.dtype.itemsize * int(np.prod(shape))
            step = int(np.prod(shape[1:]))
            if tensor.symmetric:
                heap = self.ctx.heap
                views[name] = View(heap.allocate(count), shape, self.dtype, step, heap)
            else:
                block = torch.empty(count, dtype=torch.uint8, device="cuda")
                self._held.append(block)
                views[name] = View(block.data_ptr(), shape, self.dtype, step)
            as_tensor(views[name]).normal_()
        return views

    def call(self, views: dict[str, View]) -> None:
        """Queue one call of the program."""
        self.ctx.begin_call()
        self.program.host(self.ctx, **views, **self.tunables)
        self.ctx.end_call()

    def _data_runs(self, views: dict[str, View]) -> tuple[int, float]:
        """Wrong runs and the worst error (relative norm of the difference)."""
        wrong, worst = 0, 0.0
        for run in range(self.case.runs):
            verdicts = self._data_run(views, run)
            worst = max([worst, *(error for error, _ in verdicts)])
            wrong += not all(right for _, right in verdicts)
        return wrong, worst

    def _data_run(self, views: dict[str, View], run: int) -> list[tuple[float, bool]]:
        """Several calls without host synchronisation between them, one PE late at random."""
        ctx, rank = self.ctx, self.ctx.my_pe
        given = [
            standard_inputs(
                self.program, self.sizes, self.dtype, ctx.n_pes, self.case.seed + run, call
            )
            for call in range(self.case.calls)
        ]
        staged = [{n: as_torch(v[rank]).cuda() for n, v in call.items()} for call in given]
        outputs = [n for n, t in self.program.tensors.items() if t.role == "output"]
        results: list[dict[str, torch.Tensor]] = []
        self._poison(views)
        torch.cuda.synchronize()
        dist.barrier()
        draw = random.Random(f"{self.case.seed} {run}")
        late = [draw.randrange(ctx.n_pes) for _ in range(self.case.calls)]
        with torch.cuda.stream(ctx.main):
            for call, tensors in enumerate(staged):
                if late[call] == rank:
                    torch.cuda._sleep(draw.randrange(2_000_000))
                for name, value in tensors.items():
                    as_tensor(views[name]).copy_(value)
                for name in outputs:
                    if views[name].heap is None:  # peers may already write a symmetric one
                        as_tensor(views[name]).fill_(float("nan"))
                self.call(views)
                results.append({n: as_tensor(views[n]).clone() for n in outputs})
        ctx.synchronize()
        if run == 0:
            self._samples = [
                sample(as_numpy(value, self.dtype), call=call, rank=rank, output=name)
                for call, found in enumerate(results)
                for name, value in found.items()
            ]
        wanted = [self.program.reference(inputs) for inputs in given]
        return [
            judged(found[name], right[name][rank])
            for found, right in zip(results, wanted, strict=True)
            for name in outputs
        ]

    def _poison(self, views: dict[str, View]) -> None:
        """NaN in everything that a program must not read before it is written."""
        kept = [v for kind in ("symmetric", "local") for v in self.ctx.memory(kind)]
        for view in [*kept, *views.values()]:
            if view.dtype.is_float:
                as_tensor(view).fill_(float("nan"))

    def _timed_calls(self, sets: list[dict[str, View]]) -> list[float]:
        """Microseconds of each call between events on the main stream, from a barrier on.

        The calls of all PEs are queued before the barrier begins, as behind the work of a
        model: what the host takes to queue them is in no time.
        """
        for views in sets:
            for name, tensor in self.program.tensors.items():
                if tensor.role == "input":
                    as_tensor(views[name]).normal_()
        torch.cuda.synchronize()
        times = []
        gate = Gate(self.ctx.main)
        for number in range(self._timed):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            gate.close()
            self.clock.meet(number)
            begin.record(self.ctx.main)
            self.call(sets[number % len(sets)])
            end.record(self.ctx.main)
            dist.barrier()
            gate.open()
            self.ctx.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        return times[self.case.warmup :]


class _Raw:
    """CUDA memory as torch takes it from others."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def as_tensor(view: View) -> torch.Tensor:
    """The same memory as a torch tensor."""
    raw = torch.as_tensor(_Raw(view.address, view.nbytes), device="cuda")
    return raw.view(_TORCH[view.dtype.name]).view(view.shape)
