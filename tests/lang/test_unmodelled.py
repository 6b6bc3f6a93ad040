"""Constructs outside the language: named when run, a misspelling stays a misspelling."""

from __future__ import annotations

import pickle

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ProgramError, UnmodelledError


@td.kernel
def exchanges(lock):
    """Uses an operation that the language lacks."""
    td.atomic_xchg(lock, 0, 1)


@td.kernel
def behind_a_branch(lock, never: td.constexpr):
    """Names such an operation where it is not reached."""
    if never:
        td.mbarrier_arrive(lock)
    td.store(lock, 0, td.zeros(1, td.int32))


@td.function
def helper(lock):
    """Names such an operation in a helper."""
    td.cluster_sync(lock)


@td.kernel
def through_a_helper(lock):
    """Calls the helper."""
    helper(lock)


def refused(kernel, *args, functional=True):
    def host(ctx):
        ctx.launch(kernel, 1, (ctx.local((1,), td.int32), *args))

    with pytest.raises(UnmodelledError) as stopped:
        run(host, "h800x1", functional=functional)
    return stopped.value


@pytest.mark.parametrize("functional", [True, False])
def test_an_operation_outside_the_language_is_unknown_with_its_line(functional):
    error = refused(exchanges, functional=functional)
    line = exchanges.source.tree.body[1].lineno
    assert str(error) == (
        f"{__file__}:{line}: td.atomic_xchg (an atomic exchange) is not modelled, so nothing is "
        "known about this program; td.atomic_add is the atomic operation; a lock can be a "
        "ticket (docs/language.md)"
    )
    assert (error.verdict, error.exit_code) == ("UNKNOWN", 1)
    assert isinstance(error, ProgramError)


def test_it_is_unknown_even_where_this_run_does_not_reach_it():
    assert "td.mbarrier_arrive" in str(refused(behind_a_branch, False))


def test_it_is_found_in_helpers():
    assert "td.cluster_sync (a thread block cluster)" in str(refused(through_a_helper))


def test_triton_called_directly_is_unknown():
    tl = pytest.importorskip("triton.language")
    globals()["tl"] = tl

    @td.kernel
    def plain_triton(lock):
        tl.debug_barrier()

    assert "tl.debug_barrier of Triton is not modelled" in str(refused(plain_triton))


def test_a_launch_in_clusters_is_unknown_at_the_line_of_the_host():
    def host(ctx):
        ctx.launch(exchanges, 2, (ctx.local((1,), td.int32),), cluster=2)

    with pytest.raises(UnmodelledError, match=r"test_unmodelled.py:\d+: a cluster of 2 CTAs"):
        run(host, "h800x1")


def test_a_name_that_means_nothing_is_a_misspelling():
    with pytest.raises(AttributeError, match="no attribute 'signal_opp'"):
        td.signal_opp  # noqa: B018 - the look-up is what is tested


def test_the_error_survives_pickling():
    error = UnmodelledError("td.x (a thing)", "k.py:3", "do without")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
