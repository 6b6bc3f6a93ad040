# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa: ANN001, ANN201 - Triton evaluates the annotations of device functions
"""What keeps the GPU's order equal to the source's where the language promises it.

Every release of the language starts with :func:`release_join`, every wait ends in a token
that :func:`opaque_zero` ties to loads. Both are needed because neither Triton's software
pipeliner nor the threads of a CTA follow the order of the text.
"""

from __future__ import annotations

import triton.language as tl

from .device import ASYNC_PROXY, device


@device
def release_join():
    """Make the CTA's earlier stores, also those by TMA, precede what one thread does next.

    Without the ``.read`` form the wait lasts until TMA has written the tiles, not only read
    them from shared memory. The barrier must be Triton's own: the pipeliner leaves loops that
    hold one alone, so no wait of a later iteration can rise above this release (two CTAs that
    signal each other would deadlock).
    """
    if ASYNC_PROXY:
        tl.inline_asm_elementwise(
            "cp.async.bulk.wait_group 0; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
        )
    tl.debug_barrier()


@device
def admit_async():
    """Let later TMA loads see what this CTA has acquired or written by ordinary accesses."""
    if ASYNC_PROXY:
        tl.inline_asm_elementwise(
            "fence.proxy.async; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
        )


@device
def opaque_zero(token):
    """Return 0 in a way no compiler pass can know, computed from *token*.

    An offset plus this zero depends on the wait that gave the token. The assembly is pure, for
    the pipeliner cannot predicate the volatile kind: the data dependence alone holds it, and
    the loads that use it, behind the wait. The fence is :func:`admit_async`'s.
    """
    if ASYNC_PROXY:
        zero = tl.inline_asm_elementwise(
            "fence.proxy.async; mov.u32 $0, 0;", "=r,r", [token], tl.int32, True, 1
        )
    else:
        zero = tl.inline_asm_elementwise("mov.u32 $0, 0;", "=r,r", [token], tl.int32, True, 1)
    return tl.multiple_of(zero, 16)


@device
def constant_word(address):
    """The int64 at *address*, which nobody writes while the kernel runs.

    Not a Triton load: those the pipeliner would buffer as if they were tiles.
    """
    return tl.inline_asm_elementwise(
        "ld.global.nc.b64 $0, [$1];", "=l,l", [address], tl.int64, True, 1
    )


@device
def fence_system():
    """Order this thread's earlier accesses before its later ones, for every observer."""
    tl.inline_asm_elementwise("fence.acq_rel.sys; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1)


@device
def is_first_thread():
    """True in one thread of the CTA: the branch on it is a real one, not a mask."""
    return tl.inline_asm_elementwise("mov.u32 $0, %tid.x;", "=r", [], tl.int32, True, 1) == 0


@device
def global_timer():
    """The GPU's timer in nanoseconds, read just here, by each thread for itself."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, False, 1)
