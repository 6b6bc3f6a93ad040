"""Data from hardware against the simulator's, on the same inputs.

A record holds samples of what the first data run left in the outputs. The simulator runs the
same calls with data, and its outputs are sampled at the same places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tdsim.check.checker import functional_job
from tdsim.check.compare import tolerance_of
from tdsim.errors import UsageError
from tdsim.predict.validation import machine_of
from tdsim.records import Case, Measurement, Record
from tdsim.samples import Sample, sample
from tdsim.sim import simulate
from tdsim.topology import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How one case's data agree: *compared* outputs of ranks and calls, *equal* bit by bit.

    *worst*: the largest difference of two sampled elements over the largest element of that
    output; infinite where one is NaN. It may be *tolerance*; if that is 0, all must be equal.
    """

    case: Case
    compared: int
    equal: int
    worst: float
    tolerance: float

    @property
    def right(self) -> bool:
        if self.tolerance == 0.0:
            return self.equal == self.compared
        return self.worst <= self.tolerance


def agreements(record: Record, topology: str | Machine) -> tuple[Agreement, ...]:
    """The agreement of each of the record's cases that has samples, on *topology*.

    Raises :class:`UsageError` unless the record's PEs and nodes are those of the machine, or
    if samples are not of the case's outputs.
    """
    target = machine_of(record, topology)
    return tuple(agreement(found, target) for found in record.measurements if found.samples)


def agreement(found: Measurement, target: Machine, tolerance: float | None = None) -> Agreement:
    """How the samples in *found* agree with the simulator on *target*.

    *tolerance* is by default what a check allows for the program and dtype: 0 where it only
    moves data.
    """
    case = found.case
    job = functional_job(
        case.program, target, case.shape, case.tunables, case.dtype, case.calls, case.seed
    )
    outputs = simulate(job).outputs
    pairs = [(_array(outputs, seen, case), seen) for seen in found.samples]
    again = [
        sample(array, call=seen.call, rank=seen.rank, output=seen.output)
        for array, seen in pairs
    ]
    return Agreement(
        case=case,
        compared=len(pairs),
        equal=sum(mine == seen for mine, (_, seen) in zip(again, pairs, strict=True)),
        worst=max(
            _difference(mine.values(array.dtype), seen.values(array.dtype), array)
            for mine, (array, seen) in zip(again, pairs, strict=True)
        ),
        tolerance=tolerance_of(job) if tolerance is None else tolerance,
    )


def _array(outputs: list[dict[str, list[Any]]], seen: Sample, case: Case) -> Any:
    try:
        return outputs[seen.call][seen.output][seen.rank]
    except (IndexError, KeyError):
        raise UsageError(
            f"a sample of {seen.output} on rank {seen.rank} after call {seen.call}",
            case.program,
            f"outputs {', '.join(sorted(outputs[0]))}, {case.calls} calls",
            "measure the case anew",
        ) from None


def _difference(mine: Any, seen: Any, whole: Any) -> float:
    """The largest difference over the largest element of the *whole* output."""
    if mine.shape != seen.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        off = np.abs(mine - seen).max()
    size = np.abs(whole.astype(np.float64)).max()
    error = float(off / size if size else off)
    return error if error == error else float("inf")
