# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202 - Triton evaluates the annotations of device functions
"""Time stamps of operations, in a traced build only: the hardware's own timeline.

A stamp stands between two barriers of the CTA, so it moves across no operation and waits for
none that is asynchronous. That costs about a microsecond, and a loop that holds one is not
pipelined: a trace shows what happens when, not how fast the untraced kernel is.
"""

from __future__ import annotations

import triton.language as tl

from .device import TRACED, device
from .externs import word
from .ordering import global_timer
from .words import SM, Event, Trace, Word


@device
def stamp(kind, edge, payload):
    """Write an event: *edge* is 0 at the begin of an operation and ``END`` at its end."""
    if TRACED:  # noqa: SIM102 - a constant condition, then one of the run
        if word(Word.TRACE) != 0:
            _write(kind + edge, payload)


@device
def _write(what, payload):
    """Triton gives the scalar atomic and the scalar stores to one thread."""
    tl.debug_barrier()
    time = global_timer()
    buffer = tl.cast(word(Word.TRACE), tl.pointer_type(tl.int64))
    number = tl.atomic_add(buffer + Trace.COUNT, 1, sem="relaxed", scope="gpu")
    if number < word(Word.TRACE_CAPACITY):
        event = buffer + Trace.EVENTS + number * Trace.EVENT_WORDS
        second = tl.cast(tl.program_id(1), tl.int64) << 32
        tl.store(event + Event.TIME, time)
        tl.store(event + Event.WHAT, tl.cast(_sm(), tl.int64) * SM + what)
        tl.store(event + Event.PROGRAM, second + tl.program_id(0))
        tl.store(event + Event.PAYLOAD, payload)
    tl.debug_barrier()


@device
def _sm():
    """Number of the SM that runs this CTA."""
    return tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, True, 1)
