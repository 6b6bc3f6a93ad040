"""Contracts of load, store, rows, fill operations and element types: tiles as memory sees them.

Each program runs with plain views and, where ``move`` is ``"tiled"``, with views declared to be
moved in tiles of one shape, for which the GPU backend passes tensor descriptors. What is loaded
and stored must not depend on it. Rows of a tiled view are multiples of 16 bytes.
"""

import numpy as np
from conformance_tools import contract

from tdsim import lang as td

MOVE = ("pointer", "tiled")


def tiled(view, move, *shape):
    """*view*, declared to be moved in tiles of *shape* if *move* says so."""
    return view.tiled(*shape) if move == "tiled" else view


@td.kernel
def load_around(y, x, row_shift, col_shift):
    """y[i, j] = x[i - row_shift, j - col_shift], or 0 where that lies outside x."""
    num_n = td.cdiv(y.shape[1], 32)
    for tile in range(td.program_id(0), td.cdiv(y.shape[0], 16) * num_n, td.num_programs(0)):
        row = tile // num_n * 16
        col = tile % num_n * 32
        around = td.load(x, (row - row_shift, col - col_shift), (16, 32))
        td.store(y, (row, col), around)


def padded(tensors):
    return {"y": [np.pad(x, ((8, 13), (16, 24))) for x in tensors["x"]]}


@contract(out=("M+21", "N+40"), reference=padded, tunables={"move": MOVE})
def load_masks_edges(ctx, x, y, *, move):
    """Elements of a tile outside its view load as 0, on all four sides."""
    args = (y, tiled(x, move, 16, 32), 8, 16)
    ctx.launch(load_around, 5, args, num_warps=4)


@td.kernel
def fill(y, value):
    """y = value, by tiles that reach over its edges."""
    for row in range(td.program_id(0) * 16, y.shape[0], td.num_programs(0) * 16):
        for col in range(0, y.shape[1], 32):
            td.store(y, (row, col), td.full((16, 32), value, td.int32))


def framed(tensors):
    frame = ((2, 3), (0, 0))
    return {"y": [np.pad(x, frame, constant_values=7) for x in tensors["x"]]}


@contract(out=("M+5", "N"), reference=framed, tunables={"move": MOVE})
def store_masks_edges(ctx, x, y, *, move):
    """A store writes nothing behind its view, not even into the tensor it is a part of."""
    ctx.launch(fill, 3, (y, 7), num_warps=4)
    inside = tiled(y.rows(2, x.shape[0]), move, 16, 32)
    ctx.launch(store_over_the_end, 3, (inside, x), num_warps=4)


@td.kernel
def store_over_the_end(y, x):
    """y = x, by tiles of which the last begin inside and end outside, on both axes."""
    for row in range(td.program_id(0) * 16, x.shape[0], td.num_programs(0) * 16):
        for col in range(0, x.shape[1], 32):
            td.store(y, (row, col), td.load(x, (row, col), (16, 32)))


@td.kernel
def sub_views(y, x, start, count):
    """Rows start.. of x, tile by tile, through a view of their own."""
    part = td.rows(x, start, count)
    for row in range(td.program_id(0) * 16, part.shape[0], td.num_programs(0) * 16):
        for col in range(0, part.shape[1], 32):
            td.store(y, (row, col), td.load(part, (row, col), (16, 32)))


def middle_rows(tensors):
    return {"y": [np.pad(x[5:-7], ((0, 12), (0, 0))) for x in tensors["x"]]}


@contract(out=("M", "N"), reference=middle_rows, tunables={"move": MOVE})
def rows_end_where_they_say(ctx, x, y, *, move):
    """A sub-view has its own edges: its neighbours in memory load as 0."""
    ctx.launch(fill, 3, (y, 0), num_warps=4)
    args = (y, tiled(x, move, 16, 32), 5, x.shape[0] - 12)
    ctx.launch(sub_views, 2, args, num_warps=4)


@td.kernel
def one_axis(y, x, shift):
    """y[i] = x[i - shift], or 0 outside; y is a row of the output, as a 1-D view."""
    for start in range(td.program_id(0) * 64, y.shape[0], td.num_programs(0) * 64):
        td.store(y, (start,), td.load(x, (start - shift,), 64))


