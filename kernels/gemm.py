"""The tile loop that every GEMM of the library shares."""

from tdsim import lang as td


@td.function
def main_loop(
    a, b, row, col, K, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr
):
    """float32 tile of ``a @ b`` at element (*row*, *col*); *a* is [M, K], *b* [K, N]."""
    acc = td.zeros((BLOCK_M, BLOCK_N), td.float32)
    for k in range(0, K, BLOCK_K):
        a_tile = td.load(a, (row, k), (BLOCK_M, BLOCK_K))
        b_tile = td.load(b, (k, col), (BLOCK_K, BLOCK_N))
        acc = td.dot(a_tile, b_tile, acc)
    return acc


TILE_TUNABLES = {
    "BLOCK_M": td.Tunable(128, (16, 32, 64, 128, 256), "rows of an output tile"),
    "BLOCK_N": td.Tunable(256, (16, 32, 64, 128, 256), "columns of an output tile"),
    "BLOCK_K": td.Tunable(64, (16, 32, 64, 128), "depth of one step of the tile loop"),
    "GROUP_M": td.Tunable(8, (1, 2, 4, 8, 16, 32), "row tiles visited together, for L2 reuse"),
}
