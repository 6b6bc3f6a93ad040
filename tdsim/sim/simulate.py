"""Run a program on a machine: the one entry into the simulator."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tdsim.engine.fiber import Fiber
from tdsim.engine.timeline import Segment
from tdsim.errors import ApiError
from tdsim.lang import DType, Program, activate
from tdsim.programs import standard_inputs
from tdsim.sim.choices import Chooser
from tdsim.sim.chosen import ChosenWorld
from tdsim.sim.chosen_host import ChosenContext
from tdsim.sim.context import HostContext
from tdsim.sim.delays import Delays
from tdsim.sim.failures import reported_at
from tdsim.sim.hangs import deadlock, missing_allocation
from tdsim.sim.hooks import Listener, OrderListener
from tdsim.sim.sites import Sites
from tdsim.sim.tile import Buffer
from tdsim.sim.world import World
from tdsim.topology import Machine
from tdsim.units import us

MAX_SKEW_PS = us(300)
"""Ranks start each call of a check up to this much apart: longer than a small kernel runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run. *sizes* are all names of size expressions; *delays* hold ranks back (ps)."""

    program: Program
    machine: Machine
    sizes: Mapping[str, int]
    tunables: Mapping[str, Any]
    dtype: DType
    seed: int = 0
    calls: int = 1
    functional: bool = False
    skewed: bool = False
    delays: Mapping[int, int] = field(default_factory=dict)
    slowdown: float = 1.0
    injected: Delays | None = None
    """Delays of single operations; they count how often they were applied."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What a run showed. Times in picoseconds; *outputs* per call, tensor and rank."""

    world: World
    time_ps: int
    ends: list[int]
    last: Segment | None
    events: int
    wall_s: float
    inputs: list[dict[str, list[Any]]]
    outputs: list[dict[str, list[Any]]]


def simulate(
    job: Job,
    listeners: tuple[Listener, ...] = (),
    order: OrderListener | None = None,
    sites: Sites | None = None,
    chooser: Chooser | None = None,
) -> Run:
    """Run *job*; raises DeadlockError or ApiError when the program misbehaves.

    With a *chooser* time decides nothing: it names who goes next, whenever that is open.
    """
    hostile, delays = job.functional and job.skewed, job.injected
    given = (job.machine, job.functional, job.seed, listeners, job.slowdown, order, sites)
    if chooser is None:
        world = World(*given, hostile=hostile, delays=delays)
    else:
        world = ChosenWorld(chooser, *given)
    return _Simulation(job, world).run()


def _inputs_of(job: Job, call: int) -> dict[str, list[Any]]:
    """What *job* is given in *call*: the same arrays on every backend."""
    return standard_inputs(
        job.program, job.sizes, job.dtype, job.machine.world_size, job.seed, call
    )


