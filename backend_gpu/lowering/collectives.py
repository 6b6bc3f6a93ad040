# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202 - Triton evaluates the annotations of device functions
"""Barriers: of all PEs (own symmetric words in one node, NVSHMEM over many) and of one grid."""

from __future__ import annotations

import triton.language as tl

from . import externs
from .device import LANES, MY_PE, N_PES, SINGLE_NODE, device
from .ordering import admit_async, fence_system, release_join
from .signals import base, spin
from .stamps import stamp
from .words import END, EventKind, WaitKind, Word


@device
def barrier_all():
    stamp(EventKind.BARRIER_ALL, 0, 0)
    fence_system()
    release_join()
    if SINGLE_NODE:
        _meet_in_node()
    else:
        externs.barrier_all_block()
    tl.debug_barrier()
    admit_async()
    stamp(EventKind.BARRIER_ALL, END, 0)


@device
def sync_all():
    stamp(EventKind.BARRIER_ALL, 0, 0)
    release_join()
    if SINGLE_NODE:
        _meet_in_node()
    else:
        externs.sync_all_block()
    tl.debug_barrier()
    admit_async()
    stamp(EventKind.BARRIER_ALL, END, 0)


@device
def _meet_in_node():
    """Write the number of this barrier to every PE's area; wait until all have written theirs.

    ``Word.SYNC_AREA`` tells the layout. One lane writes to one PE, so the releases overlap.
    """
    area = tl.cast(externs.word(Word.SYNC_AREA), tl.pointer_type(tl.int64))
    lane = tl.arange(0, LANES)
    there = lane < N_PES
    number = tl.atomic_add(area + N_PES, 1, sem="relaxed", scope="gpu") + 1
    areas = tl.load(area + (N_PES + 1) + lane, mask=there, other=0)
    slots = tl.cast(areas, tl.pointer_type(tl.int64)) + MY_PE
    tl.atomic_xchg(slots, number, mask=there, sem="release", scope="sys")
    for pe in range(N_PES):
        spin(area + pe, "ge", number, "sys", WaitKind.BARRIER_ALL)


@device
def grid_barrier(sig, i):
    stamp(EventKind.GRID_BARRIER, 0, i)
    word = sig.ptr + i
    release_join()
    tl.atomic_add(word, 1, sem="release", scope="gpu")
    spin(word, "ge", base(sig) + sig.per_call, "gpu", WaitKind.GRID_BARRIER)
    admit_async()
    stamp(EventKind.GRID_BARRIER, END, i)


LOWERINGS = (barrier_all, sync_all, grid_barrier)
