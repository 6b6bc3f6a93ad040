"""Which tile an instance computes at each step: shared by producers and consumers.

An overlapped GEMM visits its rows in the order in which they arrive (all-gather) or are wanted
(reduce-scatter): a rotation over nodes, then over the PEs of a node. Every order here is a
permutation of the tiles for every PE, world and shape, also where a node owns less than one
tile of rows; the tests prove it.
"""

from tdsim import lang as td


@td.function
def grouped(step, num_m, num_n, GROUP_M: td.constexpr):
    """(row index, column) of *step*: GROUP_M rows at a time, column by column, for L2 reuse."""
    group = step // (GROUP_M * num_n)
    height = min(GROUP_M, num_m - group * GROUP_M)
    inside = step % (GROUP_M * num_n)
    return group * GROUP_M + inside % height, inside // height


@td.function
def row_of(i, first_pe, M, BLOCK_M: td.constexpr):
    """The row tile visited as number *i* by an order that starts at *first_pe*'s rows.

    Nodes are visited from *first_pe*'s upwards and wrap; inside each node the order starts at
    the PE with *first_pe*'s local number and wraps. A tile is of the node of its first row.
    """
    num_m = td.cdiv(M, BLOCK_M)
    node_rows = M // td.n_nodes()
    pe_rows = M // td.n_pes()
    local = first_pe % td.n_local_pes()
    first_tile = td.cdiv(first_pe // td.n_local_pes() * node_rows, BLOCK_M)
    tile = (first_tile + i) % num_m
    node = tile * BLOCK_M // node_rows
    begin = td.cdiv(node * node_rows, BLOCK_M)
    count = td.cdiv((node + 1) * node_rows, BLOCK_M) - begin
    start = (node * node_rows + local * pe_rows) // BLOCK_M - begin
    return begin + (tile - begin + max(start, 0)) % count