class _Simulation:
    def __init__(self, job: Job, world: World) -> None:
        self.job, self.world = job, world
        make = HostContext if world.schedule is None else ChosenContext
        self.contexts = [make(world, rank) for rank in range(world.n_pes)]
        self.tensors = {name: self._tensor(name) for name in job.program.tensors}
        self.inputs = (
            [_inputs_of(job, call) for call in range(job.calls)] if job.functional else []
        )
        self.outputs: list[dict[str, list[Any]]] = [
            {
                n: [None] * self.world.n_pes
                for n, t in job.program.tensors.items()
                if t.role == "output"
            }
            for _ in range(job.calls)
        ]
        self.allocations: dict[int, dict[str, int]] = {}
        self.ends = [0] * self.world.n_pes
        self.calls_done = [0] * self.world.n_pes

    def _tensor(self, name: str) -> Buffer:
        tensor = self.job.program.tensors[name]
        shape = tensor.shape(self.job.sizes, f"{self.job.program.name} tensor {name}")
        return self.world.allocate(name, shape, self.job.dtype, tensor.symmetric)

    def run(self) -> Run:
        begin = time.perf_counter()
        skew = random.Random(self.job.seed + 1)
        for context in self.contexts:
            delays = [
                self.job.delays.get(context.rank, 0)
                + (skew.randrange(MAX_SKEW_PS) if self.job.skewed else 0)
                for _ in range(self.job.calls)
            ]
            Fiber(self.world.env, lambda c=context, d=delays: self._host(c, d), _outside)  # type: ignore[misc]
        try:
            with _no_cycle_collection():
                self.world.run()
        finally:
            activate(None)
        self._check_finished()
        self._check_signal_counts()
        last = max(
            (c.main.state for c in self.contexts if c.main.state),
            key=lambda s: s.end,
            default=None,
        )
        return Run(
            world=self.world,
            time_ps=max(self.ends),
            ends=self.ends,
            last=last,
            events=next(self.world.env._eid),
            wall_s=time.perf_counter() - begin,
            inputs=self.inputs,
            outputs=self.outputs,
        )

    def _host(self, ctx: HostContext, delays: list[int]) -> None:
        job = self.job
        views = {name: buffer.view(ctx.rank) for name, buffer in self.tensors.items()}
        for call, delay in enumerate(delays):
            if delay:
                ctx._spend(delay, "late start")
            if job.functional:
                ctx.fill(self._begin_call(ctx, call))
            ctx.begin_call()
            with reported_at(f"host program {job.program.name} on PE {ctx.rank}"):
                job.program.host(ctx, **views, **job.tunables)
            self._compare_allocations(ctx)
            ctx.end_call(lambda c=call: self._finish(ctx, c))  # type: ignore[misc]

    def _begin_call(self, ctx: HostContext, call: int) -> Any:
        """Fill this call's inputs and poison its outputs, in stream order."""

        def steps() -> Any:
            for name, buffer in self.tensors.items():
                array = buffer.arrays[ctx.rank]  # type: ignore[index]
                if name in self.inputs[call]:
                    array[...] = self.inputs[call][name][ctx.rank]
                elif not buffer.symmetric:  # peers may already write a symmetric output
                    array[...] = np.nan
                else:
                    continue
                if self.world.order is not None:
                    self.world.order.access(ctx.main, "write", buffer.view(ctx.rank))
            return
            yield  # a stream operation is a generator

        return steps

    def _finish(self, ctx: HostContext, call: int) -> None:
        self.ends[ctx.rank] = self.world.env.now
        self.calls_done[ctx.rank] = call + 1
        if self.job.functional:
            for name in self.outputs[call]:
                array = self.tensors[name].arrays[ctx.rank]  # type: ignore[index]
                self.outputs[call][name][ctx.rank] = array.copy()
                if self.world.order is not None:
                    view = self.tensors[name].view(ctx.rank)
                    self.world.order.access(ctx.main, "read", view)

    def _compare_allocations(self, ctx: HostContext) -> None:
        """Allocations are collective: who makes one more than another waits there for it."""
        mine = {kind: n for kind, n in ctx.allocated.items() if kind != "local"}
        first = self.allocations.setdefault(ctx.rank, mine)
        if first != mine:
            raise ApiError(
                f"PE {ctx.rank} allocated {_counted(mine)} in a call and {_counted(first)} "
                "in the first",
                self.job.program.name,
                "allocate the same on every PE and in every call",
            )
        if len(self.allocations) < self.world.n_pes:
            return
        for kind in sorted({kind for made in self.allocations.values() for kind in made}):
            pes = self.world.owners(kind)
            made = {pe: self.allocations[pe].get(kind, 0) for pe in pes}
            if len(set(made.values())) > 1:
                raise missing_allocation(self.world, kind, made)

    def _check_finished(self) -> None:
        streams = [s for gpu in self.world.gpus for s in gpu.streams.values()]
        if min(self.calls_done) < self.job.calls or not all(s.idle for s in streams):
            raise deadlock(self.world)

    def _check_signal_counts(self) -> None:
        for sig in self.world.signal_arrays:
            if not sig.added or not sig.per_call:
                continue
            for pe, words in enumerate(sig.words):
                for i, word in enumerate(words):
                    if word != self.job.calls * sig.per_call and word:
                        raise ApiError(
                            f"{sig.name}[{i}] on PE {pe} counted {word} in {self.job.calls} "
                            f"calls instead of {sig.per_call} per call",
                            self.job.program.name,
                            "an added-to signal must receive exactly per_call in each call",
                        )


def _counted(allocations: Mapping[str, int]) -> str:
    return " and ".join(f"{n} of {kind}" for kind, n in allocations.items()) or "nothing"


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Python's cycle collector off: it would walk hundreds of thousands of live events.

    What a run lets go of is freed by reference counts; the rest lives until the run ends.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _outside() -> None:
    """Host code runs: device operations are errors again."""
    activate(None)
