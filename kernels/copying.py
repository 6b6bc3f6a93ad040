"""Copies by program instances: a local copy kernel and the split of rows among CTAs."""

from tdsim import lang as td

MOVE_TILE, MOVE_WARPS, MOVE_CTAS_PER_SM = (8, 1024), 16, 2
"""Tile, warps and CTAs of an SM for kernels that only move and add: 32 bytes of bf16 per thread
in whole lines of memory. On one H200 (2026-12-04, Triton 3.6) the sum of two slots of
1024 x 8192 took 31 us so on 64 SMs; tiles of 32 x 256 by 8 warps were slower on any number of
CTAs."""


@td.kernel
def copy_rows(dst, src, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr):
    """Copy *src* to *dst* (equal shapes), tile by tile over the grid."""
    num_n = td.cdiv(src.shape[1], BLOCK_N)
    num_tiles = td.cdiv(src.shape[0], BLOCK_M) * num_n
    for tile in range(td.program_id(0), num_tiles, td.num_programs(0)):
        row = tile // num_n * BLOCK_M
        col = tile % num_n * BLOCK_N
        td.store(dst, (row, col), td.load(src, (row, col), (BLOCK_M, BLOCK_N)))


def launch_copy(ctx, dst, src, ctas, stream=None):
    """Queue a copy of *src* to *dst* within this PE, on *ctas* CTAs."""
    ctx.launch(
        copy_rows, ctas, (dst, src, *MOVE_TILE), stream=stream, num_warps=MOVE_WARPS,
        ctas_per_sm=MOVE_CTAS_PER_SM, role="copy",
    )  # fmt: skip


def comm_ctas(ctx, comm, num_comm_sms):
    """CTAs that communicate: *num_comm_sms* if *comm* is sm, none for copy engines."""
    num_comm = num_comm_sms if comm == "sm" else 0
    td.require(
        num_comm < ctx.num_sms,
        what=f"num_comm_sms={num_comm} on a GPU of {ctx.num_sms} SMs",
        expected=f"fewer than {ctx.num_sms}: others must compute",
        cure="lower num_comm_sms",
    )
    return num_comm


@td.function
def part(view, start, count, i, parts):
    """Part *i* of *parts* of the rows ``start .. start + count`` of *view*; may be empty."""
    begin = i * count // parts
    return td.rows(view, start + begin, (i + 1) * count // parts - begin)
