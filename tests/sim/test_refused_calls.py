"""Kernels call operations, helpers and a few built-ins; anything else is refused."""

import ast
import math

import numpy as np
import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import KernelDefinitionError


def helper(v):
    return v + 1


@td.kernel
def calls_plain(x):
    td.store(x, (helper(0), 0), td.zeros((1, 1), td.float32))


@td.kernel
def calls_plain_in_loop(x):
    for i in range(4):
        td.store(x, (helper(i), 0), td.zeros((1, 1), td.float32))


@td.kernel
def calls_math(x):
    td.store(x, (0, 0), td.full((1, 1), math.sqrt(2.0), td.float32))


@td.kernel
def calls_numpy(x):
    td.store(x, (0, 0), np.zeros((1, 1)))


@td.kernel
def calls_print(x):
    print(x)


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (calls_plain, "calls_plain calls helper, a plain Python function; decorate it with @td.function"),
        (calls_plain_in_loop, "calls_plain_in_loop calls helper, a plain Python function; decorate it with @td.function"),
        (calls_math, "calls_math calls sqrt, which Triton cannot compile; call operations of tdsim.lang instead"),
        (calls_numpy, "calls_numpy calls zeros, which Triton cannot compile; call operations of tdsim.lang instead"),
        (calls_print, "calls_print calls print, which Triton cannot compile; call operations of tdsim.lang instead"),
    ],
)  # fmt: skip
def test_what_is_no_operation_and_no_helper_is_refused_with_its_line(kernel, text, functional):
    def host(ctx):
        ctx.launch(kernel, 1, (ctx.local((8, 8), td.float32),))

    with pytest.raises(KernelDefinitionError) as refused:
        run(host, "h800x1", functional=functional)
    call = next(
        node.lineno
        for node in ast.walk(kernel.source.tree)
        if isinstance(node, ast.Call)
        and not ast.unparse(node.func).startswith(("td.", "range"))
    )
    assert str(refused.value) == f"{__file__}:{call}: {text}"
