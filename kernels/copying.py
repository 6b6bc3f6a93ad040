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


@td.function
def part(view, start, count, i, parts):
    """Part *i* of *parts* of the rows ``start .. start + count`` of *view*; may be empty."""
    begin = i * count // parts
    return td.rows(view, start + begin, (i + 1) * count // parts - begin)
