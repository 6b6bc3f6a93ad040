# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202 - Triton evaluates the annotations of device functions
"""Signals: int64 words of the symmetric heap, written by one thread, awaited by a whole CTA.

A signal array on the device has ``ptr`` (this PE's words), ``epoch`` (the address of the call
number, which the stream advances after each call), ``per_call`` and ``peers`` (the table of
heap addresses). A value v of the text is the word ``epoch * per_call + v``. Triton executes a
scalar atomic in one thread and gives its result to all of them behind a CTA barrier.
"""

from __future__ import annotations

import triton.language as tl

from . import externs, watch
from .device import DEBUG, MY_PE, PES_PER_NODE, SINGLE_NODE, device
from .ordering import (
    constant_word,
    fence_system,
    global_timer,
    is_first_thread,
    release_join,
)
from .stamps import stamp
from .views import on_peer
from .words import END, EventKind, WaitKind


@device
def signal_op(sig, i, value, op, pe, scope: tl.constexpr = "sys"):
    stamp(EventKind.SIGNAL_OP, 0, i)
    release_join()
    update(sig, i, value, op, pe, scope)
    stamp(EventKind.SIGNAL_OP, END, i)


@device
def update(sig, i, value, op, pe, scope: tl.constexpr = "sys"):
    """Update a signal on *pe*, releasing what :func:`release_join` has gathered.

    A PE of another node is reached at system scope, which is more than GPU scope.
    """
    if SINGLE_NODE:
        update_near(sig, i, value, op, pe, scope)
    else:
        if pe // PES_PER_NODE == MY_PE // PES_PER_NODE:
            update_near(sig, i, value, op, pe, scope)
        else:
            if is_first_thread():
                fence_system()
                externs.signal_op(sig.ptr + i, operand(sig, value, op), code_of(op), pe)


@device
def update_near(sig, i, value, op, pe, scope: tl.constexpr = "sys"):
    """One release at *scope*, through the peer's address: no extern."""
    word = on_peer(sig.ptr + i, sig.peers, pe)
    if op == "set":
        tl.atomic_xchg(word, operand(sig, value, op), sem="release", scope=scope)
    else:
        tl.atomic_add(word, operand(sig, value, op), sem="release", scope=scope)


@device
def operand(sig, value, op):
    """What the word is set to, or what is added to it."""
    if op == "set":
        return base(sig) + value
    else:
        return tl.cast(value, tl.int64)


@device
def base(sig):
    """The word that means 0 in this call."""
    return constant_word(sig.epoch) * sig.per_call


@device
def code_of(op):
    """NVSHMEM's number for *op*; the only place where it appears."""
    if op == "set":
        return externs.SIGNAL_SET
    else:
        return externs.SIGNAL_ADD


@device
def signal_wait_until(sig, i, cmp, value):
    stamp(EventKind.WAIT, 0, i)
    seen = spin(sig.ptr + i, cmp, base(sig) + value, "sys", WaitKind.SIGNAL)
    stamp(EventKind.WAIT, END, i)
    return tl.cast(seen, tl.int32)


@device
def spin(word, cmp, target, scope, kind):
    """Poll *word* until it compares true with *target*; return it, acquired at *scope*.

    The loop hides behind an ``if``, where the pipeliner does not mistake the loop around it for
    an outer one: a loop that waits and multiplies stays pipelined.
    """
    seen = tl.atomic_add(word, 0, sem="acquire", scope=scope)
    if misses(seen, cmp, target):
        if DEBUG:
            seen = _watched_spin(word, cmp, target, scope, kind)
        else:
            while misses(seen, cmp, target):
                seen = tl.atomic_add(word, 0, sem="acquire", scope=scope)
    return seen


@device
def _watched_spin(word, cmp, target, scope, kind):
    """The loop of :func:`spin` that also ends, with an entry, once it takes too long."""
    area = watch.report()
    limit = watch.timeout()
    began = global_timer()
    seen = tl.atomic_add(word, 0, sem="acquire", scope=scope)
    ended = watch.aborted(area)
    while misses(seen, cmp, target) & (ended == 0):
        ended = watch.outlasted(began, limit) | watch.aborted(area)
        if ended == 0:
            seen = tl.atomic_add(word, 0, sem="acquire", scope=scope)
        else:
            watch.report_wait(area, word, cmp, target, seen, kind)
    return seen


@device
def misses(seen, cmp, target):
    """Whether *seen* does not yet compare true with *target*."""
    if cmp == "eq":  # noqa: SIM116 - Triton has no dictionaries
        return seen != target
    elif cmp == "ne":
        return seen == target
    elif cmp == "gt":
        return seen <= target
    elif cmp == "ge":
        return seen < target
    elif cmp == "lt":
        return seen >= target
    else:
        return seen > target


LOWERINGS = (signal_op, signal_wait_until)