def shifted(tensors):
    return {"y": [np.pad(x, (3, 5)) for x in tensors["x"]]}


@td.program(
    shape=("N",),
    tensors={"x": td.Input("N"), "y": td.Output("N+8")},
    work=(),
    reference=shifted,
    small_shape="N=203",
    tunables={"move": td.Tunable("pointer", MOVE, "views with or without a descriptor")},
)
def one_axis_masks_edges(ctx, x, y, *, move):
    """1-D views load 0 before their begin and after their end, and store nothing there."""
    ctx.launch(one_axis, 2, (y, tiled(x, move, 64), 3), num_warps=4)


@td.kernel
def spread(singles, halves, brains, ints, longs, x):
    """Store one tile into memory of five element types: a store casts to its view's."""
    for row in range(0, x.shape[0], 16):
        for col in range(0, x.shape[1], 32):
            tile = td.load(x, (row, col), (16, 32)) * 8.0
            td.store(singles, (row, col), tile)
            td.store(halves, (row, col), tile)
            td.store(brains, (row, col), tile)
            td.store(ints, (row, col), tile)
            td.store(longs, (row, col), tile)


@td.kernel
def collect(y, singles, halves, brains, ints, longs):
    """Load the five types and store them, cast back, one below the other."""
    count = singles.shape[0]
    for row in range(0, count, 16):
        for col in range(0, y.shape[1], 32):
            at = (row, col)
            td.store(td.rows(y, 0, count), at, td.load(singles, at, (16, 32)))
            td.store(td.rows(y, count, count), at, td.load(halves, at, (16, 32)))
            td.store(td.rows(y, 2 * count, count), at, td.load(brains, at, (16, 32)))
            td.store(td.rows(y, 3 * count, count), at, td.load(ints, at, (16, 32)))
            td.store(td.rows(y, 4 * count, count), at, td.load(longs, at, (16, 32)))


DTYPES = (td.float32, td.float16, td.bfloat16, td.int32, td.int64)


def five_types(tensors):
    def of(x):
        tile = (x.astype(np.float32) * 8).astype(x.dtype)
        return np.concatenate([tile.astype(d.numpy).astype(x.dtype) for d in DTYPES])

    return {"y": [of(x) for x in tensors["x"]]}


@contract(out=("5*M", "N"), reference=five_types, tunables={"move": MOVE})
def every_type_is_stored_and_loaded(ctx, x, y, *, move):
    """Float stores round to nearest even, integer stores truncate; loads keep every bit."""
    memory = [tiled(ctx.local(x.shape, kind), move, 16, 32) for kind in DTYPES[:4]]
    memory.append(ctx.local(x.shape, td.int64))
    ctx.launch(spread, 1, (*memory, x), num_warps=4)
    ctx.launch(collect, 1, (y, *memory), num_warps=4)


@td.kernel
def made_tiles(y):
    """Whole numbers in the first 32 columns, zeros in the others."""
    for row in range(y.shape[0]):
        numbers = td.full((1, 32), 3, td.int32) + td.arange(1, 33)
        td.store(y, (row, 0), numbers)
        for col in range(32, y.shape[1], 64):
            td.store(td.rows(y, row, 1), (0, col), td.zeros((1, 64), y.dtype))


@td.kernel
def single_elements(y):
    """Two scalars, each stored as one element."""
    td.store(y, (0, 40), td.num_programs(0))
    td.store(y, (1, 40), -2.5)


def made(tensors):
    def of(x):
        y = np.zeros(x.shape, np.float32)
        y[:, :32] = 3 + np.arange(1, 33)
        y[0, 40], y[1, 40] = 1, -2.5
        return y.astype(x.dtype)

    return {"y": [of(x) for x in tensors["x"]]}


@contract(out=("M", "N"), reference=made)
def tiles_are_made(ctx, x, y):
    """What zeros, full, arange and a scalar store hold, cast to the view's type."""
    ctx.launch(made_tiles, 1, (y,), num_warps=4)
    ctx.launch(single_elements, 1, (y,), num_warps=4)
