"""What only the simulator has is refused on a GPU by one line, before anything runs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

from lowering_tools import COUNTERS, ONE_NODE, SIGNALS
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.runtime import simulator_only
from tdsim.backend_gpu.runtime.simulator_only import SimulatorOnly, refuse_clusters

from tdsim import lang as td
from tdsim.errors import KernelDefinitionError, UsageError

CURE = "expected a program without it; the simulator only has it: use tdsim check or predict"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SimulatorOnly().team((0, 1)), "ctx.team: a team of the PEs [0, 1] on a GPU"),
        (lambda: SimulatorOnly().replay("g", print), "ctx.replay: graph g on a GPU"),
        (lambda: refuse_clusters(2), "ctx.launch: a launch in clusters of 2 on a GPU"),
    ],
    ids=["team", "replay", "cluster"],
)
def test_what_only_the_simulator_has_is_refused(call, sentence):
    with pytest.raises(UsageError) as refused:
        call()
    assert str(refused.value) == f"{sentence}; {CURE}"


def test_the_gpu_has_or_refuses_all_that_host_programs_may_call():
    folder = Path(simulator_only.__file__).parent
    tree = ast.parse((folder / "context.py").read_text())
    (context,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Context")
    has = {n.name for n in context.body if isinstance(n, ast.FunctionDef)}
    may = {name for name, value in vars(td.Context).items() if inspect.isfunction(value)}
    missing = {name for name in may - has if not name.startswith("_")}
    assert missing == {"team", "replay"}
    assert missing <= vars(SimulatorOnly).keys()
    assert [ast.unparse(base) for base in context.bases] == ["SimulatorOnly"]


@td.kernel
def scoped(ready, out, SCOPE: td.constexpr):
    td.store(out, 0, td.full(1, 1, td.int32))
    td.signal_op(ready, 0, 1, "set", 1, SCOPE)


@pytest.mark.parametrize("scope", ["sys", "gpu"])
def test_a_signal_is_released_at_the_scope_that_it_names(scope):
    args = {"ready": SIGNALS, "out": COUNTERS}
    ptx = compile_kernel(scoped, args, {"SCOPE": scope}, world=ONE_NODE).ptx
    assert f"atom.global.{scope}.release.exch" in ptx


@td.kernel
def beyond(out):
    td.mbarrier_wait(out, 0)
    td.store(out, 0, td.full(1, 1, td.int32))


def test_a_construct_outside_the_language_has_no_lowering():
    with pytest.raises(KernelDefinitionError) as refused:
        compile_kernel(beyond, {"out": COUNTERS}, world=ONE_NODE)
    assert str(refused.value) == (
        f"{__file__}:{beyond.source.line + 2}: td.mbarrier_wait, an mbarrier inside a CTA, has no "
        "lowering; td.signal_op and td.signal_wait_until synchronise whole program instances"
    )
