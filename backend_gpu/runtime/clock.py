"""The GPU's global timer, kept in stream order. For several GPUs see ``offsets.py``."""

from __future__ import annotations

import torch

from tdsim import lang as td

from ..lowering.stamps import keep_time, keep_timer_step
from .context import Context
from .memory import View

_READS = 50_000
"""Readings of the timer, tens of nanoseconds apart: they see hundreds of its longest steps."""


@td.kernel
def stamp_at(times, i):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Keep the time."""
    keep_time(times, i)


@td.kernel
def meet_at(times, i):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """A barrier of all PEs; keep the time at which this one leaves it."""
    td.barrier_all()
    keep_time(times, i)


@td.kernel
def step_at(times, i, reads):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Keep the step in which the timer advances."""
    keep_timer_step(times, i, reads)


class Clock:
    """*count* words for readings of this PE's timer, in nanoseconds.

    What is to be launched later must be called once before ``ctx.ready()``: until then calls
    compile and run nothing, as with all of *ctx*. *stream*: None is the main stream.
    """

    def __init__(self, ctx: Context, count: int) -> None:
        self._ctx = ctx
        self._words = torch.zeros(count, dtype=torch.int64, device="cuda")
        self._times = View(self._words.data_ptr(), (count,), td.int64, 1)

    def stamp(self, i: int, stream: torch.cuda.Stream | None = None) -> None:
        """Keep as word *i* the time when the work before on *stream* has ended."""
        self._ctx.launch(stamp_at, 1, (self._times, i), stream, num_warps=1)

    def meet(self, i: int, stream: torch.cuda.Stream | None = None) -> None:
        """``ctx.barrier_all`` that keeps as word *i* when this PE leaves it. Collective."""
        self._ctx.launch(meet_at, 1, (self._times, i), stream, num_warps=1)

    def step(self, i: int, stream: torch.cuda.Stream | None = None) -> None:
        """Keep as word *i* the smallest step in which the timer was seen to advance."""
        self._ctx.launch(step_at, 1, (self._times, i, _READS), stream, num_warps=1)

    def read(self) -> list[int]:
        """All words, once the GPU has come to rest."""
        self._ctx.synchronize()
        found: list[int] = self._words.tolist()
        return found
