# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202 - Triton evaluates the annotations of device functions
"""Tiles: moved by TMA where a view was declared for their shape, else by masked pointers."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core

from .device import device
from .ordering import admit_async, release_join
from .stamps import stamp
from .views import as_tuple, element_type, moves_by_descriptor, one_element
from .words import END, EventKind


@device
def load(view, offsets, shape):
    return _load(view, as_tuple(offsets), as_tuple(shape))


@device
def _load(view, at, shape):
    if moves_by_descriptor(view, shape):
        return view.desc.load(_coordinates(view, at))
    else:
        return tl.load(_pointers(view, at, shape), mask=_inside(view, at, shape), other=0)


@device
def store(view, offsets, tile):
    values = tl.cast(tile, element_type(view.dtype))
    if len(values.shape) == 0:
        _store(view, as_tuple(offsets), tl.full(one_element(view), values, values.dtype))
    else:
        _store(view, as_tuple(offsets), values)
    stamp(EventKind.STORE, END, 0)


@device
def _store(view, at, tile):
    if moves_by_descriptor(view, tile.shape):
        view.desc.store(_coordinates(view, at), tile)
    else:
        tl.store(_pointers(view, at, tile.shape), tile, mask=_inside(view, at, tile.shape))


@device
def _coordinates(view, at):
    """What TMA takes: int32 per axis, the first tied to the view's wait."""
    first = tl.cast(at[0] + view.row_bias, tl.int32)
    if len(at) == 1:
        return (first,)
    else:
        return (first, tl.cast(at[1], tl.int32))


@device
def _pointers(view, at, shape):
    """Pointers to a tile's elements; rows count in int64, since a tensor may exceed 2**31."""
    first = at[0] + view.row_bias + tl.arange(0, shape[0])
    if len(shape) == 1:
        return view.ptr + first
    else:
        columns = at[1] + tl.arange(0, shape[1])
        return view.ptr + tl.cast(first, tl.int64)[:, None] * view.stride0 + columns[None, :]


@device
def _inside(view, at, shape):
    """Which elements of a tile lie in the view."""
    first = at[0] + tl.arange(0, shape[0])
    if len(shape) == 1:
        return (first >= 0) & (first < view.shape[0])
    else:
        columns = at[1] + tl.arange(0, shape[1])
        inside_rows = (first >= 0) & (first < view.shape[0])
        return inside_rows[:, None] & ((columns >= 0) & (columns < view.shape[1]))[None, :]


@device
def zeros(shape, dtype):
    return tl.full(as_tuple(shape), 0, element_type(dtype))


@device
def full(shape, value, dtype):
    return tl.full(as_tuple(shape), value, element_type(dtype))


@device
def arange(start, end):
    return tl.arange(start, end)


@device
def dot(a, b, acc):
    return tl.dot(a, b, acc)


@device
def trans(x):
    return tl.trans(x)


@device
def where(condition, x, y):
    return tl.where(condition, x, y)


@device
def sum(x, axis):
    if x.dtype.is_floating():
        return tl.sum(tl.cast(x, tl.float32), axis)
    else:
        return tl.sum(x, axis)


@device
def max(x, axis):
    return tl.cast(tl.max(x, axis), x.dtype)


@device
def exp(x):
    return tl.exp(tl.cast(x, tl.float32))


@device
def exp2(x):
    return tl.exp2(tl.cast(x, tl.float32))


@device
def log(x):
    return tl.log(tl.cast(x, tl.float32))


@core.builtin
def maximum(x: Any, y: Any, _semantic: Any = None) -> Any:
    return _as_sum(tl.maximum, x, y, _semantic)


@core.builtin
def minimum(x: Any, y: Any, _semantic: Any = None) -> Any:
    return _as_sum(tl.minimum, x, y, _semantic)


def _as_sum(choose: Any, x: Any, y: Any, semantic: Any) -> Any:
    """``choose(x, y)`` in the type of ``x + y``: Triton makes constants, bfloat16 float32."""
    a, b = (core._unwrap_if_constexpr(value) for value in (x, y))
    wanted = semantic.add(a, b, False).dtype
    return semantic.cast(choose(a, b, _semantic=semantic), wanted)


@device
def cast(x, dtype):
    return tl.cast(x, element_type(dtype))


@core.builtin
def cdiv(a: Any, b: Any, _semantic: Any = None) -> Any:
    """A builtin, so that constants stay constants: shapes may be computed with it."""
    if isinstance(a, core.constexpr) and isinstance(b, core.constexpr):
        return core.constexpr((a.value + b.value - 1) // b.value)
    divisor = _semantic.to_tensor(b)
    upper = _semantic.add(_semantic.to_tensor(a), divisor, False)
    return _semantic.floordiv(_semantic.sub(upper, _semantic.to_tensor(1), False), divisor)


@device
def atomic_add(view, offset, value):
    release_join()
    old = tl.atomic_add(_element(view, as_tuple(offset)), value, sem="acq_rel", scope="gpu")
    admit_async()
    return old


@device
def _element(view, at):
    """Pointer to one element."""
    if len(at) == 1:
        return view.ptr + (at[0] + view.row_bias)
    else:
        return view.ptr + tl.cast(at[0] + view.row_bias, tl.int64) * view.stride0 + at[1]


LOWERINGS = (
    load, store, zeros, full, arange, dot, trans, where, sum, max, exp, exp2, log, maximum,
    minimum, cast, cdiv, atomic_add,
)  # fmt: skip
