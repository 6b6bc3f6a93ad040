"""Values in functional mode: the GPU's integer rules, rounding, promotion, edges."""

import math

import ml_dtypes
import numpy as np
import pytest
from helpers import run, run_kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsim import lang as td
from tdsim.errors import UsageError
from tdsim.sim.instrument import c_div, c_mod, int32

INT = st.integers(-(2**31), 2**31 - 1)


@td.kernel
def integer_rules(out, a, b):
    td.store(out, (0,), td.full((1,), a + b, td.int32))
    td.store(out, (1,), td.full((1,), a - b, td.int32))
    td.store(out, (2,), td.full((1,), a * b, td.int32))
    td.store(out, (3,), td.full((1,), a // b, td.int32))
    td.store(out, (4,), td.full((1,), a % b, td.int32))


@td.kernel
def updated_in_place(out, a):
    a += 1
    td.store(out, (0,), td.full((1,), a, td.int32))
    a *= 2
    a -= 3
    td.store(out, (1,), td.full((1,), a, td.int32))
    a //= 2
    td.store(out, (2,), td.full((1,), a, td.int32))


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


@given(INT, INT.filter(lambda b: b != 0))
def test_division_truncates_towards_zero_as_in_c(a, b):
    assert c_div(a, b) == (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    assert c_div(a, b) * b + c_mod(a, b) == a
    assert abs(c_mod(a, b)) < abs(b)
    assert c_mod(a, b) == 0 or (c_mod(a, b) < 0) == (a < 0)


@given(st.integers(-(2**70), 2**70))
def test_wrapping_to_int32_keeps_the_low_32_bits(value):
    assert int32(value) == wrapped(value)


def test_wrapping_leaves_floats_and_bools_alone():
    assert int32(1e20) == 1e20
    assert int32(True) is True


@pytest.mark.parametrize(
    ("a", "b"),
    [(7, 2), (-7, 2), (7, -2), (-7, -2), (2**31 - 1, 2), (-(2**31), 3), (65536, 65536)],
)
def test_kernel_ints_are_int32_that_wrap_and_divide_as_in_c(a, b):
    got = run_kernel(integer_rules, a, b, out=(8,), dtype=td.int32)
    want = [wrapped(a + b), wrapped(a - b), wrapped(a * b), c_div(a, b), c_mod(a, b)]
    assert got[:5].tolist() == want


def test_updates_in_place_follow_the_same_rules():
    got = run_kernel(updated_in_place, 2**31 - 1, out=(4,), dtype=td.int32)
    assert got[:3].tolist() == [-(2**31), -3, -1]


@td.kernel
def rounded(out, value):
    td.store(out, (0,), td.full((4,), value, td.float32))


@pytest.mark.parametrize("kind", [td.bfloat16, td.float16])
@settings(max_examples=20)
@given(value=st.floats(-60000, 60000, width=32))
def test_a_store_rounds_to_nearest_even_in_the_dtype_of_the_view(kind, value):
    got = run_kernel(rounded, value, out=(4,), dtype=kind)
    assert got[0] == np.float32(value).astype(kind.numpy)


def test_bf16_rounds_halves_to_even():
    for value, want in ((1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6)):
        assert float(run_kernel(rounded, value, out=(4,), dtype=td.bfloat16)[0]) == want


@td.kernel
def product(out, x, y):
    a = td.full((16, 16), x, out.dtype)
    b = td.full((16, 16), y, out.dtype)
    td.store(out, (0, 0), td.dot(a, b, td.zeros((16, 16), td.float32)))


def test_dot_rounds_float32_to_tf32():
    x = 1 + 2**-10 + 2**-12  # the last bit does not fit into TF32's 10 bits of mantissa
    got = run_kernel(product, x, 1.0, out=(16, 16), dtype=td.float32)
    assert (got == 16 * (1 + 2**-10)).all()
    up = 1 + 2**-10 + 2**-11  # half a TF32 step rounds away from zero
    assert run_kernel(product, up, 1.0, out=(16, 16), dtype=td.float32)[0, 0] == 16 * (
        1 + 2**-9
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_dot_passes_infinities_and_nan(value):
    got = run_kernel(product, value, 1.0, out=(16, 16), dtype=td.float32)
    np.testing.assert_array_equal(got, np.full((16, 16), value, np.float32))


@td.kernel
def accumulate(out, steps):
    acc = td.zeros((16, 16), td.float32)
    for _ in range(steps):
        acc = td.dot(
            td.full((16, 16), 1.0, td.bfloat16), td.full((16, 16), 1.0, td.bfloat16), acc
        )
    td.store(out, (0, 0), acc)


def test_dot_accumulates_bf16_in_float32():
    # bf16 itself stops counting at 256
    assert run_kernel(accumulate, 40, out=(16, 16), dtype=td.float32)[3, 5] == 640


@td.kernel
def moved(out, src, row, col):
    # a store begins inside its view or past its end, a load also before it
    from_row, from_col = max(row, 0), max(col, 0)
    td.store(out, (from_row, from_col), td.load(src, (row, col), (4, 8)) + 1.0)


@pytest.mark.parametrize(
    ("row", "col"), [(0, 0), (2, 3), (3, 6), (-2, -5), (-4, 0), (5, 0), (9, 9)]
)
def test_outside_the_view_loads_read_zero_and_stores_write_nothing(row, col):
    edge = {}

    def host(ctx):
        src, out = ctx.local((5, 7), td.float32), ctx.local((5, 7), td.float32)
        src.write((0, 0), np.ones((5, 7), np.float32))
        ctx.launch(moved, 1, (out, src, row, col))
        edge["out"] = out

    run(host, "h800x1")
    inside = np.zeros((20, 20), np.float32)
    inside[4:9, 8:15] = 1.0
    want = np.full((5, 7), np.nan, np.float32)
    first = max(row, 0), max(col, 0)
    stored = want[first[0] : first[0] + 4, first[1] : first[1] + 8]
    read = inside[row + 4 : row + 8, col + 8 : col + 16]
    stored[...] = read[: stored.shape[0], : stored.shape[1]] + 1.0
    np.testing.assert_array_equal(edge["out"].data, want)


@td.kernel
def beyond(out, src):
    td.store(out, (0, 0), td.load(src, (-1, 4), (4, 8)))


def test_elements_of_a_tile_outside_the_view_read_zero():
    seen = {}

    def host(ctx, x):
        out = ctx.local((4, 8), td.float32)
        ctx.launch(beyond, 1, (out, x))
        seen["out"] = out

    done = run(host, "h800x1", tensors={"x": td.Input("5", "7")})
    want = np.zeros((4, 8), np.float32)
    want[1:, :3] = done.inputs[0]["x"][0][:3, 4:]
    np.testing.assert_array_equal(seen["out"].data, want)


@td.kernel
def arithmetic(out, x):
    rows = td.arange(0, 8)
    v = td.load(x, (0,), (8,))
    td.store(out, (0, 0), td.trans(td.trans(td.load(out, (0, 0), (1, 8)))))
    td.store(out, (1, 0), line(2.0 - v * 3.0 + 1.0 / v - (v - 1.0)))
    td.store(out, (2, 0), line(td.where(rows < 3, v, -1.0)))
    td.store(out, (3, 0), line(td.maximum(v, 0.5)))
    td.store(out, (4, 0), line(td.minimum(v, 0.5)))
    td.store(out, (5, 0), line(td.exp(v)))
    td.store(out, (6, 0), line(td.exp2(v)))
    td.store(out, (7, 0), line(td.log(td.exp(v))))
    td.store(out, (8, 0), line(td.where(rows >= 3, 1.0, 0.0)))
    td.store(out, (9, 0), line(td.where(rows == 3, 1.0, 0.0)))
    td.store(out, (10, 0), line(td.where(rows != 3, 1.0, 0.0)))
    td.store(out, (11, 0), line(td.where((rows > 1) & (rows <= 5), 1.0, 0.0)))
    td.store(out, (12, 0), line(td.where((rows < 1) | (rows > 6), 1.0, 0.0)))
    td.store(out, (13, 0), line(-v))
    td.store(out, (14, 0), line((rows - 4) // 3))
    td.store(out, (15, 0), line((rows - 4) % 3))
    td.store(out, (16, 0), line(20 // (rows + 1)))
    td.store(out, (17, 0), line(20 % (rows + 1)))


@td.function
def line(v):
    return td.full((1, 8), 0.0, td.float32) + v


def test_element_wise_operations_agree_with_numpy():
    seen = {}

    def host(ctx, x):
        out = ctx.local((18, 8), td.float32)
        ctx.launch(arithmetic, 1, (out, x))
        seen["out"] = out

    done = run(host, "h800x1", tensors={"x": td.Input("8")})
    v, rows = done.inputs[0]["x"][0], np.arange(8)
    want = [
        2 - v * 3 + 1 / v - (v - 1), np.where(rows < 3, v, -1), np.maximum(v, 0.5),
        np.minimum(v, 0.5), np.exp(v), np.exp2(v), v, rows >= 3, rows == 3, rows != 3,
        (rows > 1) & (rows <= 5), (rows < 1) | (rows > 6), -v,
        np.trunc((rows - 4) / 3), np.fmod(rows - 4, 3), 20 // (rows + 1), 20 % (rows + 1),
    ]  # fmt: skip
    np.testing.assert_allclose(
        seen["out"].data[1:], np.array(want, np.float32), rtol=1e-5, atol=1e-6
    )


@td.kernel
def reductions(out, x):
    tile = td.load(x, (0, 0), (4, 8))
    td.store(out, (0,), td.sum(tile, 0))
    td.store(out, (8,), td.max(tile, 0))
    td.store(out, (16,), td.sum(tile, 1))
    td.store(out, (20,), td.max(tile, 1))


def test_reductions_run_over_the_named_axis():
    seen = {}

    def host(ctx, x):
        seen["out"] = ctx.local((24,), td.float32)
        ctx.launch(reductions, 1, (seen["out"], x))

    done = run(host, "h800x1", tensors={"x": td.Input("4", "8")})
    x = done.inputs[0]["x"][0]
    want = np.concatenate([x.sum(0), x.max(0), x.sum(1), x.max(1)])
    np.testing.assert_allclose(seen["out"].data, want, rtol=1e-5, atol=1e-6)


@td.kernel
def promotions(out):
    half, brain = td.full((4,), 1.0, td.float16), td.full((4,), 1.0, td.bfloat16)
    single, whole = td.full((4,), 1.0, td.float32), td.arange(0, 4)
    td.store(out, (0,), kind(half + half, td.float16))
    td.store(out, (1,), kind(half + brain, td.float16))
    td.store(out, (2,), kind(brain * single, td.float32))
    td.store(out, (3,), kind(brain * 2.0, td.bfloat16))
    td.store(out, (4,), kind(whole + 1, td.int32))
    td.store(out, (5,), kind(whole + 0.5, td.float32))
    td.store(out, (6,), kind(whole / 2, td.float32))
    td.store(out, (7,), kind(whole + td.cast(whole, td.int64), td.int64))
    td.store(out, (8,), kind(td.sum(td.full((4, 4), 1.0, td.bfloat16), 0), td.float32))
    td.store(out, (9,), kind(half / half, td.float32))
    td.store(out, (10,), kind(brain / 2.0, td.float32))


@td.function
def kind(tile, expected):
    right = 0.0
    if tile.dtype == expected:
        right = 1.0
    return td.full((1,), right, td.float32)


def test_results_have_the_dtype_of_tritons_promotion():
    assert run_kernel(promotions, out=(11,), dtype=td.float32).tolist() == [1.0] * 11


@td.kernel
def scalar_casts(out, n):
    td.store(out, (0,), td.full((1,), td.cast(n, td.float32) / 4, td.float32))
    td.store(out, (1,), td.full((1,), td.cast(2.75, td.int32), td.float32))
    td.store(out, (2,), td.full((1,), td.maximum(n, 3), td.float32))
    td.store(out, (3,), td.full((1,), td.minimum(n, 3), td.float32))
    td.store(out, (4,), td.full((1,), td.cdiv(n, 3), td.float32))
    td.store(out, (5,), 7.0)


def test_scalars_are_cast_and_compared_too():
    got = run_kernel(scalar_casts, 10, out=(6,), dtype=td.float32)
    assert got.tolist() == [2.5, 2.0, 10.0, 3.0, 4.0, 7.0]


@td.kernel
def places(out):
    x = td.program_id(0)
    y = td.program_id(1)
    td.store(
        out,
        (y * td.num_programs(0) + x,),
        td.full((1,), 10 * y + x + td.program_id(2), td.int32),
    )


def test_axis_zero_of_a_grid_varies_fastest_and_missing_axes_are_zero():
    seen = {}

    def host(ctx):
        seen["out"] = ctx.local((6,), td.int32)
        ctx.launch(places, (3, 2), (seen["out"],))

    run(host, "h800x1")
    assert seen["out"].data.tolist() == [0, 1, 2, 10, 11, 12]


@td.kernel
def who(out):
    td.store(
        out, (0,), td.full((1,), td.my_pe() * 100 + td.my_node() * 10 + td.local_pe(), td.int32)
    )
    td.store(
        out,
        (1,),
        td.full((1,), td.n_pes() * 100 + td.n_nodes() * 10 + td.n_local_pes(), td.int32),
    )


def test_identity_counts_pes_node_by_node():
    seen = {}

    def host(ctx):
        seen[ctx.my_pe] = ctx.local((2,), td.int32)
        ctx.launch(who, 1, (seen[ctx.my_pe],))

    run(host, "h800x2x3")
    assert [seen[pe].data.tolist() for pe in range(6)] == [
        [0, 623], [101, 623], [202, 623], [310, 623], [411, 623], [512, 623],
    ]  # fmt: skip


def test_fresh_memory_holds_what_no_correct_result_holds():
    seen = {}

    def host(ctx):
        seen["real"] = ctx.local((2,), td.bfloat16)
        seen["whole"] = ctx.symmetric((2,), td.int32)
        seen["zero"] = ctx.local((2,), td.int32, zero=True)

    run(host, "h800x1")
    assert np.isnan(seen["real"].data.astype(np.float32)).all()
    assert seen["real"].data.dtype == ml_dtypes.bfloat16
    assert (seen["whole"].data == -(2**31)).all()
    assert (seen["zero"].data == 0).all()


@td.kernel
def wrong_rank(out):
    td.store(out, (0,), td.load(out, (0,), (4,)))


@td.kernel
def wrong_dot(out):
    td.store(
        out,
        (0, 0),
        td.dot(
            td.zeros((4, 8), td.float32),
            td.zeros((4, 8), td.float32),
            td.zeros((4, 8), td.float32),
        ),
    )


@td.kernel
def wrong_sum(out):
    td.store(out, (0, 0), td.zeros((4, 8), td.float32) + td.zeros((4, 4), td.float32))


@td.kernel
def wrong_condition(out):
    if td.zeros((4,), td.float32) > 0.0:
        td.store(out, (0, 0), td.zeros((4, 8), td.float32))


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (wrong_rank, r"a 1-D tile at 1 offsets on local#0\[4, 8\] on PE 0; expected 2 of each; give one offset and one size per axis"),
        (wrong_dot, r"dot of \(4, 8\) and \(4, 8\) into \(4, 8\); expected \[m, k\], \[k, n\] and \[m, n\]; check the block sizes"),
        (wrong_sum, r"tiles of shapes \(4, 8\) and \(4, 4\) do not fit together; expected equal shapes, or 1 where they differ; check the block sizes"),
        (wrong_condition, "a tile was used as a condition; expected a scalar condition; select elements with td.where, or reduce the tile first"),
    ],
)  # fmt: skip
def test_tiles_that_do_not_fit_are_named_in_both_modes(kernel, text, functional):
    def host(ctx):
        ctx.launch(kernel, 1, (ctx.local((4, 8), td.float32),))

    with pytest.raises(UsageError, match=text):
        run(host, "h800x1", functional=functional)
