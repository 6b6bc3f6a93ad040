"""Protocols over several rounds: credits, mailboxes and what is cleared when."""

from __future__ import annotations

from cases.common import Case, call_of, from_previous, program
from tdsim import lang as td

TOKENS, CHUNK = 12, 4


@td.kernel
def forward(arrived, freed, SLOTS: td.constexpr):
    """PE 0 sends tokens while slots are free; PE 1 frees a chunk once it is complete."""
    source = td.program_id(0)
    if td.my_pe() == 0:
        for t in range(12):
            token = td.signal_wait_until(freed, source, "ge", t + 1 - SLOTS)
            td.signal_op(arrived, td.after(token, source), 1, "add", 1)
    else:
        for c in range(3):
            token = td.signal_wait_until(arrived, source, "ge", 4 * (c + 1))
            td.signal_op(freed, td.after(token, source), 4, "add", 0)


def chunked_credits(slots: int):
    """A19: a forwarder that needs a whole chunk, in a queue with *slots* for each source."""

    def host(ctx):
        arrived, freed = ctx.signals(2, per_call=TOKENS), ctx.signals(2, per_call=TOKENS)
        ctx.launch(forward, 2, (arrived, freed, slots))

    return program(host)


@td.kernel
def mailbox(y, x, mail, full, first, AHEAD: td.constexpr):
    """Four epochs through three stages; after publishing, clear the stage AHEAD of this one."""
    me = td.my_pe()
    other = 1 - me
    for k in range(4):
        stage = (first + k) % 3
        there = td.rows(mail, 4 * stage, 4)
        td.putmem_signal(there, td.rows(x, 4 * k, 4), full, stage, 1, "set", other)
        td.signal_op(full, (first + k + AHEAD) % 3, 0, "set", me)
        token = td.signal_wait_until(full, stage, "ge", 1)
        row = td.after(token, 4 * stage)
        td.store(y, (4 * k, 0), td.load(mail, (row, 0), (4, 8)))


def triple_buffer(ahead: int):
    """B26: a mailbox of three stages that clears the next stage, or the one after it."""

    def host(ctx, x, y):
        mail, full = ctx.symmetric((12, 8), x.dtype), ctx.signals(3, per_call=0)
        ctx.launch(mailbox, 1, (y, x, mail, full, 4 * call_of(ctx), ahead))

    return program(host, from_previous, x=td.Input("16", "8"), y=td.Output("16", "8"))


CASES = (
    Case(
        id="A19 fewer slots than a chunk",
        program=lambda: chunked_credits(CHUNK - 1),
        verdict="HANG!",
        says=("waits for arrived[0] ge 4; it is 3",),
    ),
    Case(id="A19 slots for a chunk", program=lambda: chunked_credits(CHUNK), verdict="CLEAN"),
    Case(id="B26 clear the next stage", program=lambda: triple_buffer(1), verdict="HANG"),
    Case(id="B26 clear the stage after it", program=lambda: triple_buffer(2), verdict="CLEAN"),
)
