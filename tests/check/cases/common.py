"""What cases share: their record, machines of a chosen size, tiny kernels and references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from tdsim import lang as td
from tdsim.topology import Machine, machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program and the *verdict* that is right for it.

    *id* is the report's number and the variant; *says* are words that the findings must have.
    *seeds* is how many schedules are tried.
    """

    id: str
    program: Callable[[], td.Program]
    verdict: str
    topology: str | Machine = "h800x2"
    says: tuple[str, ...] = ()
    seeds: int = 4
    calls: int = 3
    dtype: str = "fp32"

    def __str__(self) -> str:
        return self.id


def program(
    host: Callable[..., None],
    reference: Callable[[Any], Any] | None = None,
    sums: bool = False,
    **tensors: td.Tensor,
) -> td.Program:
    """*host* as a program on x and y, 4 x 8 elements per PE, or on *tensors*.

    Without a *reference* it has no tensors: only its synchronisation is checked. *sums*: its
    results may be rounded.
    """
    if reference is None:
        tensors = {}
    elif not tensors:
        tensors = {"x": td.Input("4", "8"), "y": td.Output("4", "8")}
    return td.program(
        shape=("n",),
        tensors=tensors,
        work=(td.ReduceScatter("32"),) if sums else (),
        reference=reference or (lambda inputs: {}),
        small_shape="n=1",
    )(host)


def from_previous(inputs: Any) -> Any:
    """y is x of the PE before this one."""
    x = inputs["x"]
    return {"y": [x[rank - 1] for rank in range(len(x))]}


def unchanged(inputs: Any) -> Any:
    """y is x."""
    return {"y": [a.copy() for a in inputs["x"]]}


def total(inputs: Any) -> Any:
    """y is the sum of x over all PEs."""
    all_x = np.sum([a.astype(np.float64) for a in inputs["x"]], axis=0)
    return {"y": [all_x for _ in inputs["x"]]}


def call_of(ctx: Any) -> int:
    """How often the host program has asked before: the number of the call, on the host."""
    ctx.asked = getattr(ctx, "asked", -1) + 1
    return ctx.asked


def with_sms(count: int, base: str = "h800x1") -> Machine:
    """*base* with *count* SMs on each GPU."""
    full = machine(base)
    return replace(full, gpu=replace(full.gpu, num_sms=count))


def one_queue(base: str) -> Machine:
    """*base* with CUDA_DEVICE_MAX_CONNECTIONS=1: all streams share one hardware queue."""
    full = machine(base)
    return replace(full, host=replace(full.host, connections=1))


def with_lines(whole: int, base: str = "h800x2") -> Machine:
    """*base* with links that deliver *whole* bytes as one."""
    full = machine(base)
    graph = nx.DiGraph()
    for a, b, data in full.graph.edges(data=True):
        graph.add_edge(a, b, link=replace(data["link"], line_bytes=whole))
    return replace(full, graph=nx.freeze(graph))


@td.function
def copy_tile(dst, src):
    """Copy 4 x 8 elements."""
    td.store(dst, (0, 0), td.load(src, (0, 0), (4, 8)))


@td.kernel
def copy_kernel(dst, src):
    """Copy 4 x 8 elements."""
    copy_tile(dst, src)


@td.kernel
def fill_kernel(dst, value):
    """Fill 4 x 8 elements."""
    td.store(dst, (0, 0), td.full((4, 8), value, td.float32))
