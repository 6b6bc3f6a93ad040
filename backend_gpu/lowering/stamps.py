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
from .externs import word_here
from .ordering import global_timer
from .words import SM, Event, EventKind, Trace, Word


@device
def stamp(kind, edge, payload):
    """Write an event: *edge* is 0 at the begin of an operation and ``END`` at its end."""
    if TRACED:
        place = word_here(Word.TRACE)
        if place != 0:
            _write(tl.cast(place, tl.pointer_type(tl.int64)), kind + edge, payload)


@device
def start():
    """What every kernel of a traced build begins with, see ``rebind.Lowered``."""
    stamp(EventKind.START, 0, 0)


@device
def _write(buffer, what, payload):
    """Triton gives the scalar atomic and the scalar stores to one thread."""
    tl.debug_barrier()
    time = global_timer()
    number = tl.atomic_add(buffer + Trace.COUNT, 1, sem="relaxed", scope="gpu")
    if number < word_here(Word.TRACE_CAPACITY):
        event = buffer + Trace.EVENTS + number * Trace.EVENT_WORDS
        second = tl.cast(tl.program_id(1), tl.int64) << 32
        tl.store(event + Event.TIME, time)
        tl.store(event + Event.WHAT, tl.cast(_sm(), tl.int64) * SM + what)
        tl.store(event + Event.PROGRAM, second + tl.program_id(0))
        tl.store(event + Event.PAYLOAD, payload)
    tl.debug_barrier()


@device
def keep_time(times, i):
    """Store the global timer, read when the whole CTA is here, as int64 word *i* of *times*."""
    tl.debug_barrier()
    tl.store(times.ptr + i, global_timer())


@device
def keep_timer_step(times, i, reads):
    """Store the smallest step of the timer that *reads* readings in a row see; 0: none."""
    first = global_timer()
    last = first
    least = first
    for _ in range(reads):
        now = global_timer()
        step = now - last
        least = tl.where((step > 0) & (step < least), step, least)
        last = now
    tl.store(times.ptr + i, tl.where(least < first, least, 0))


@device
def _sm():
    """Number of the SM that runs this CTA, read anew by each stamp."""
    return tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, False, 1)
