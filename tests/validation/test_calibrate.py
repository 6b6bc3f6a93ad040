"""The fit finds constants that it is not told, and never looks at what is held back."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
from case_lists import micro_list

from tdsim.errors import UsageError
from tdsim.predict.caselist import KEY, label
from tdsim.records import Measurement, Record
from tdsim.topology import machine

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "calibrate.py"
MICRO = Path(__file__).with_name("micro.py")


@pytest.fixture(scope="module")
def calibrate():
    spec = importlib.util.spec_from_file_location("calibrate", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibrate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["calibrate"]


def samples(calibrate, truth, stage):
    """What a machine with the constants *truth* would measure of some of the stage's cases."""
    target = calibrate.built(truth, 4)
    shown = []
    for case in micro_list(4).cases:
        program = f"{MICRO}:{case.program.rpartition(':')[2]}"
        sample = calibrate.Sample(dataclasses.replace(case, program=program), 4, 1.0)
        if stage.shows(sample):
            shown.append(sample)
    some = shown[::2] if len(shown) > 8 else shown
    times = [calibrate.predicted_us(sample, truth, {4: target}) for sample in some]
    return [
        calibrate.Sample(sample.case, 4, us) for sample, us in zip(some, times, strict=True)
    ]


STAGES = {
    ("host.kernel_gap_ps", "host.launch_latency_ps"): (2e6, 3e6),
    ("host.stream_wait_ps",): (4e6,),
    ("gpu.sm_copy", "link.hub", "link.port"): (38e9, 1500e9, 4232e9),
    ("gpu.hbm", "host.loop_load_ps"): (3500e9, 0.9e6),
    ("tile.128x256x64.efficiency", "tile.128x256x64.drain_ps"): (0.81, 6e6),
}


@pytest.mark.parametrize("names", STAGES)
def test_a_stage_finds_the_constants_of_a_machine_that_it_does_not_know(calibrate, names):
    (stage,) = [stage for stage in calibrate.STAGES if stage.names == names]
    truth = {**calibrate.current(), **dict(zip(names, STAGES[names], strict=True))}
    used = samples(calibrate, truth, stage)
    assert len(used) > len(names)
    fitted = calibrate.fit(stage, used, calibrate.current())
    for name in names:
        assert fitted[name] == pytest.approx(truth[name], rel=0.03), name
    others = calibrate.current().keys() - set(names)
    assert all(fitted[name] == calibrate.current()[name] for name in others)


@pytest.mark.parametrize("ways", [2, 4])
def test_the_constants_of_the_preset_build_the_preset(calibrate, ways):
    made, preset = calibrate.built(calibrate.current(), ways), machine(f"h200-shared-{ways}")
    assert (made.gpu, made.host, made.collective) == (
        preset.gpu,
        preset.host,
        preset.collective,
    )
    assert made.gpu.tiles == preset.gpu.tiles
    assert dict(made.graph.edges) == dict(preset.graph.edges)


def test_every_constant_belongs_to_a_stage_or_is_said_to_stay(calibrate):
    fitted = {name for stage in calibrate.STAGES for name in stage.names}
    stay = {"host.load_latency_ps"}  # no micro case shows it alone
    assert calibrate.current().keys() - fitted == stay


def record(**environment):
    listed = micro_list(2)
    times = ((10.0,) * 4,) * 2
    return Record(
        date="2026-01-02",
        command="tdsim validate",
        environment=environment,
        placement=listed.placement,
        measurements=tuple(Measurement(case=case, time_us=times) for case in listed.cases[:3]),
    )


def test_a_held_back_case_never_reaches_the_fit(calibrate):
    held = label(micro_list(2).cases[1])
    note = {"topology": "h200-shared-2", "held_back": [held]}
    used = calibrate.samples([record(**{KEY: note})])
    assert len(used) == 2
    assert held not in {label(sample.case) for sample in used}


def test_a_record_that_does_not_say_what_it_holds_back_is_refused(calibrate):
    with pytest.raises(UsageError, match="does not say which cases it holds back"):
        calibrate.samples([record()])
