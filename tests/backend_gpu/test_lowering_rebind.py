"""Re-binding: helpers, constants and closures reach Triton by any name the text has."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

import rebind_helpers as helpers
from lowering_tools import COUNTERS, INT, ONE_NODE, SIGNALS, Ttgir, view
from rebind_helpers import SHAPE, offset, scaled_by
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.lowering.device import Facts
from tdsim.backend_gpu.lowering.rebind import Binder
from tdsim.backend_gpu.lowering.world import World

from tdsim import lang as td
from tdsim.errors import KernelDefinitionError, UsageError
from tdsim.lang import load, store
from tdsim.lang import tiles as tile_operations

ROWS = 16
row = "a global that a parameter hides"
twice, thrice = scaled_by(2), scaled_by(3)
ARGS = {"x": view(), "y": view(), "row": INT}


@td.kernel
def by_every_name(x, y, row):
    if row > helpers.Mode.PLAIN:
        first, second = helpers.both(row)
        tile = load(x, (first, second), SHAPE)
        tile = tile + td.tiles.load(x, (offset(row), 0), (ROWS, helpers.WIDTH))
        tile = tile + tile_operations.zeros(helpers.SHAPE, helpers.ACCUMULATOR)
        store(y, (0, 0), tile)


def test_helpers_and_constants_are_found_through_modules_and_imports():
    compile_kernel(by_every_name, ARGS, world=ONE_NODE)


@td.kernel
def scales(out, row):
    td.store(out, 0, td.full(1, twice(row), td.int32))
    td.store(out, 1, td.full(1, thrice(row), td.int32))


def test_two_closures_of_one_text_stay_two_functions():
    ttgir = Ttgir(compile_kernel(scales, {"out": COUNTERS, "row": INT}, world=ONE_NODE).ttgir)
    stores = [i for i, line in enumerate(ttgir.lines) if "tt.store" in line]
    factors = [re.search(r"muli %row, %c(\d)_i32", ttgir.sources(1, i)) for i in stores]
    assert [found and found[1] for found in factors] == ["2", "3"]


@td.function
def plus_one(x):
    return x + 1.0


@td.kernel
def with_epilogue(
    x, y, row, EPILOGUE: td.constexpr = plus_one, DTYPE: td.constexpr = td.float32
):
    tile = td.cast(td.load(x, (row, 0), (16, 16)), DTYPE)
    td.store(y, (row, 0), EPILOGUE(tile))


@pytest.mark.parametrize("constexprs", [{}, {"EPILOGUE": twice, "DTYPE": td.float16}])
def test_helpers_and_dtypes_are_passed_as_constants(constexprs):
    compile_kernel(with_epilogue, ARGS, constexprs, world=ONE_NODE)


@td.kernel
def carries_views(x, ready, out):
    for i in range(4):
        token = td.signal_wait_until(ready, i, "ge", 1)
        x = helpers.shifted(token, x)
    if out.shape[0] > 8:
        x = td.rows(x, 8, x.shape[0] - 8)
    td.store(out, (0, 0), td.cast(td.load(x, (0, 0), (16, 16)), out.dtype))


def test_a_view_goes_through_helpers_loops_and_branches():
    args = {"x": view(), "ready": SIGNALS, "out": view(dtype=td.float16)}
    compile_kernel(carries_views, args, world=ONE_NODE)


def _key(kernel, world):
    return Binder(Facts(world, async_proxy=True)).lower(kernel).cache_key


@td.kernel
def tells_its_pe(out):
    td.store(out, 0, td.full(1, td.my_pe() + td.cdiv(out.shape[0], 4), td.int32))


def test_the_cache_key_holds_the_world():
    assert _key(tells_its_pe, World(0, 2, 2)) == _key(tells_its_pe, World(0, 2, 2))
    assert _key(tells_its_pe, World(0, 2, 2)) != _key(tells_its_pe, World(1, 2, 2))


def test_the_cache_key_holds_constants_that_are_reached_through_a_module(monkeypatch):
    before = _key(by_every_name, ONE_NODE)
    monkeypatch.setattr(helpers, "WIDTH", 64)
    assert _key(by_every_name, ONE_NODE) != before


def test_every_function_is_bound_once():
    binder = Binder(Facts(ONE_NODE, async_proxy=True))
    assert binder.lower(by_every_name) is binder.lower(by_every_name)


@td.function
def endless(x):
    return endless(x)


@td.kernel
def recursive(out):
    td.store(out, 0, endless(1))


def test_a_helper_that_calls_itself_is_refused():
    with pytest.raises(KernelDefinitionError) as caught:
        compile_kernel(recursive, {"out": COUNTERS}, world=ONE_NODE)
    assert str(caught.value) == (
        f"{__file__}:{endless.source.line}: endless calls itself; "
        "Triton inlines helpers: write a loop"
    )


LIST = [1, 2]


@td.kernel
def reads_a_list(out):
    td.store(out, 0, LIST)


@td.kernel
def misspells(out):
    td.store(out, 0, helpers.WIDHT)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (
            reads_a_list,
            "LIST is a list, which a kernel cannot use; use numbers, strings, dtypes, tuples "
            "of them, or @td.function helpers",
        ),
        (misspells, "helpers.WIDHT does not exist; correct the name"),
    ],
)
def test_a_name_that_triton_cannot_take_is_refused_with_its_line_each_time(kernel, sentence):
    for _ in range(2):
        with pytest.raises(KernelDefinitionError) as caught:
            compile_kernel(kernel, {"out": COUNTERS}, world=ONE_NODE)
    assert str(caught.value) == f"{__file__}:{kernel.source.line + 2}: {sentence}"


def test_a_constant_that_triton_cannot_take_is_refused():
    with pytest.raises(KernelDefinitionError) as caught:
        compile_kernel(needs_block, {"x": view()}, {"BLOCK": [1]}, world=ONE_NODE)
    assert str(caught.value) == (
        f"{__file__}:{needs_block.source.line}: BLOCK of needs_block is a list, which a kernel "
        "cannot use; use numbers, strings, dtypes, tuples of them, or @td.function helpers"
    )


@pytest.mark.parametrize(
    ("args", "constexprs", "sentence"),
    [
        (
            {"x": view(), "y": view()},
            {},
            "kernel with_epilogue: nothing is known of parameter row; expected a spec or a "
            "value; add row to args",
        ),
        (
            {**ARGS, "z": INT},
            {},
            "kernel with_epilogue: unknown parameter 'z'; expected one of x, y, row, EPILOGUE, "
            "DTYPE",
        ),
        (
            ARGS,
            {"row": 0},
            "kernel with_epilogue: row is given as an argument and as a constant; expected one "
            "of the two; take it out of the other",
        ),
    ],
)
def test_arguments_must_match_the_parameters(args, constexprs, sentence):
    with pytest.raises(UsageError) as caught:
        compile_kernel(with_epilogue, args, constexprs, world=ONE_NODE)
    assert str(caught.value) == sentence


@td.kernel
def needs_block(x, BLOCK: td.constexpr):
    td.store(x, (0, 0), td.zeros((BLOCK, BLOCK), td.float32))


@pytest.mark.parametrize("args", [{"x": view()}, {"x": view(), "BLOCK": INT}])
def test_a_constexpr_needs_a_value(args):
    with pytest.raises(UsageError) as caught:
        compile_kernel(needs_block, args, world=ONE_NODE)
    assert str(caught.value) == (
        "kernel needs_block: nothing is known of parameter BLOCK; expected a value; "
        "add BLOCK to constexprs"
    )
