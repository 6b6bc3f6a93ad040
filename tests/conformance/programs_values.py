"""Contracts of arithmetic: what tiles and scalars hold after each operation, and in which type.

Bit-exact wherever one rounding or none is made per stored value. Sums and products of whole
numbers are exact in any order, so reductions and dot compare bit for bit there; with normal
values they have a tolerance.
"""

import numpy as np
from conformance_tools import contract, whole

from tdsim import lang as td

X_AND_W = {"w": td.Input("M", "N")}


@td.kernel
def element_wise(y, x, w):
    """One operation for each block of rows of y."""
    count = x.shape[0]
    for row in range(td.program_id(0) * 16, count, td.num_programs(0) * 16):
        for col in range(0, x.shape[1], 32):
            a = td.load(x, (row, col), (16, 32))
            b = td.load(w, (row, col), (16, 32))
            at = (row, col)
            td.store(td.rows(y, 0, count), at, a + b)
            td.store(td.rows(y, count, count), at, a - b)
            td.store(td.rows(y, 2 * count, count), at, a * b)
            td.store(td.rows(y, 3 * count, count), at, td.maximum(a, b))
            td.store(td.rows(y, 4 * count, count), at, td.minimum(a, 0.5))
            td.store(td.rows(y, 5 * count, count), at, td.where(a > b, a, b * 2.0))
            td.store(td.rows(y, 6 * count, count), at, -a)
            td.store(td.rows(y, 7 * count, count), at, 1.0 - a)
            both = (a >= 0.0) & (b < 0.0)
            td.store(td.rows(y, 8 * count, count), at, td.where(both, 1.0, 0.0))
            one = (a <= -1.0) | (a == b) | (b != b)
            td.store(td.rows(y, 9 * count, count), at, td.where(one, 1.0, 0.0))


def element_wise_reference(tensors):
    def of(x, w):
        a, b = x.astype(np.float32), w.astype(np.float32)
        rows = [
            a + b, a - b, a * b, np.maximum(a, b), np.minimum(a, np.float32(0.5)),
            np.where(a > b, a, b * 2), -a, 1 - a, (a >= 0) & (b < 0), (a <= -1) | (a == b),
        ]  # fmt: skip
        return np.concatenate([row.astype(x.dtype) for row in rows])

    return {"y": list(map(of, tensors["x"], tensors["w"]))}


@contract(out=("10*M", "N"), reference=element_wise_reference, **X_AND_W)
def element_wise_rounds_once(ctx, x, w, y):
    """Operators, maximum, minimum, where and comparisons: rounded once, to the tiles' type."""
    ctx.launch(element_wise, 3, (y, x, w), num_warps=4)


@td.kernel
def functions(y, x, w):
    """exp, exp2, log and division of values of moderate size."""
    count = x.shape[0]
    for row in range(0, count, 16):
        for col in range(0, x.shape[1], 32):
            a = td.load(x, (row, col), (16, 32))
            b = td.load(w, (row, col), (16, 32))
            at = (row, col)
            td.store(td.rows(y, 0, count), at, td.exp(a))
            td.store(td.rows(y, count, count), at, td.exp2(a))
            size = td.maximum(a * a, 0.001)
            td.store(td.rows(y, 2 * count, count), at, td.log(size))
            td.store(td.rows(y, 3 * count, count), at, b / size)


def functions_reference(tensors):
    def of(x, w):
        a, b = x.astype(np.float32), w.astype(np.float32)
        size = np.maximum((a * a).astype(x.dtype), np.array(0.001, x.dtype)).astype(np.float32)
        rows = [np.exp(a), np.exp2(a), np.log(size), b / size]
        return np.concatenate([row.astype(x.dtype) for row in rows])

    return {"y": list(map(of, tensors["x"], tensors["w"]))}


@contract(out=("4*M", "N"), reference=functions_reference, **X_AND_W)
def functions_are_float32(ctx, x, w, y):
    """exp, exp2, log and / are computed in float32, whatever the tiles' type."""
    ctx.launch(functions, 1, (y, x, w), num_warps=4)


