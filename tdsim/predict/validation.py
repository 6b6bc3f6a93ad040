"""Predicted beside measured: how far off single times are, and whether the order is right."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tdsim.errors import UsageError
from tdsim.predict.report import make_job
from tdsim.records import Case, Record
from tdsim.sim import simulate
from tdsim.topology import Machine, machine
from tdsim.units import to_us

Problem = tuple[str, tuple[tuple[str, int], ...], str]
"""What is to be computed, however it is tuned: program, shape and dtype."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case with both its times, in microseconds.

    *noise* is the measurement's, as a share of *measured_us*. *used*: the machine's figures
    were fitted with this case in sight; otherwise it was held back.
    """

    case: Case
    measured_us: float
    noise: float
    predicted_us: float
    used: bool

    @property
    def ratio(self) -> float:
        """Predicted over measured: above 1 where the prediction is too slow."""
        return self.predicted_us / self.measured_us

    @property
    def error(self) -> float:
        """The prediction's distance from the measurement, as a share of the latter."""
        return abs(self.ratio - 1)

    @property
    def problem(self) -> Problem:
        return self.case.program, tuple(sorted(self.case.shape.items())), self.case.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Of one problem's cases the one with the smallest prediction, and the fastest one."""

    chosen: Pair
    best: Pair

    @property
    def loss(self) -> float:
        """How much slower than the best the chosen one was measured, as a share of the best."""
        return self.chosen.measured_us / self.best.measured_us - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How good the predictions of *count* cases are.

    *bias* is the median of predicted over measured. *tau* is over all pairs of cases that
    differ by more than their noise, *tau_in_problem* over those of one problem only, which no
    difference in size makes easy; None where no such pair is. *choices*: one for each problem
    with several cases, the costliest first. *worst*: the largest errors first.
    """

    count: int
    median_error: float
    p90_error: float
    bias: float
    tau: float | None
    tau_in_problem: float | None
    choices: tuple[Choice, ...]
    worst: tuple[Pair, ...]

    @property
    def worst_loss(self) -> float | None:
        """The largest loss of all choices; None without one."""
        return max((choice.loss for choice in self.choices), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The summaries of all cases, of those used for fitting and of those held back."""

    whole: Summary
    used: Summary | None
    held_back: Summary | None


def validate(pairs: Sequence[Pair], num_worst: int = 5) -> Validation:
    """Summarise *pairs*, used and held back also apart; None for a part without any.

    Raises :class:`UsageError` if there is no pair at all.
    """
    parts = [[pair for pair in pairs if pair.used is used] for used in (True, False)]
    used, held_back = (summarise_pairs(part, num_worst) if part else None for part in parts)
    whole = summarise_pairs(pairs, num_worst)
    return Validation(whole=whole, used=used, held_back=held_back)


def summarise_pairs(pairs: Sequence[Pair], num_worst: int = 5) -> Summary:
    """One summary of *pairs*. Raises :class:`UsageError` if there is none."""
    if not pairs:
        raise UsageError("nothing to compare", "validation", "a timed case", "time some cases")
    errors = [pair.error for pair in pairs]
    groups = by_problem(pairs).values()
    return Summary(
        count=len(pairs),
        median_error=statistics.median(errors),
        p90_error=quantile(errors, 0.9),
        bias=statistics.median(pair.ratio for pair in pairs),
        tau=_mean(_agreements(pairs)),
        tau_in_problem=_mean(x for group in groups for x in _agreements(group)),
        choices=choices(pairs),
        worst=worst(pairs, num_worst),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The value that *share* of *values* are not above; linear between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def kendall_tau(pairs: Sequence[Pair]) -> float | None:
    """Kendall's tau over the pairs of cases whose measured times differ beyond doubt.

    Those are apart by more than the noise of both together. Of them the share that is
    predicted in the measured order minus the share in the opposite one; equal predictions
    count as neither, so a model that cannot tell cases apart gains nothing. None if no two
    cases are far enough apart.
    """
    return _mean(_agreements(pairs))


def _agreements(pairs: Sequence[Pair]) -> Iterator[int]:
    """1 for same order, -1 for opposite, 0 for equal predictions, per pair beyond noise."""
    for a, b in itertools.combinations(pairs, 2):
        apart = a.measured_us - b.measured_us
        if abs(apart) > a.noise * a.measured_us + b.noise * b.measured_us:
            yield _sign(apart) * _sign(a.predicted_us - b.predicted_us)


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def _mean(values: Iterator[int]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def by_problem(pairs: Sequence[Pair]) -> dict[Problem, list[Pair]]:
    """The pairs of each program, shape and dtype."""
    groups: dict[Problem, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.problem, []).append(pair)
    return groups


def choices(pairs: Sequence[Pair]) -> tuple[Choice, ...]:
    """What the predictions would choose for each problem with several cases.

    Of equal predictions the slowest measured counts as chosen: nothing speaks against it.
    """
    found = [
        Choice(
            chosen=min(group, key=lambda pair: (pair.predicted_us, -pair.measured_us)),
            best=min(group, key=lambda pair: pair.measured_us),
        )
        for group in by_problem(pairs).values()
        if len(group) > 1
    ]
    return tuple(sorted(found, key=lambda choice: -choice.loss))


def worst(pairs: Sequence[Pair], count: int = 5) -> tuple[Pair, ...]:
    """The *count* pairs with the largest errors, largest first."""
    return tuple(sorted(pairs, key=lambda pair: -pair.error)[:count])


def machine_of(record: Record, topology: str | Machine) -> Machine:
    """The machine *topology*, if the record's PEs and nodes are its; else UsageError."""
    target = topology if isinstance(topology, Machine) else machine(topology)
    place = record.placement
    if (place.n_pes, place.pes_per_node) != (target.world_size, target.gpus_per_node):
        raise UsageError(
            f"{target.world_size} PEs, {target.gpus_per_node} to a node",
            target.name,
            f"the record's {place.n_pes} PEs, {place.pes_per_node} to a node",
            "name the topology that the record was measured on",
        )
    return target


def predictions(record: Record, topology: str | Machine) -> tuple[float | None, ...]:
    """Today's prediction of each of the record's cases on *topology*, in microseconds.

    None for a case that was not timed, which is not simulated either. Raises
    :class:`UsageError` unless the record's PEs and nodes are those of the machine.
    """
    target = machine_of(record, topology)
    return tuple(
        None if found.median_us is None else _predicted_us(found.case, target)
        for found in record.measurements
    )


def _predicted_us(case: Case, target: Machine) -> float:
    job = make_job(case.program, target, case.shape, case.tunables, case.dtype, case.seed)
    return to_us(simulate(job).time_ps)


def pairs_of(
    record: Record, topology: str | Machine, is_held_back: Callable[[Case], bool]
) -> tuple[Pair, ...]:
    """The record's timed cases beside their predictions on *topology*.

    A measurement of too few repeats to show its noise counts as exact: its order is judged
    in any case. Raises as :func:`predictions`.
    """
    predicted = predictions(record, topology)
    return tuple(
        Pair(
            case=found.case,
            measured_us=found.median_us,
            noise=found.noise or 0.0,
            predicted_us=us,
            used=not is_held_back(found.case),
        )
        for found, us in zip(record.measurements, predicted, strict=True)
        if found.median_us is not None and us is not None
    )
