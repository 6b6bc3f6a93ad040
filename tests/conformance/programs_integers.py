"""Contracts of integers: int32 wraps, ``//`` and ``%`` truncate, int64 where it is asked for.

Results have more bits than the output's floats, so each is stored as two halves: the rest and
the quotient of 2**16, which are whole numbers that float32 holds. Themselves they are ``%`` and
``//`` of the language, once more.
"""

import numpy as np
from conformance_tools import contract

from tdsim import lang as td

HALF = 65536


@td.function
def store_halves(y, i, value):
    """Store the scalar int *value* as elements 2 i and 2 i + 1 of the first column."""
    td.store(y, (2 * i, 0), value % HALF)
    td.store(y, (2 * i + 1, 0), value // HALF)


@td.kernel
def scalar_rules(y, a, b):
    store_halves(y, 0, a + b)
    store_halves(y, 1, a - b)
    store_halves(y, 2, a * b)
    store_halves(y, 3, a // b)
    store_halves(y, 4, a % b)
    store_halves(y, 5, td.maximum(a, b))
    store_halves(y, 6, min(a, b))
    store_halves(y, 7, td.cdiv(max(a % 100, 1), 7))
    store_halves(y, 8, td.cast(td.cast(a % 100, td.float32) / 8, td.int32))


PAIRS = ((7, 2), (-7, 2), (7, -2), (-7, -2), (2**31 - 1, 2), (-(2**31), 3), (65536, 65536))


def wrap(value):
    return (int(value) + 2**31) % 2**32 - 2**31


def c_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def c_mod(a, b):
    return a - c_div(a, b) * b


def scalar_reference(tensors):
    rows = []
    for a, b in PAIRS:
        rest = c_mod(a, 100)
        values = (
            wrap(a + b), wrap(a - b), wrap(a * b), wrap(c_div(a, b)), c_mod(a, b),
            max(a, b), min(a, b), -(-max(rest, 1) // 7), int(rest / 8),
        )  # fmt: skip
        rows += [half(v) for v in values for half in (lambda v: c_mod(v, HALF), to_high)]
    column = np.array(rows).reshape(-1, 1)
    return {"y": [column.astype(x.dtype) for x in tensors["x"]]}


def to_high(value):
    return c_div(value, HALF)


@contract(out=("126", "1"), reference=scalar_reference)
def scalars_are_int32(ctx, x, y):
    """Scalars wrap at 32 bits and divide as in C; only float32 outputs hold the halves."""
    for number, (a, b) in enumerate(PAIRS):
        ctx.launch(scalar_rules, 1, (y.rows(18 * number, 18), a, b), num_warps=4)


@td.kernel
def tile_rules(low, high, x, w):
    """Five blocks of results of ints made from x and w, by halves."""
    count = x.shape[0]
    for row in range(0, count, 16):
        for col in range(0, x.shape[1], 32):
            a = td.cast(td.load(x, (row, col), (16, 32)) * 1e8, td.int32)
            b = td.cast(td.load(w, (row, col), (16, 32)) * 1000.0, td.int32)
            b = td.where(b == 0, 7, b)
            at = (row, col)
            store_tile(td.rows(low, 0, count), td.rows(high, 0, count), at, a + b * 500000)
            store_tile(td.rows(low, count, count), td.rows(high, count, count), at, a * b)
            third = 2 * count
            store_tile(td.rows(low, third, count), td.rows(high, third, count), at, a // b)
            fourth = 3 * count
            store_tile(td.rows(low, fourth, count), td.rows(high, fourth, count), at, a % b)
            fifth = 4 * count
            long = td.cast(a, td.int64) * td.cast(b, td.int64)
            place = td.rows(high, fifth, count)
            store_tile(td.rows(low, fifth, count), place, at, long // 1000003)


@td.function
def store_tile(low, high, at, values):
    td.store(low, at, values % HALF)
    td.store(high, at, values // HALF)


def tile_reference(tensors):
    def of(x, w):
        a = (x.astype(np.float32) * np.float32(1e8)).astype(np.int32).astype(np.int64)
        b = (w.astype(np.float32) * np.float32(1000)).astype(np.int32).astype(np.int64)
        b = np.where(b == 0, 7, b)
        results = [
            as_int32(a + b * 500000), as_int32(a * b), quotient(a, b), np.fmod(a, b),
            quotient(a * b, 1000003),
        ]  # fmt: skip
        values = np.concatenate(results)
        low = np.fmod(values, HALF)
        return np.concatenate([low, quotient(values, HALF)]).astype(x.dtype)

    return {"y": list(map(of, tensors["x"], tensors["w"]))}


def as_int32(values):
    return values.astype(np.int32).astype(np.int64)


def quotient(a, b):
    return (a - np.fmod(a, b)) // b


@contract(out=("10*M", "N"), reference=tile_reference, w=td.Input("M", "N"))
def tiles_of_ints(ctx, x, w, y):
    """Tiles of int32 wrap and divide as scalars do; int64 tiles have 64 bits."""
    count = 5 * x.shape[0]
    args = (y.rows(0, count), y.rows(count, count), x, w)
    ctx.launch(tile_rules, 1, args, num_warps=4)


@td.kernel
def who(y):
    """Row p: coordinates, grid and place of instance p, counted with axis 0 fastest."""
    number = td.program_id(2) * td.num_programs(1) + td.program_id(1)
    number = number * td.num_programs(0) + td.program_id(0)
    td.store(y, (number, 0), td.program_id(0) + 10 * td.program_id(1) + 100 * td.program_id(2))
    grid = td.num_programs(0) + 10 * td.num_programs(1) + 100 * td.num_programs(2)
    td.store(y, (number, 1), grid)
    td.store(y, (number, 2), td.my_pe())
    td.store(y, (number, 3), td.n_pes())
    td.store(y, (number, 4), td.my_node())
    td.store(y, (number, 5), td.n_nodes())
    td.store(y, (number, 6), td.local_pe())
    td.store(y, (number, 7), td.n_local_pes())
    left = (td.my_pe() - 1) % td.n_pes()  # -1 on PE 0, as in C
    td.store(y, (number, 8), left)


def who_reference(tensors):
    world, size = len(tensors["nodes"]), len(tensors["nodes"][0])

    def of(rank):
        left = rank - 1 if rank or world == 1 else -1
        left = 0 if world == 1 else left
        place = [rank, world, rank // size, world // size, rank % size, size, left]
        rows = [
            [i + 10 * j + 100 * k, 3 + 20 + 200, *place]
            for k in range(2)
            for j in range(2)
            for i in range(3)
        ]
        return np.array(rows).astype(tensors["nodes"][0].dtype)

    return {"y": [of(rank) for rank in range(world)]}


@contract(out=("12", "9"), reference=who_reference, nodes=td.Input("node_size"))
def instances_and_pes_know_their_place(ctx, x, nodes, y):
    """PEs are numbered node by node, and instances with axis 0 fastest."""
    ctx.launch(who, (3, 2, 2), (y,), num_warps=4)
