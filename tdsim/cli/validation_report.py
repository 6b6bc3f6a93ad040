"""What ``tdsim validate`` prints: times, their summary, data; as tables and as JSON."""

from __future__ import annotations

from typing import Any

from tdsim.check.agreement import Agreement
from tdsim.cli.output import table
from tdsim.predict.caselist import label
from tdsim.predict.validation import Pair, Summary, Validation, validate
from tdsim.records import Case, Record
from tdsim.topology import Machine


def short(case: Case) -> str:
    """One case in a table cell."""
    values = {**case.shape, **case.tunables}
    name = case.program.rpartition(":")[2]
    return " ".join([name, *(f"{key}={value}" for key, value in values.items())])


def show_times(record: Record, target: Machine, pairs: tuple[Pair, ...], worst: int) -> None:
    device = record.environment.get("device", "hardware")
    table(
        f"{record.date}, {device}, beside {target.name}",
        ("case", "use", "measured us", "noise", "predicted us", "ratio"),
        (
            (
                short(pair.case),
                "used" if pair.used else "held back",
                f"{pair.measured_us:,.1f}",
                f"{pair.noise:.1%}",
                f"{pair.predicted_us:,.1f}",
                f"{pair.ratio:.2f}",
            )
            for pair in pairs
        ),
    )
    result = validate(pairs, worst)
    table(
        "summary",
        ("cases", "number", "median error", "90th percentile", "bias", "tau",
         "tau, one problem", "worst choice"),
        [_summary_row(name, part) for name, part in _parts(result)],
    )  # fmt: skip
    table(
        "largest errors",
        ("case", "ratio"),
        ((short(pair.case), f"{pair.ratio:.2f}") for pair in result.whole.worst),
    )
    lost = [choice for choice in result.whole.choices if choice.loss > 0]
    if lost:
        table(
            "choices that are not the best",
            ("chosen", "best", "slower by"),
            ((short(c.chosen.case), short(c.best.case), f"{c.loss:.1%}") for c in lost),
        )


def show_data(data: tuple[Agreement, ...]) -> None:
    table(
        "data of hardware and simulator from the same inputs",
        ("case", "outputs", "equal bit by bit", "worst difference", "allowed", "verdict"),
        (
            (
                short(case.case),
                str(case.compared),
                str(case.equal),
                f"{case.worst:.1e}",
                f"{case.tolerance:.1e}" if case.tolerance else "no bit",
                "right" if case.right else "WRONG",
            )
            for case in data
        ),
    )


def _parts(result: Validation) -> list[tuple[str, Summary]]:
    parts = {"used": result.used, "held back": result.held_back, "all": result.whole}
    return [(name, part) for name, part in parts.items() if part is not None]


def _summary_row(name: str, part: Summary) -> list[str]:
    rest = (part.tau, part.tau_in_problem)
    return [
        name,
        str(part.count),
        f"{part.median_error:.1%}",
        f"{part.p90_error:.1%}",
        f"{part.bias:.2f}",
        *("-" if tau is None else f"{tau:.2f}" for tau in rest),
        "-" if part.worst_loss is None else f"{part.worst_loss:.1%}",
    ]


def as_json(
    record: Record,
    target: Machine,
    pairs: tuple[Pair, ...],
    data: tuple[Agreement, ...],
    worst: int,
) -> dict[str, Any]:
    parts = _parts(validate(pairs, worst)) if pairs else []
    return {
        "date": record.date,
        "topology": target.name,
        "cases": [_pair_json(pair) for pair in pairs],
        "summary": {name.replace(" ", "_"): _summary_json(part) for name, part in parts},
        "data": [_data_json(case) for case in data],
        "failed": [
            {"case": label(found.case), "error": found.error}
            for found in record.measurements
            if found.error is not None
        ],
    }


def _summary_json(part: Summary) -> dict[str, Any]:
    names = (
        "count",
        "median_error",
        "p90_error",
        "bias",
        "tau",
        "tau_in_problem",
        "worst_loss",
    )
    return {name: getattr(part, name) for name in names}


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "program": case.program,
        "shape": dict(case.shape),
        "tunables": dict(case.tunables),
        "dtype": case.dtype,
    }


def _data_json(data: Agreement) -> dict[str, Any]:
    return {
        **_case_json(data.case),
        "compared": data.compared,
        "equal": data.equal,
        "worst": data.worst,
        "tolerance": data.tolerance,
        "right": data.right,
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        **_case_json(pair.case),
        "held_back": not pair.used,
        "measured_us": pair.measured_us,
        "noise": pair.noise,
        "predicted_us": pair.predicted_us,
        "ratio": pair.ratio,
    }