@td.kernel
def reductions(y, x, WHOLE: td.constexpr):
    """Row 0 of y: sums of columns; row 1: of rows; rows 2 and 3: largest; row 4: of ints."""
    tile = td.load(x, (0, 0), (32, 64))
    numbers = td.cast(tile * 4.0, td.int32)
    if WHOLE:
        tile = td.cast(numbers, x.dtype)
    td.store(td.rows(y, 0, 1), (0, 0), line(td.sum(tile, 0), 64))
    td.store(td.rows(y, 1, 1), (0, 0), line(td.sum(tile, 1), 32))
    td.store(td.rows(y, 2, 1), (0, 0), line(td.max(tile, 0), 64))
    td.store(td.rows(y, 3, 1), (0, 0), line(td.max(tile, 1), 32))
    td.store(td.rows(y, 4, 1), (0, 0), line(td.sum(numbers, 1), 32))
    rest = td.zeros((1, 32), x.dtype)
    td.store(y, (1, 32), rest)
    td.store(y, (3, 32), rest)
    td.store(y, (4, 32), rest)


@td.function
def line(values, WIDTH: td.constexpr):
    """A 1-D tile as a tile of one row."""
    return td.zeros((1, WIDTH), values.dtype) + values


def reductions_reference(of_whole):
    def of(x):
        numbers = np.zeros((32, 64), np.float32)
        numbers[: x.shape[0], : x.shape[1]] = whole(x[:32, :64])
        tile = np.zeros((32, 64), np.float32)
        tile[: x.shape[0], : x.shape[1]] = x[:32, :64].astype(np.float32)
        if of_whole:
            tile = numbers
        y = np.zeros((5, 64), np.float32)
        y[0], y[1, :32] = tile.sum(0), tile.sum(1)
        y[2], y[3, :32] = tile.max(0), tile.max(1)
        y[4, :32] = numbers.sum(1)
        return y.astype(x.dtype)

    return lambda tensors: {"y": [of(x) for x in tensors["x"]]}


@contract(out=("5", "64"), reference=reductions_reference(True))
def reductions_of_whole_numbers(ctx, x, y):
    """sum and max over either axis, of floats and ints; 16-bit floats sum in float32."""
    ctx.launch(reductions, 1, (y, x, True), num_warps=4)


@contract(out=("5", "64"), reference=reductions_reference(False))
def reductions_of_normal_values(ctx, x, y):
    """As for whole numbers; the order of additions is the backend's."""
    ctx.launch(reductions, 1, (y, x, False), num_warps=4)


@td.kernel
def product(c, a, b, K, TRANSPOSED: td.constexpr):
    """c = a @ b, one tile of c after the other; b is [K, N], or [N, K] if TRANSPOSED."""
    num_n = td.cdiv(c.shape[1], 64)
    for tile in range(td.program_id(0), td.cdiv(c.shape[0], 64) * num_n, td.num_programs(0)):
        row = tile // num_n * 64
        col = tile % num_n * 64
        acc = td.zeros((64, 64), td.float32)
        for k in range(0, K, 32):
            a_tile = td.load(a, (row, k), (64, 32))
            if TRANSPOSED:
                b_tile = td.trans(td.load(b, (col, k), (64, 32)))
            else:
                b_tile = td.load(b, (k, col), (32, 64))
            acc = td.dot(a_tile, b_tile, acc)
        td.store(c, (row, col), td.cast(acc, c.dtype))


@td.kernel
def truncate(y, x):
    """y = the whole numbers in 4 x."""
    for row in range(td.program_id(0) * 16, x.shape[0], td.num_programs(0) * 16):
        for col in range(0, x.shape[1], 32):
            td.store(y, (row, col), td.cast(td.load(x, (row, col), (16, 32)) * 4.0, td.int32))


