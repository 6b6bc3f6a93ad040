# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201 - Triton evaluates the annotations of device functions
"""Waits that end: what a debug build polls in place of a plain loop, and what it reports.

All threads of a CTA must leave a loop together, while each has its own view of time and of the
abort flag; so the CTA votes. There is no trap: it would take down every client of the GPU.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core

from .device import device
from .externs import word
from .ordering import global_timer
from .words import COMPARISONS, Entry, Report, Word


@device
def report():
    """Pointer to the hang report."""
    return tl.cast(word(Word.REPORT), tl.pointer_type(tl.int64))


@device
def timeout():
    """Nanoseconds that a wait lasts at most."""
    return word(Word.TIMEOUT_NS)


@device
def aborted(area):
    """1 if the abort flag is set, else 0; one thread polls the host's memory."""
    flag = tl.inline_asm_elementwise(
        """
        {
            .reg .pred first;
            .reg .b32 thread;
            mov.u32 thread, %tid.x;
            setp.eq.u32 first, thread, 0;
            mov.b64 $0, 0;
            @first ld.relaxed.sys.global.b64 $0, [$1];
        }
        """,
        "=l,l",
        [area + Report.ABORT],
        tl.int64,
        False,
        1,
    )
    return any_thread(flag != 0)


@device
def outlasted(began, limit):
    """1 if a thread finds more than *limit* ns passed since it read *began*, else 0."""
    return any_thread(global_timer() - began > limit)


@device
def any_thread(condition):
    """1 if *condition* holds in any thread of the CTA, else 0: one answer for all of them."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred mine, anyone;
            setp.ne.s32 mine, $1, 0;
            bar.red.or.pred anyone, 0, mine;
            selp.s32 $0, 1, 0, anyone;
        }
        """,
        "=r,r",
        [tl.cast(condition, tl.int32)],
        tl.int32,
        False,
        1,
    )


@device
def report_wait(area, address, cmp, target, seen, kind):
    """Write an entry if there is room, then set the abort flag."""
    number = tl.atomic_add(area + Report.COUNT, 1, sem="relaxed", scope="sys")
    if number < Report.CAPACITY:
        entry = area + Report.ENTRIES + number * Report.ENTRY_WORDS
        tl.store(entry + Entry.ADDRESS, tl.cast(address, tl.int64))
        tl.store(entry + Entry.COMPARISON, comparison_code(cmp))
        tl.store(entry + Entry.TARGET, target)
        tl.store(entry + Entry.SEEN, seen)
        tl.store(entry + Entry.PROGRAM_0, tl.program_id(0))
        tl.store(entry + Entry.PROGRAM_1, tl.program_id(1))
        tl.store(entry + Entry.NUM_PROGRAMS_0, tl.num_programs(0))
        tl.store(entry + Entry.KIND, kind)
    tl.atomic_xchg(area + Report.ABORT, 1, sem="release", scope="sys")


@core.builtin
def comparison_code(cmp: Any, _semantic: Any = None) -> Any:
    """The number of comparison *cmp* in a report, known at compile time."""
    return core.constexpr(COMPARISONS.index(cmp.value))
