"""What tests of programs share: tiny programs, machines without overheads, comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import networkx as nx
import numpy as np

from tdsim import lang as td
from tdsim.sim import Job, Run, simulate
from tdsim.topology import Machine, machine
from tdsim.units import Bandwidth

TOLERANCE = {"bf16": 2e-2, "fp16": 4e-3, "fp32": 2e-3}
"""Largest error over the largest reference value: a few roundings; TF32 for fp32."""
INSTANT = Bandwidth(10**18)
"""A rate at which any test's bytes take 0 ps or 1."""


def program(host: Callable[..., None], **tensors: td.Tensor) -> td.Program:
    """A program around *host* without shape keys, knobs or reference."""
    return td.program(
        shape=("n",), tensors=tensors, work=(), reference=lambda t: {}, small_shape="n=1"
    )(host)


def run(
    host: Callable[..., None] | td.Program,
    on: str | Machine = "h800x2",
    *,
    tensors: Mapping[str, td.Tensor] | None = None,
    functional: bool = True,
    dtype: td.DType = td.float32,
    listeners: tuple[Any, ...] = (),
    chooser: Any = None,
    **job: Any,
) -> Run:
    """Simulate *host*, a program or a plain host function, on the machine *on*."""
    target = machine(on) if isinstance(on, str) else on
    prog = host if isinstance(host, td.Program) else program(host, **(tensors or {}))
    made = Job(
        program=prog,
        machine=target,
        sizes={"n": 1, "world": target.world_size, "nodes": target.num_nodes},
        tunables={},
        dtype=dtype,
        functional=functional,
        **job,
    )
    return simulate(made, listeners, chooser=chooser)


def run_kernel(kernel: td.Kernel, *args: Any, out: tuple[int, ...], dtype: td.DType) -> Any:
    """What one program instance of *kernel* writes to its first argument, an empty tensor."""

    def host(ctx: td.Context) -> None:
        ctx.launch(kernel, 1, (ctx.local(out, dtype), *args))

    return run(host, "h800x1").world.buffers[0].arrays[0]


def time_of(kernel: td.Kernel, *args: Any, functional: bool, on: str | Machine) -> int:
    """Picoseconds that one program instance of *kernel* computes; views come from *args*.

    An argument ``(shape, dtype)`` becomes symmetric memory of that kind.
    """

    def host(ctx: td.Context) -> None:
        values = [ctx.symmetric(*a) if isinstance(a, tuple) else a for a in args]
        if ctx.my_pe == 0:
            ctx.launch(kernel, 1, values)

    done = run(host, on, functional=functional)
    return sum(sum(launch.busy.values()) for launch in done.world.launches)


def library(
    prog: td.Program,
    on: str | Machine,
    shape: Mapping[str, int] | None = None,
    tunables: Mapping[str, Any] | None = None,
    **job: Any,
) -> Job:
    """A job of a library program; its own small shape if none is given."""
    target = machine(on) if isinstance(on, str) else on
    world, nodes = target.world_size, target.num_nodes
    sizes = prog.sizes(shape or prog.default_shape(world, nodes), world, nodes)
    job.setdefault("dtype", td.bfloat16)
    return Job(
        program=prog, machine=target, sizes=sizes, tunables=prog.tuned(tunables or {}), **job
    )


def assert_equals_reference(job: Job, done: Run) -> None:
    """Every output of every call and rank agrees with the NumPy reference."""
    tolerance = 0 if job.program.name == "allgather" else TOLERANCE[job.dtype.short]
    assert len(done.outputs) == job.calls
    for call, inputs in enumerate(done.inputs):
        for name, expected in job.program.reference(inputs).items():
            for rank, want in enumerate(expected):
                got = done.outputs[call][name][rank].astype(np.float64)
                want = want.astype(np.float64)
                assert got.shape == want.shape
                error = np.abs(got - want).max()
                assert error <= tolerance * np.abs(want).max(), (call, name, rank, error)


def frictionless(base: str = "h800x8", **gpu: Any) -> Machine:
    """*base* without fixed costs and with rates that no test notices; *gpu* sets the rest."""
    full = machine(base)
    free = {f.name: 0 for f in fields(full.host) if f.name not in ("connections", "sources")}
    graph = nx.DiGraph()
    for a, b, data in full.graph.edges(data=True):
        graph.add_edge(a, b, link=replace(data["link"], latency_ps=0, bandwidth=INSTANT))
    rates = {
        "hbm": INSTANT, "l2": INSTANT, "sm_copy": INSTANT,
        "copy_engine": INSTANT, "local_copy": INSTANT,
    }  # fmt: skip
    return replace(
        full,
        gpu=replace(full.gpu, **{**rates, "mma_efficiency": 1.0, **gpu}),
        host=replace(full.host, **free),
        graph=nx.freeze(graph),
    )


def with_host(base: Machine, **host: Any) -> Machine:
    """*base* with some fixed costs of its host changed."""
    return replace(base, host=replace(base.host, **host))
