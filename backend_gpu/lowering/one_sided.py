# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202 - Triton evaluates the annotations of device functions
"""One-sided copies by the whole CTA: by peer addresses in the node, by NVSHMEM beyond it."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core

from . import externs
from .device import MY_PE, PES_PER_NODE, SINGLE_NODE, device
from .ordering import admit_async, fence_system, is_first_thread, release_join
from .signals import code_of, operand, update_near
from .stamps import stamp
from .views import cast_pointer, first_element, is_symmetric, on_peer
from .words import END, EventKind

COPY_BYTES_PER_WARP: Any = core.constexpr(4 * 1024)
"""Bytes of a block per warp, 128 per thread."""
COPY_BYTES_PER_CTA: Any = core.constexpr(32 * 1024)
"""Most bytes of a block: more warps have fewer each, so that shared memory holds the stages."""
COPY_STAGES: Any = core.constexpr(6)
"""Blocks of a copy in shared memory at a time: the fastest plain copy kernels of
``benchmarks/gpu_plain.py`` on one H200 have 32 KiB blocks in 4 to 6 stages."""


@device
def putmem(dst, src, pe):
    _put(dst, src, pe, True)


@device
def putmem_nbi(dst, src, pe):
    _put(dst, src, pe, False)


@device
def putmem_signal(dst, src, sig, i, value, op, pe):
    _put_signal(dst, src, sig, i, value, op, pe, True)


@device
def putmem_lines(dst, src, sig, i, value, line, pe):
    """A put and its signal, which tells of all data whatever the path does with lines."""
    _put_signal(dst, src, sig, i, value, "set", pe, True)


@device
def putmem_signal_nbi(dst, src, sig, i, value, op, pe):
    _put_signal(dst, src, sig, i, value, op, pe, False)


@device
def _put(dst, src, pe, blocking):
    tl.static_assert(is_symmetric(dst), "the target of a put is a symmetric view")
    stamp(EventKind.PUT, 0, pe)
    release_join()
    if SINGLE_NODE:
        copy_near(dst, src, pe)
    else:
        if pe // PES_PER_NODE == MY_PE // PES_PER_NODE:
            copy_near(dst, src, pe)
        else:
            fence_system()
            if blocking:
                externs.putmem_block(first_element(dst), first_element(src), size(src), pe)
                complete_far()
            else:
                externs.putmem_nbi_block(first_element(dst), first_element(src), size(src), pe)
    if blocking:
        tl.debug_barrier()
    stamp(EventKind.PUT, END, pe)


@device
def _put_signal(dst, src, sig, i, value, op, pe, blocking):
    tl.static_assert(is_symmetric(dst), "the target of a put is a symmetric view")
    stamp(EventKind.PUT, 0, pe)
    release_join()
    if SINGLE_NODE:
        copy_near(dst, src, pe)
        tl.debug_barrier()
        update_near(sig, i, value, op, pe)
    else:
        if pe // PES_PER_NODE == MY_PE // PES_PER_NODE:
            copy_near(dst, src, pe)
            tl.debug_barrier()
            update_near(sig, i, value, op, pe)
        else:
            _put_signal_far(dst, src, sig, i, value, op, pe, blocking)
            tl.debug_barrier()
    stamp(EventKind.PUT, END, pe)


@device
def _put_signal_far(dst, src, sig, i, value, op, pe, blocking):
    to = first_element(dst)
    source = first_element(src)
    word = sig.ptr + i
    operand_value = operand(sig, value, op)
    fence_system()
    if blocking:
        externs.putmem_signal_block(to, source, size(src), word, operand_value, code_of(op), pe)
        complete_far()
    else:
        externs.putmem_signal_nbi_block(
            to, source, size(src), word, operand_value, code_of(op), pe
        )


@device
def complete_far():
    """Wait for this CTA's puts to other nodes: later signals to any PE may rely on them."""
    tl.debug_barrier()
    if is_first_thread():
        externs.quiet()


