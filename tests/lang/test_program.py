"""Programs: shape keys, tunables, size expressions and dtypes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsim import lang as td
from tdsim.errors import ShapeError, UnknownNameError, UsageError
from tdsim.lang.expr import evaluate


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("M/world", "N", symmetric=True), "y": td.Output("M", "N")},
    tunables={"BLOCK": td.Tunable(64, (16, 64), "rows of a tile")},
    work=(td.AllGather("M*N"),),
    reference=lambda tensors: {"y": tensors["x"]},
    small_shape="M=8*world,N=16*nodes",
)
def gather(ctx, x, y, *, BLOCK):
    """Gather rows."""


def test_a_program_keeps_what_it_was_given():
    assert (gather.name, gather.doc, gather.shape) == ("gather", "Gather rows.", ("M", "N"))
    assert gather.tensors["x"] == td.Tensor(("M/world", "N"), "input", True)
    assert gather.tensors["y"].role == "output"


def test_sizes_add_world_nodes_and_node_size():
    assert gather.sizes({"M": 8, "N": 4}, 6, 2) == {
        "M": 8, "N": 4, "world": 6, "nodes": 2, "node_size": 3,
    }  # fmt: skip


def test_tensor_shapes_follow_from_sizes():
    sizes = gather.sizes({"M": 8, "N": 4}, 4, 1)
    assert gather.tensors["x"].shape(sizes, "gather") == (2, 4)


def test_the_small_shape_grows_with_the_world():
    assert gather.default_shape(6, 2) == {"M": 48, "N": 32}


def test_an_unknown_shape_key_offers_the_closest():
    with pytest.raises(
        UnknownNameError, match="unknown shape key of gather 'm'; expected one of M, N"
    ):
        gather.sizes({"m": 8, "N": 4}, 2, 1)


def test_a_missing_shape_key_is_named():
    with pytest.raises(
        ShapeError,
        match=r"gather: shape key N is missing; expected M=\.\.\.,N=\.\.\.; add N=\.\.\. to --shape",
    ):
        gather.sizes({"M": 8}, 2, 1)


@pytest.mark.parametrize("size", [0, -4])
def test_a_size_that_is_not_positive_is_refused(size):
    with pytest.raises(
        ShapeError,
        match=f"gather: M = {size}; expected a size of at least 1; give a positive size",
    ):
        gather.sizes({"M": size, "N": 4}, 2, 1)


def test_tunables_are_laid_over_their_defaults():
    assert gather.tuned({}) == {"BLOCK": 64}
    assert gather.tuned({"BLOCK": 16}) == {"BLOCK": 16}


def test_an_unknown_tunable_offers_the_closest():
    with pytest.raises(
        UnknownNameError, match=r"unknown tunable of gather 'BLOK'.*did you mean 'BLOCK'"
    ):
        gather.tuned({"BLOK": 16})


def test_an_illegal_value_of_a_tunable_lists_the_legal_ones():
    with pytest.raises(
        UsageError, match="gather: BLOCK=48; expected one of 16, 64; pick a legal value"
    ):
        gather.tuned({"BLOCK": 48})


def test_a_size_that_does_not_divide_says_what_would():
    with pytest.raises(
        ShapeError,
        match="t: M = 10 does not divide by world = 4; expected a multiple of 4; use M = 12",
    ):
        evaluate("M/world", {"M": 10, "world": 4}, "t")


@pytest.mark.parametrize("text", ["Q", "M**2", "M//2", "f(M)", "1.5*M", "-M"])
def test_a_size_expression_outside_the_grammar_is_refused(text):
    with pytest.raises(
        ShapeError,
        match=r"t: size expression '.*' cannot be computed; expected \+ - \* / over M, world; "
        "name only the program's shape keys, its tunables, world, nodes and node_size",
    ):
        evaluate(text, {"M": 8, "world": 2}, "t")


def test_dividing_by_zero_is_a_shape_error():
    with pytest.raises(ShapeError, match="M = 8 does not divide by world = 0"):
        evaluate("M/world", {"M": 8, "world": 0}, "t")


@given(st.integers(1, 999), st.integers(1, 999), st.integers(1, 99))
def test_size_expressions_agree_with_python(m, n, w):
    names = {"M": m * w, "N": n, "w": w}
    assert evaluate("M/w + N*2 - 3", names, "t") == m + n * 2 - 3
    assert evaluate("(M + N) * w", names, "t") == (m * w + n) * w


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bf16", td.bfloat16), ("bfloat16", td.bfloat16), ("fp16", td.float16),
        ("fp32", td.float32),
    ],
)  # fmt: skip
def test_dtypes_have_a_long_and_a_short_name(name, kind):
    assert td.dtype(name) is kind
    assert td.dtype(kind) is kind
    assert np.dtype(kind.numpy).itemsize == kind.itemsize
    assert td.from_numpy(np.zeros(1, kind.numpy).dtype) is kind


def test_only_floats_are_floats():
    kinds = [td.float32, td.float16, td.bfloat16, td.int32, td.int64, td.int1]
    assert [k.is_float for k in kinds] == [True, True, True, False, False, False]
    assert repr(td.bfloat16) == "td.bfloat16"


def test_an_unknown_dtype_offers_the_closest():
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'bf61'.*did you mean 'bf16'"):
        td.dtype("bf61")
