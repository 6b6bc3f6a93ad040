"""Fit the constants of the shared H200 to records, without a look at what is held back.

Run: ``python benchmarks/calibrate.py RECORD...`` with records that ``tdsim validate`` wrote of
the lists ``micro-2``, ``micro-4``, ``h200-shared-2`` and ``h200-shared-4``. It prints every
constant before and after, to be copied into ``tdsim/topology/presets.py``, and the errors.

Constants are fitted in stages, each to the few cases that show them (``STAGES``), by least
squares on the logarithm of predicted over measured. A weak pull towards the value before keeps
a constant that its cases do not show. No randomness: the same records give the same numbers.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from tdsim.errors import UsageError
from tdsim.predict.caselist import label, note_of
from tdsim.predict.report import make_job
from tdsim.records import Case, Record
from tdsim.sim import simulate
from tdsim.topology import Machine, TileSpec
from tdsim.topology.presets import H200_HUB, H200_SHARED
from tdsim.topology.shared import shared_gpu
from tdsim.units import Bandwidth, to_us

Values = Mapping[str, float]
"""Constants by name: picoseconds, bytes per second or fractions."""
PULL = 0.003
"""Weight of staying where a constant was, against an error of the same logarithm."""
FLOOR_PS = 10_000.0
"""What a time of 0 starts from, since logarithms know no 0."""
HOST = (
    "launch_latency_ps", "kernel_gap_ps", "copy_issue_ps",
    "stream_op_ps", "stream_add_ps", "stream_wait_ps", "signal_ps", "load_latency_ps",
    "loop_load_ps", "barrier_ps", "call_end_ps",
)  # fmt: skip
TILES = ((128, 256, 64), (128, 128, 64), (64, 128, 64), (256, 128, 64))


@dataclass(frozen=True)
class Sample:
    """A timed case that may be used, on *ways* PEs."""

    case: Case
    ways: int
    measured_us: float

    @property
    def name(self) -> str:
        return self.case.program.rpartition(":")[2]


@dataclass(frozen=True)
class Stage:
    """Constants, and the cases that show them."""

    names: tuple[str, ...]
    shows: Callable[[Sample], bool]
    meanwhile: Values = field(default_factory=dict)
    """Constants that must not matter while these are fitted."""


def only(*names: str, **tunables: Any) -> Callable[[Sample], bool]:
    """Cases of these programs with these tunables."""
    return lambda s: s.name in names and s.case.tunables.items() >= tunables.items()


def _tile_stage(tile: tuple[int, int, int]) -> Stage:
    m, n, k = tile
    name = f"tile.{m}x{n}x{k}"
    shows = only("gemm", BLOCK_M=m, BLOCK_N=n)
    return Stage(
        (f"{name}.efficiency", f"{name}.drain_ps"),
        lambda s: shows(s) and "active" not in s.case.tunables,
    )


STAGES = (
    Stage(("host.call_end_ps",), only("launches", count=0)),
    Stage(("host.kernel_gap_ps", "host.launch_latency_ps"), only("launches", "wide_launches")),
    Stage(("host.barrier_ps",), only("barriers")),
    Stage(("host.stream_op_ps",), only("stream_signals", op="set")),
    Stage(("host.stream_add_ps",), only("stream_signals", op="add")),
    Stage(("host.stream_wait_ps",), only("stream_ping_pong")),
    Stage(("host.signal_ps",), only("kernel_ping_pong")),
    Stage(("gpu.sm_copy", "link.hub", "link.port"), only("puts")),
    Stage(
        ("host.copy_issue_ps", "hub.copy_engine"),
        lambda s: s.name == "engine_copies" and s.case.tunables.get("active") != 0,
        meanwhile={"link.engines": 1e14},
    ),
    Stage(("link.engines",), only("engine_copies", active=0)),
    Stage(("gpu.hbm", "host.loop_load_ps"), only("local_copies", "sums")),
    *map(_tile_stage, TILES),
    Stage(
        ("gpu.busy_copy",),
        lambda s: s.name in ("ag_gemm", "gemm_rs") and s.case.tunables.get("comm") == "sm",
    ),
)


def current() -> dict[str, float]:
    """The constants of the preset, by name."""
    gpu, host = H200_SHARED.gpu, H200_SHARED.host
    values: dict[str, float] = {f"host.{name}": float(getattr(host, name)) for name in HOST}
    values |= {
        "gpu.sm_copy": float(gpu.sm_copy.bytes_per_s),
        "gpu.hbm": float(gpu.hbm.bytes_per_s),
        "gpu.busy_copy": gpu.busy_copy,
        "hub.copy_engine": float(H200_HUB.copy_engine.bytes_per_s),
        "link.hub": float(H200_HUB.hub.bandwidth.bytes_per_s),
        "link.port": float(H200_HUB.port.bandwidth.bytes_per_s),
        "link.engines": float(H200_HUB.engines.bandwidth.bytes_per_s),
    }
    for (m, n, k), spec in gpu.tiles.items():
        values[f"tile.{m}x{n}x{k}.efficiency"] = spec.efficiency
        values[f"tile.{m}x{n}x{k}.drain_ps"] = float(spec.drain_ps)
    return values


START = {"efficiency": 0.75, "drain_ps": 4e6}
"""Where the fit of a tile that the preset does not know begins."""


def built(values: Values, ways: int) -> Machine:
    """The shared H200 as *ways* PEs, with these constants."""
    tiles: dict[tuple[int, int, int], dict[str, float]] = {}
    for name, value in values.items():
        if name.startswith("tile."):
            _, shape, field = name.split(".")
            m, n, k = map(int, shape.split("x"))
            tiles.setdefault((m, n, k), {})[field] = value
    gpu = dataclasses.replace(
        H200_SHARED.gpu,
        sm_copy=Bandwidth(round(values["gpu.sm_copy"])),
        hbm=Bandwidth(round(values["gpu.hbm"])),
        busy_copy=min(values["gpu.busy_copy"], 1.0),
        tiles={
            shape: TileSpec(efficiency=spec["efficiency"], drain_ps=round(spec["drain_ps"]))
            for shape, spec in tiles.items()
        },
    )
    host = dataclasses.replace(
        H200_SHARED.host, **{name: round(values[f"host.{name}"]) for name in HOST}
    )
    links = {
        name: dataclasses.replace(
            getattr(H200_HUB, name), bandwidth=Bandwidth(round(values[f"link.{name}"]))
        )
        for name in ("hub", "port", "engines")
    }
    engine = Bandwidth(round(values["hub.copy_engine"]))
    hub = dataclasses.replace(H200_HUB, copy_engine=engine, **links)
    platform = dataclasses.replace(H200_SHARED, gpu=gpu, host=host)
    return shared_gpu(platform, hub, name=f"h200-shared-{ways}", ways=ways)


def samples(records: Iterable[Record]) -> list[Sample]:
    """What a fit may use of *records*: timed cases that are not held back.

    Raises UsageError for a record that does not say what it holds back.
    """
    found: list[Sample] = []
    for record in records:
        listed = note_of(record)
        if listed is None:
            raise UsageError(
                "a record that does not say which cases it holds back",
                record.command,
                "one that tdsim validate wrote",
                "measure again with tdsim validate LIST",
            )
        found += [
            Sample(item.case, record.placement.n_pes, item.median_us)
            for item in record.measurements
            if label(item.case) not in listed.held_back and item.median_us is not None
        ]
    return found


def predicted_us(sample: Sample, values: Values, machines: dict[int, Machine]) -> float:
    """Today's time of *sample* with these constants; *machines* keeps those already built."""
    target = machines.get(sample.ways)
    if target is None:
        target = machines[sample.ways] = built(values, sample.ways)
    case = sample.case
    job = make_job(case.program, target, case.shape, case.tunables, case.dtype, case.seed)
    return max(to_us(simulate(job).time_ps), 1e-3)


