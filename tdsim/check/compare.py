"""The outputs of a run against the program's NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdsim.errors import UsageError
from tdsim.lang import Gemm, ReduceScatter
from tdsim.sim import Job, Run
from tdsim.sim.failures import reported_at

TOLERANCE = {"bf16": 2e-2, "fp16": 4e-3, "fp32": 2e-3}
"""Largest error over the largest reference value: a few roundings; TF32 for fp32."""


def tolerance_of(job: Job) -> float:
    """The largest error over the largest value that *job* may have; 0 if it only moves data."""
    exact = not any(isinstance(step, (Gemm, ReduceScatter)) for step in job.program.work)
    return 0.0 if exact else TOLERANCE.get(job.dtype.short, 0.0)


def first_difference(job: Job, run: Run) -> str | None:
    """The first wrong element by call, tensor and rank, explained; None if all is right.

    Programs that only move data must be exact; where work is a GEMM or a reduction, rounding
    may differ by ``TOLERANCE``. NaN is wrong everywhere.
    """
    tolerance = tolerance_of(job)
    for call, inputs in enumerate(run.inputs):
        with reported_at(f"the reference of {job.program.name}"):
            reference = job.program.reference(inputs)
        outputs = run.outputs[call]
        if set(reference) != set(outputs):
            raise _mismatch(job, f"returns {_names(reference)}", _names(outputs))
        for name, wanted in reference.items():
            if len(wanted) != len(outputs[name]):
                what = f"makes {name} for {len(wanted)} ranks"
                raise _mismatch(job, what, str(len(outputs[name])))
            for rank, (got, want) in enumerate(zip(outputs[name], wanted, strict=True)):
                if got.shape != want.shape:
                    what = f"makes {name} of shape {list(want.shape)}"
                    raise _mismatch(job, what, f"{list(got.shape)}")
                wrong = _wrong_elements(got, want, tolerance)
                if wrong.any():
                    return _describe(name, call, rank, got, want, wrong)
    return None


def _mismatch(job: Job, what: str, expected: str) -> UsageError:
    return UsageError(
        f"the reference {what}",
        job.program.name,
        f"{expected}, as its tensors say",
        "make the reference return every output, one array per rank",
    )


def _names(tensors: Any) -> str:
    return ", ".join(sorted(tensors)) or "nothing"


def _wrong_elements(got: Any, want: Any, tolerance: float) -> Any:
    got, want = got.astype(np.float64), want.astype(np.float64)
    limit = tolerance * np.abs(want).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return ~(np.abs(got - want) <= limit)


def _describe(name: str, call: int, rank: int, got: Any, want: Any, wrong: Any) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    value = float(got[index])
    seen = f"{value:.6g}"
    if np.isnan(value):
        seen = "NaN, so it was never written or comes from memory that was never written"
    return (
        f"{name} on rank {rank} in call {call}: {int(wrong.sum()):,} of {wrong.size:,} "
        f"elements are wrong, the first at {list(index)}: got {seen}; "
        f"expected {float(want[index]):.6g}"
    )