def product_reference(of_whole, transposed):
    def of(a, b):
        left, right = (whole(v) if of_whole else v.astype(np.float32) for v in (a, b))
        return (left @ (right.T if transposed else right)).astype(a.dtype)

    return lambda t: {"y": [of(*pair) for pair in zip(t["x"], t["w"], strict=True)]}


B_TRANSPOSED = {"w": td.Input("N", "N")}


@contract(
    out=("M", "N"),
    reference=product_reference(True, False),
    work=(td.Gemm("M", "N", "N"),),
    tunables={"move": ("pointer", "tiled")},
    **B_TRANSPOSED,
)
def products_of_whole_numbers(ctx, x, w, y, *, move):
    """dot accumulates in float32: whole numbers come out exact, also where tiles overhang."""
    a, b = ctx.local(x.shape, x.dtype), ctx.local(w.shape, w.dtype)
    ctx.launch(truncate, 3, (a, x), num_warps=4)
    ctx.launch(truncate, 3, (b, w), num_warps=4)
    if move == "tiled":
        a, b = a.tiled(64, 32), b.tiled(32, 64)
    ctx.launch(product, 2, (y, a, b, x.shape[1], False), num_warps=4)


@contract(
    out=("M", "N"),
    reference=product_reference(False, True),
    work=(td.Gemm("M", "N", "N"),),
    **B_TRANSPOSED,
)
def products_of_normal_values(ctx, x, w, y):
    """dot and trans; float32 tiles are taken as TF32."""
    args = (y, x.tiled(64, 32), w.tiled(64, 32), x.shape[1], True)
    ctx.launch(product, 2, args, num_warps=4)


@td.kernel
def promotions(y):
    """1 where the type of a result is the one expected."""
    half, brain = td.full((4,), 1.0, td.float16), td.full((4,), 1.0, td.bfloat16)
    single, ints = td.full((4,), 1.0, td.float32), td.arange(0, 4)
    td.store(y, (0, 0), is_type(half + half, td.float16))
    td.store(y, (1, 0), is_type(brain * brain, td.bfloat16))
    td.store(y, (2, 0), is_type(half + brain, td.float16))
    td.store(y, (3, 0), is_type(brain * single, td.float32))
    td.store(y, (4, 0), is_type(brain * 2.0, td.bfloat16))
    td.store(y, (5, 0), is_type(half / half, td.float32))
    td.store(y, (6, 0), is_type(brain / 2.0, td.float32))
    td.store(y, (7, 0), is_type(ints + 1, td.int32))
    td.store(y, (8, 0), is_type(ints + 0.5, td.float32))
    td.store(y, (9, 0), is_type(ints / 2, td.float32))
    td.store(y, (10, 0), is_type(ints + td.cast(ints, td.int64), td.int64))
    td.store(y, (11, 0), is_type(ints * half, td.float16))
    td.store(y, (12, 0), is_type(ints < 2, td.int1))
    td.store(y, (13, 0), is_type((ints < 2) & (ints > 0), td.int1))
    td.store(y, (14, 0), is_type(td.sum(brain, 0), td.float32))
    td.store(y, (15, 0), is_type(td.max(brain, 0), td.bfloat16))
    td.store(y, (16, 0), is_type(td.exp(half), td.float32))
    td.store(y, (17, 0), is_type(td.maximum(half, 0.0), td.float16))
    td.store(y, (18, 0), is_type(td.where(ints < 2, brain, 0.0), td.bfloat16))
    td.store(y, (19, 0), is_type(td.minimum(brain, brain), td.bfloat16))


@td.function
def is_type(tile, expected: td.constexpr):
    """1.0 if *tile* has the expected element type, else 0.0."""
    right = 0.0
    if tile.dtype == expected:
        right = 1.0
    return right


def ones(tensors):
    return {"y": [np.ones((20, 1), x.dtype) for x in tensors["x"]]}


@contract(out=("20", "1"), reference=ones)
def results_have_tritons_types(ctx, x, y):
    """Element types of results follow Triton's promotion."""
    ctx.launch(promotions, 1, (y,), num_warps=4)
