"""Tile orders: permutations for every PE, world and shape, own rows first, node by node."""

import contextlib

import pytest
from helpers import run
from hypothesis import assume, given
from hypothesis import strategies as st
from tdsim.kernels import tile_order

from tdsim import lang as td
from tdsim.sim.instrument import prepare


class Place:
    """A reader that only knows which PE of which machine asks."""

    def __init__(self, pe, nodes, node_size):
        self.pe, self.nodes, self.node_size = pe, nodes, node_size

    def call(self, function, args, kwargs):
        return prepare(function, True)(*args, **kwargs)

    def my_pe(self):
        return self.pe

    def n_pes(self):
        return self.nodes * self.node_size

    def n_nodes(self):
        return self.nodes

    def n_local_pes(self):
        return self.node_size


@contextlib.contextmanager
def asked_by(pe, nodes, node_size):
    td.activate(Place(pe, nodes, node_size))
    try:
        yield
    finally:
        td.activate(None)


def row_order(first_pe, M, block, nodes, node_size, asker=0):
    with asked_by(asker, nodes, node_size):
        return [tile_order.row_of(i, first_pe, M, block) for i in range(-(-M // block))]


SHAPES = st.tuples(
    st.integers(1, 4),  # nodes
    st.integers(1, 8),  # PEs in a node
    st.integers(1, 300),  # rows of a PE
    st.sampled_from([1, 2, 16, 32, 64, 128, 256]),  # BLOCK_M
)


@given(SHAPES, st.data())
def test_rows_are_a_permutation_for_every_first_pe(shape, data):
    nodes, node_size, pe_rows, block = shape
    M = nodes * node_size * pe_rows
    first_pe = data.draw(st.integers(0, nodes * node_size - 1))
    order = row_order(first_pe, M, block, nodes, node_size)
    assert sorted(order) == list(range(-(-M // block)))


@pytest.mark.parametrize(("nodes", "node_size"), [(1, 3), (2, 2), (2, 8), (3, 2), (4, 8)])
@pytest.mark.parametrize("pe_rows", [1, 5, 16, 100])
def test_rows_are_a_permutation_also_with_less_than_a_tile_per_node(nodes, node_size, pe_rows):
    M = nodes * node_size * pe_rows
    for first_pe in range(nodes * node_size):
        for block in (128, 256):
            order = row_order(first_pe, M, block, nodes, node_size)
            assert sorted(order) == list(range(-(-M // block)))


@given(SHAPES, st.data())
def test_the_first_rows_are_those_of_the_first_pe(shape, data):
    nodes, node_size, pe_rows, block = shape
    M = nodes * node_size * pe_rows
    first_pe = data.draw(st.integers(0, nodes * node_size - 1))
    own = first_pe * pe_rows
    node_begin = first_pe // node_size * node_size * pe_rows
    assume(own // block * block >= node_begin)  # else its first tile is the node's before
    first = row_order(first_pe, M, block, nodes, node_size)[0] * block
    assert first <= own < first + block


@given(SHAPES, st.data())
def test_a_node_is_finished_before_the_next_one_begins(shape, data):
    nodes, node_size, pe_rows, block = shape
    M = nodes * node_size * pe_rows
    first_pe = data.draw(st.integers(0, nodes * node_size - 1))
    order = row_order(first_pe, M, block, nodes, node_size)
    visited = [tile * block // (node_size * pe_rows) for tile in order]
    runs = [n for i, n in enumerate(visited) if i == 0 or visited[i - 1] != n]
    assert len(runs) == len(set(runs))
    ring = [(node - first_pe // node_size) % nodes for node in runs]
    assert ring == sorted(ring)


@given(SHAPES, st.data())
def test_the_order_depends_on_the_first_pe_and_not_on_who_asks(shape, data):
    nodes, node_size, pe_rows, block = shape
    M = nodes * node_size * pe_rows
    pes = st.integers(0, nodes * node_size - 1)
    first_pe, asker = data.draw(pes), data.draw(pes)
    assert row_order(first_pe, M, block, nodes, node_size, asker) == row_order(
        first_pe, M, block, nodes, node_size
    )


@pytest.mark.parametrize("on", [(1, 4), (2, 3)])
def test_an_order_that_starts_at_the_next_pe_ends_with_the_own_rows(on):
    nodes, node_size = on
    world, pe_rows, block = nodes * node_size, 64, 32
    for me in range(world):
        node, local = divmod(me, node_size)
        following = (node + 1) % nodes * node_size + (local + 1) % node_size
        order = row_order(following, world * pe_rows, block, nodes, node_size)
        assert [tile * block // pe_rows for tile in order[-2:]] == [me, me]


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_grouped_steps_visit_every_tile_once_a_group_of_rows_at_a_time(num_m, num_n, group):
    with asked_by(0, 1, 1):
        tiles = [tile_order.grouped(s, num_m, num_n, group) for s in range(num_m * num_n)]
    assert sorted(tiles) == [(row, col) for row in range(num_m) for col in range(num_n)]
    assert [row // group for row, _ in tiles] == sorted(row // group for row, _ in tiles)


@td.kernel
def write_order(out, M, BLOCK_M: td.constexpr):
    for i in range(out.shape[0]):
        tile = tile_order.row_of(i, td.my_pe(), M, BLOCK_M)
        td.store(out, (i,), td.full((1,), tile, td.int32))


@pytest.mark.parametrize("on", ["h800x3", "h800x2x3", "h800x3x2"])
@pytest.mark.parametrize("pe_rows", [7, 40])
def test_kernels_on_the_simulator_see_the_order_that_the_properties_hold_for(on, pe_rows):
    seen = {}

    def host(ctx):
        M = pe_rows * ctx.n_pes
        seen[ctx.my_pe] = ctx.local((-(-M // 32),), td.int32), ctx.n_nodes, ctx.n_local_pes
        ctx.launch(write_order, 1, (seen[ctx.my_pe][0], M, 32))

    run(host, on)
    for pe, (out, nodes, node_size) in seen.items():
        M = pe_rows * nodes * node_size
        assert out.data.tolist() == row_order(pe, M, 32, nodes, node_size)
