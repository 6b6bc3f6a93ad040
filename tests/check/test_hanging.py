"""Certain and possible hangs, stragglers, and the places at which a check may find both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases.common import from_previous, program
from cases.hangs import counter, grids, straggler

from tdsim import lang as td
from tdsim.check import check
from tdsim.check.checker import functional_job
from tdsim.check.hanging import HELD_PS
from tdsim.errors import UsageError
from tdsim.sim import simulate
from tdsim.sim.simulate import MAX_SKEW_PS


def test_a_certain_hang_says_how_many_schedules_hang():
    (finding, *_) = check(grids(4, 3), topology="h800x2", seeds=3).findings
    assert finding.verdict == "HANG!"
    assert "all of 8 schedules hang: calm, skewed, each PE held back" in finding.message


@td.kernel
def wait_for_both(count, CMP: td.constexpr):
    """PE 0 sets 1 and later 2; PE 1 waits for 1 only."""
    if td.my_pe() == 0:
        td.signal_op(count, 0, 1, "set", 1)
        td.signal_op(count, 0, 2, "set", 1)
    else:
        token = td.signal_wait_until(count, 0, CMP, 1)
        td.signal_op(count, 1, td.after(token, 1), "set", 1)


def test_a_possible_hang_says_which_schedule_comes_to_an_end():
    def host(ctx):
        ctx.launch(wait_for_both, 1, (ctx.signals(2, per_call=2), "eq"))

    stuck = [
        check(program(host), topology="h800x2", seed=seed, calls=1).findings
        for seed in range(6)
    ]
    messages = [found[0].message for found in stuck if found and found[0].stuck]
    assert messages, "no seed of six lets the waiter come late"
    assert all("it comes to an end " in message for message in messages)
    assert all(found[0].verdict == "HANG" for found in stuck if found)


def test_a_hang_is_the_same_verdict_from_each_seed():
    verdicts = {
        check(counter("eq"), topology="h800x2", seed=s).verdict for s in range(0, 50, 10)
    }
    assert verdicts == {"HANG"}


def test_a_pe_that_is_a_million_times_later_than_the_skew_is_no_hang():
    job = functional_job(straggler(), "h800x4", None, None, "fp32", 3, 0)
    late = replace(job, delays={3: 10**6 * MAX_SKEW_PS})
    ended = simulate(late)
    assert ended.ends[0] >= 3 * 10**6 * MAX_SKEW_PS
    result = check(
        straggler(), topology="h800x4", dtype="fp32", delays={3: 10**6 * MAX_SKEW_PS}
    )
    assert (result.verdict, result.exit_code) == ("CLEAN", 0)
    assert "PE 3 starts each call 300000000.0 us late: a straggler" in result.text()


def test_pes_held_back_are_held_longer_than_ranks_are_skewed():
    assert HELD_PS > 3 * MAX_SKEW_PS


@pytest.mark.parametrize("held", [{4: 1}, {-1: 1}, {0: -5}])
def test_a_delay_of_no_pe_or_into_the_past_is_refused(held):
    with pytest.raises(UsageError, match=r"no such rank|a delay of at least 0"):
        check(straggler(), topology="h800x4", delays=held)


@td.kernel
def shift_once(y, x, mail, ready):
    """Put x to the next PE, wait for the one of the PE before."""
    td.putmem_signal(mail, x, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.store(y, (0, 0), td.load(td.after(token, mail), (0, 0), (4, 8)))


def test_a_pe_that_skips_a_kernel_of_all_others_is_named():
    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        if ctx.my_pe != 2:
            ctx.launch(shift_once, 1, (y, x, mail, ready))

    result = check(program(host, from_previous), topology="h800x4", dtype="fp32")
    assert result.verdict == "HANG!"
    assert "shift_once: PE 2 has not launched it" in result.findings[0].message
