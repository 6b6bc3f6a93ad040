# ruff: noqa: ANN001, ANN201 - as in kernels, parameters are views and ints
"""Plain Triton copy kernels: what puts and all-gathers are measured against.

They use Triton's own operations and nothing of the language's; being launched by the same
runtime, they are timed alike. ``VARIANTS`` spans what is known to matter for a copy: bytes in
flight per thread and per CTA, cache hints, and copies through shared memory, asynchronous
(``cp.async``) or by tensor descriptors (TMA).
"""

from __future__ import annotations

from dataclasses import dataclass

import triton.language as tl

from tdsim import lang as td


@td.kernel
def nothing(count):
    """The frame of a launch."""


@td.kernel
def copy_words(dst, src, count, BLOCK: td.constexpr, HINTS: td.constexpr):
    """Copy *count* int32 words, BLOCK at a time, block by block over the grid."""
    lane = tl.arange(0, BLOCK)
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        if HINTS:
            words = tl.load(src.ptr + start + lane, cache_modifier=".cg")
            tl.store(dst.ptr + start + lane, words, cache_modifier=".cs")
        else:
            tl.store(dst.ptr + start + lane, tl.load(src.ptr + start + lane))


@td.kernel
def copy_words_async(
    dst, src, count, BLOCK: td.constexpr, STAGES: td.constexpr, HINTS: td.constexpr
):
    """The same with STAGES blocks on their way through shared memory."""
    lane = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK
    for start in tl.range(first, count, tl.num_programs(0) * BLOCK, num_stages=STAGES):
        words = tl.load(src.ptr + start + lane)
        if HINTS:
            tl.store(dst.ptr + start + lane, words, cache_modifier=".cs")
        else:
            tl.store(dst.ptr + start + lane, words)


@td.kernel
def copy_tiles(
    dst, src, rows, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, STAGES: td.constexpr
):
    """Copy whole rows tile by tile through tensor descriptors; tiles are as wide as rows."""
    first = tl.program_id(0) * BLOCK_M
    for row in tl.range(first, rows, tl.num_programs(0) * BLOCK_M, num_stages=STAGES):
        dst.desc.store([row, 0], src.desc.load([row, 0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """One plain copy kernel. *thread_bytes*: what a thread loads before it stores."""

    name: str
    warps: int
    thread_bytes: int
    stages: int = 1

    @property
    def block(self) -> int:
        """Words that a CTA copies at a time."""
        return self.warps * 32 * self.thread_bytes // 4

    def __str__(self) -> str:
        staged = f", {self.stages} stages" if self.stages > 1 else ""
        return f"{self.name}, {self.warps} warps, {self.thread_bytes} B{staged}"


VARIANTS = (
    *(
        Plain(name="words", warps=warps, thread_bytes=size)
        for warps, size in (
            (4, 128), (4, 256), (8, 64), (8, 128), (8, 256), (16, 64), (16, 128), (16, 256),
            (32, 64), (32, 128),
        )
    ),
    *(
        Plain(name="hinted", warps=warps, thread_bytes=128) for warps in (8, 16, 32)
    ),
    *(
        Plain(name="async", warps=warps, thread_bytes=size, stages=stages)
        for warps, size, stages in (
            (8, 64, 4), (8, 64, 8), (8, 128, 3), (8, 128, 4), (8, 128, 6), (16, 64, 4),
            (32, 32, 4), (32, 32, 6),
        )
    ),
    Plain(name="async hinted", warps=8, thread_bytes=128, stages=4),
    Plain(name="async hinted", warps=8, thread_bytes=128, stages=6),
    *(
        Plain(name="tiles", warps=warps, thread_bytes=size, stages=stages)
        for warps, size, stages in (
            (4, 128, 4), (8, 128, 1), (8, 128, 3), (8, 128, 6), (8, 256, 1), (8, 256, 3),
        )
    ),
)  # fmt: skip


def launch(ctx, plain, dst, src, ctas):
    """Queue *plain* on *ctas* CTAs. *dst* and *src*: int32 views of the same rows."""
    rows, width = src.shape
    if plain.name == "tiles":
        height = plain.block // width
        args = (dst.tiled(height, width), src.tiled(height, width), rows, height, width)
        kernel, args = copy_tiles, (*args, plain.stages)
    elif plain.name.startswith("async"):
        hints = plain.name.endswith("hinted")
        args = (dst, src, rows * width, plain.block, plain.stages, hints)
        kernel = copy_words_async
    else:
        hints = plain.name == "hinted"
        kernel, args = copy_words, (dst, src, rows * width, plain.block, hints)
    ctx.launch(kernel, ctas, args, num_warps=plain.warps, role="copy")
