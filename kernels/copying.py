"""Copies by program instances: a local copy kernel and the split of rows among CTAs."""

from tdsim import lang as td


@td.kernel
def copy_rows(dst, src, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr):
    """Copy *src* to *dst* (equal shapes), tile by tile over the grid."""
    num_n = td.cdiv(src.shape[1], BLOCK_N)
    num_tiles = td.cdiv(src.shape[0], BLOCK_M) * num_n
    for tile in range(td.program_id(0), num_tiles, td.num_programs(0)):
        row = tile // num_n * BLOCK_M
        col = tile % num_n * BLOCK_N
        td.store(dst, (row, col), td.load(src, (row, col), (BLOCK_M, BLOCK_N)))


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
