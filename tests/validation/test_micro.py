"""The micro programs: legal on the simulator and the compiler, and each shows its one cost."""

from __future__ import annotations

import dataclasses

import micro
import pytest
from case_lists import micro_list
from helpers import with_host

from tdsim import lang as td
from tdsim.check import check
from tdsim.predict import predict
from tdsim.topology import machine
from tdsim.units import us

SHARED = machine("h200-shared-2")
PROGRAMS = [value for value in vars(micro).values() if isinstance(value, td.Program)]


def time_us(program, shape=None, on=SHARED, **tunables):
    return predict(program, topology=on, shape=shape or {"n": 1}, tunables=tunables).time_us


@pytest.mark.parametrize("n_pes", [2, 4])
def test_every_program_is_in_the_list_and_every_case_is_legal(n_pes):
    cases = micro_list(n_pes).cases
    named = {case.program.rpartition(":")[2]: case for case in cases}
    assert set(named) == {program.name for program in PROGRAMS}
    for case in cases:
        program = vars(micro)[case.program.rpartition(":")[2]]
        program.sizes(case.shape, n_pes, 1)
        assert program.tuned(case.tunables).items() >= dict(case.tunables).items()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_micro_program_is_clean(program):
    assert check(program, topology="h200-shared-2").verdict == "CLEAN"


SLOPES = [
    ("launches", {}, "launch_ps"),
    ("wide_launches", {}, "launch_ps"),
    ("barriers", {}, "barrier_ps"),
    ("stream_signals", {"op": "set"}, "issue_ps"),
    ("stream_signals", {"op": "add"}, "add_issue_ps"),
    ("stream_ping_pong", {"op": "set"}, "stream_wait_ps"),
    ("stream_ping_pong", {"op": "add"}, "stream_add_ps"),
    ("kernel_ping_pong", {}, "signal_ps"),
]


@pytest.mark.parametrize(("name", "tunables", "constant"), SLOPES)
def test_what_a_repeated_operation_costs_more_shows_once_for_each(name, tunables, constant):
    slow = with_host(SHARED, **{constant: getattr(SHARED.host, constant) + us(50)})
    program = vars(micro)[name]

    def slope(on):
        return (time_us(program, on=on, count=64, **tunables) - time_us(
            program, on=on, count=32, **tunables)) / 32  # fmt: skip

    per_round = {"stream_ping_pong": 2, "kernel_ping_pong": 4}.get(name, 1)
    gained = slope(slow) - slope(SHARED)
    assert gained == pytest.approx(50 * per_round, abs=4)


@pytest.mark.parametrize(
    ("name", "shape", "tunables", "field"),
    [
        ("puts", {"M": 1024, "K": 4096}, {"ctas": 1, "active": 1}, "sm_copy"),
        ("engine_copies", {"M": 4096, "K": 4096}, {"count": 4, "active": 1}, "copy_engine"),
        ("sums", {"M": 4096, "N": 8192}, {"ctas": 64}, "hbm"),
        ("local_copies", {"M": 4096, "K": 4096}, {"ctas": 64}, "hbm"),
    ],
)
def test_a_rate_that_doubles_nearly_halves_the_time_of_its_program(
    name, shape, tunables, field
):
    rate = getattr(SHARED.gpu, field).scaled(2)
    fast = dataclasses.replace(SHARED, gpu=dataclasses.replace(SHARED.gpu, **{field: rate}))
    if field == "hbm":  # so that no CTA's own rate limits
        copy = SHARED.gpu.sm_copy.scaled(100)
        slow_gpu, fast_gpu = (
            dataclasses.replace(target.gpu, sm_copy=copy) for target in (SHARED, fast)
        )
        slow = dataclasses.replace(SHARED, gpu=slow_gpu)
        fast = dataclasses.replace(fast, gpu=fast_gpu)
    else:
        slow = SHARED
    program = vars(micro)[name]
    ratio = time_us(program, shape, fast, **tunables) / time_us(
        program, shape, slow, **tunables
    )
    assert 0.45 < ratio < 0.75


def test_every_kernel_compiles_for_a_gpu(monkeypatch, tmp_path):
    pytest.importorskip("triton", reason="the compile suite needs triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from tdsim.backend_gpu.lowering.compile import compile_kernel
    from tdsim.backend_gpu.lowering.specs import ScalarSpec, SignalSpec, ViewSpec
    from tdsim.backend_gpu.lowering.world import World

    def view(**more):
        return ViewSpec(dtype=td.bfloat16, **more)

    number, tile = ScalarSpec(td.int32), {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    operands = {"a": (128, 64), "b": (64, 256), "c": (128, 256)}
    calls = {
        "do_nothing": ({"n": number}, {}),
        "bounce": ({"sig": SignalSpec(), "count": number}, {}),
        "put_rows": ({"box": view(symmetric=True), "x": view(), "pe": number}, {}),
        "multiply": (
            {**{name: view(tile=t) for name, t in operands.items()}, "ready": SignalSpec()},
            {**tile, "GROUP_M": 8},
        ),
    }
    own = {
        n
        for n, v in vars(micro).items()
        if isinstance(v, td.Kernel) and v.fn.__module__ == "micro"
    }
    assert own == set(calls)
    for name, (args, constants) in calls.items():
        compiled = compile_kernel(vars(micro)[name], args, constants, world=World(1, 4, 4))
        assert compiled.cubin.startswith(b"\x7fELF")
        assert compiled.resources.stack_bytes == 0
