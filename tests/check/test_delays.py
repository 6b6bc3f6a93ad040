"""Delays of single operations: applied, counted, and able to show a hang of chance."""

from __future__ import annotations

import pytest
from cases.common import from_previous, program
from cases.hangs import counter, straggler

from tdsim import lang as td
from tdsim.check import check
from tdsim.cli import main
from tdsim.errors import UsageError
from tdsim.sim.delays import DELAYED, Delay, drawn
from tdsim.units import us


def test_each_delay_says_how_often_it_was_applied():
    delays = [Delay(1, "put", us(50)), Delay(1, "copy", us(50))]
    result = check(straggler(), topology="h800x2", dtype="fp32", injected=delays)
    assert result.delays == {"rank=1,op=put,50us": 3, "rank=1,op=copy,50us": 0}
    assert "delay rank=1,op=put,50us: applied 3 times" in result.text()
    assert result.verdict == "CLEAN"


@pytest.mark.parametrize("op", DELAYED)
def test_every_operation_can_be_delayed(op):
    def host(ctx, x, y):
        mail, ready, back = ctx.symmetric((4, 8), x.dtype), ctx.signals(1), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(shift_back, 1, (y, x, mail, ready, back))
        ctx.copy(x, x)

    late = Delay(0, op, us(5000))
    prompt = check(program(host, from_previous), topology="h800x2", dtype="fp32")
    delayed = check(
        program(host, from_previous), topology="h800x2", dtype="fp32", injected=[late]
    )
    assert (prompt.verdict, delayed.verdict) == ("CLEAN", "CLEAN")
    assert delayed.delays[str(late)] >= 3


@td.kernel
def shift_back(y, x, mail, ready, back):
    """Put x to the next PE, wait for the one of the PE before, and tell it so."""
    td.putmem_signal(mail, x, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.store(y, (0, 0), td.load(td.after(token, mail), (0, 0), (4, 8)))
    td.signal_op(back, 0, 1, "set", (td.my_pe() + td.n_pes() - 1) % td.n_pes())
    token = td.signal_wait_until(back, 0, "ge", 1)
    td.store(y, (td.after(token, 0), 0), td.load(mail, (0, 0), (4, 8)))


def test_a_late_waiter_misses_a_value_that_is_overwritten():
    late = [Delay(1, "wait", us(1000))]
    result = check(counter("eq"), topology="h800x2", calls=1, injected=late)
    assert result.findings[0].message.startswith("deadlock at ")
    assert result.delays["rank=1,op=wait,1000us"] > 0


def test_delays_are_applied_under_every_seed():
    for seed in range(4):
        delays = [Delay(1, "put", us(50))]
        result = check(straggler(), topology="h800x2", dtype="fp32", seed=seed, injected=delays)
        assert result.delays == {"rank=1,op=put,50us": 3}


def test_drawn_delays_follow_from_their_seed():
    assert drawn(3, 8) == drawn(3, 8) != drawn(4, 8)
    assert [delay.rank for delay in drawn(3, 8)] == list(range(8))


def test_a_delay_of_a_rank_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="rank=2,op=put,1us, but h800x2 has no such rank"):
        check(straggler(), topology="h800x2", injected=[Delay(2, "put", us(1))])


def test_the_command_takes_delays_and_reports_them(capsys):
    code = main(
        ["check", "allgather", "--topology", "h800x2", "--delay", "rank=1,op=launch,50us",
         "--delay-seed", "2"]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert "delay rank=1,op=launch,50us: applied " in out
    assert out.count("delay rank=") == 3


@pytest.mark.parametrize("text", ["rank=1,op=dance,5us", "rank=1,5us", "rank=x,op=put,5us"])
def test_a_delay_that_cannot_be_read_is_refused(text, capsys):
    assert main(["check", "allgather", "--topology", "h800x2", "--delay", text]) == 2
    assert f"--delay: {text}; expected rank=RANK,op=OP,TIMEus" in capsys.readouterr().err
