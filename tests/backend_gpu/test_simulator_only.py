"""What only the simulator has is refused on a GPU by one line, before anything runs."""

from __future__ import annotations

import pytest
from lowering_tools import COUNTERS, ONE_NODE, SIGNALS, compile_kernel

from tdsim import lang as td
from tdsim.errors import KernelDefinitionError, UsageError

CURE = "expected a program without it; the simulator only has it: use tdsim check or predict"


def context():
    """A GPU context without a GPU: enough for calls that are refused."""
    module = pytest.importorskip("tdsim.backend_gpu.runtime.context")
    return object.__new__(module.Context)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda ctx: ctx.team((0, 1)), "ctx.team: a team of the PEs [0, 1] on a GPU"),
        (lambda ctx: ctx.replay("g", lambda: None), "ctx.replay: graph g on a GPU"),
        (
            lambda ctx: ctx.launch(scoped, 1, (), cluster=2),
            "ctx.launch: a launch of clusters on a GPU",
        ),
    ],
    ids=["team", "replay", "cluster"],
)
def test_what_only_the_simulator_has_is_refused(call, sentence):
    with pytest.raises(UsageError) as refused:
        call(context())
    assert str(refused.value) == f"{sentence}; {CURE}"


def test_the_context_of_a_gpu_has_all_that_host_programs_may_call():
    public = {name for name in vars(td.Context) if not name.startswith("_")}
    assert public, "the protocol has lost its methods"
    for name in public:
        assert callable(getattr(type(context()), name)), name


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