@device
def getmem(dst, src, pe):
    tl.static_assert(is_symmetric(src), "the source of a get is a symmetric view")
    stamp(EventKind.GET, 0, pe)
    release_join()
    if SINGLE_NODE:
        _copy_from(dst, src, pe)
    else:
        if pe // PES_PER_NODE == MY_PE // PES_PER_NODE:
            _copy_from(dst, src, pe)
        else:
            externs.getmem_block(first_element(dst), first_element(src), size(src), pe)
    tl.debug_barrier()
    admit_async()
    stamp(EventKind.GET, END, pe)


@device
def fence():
    fence_system()
    release_join()
    if not SINGLE_NODE:
        if is_first_thread():
            externs.fence()
        tl.debug_barrier()


@device
def quiet():
    fence_system()
    release_join()
    if not SINGLE_NODE:
        if is_first_thread():
            externs.quiet()
        tl.debug_barrier()


@device
def copy_near(dst, src, pe):
    """Copy *src* to the place of *dst* on the load/store-reachable *pe*."""
    copy(on_peer(first_element(dst), dst.peers, pe), first_element(src), size(src))


@device
def _copy_from(dst, src, pe):
    copy(first_element(dst), on_peer(first_element(src), src.peers, pe), size(src))


@device
def size(view):
    """Bytes of a contiguous view."""
    count = tl.cast(view.shape[0], tl.int64)
    if len(view.shape) == 2:
        count = count * view.shape[1]
    return count * element_bytes(view)


@core.builtin
def element_bytes(view: Any, _semantic: Any = None) -> Any:
    """Bytes of one element, known at compile time."""
    return core.constexpr(view.dtype.dtype.element_ty.primitive_bitwidth // 8)


@device
def copy(dst, src, count):
    """Copy *count* bytes; 16 per access, but for the rest, if both ends are so aligned."""
    together = tl.cast(dst, tl.int64) | tl.cast(src, tl.int64)
    if together % 16 == 0:
        _copy_aligned(dst, src, count)
    else:
        to = cast_pointer(dst, tl.int16)
        _copy_elements(to, cast_pointer(src, tl.int16), count // 2, in_flight() // 16, 2)


@device
def _copy_aligned(dst, src, count):
    words = count // 16 * 4
    to = cast_pointer(dst, tl.int32)
    source = cast_pointer(src, tl.int32)
    _copy_elements(to, source, words, in_flight() // 4, 16)
    rest = cast_pointer(to + words, tl.int16)
    _copy_elements(rest, cast_pointer(source + words, tl.int16), count % 16 // 2, 8, 2)


@device
def _copy_elements(dst, src, count, block, alignment):
    """Copy *count* elements, *block* at a time; all the language's dtypes are whole int16s.

    Both addresses are multiples of *alignment* bytes, a hint that Triton loses on pointers that
    are only cast. Where the alignment allows it, blocks come through shared memory (cp.async),
    COPY_STAGES on their way at a time; the others go through registers. Only the last block, if
    it is not full, takes a mask.
    """
    lane = tl.arange(0, block)
    full = count // block * block
    for start in tl.range(0, full, block, num_stages=COPY_STAGES):
        to = tl.multiple_of(dst + start, alignment)
        source = tl.multiple_of(src + start, alignment)
        tl.store(to + lane, tl.load(source + lane))
    if full < count:
        inside = lane < tl.cast(count - full, tl.int32)
        to = tl.multiple_of(dst + full, alignment)
        source = tl.multiple_of(src + full, alignment)
        tl.store(to + lane, tl.load(source + lane, mask=inside), mask=inside)


@core.builtin
def in_flight(_semantic: Any = None) -> Any:
    """Bytes that one CTA copies at a time, known at compile time."""
    wanted = COPY_BYTES_PER_WARP.value * _semantic.builder.options.num_warps
    return core.constexpr(min(wanted, COPY_BYTES_PER_CTA.value))


LOWERINGS = (
    putmem, putmem_nbi, putmem_signal, putmem_signal_nbi, putmem_lines, getmem, fence, quiet,
)  # fmt: skip