def log_ratios(group: Sequence[Sample], values: Values) -> list[float]:
    """Logarithm of predicted over measured of each of *group*."""
    machines: dict[int, Machine] = {}
    return [math.log(predicted_us(s, values, machines) / s.measured_us) for s in group]


def fit(stage: Stage, group: Sequence[Sample], values: Values) -> dict[str, float]:
    """*values* with the constants of *stage* as *group* shows them."""
    start = {name: _start(name, values) for name in stage.names}
    fixed = {**values, **stage.meanwhile}

    def at(x: Sequence[float]) -> dict[str, float]:
        moved = {
            name: start[name] * math.exp(step - 1)
            for name, step in zip(stage.names, x, strict=True)
        }
        return {**fixed, **moved}

    def residuals(x: Any) -> Any:
        return np.array([*log_ratios(group, at(x)), *(PULL * (step - 1) for step in x)])

    # From 1, not 0: the solver's differences are relative, and times are whole picoseconds.
    ones = [1.0] * len(stage.names)
    solution = least_squares(residuals, ones, diff_step=2e-3, max_nfev=40)
    found = at(solution.x)
    result = {**values, **{name: found[name] for name in stage.names}}
    return {**result, "gpu.busy_copy": min(result["gpu.busy_copy"], 1.0)}


def _start(name: str, values: Values) -> float:
    if name == "gpu.busy_copy":  # no slope leads away from its largest value, 1
        return min(values[name], 0.9)
    return values.get(name) or START.get(name.rpartition(".")[2], FLOOR_PS)


def calibrate(used: Sequence[Sample]) -> dict[str, float]:
    """The constants after all stages for which there are cases."""
    values = current()
    for stage in STAGES:
        group = [sample for sample in used if stage.shows(sample)]
        if group:
            values = fit(stage, group, values)
    return values


def shown(name: str, value: float | None) -> str:
    """*value* with the unit that its name tells."""
    if value is None:
        return "-"
    if name.endswith("_ps"):
        return f"{value / 1e6:.3f} us"
    if value <= 2:
        return f"{value:.3f}"
    return f"{value / 1e9:.1f} GB/s"


def errors(used: Sequence[Sample], values: Values) -> dict[str, list[float]]:
    """Absolute relative errors by program."""
    result: dict[str, list[float]] = {}
    for sample, ratio in zip(used, log_ratios(used, values), strict=True):
        result.setdefault(sample.name, []).append(abs(math.exp(ratio) - 1))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", metavar="RECORD")
    used = samples(Record.read(path) for path in parser.parse_args().records)
    before, after = current(), calibrate(used)
    for name, value in after.items():
        mark = "" if before.get(name) == value else "  *"
        print(f"{name:28}{shown(name, before.get(name)):>14}{shown(name, value):>14}{mark}")
    old, new = errors(used, before), errors(used, after)
    print(f"\n{'median error of used cases':28}{'before':>14}{'after':>14}")
    for name in old:
        medians = (statistics.median(part[name]) for part in (old, new))
        print(f"{name:28}" + "".join(f"{median:14.1%}" for median in medians))


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        raise SystemExit(f"calibrate: {error}") from None
