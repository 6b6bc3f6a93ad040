"""Tiles: rectangular blocks of values that one program instance computes with.

Names, argument order and meaning are Triton's (``triton.language``) unless a docstring says
otherwise first. A tile's shape is a tuple of compile-time ints, powers of two; offsets are in
elements. Arithmetic follows the GPU: ``//`` and ``%`` truncate as in C, int32 wraps,
``dot`` accumulates in float32.
"""

from __future__ import annotations

from typing import Any

from tdsim.errors import UsageError
from tdsim.lang._seam import op, reader
from tdsim.lang.dtypes import DType, float32

Tile = Any
"""A tile as kernels see it: ``+ - * /``, comparisons and the operations of this module."""
View = Any


@op()
def load(view: View, offsets: Any, shape: Any) -> Tile:
    """Read the tile of *shape* whose first element is at *offsets* (elements, one per axis).

    Differs from ``tl.load``: takes a view and offsets, not pointers and masks. Elements outside
    the view read as 0. A load is not ordered against signals by its place in the text: tie it
    to a wait with :func:`after`.
    """
    return reader().load(view, _tuple(offsets), _tuple(shape))


@op()
def store(view: View, offsets: Any, tile: Tile) -> None:
    """Write *tile* at *offsets*, cast to the view's dtype; elements outside are not written.

    Offsets are at least 0: a tile may reach over a view's end, but not begin before it. (An
    H200 ends a TMA store at negative coordinates as an illegal instruction; loads may do so.)

    Differs from ``tl.store``: takes a view and offsets. Other program instances may rely on it
    only after a release (:func:`signal_op`, :func:`atomic_add`, a barrier) that they acquire.
    """
    reader().store(view, _tuple(offsets), tile)


@op()
def zeros(shape: Any, dtype: DType) -> Tile:
    """A tile of zeros (``tl.zeros``)."""
    return reader().full(_tuple(shape), 0, dtype)


@op()
def full(shape: Any, value: Any, dtype: DType) -> Tile:
    """A tile filled with the scalar *value* (``tl.full``)."""
    return reader().full(_tuple(shape), value, dtype)


@op()
def arange(start: int, end: int) -> Tile:
    """The int32 tile ``start .. end - 1``; the length is a power of two (``tl.arange``)."""
    length = end - start
    if length < 1 or length & (length - 1):
        raise UsageError(
            what=f"arange({start}, {end}) has {length} elements",
            where="td.arange",
            expected="a power of two, as Triton demands",
            cure="take the next power of two and mask with td.where",
        )
    return reader().arange(start, end)


@op()
def dot(a: Tile, b: Tile, acc: Tile) -> Tile:
    """``acc + a @ b`` with float32 accumulation on the tensor cores (``tl.dot``).

    *a* is [m, k], *b* [k, n], *acc* float32 [m, n]; float32 inputs are rounded to TF32, which
    is what ``tl.dot`` does by default.
    """
    return reader().dot(a, b, acc)


@op()
def trans(x: Tile) -> Tile:
    """The transpose of a 2-D tile (``tl.trans``)."""
    return reader().trans(x)


@op()
def where(condition: Tile, x: Any, y: Any) -> Tile:
    """*x* where *condition* holds, else *y*, element by element (``tl.where``)."""
    return reader().where(condition, x, y)


@op()
def sum(x: Tile, axis: int) -> Tile:
    """Sum over *axis*; 16-bit floats accumulate in float32 (``tl.sum``)."""
    return reader().reduce("sum", x, axis)


@op()
def max(x: Tile, axis: int) -> Tile:
    """Largest element over *axis* (``tl.max``)."""
    return reader().reduce("max", x, axis)


@op()
def exp(x: Tile) -> Tile:
    """e to the *x*, float32 (``tl.exp``)."""
    return reader().unary("exp", x)


@op()
def exp2(x: Tile) -> Tile:
    """2 to the *x*, float32 (``tl.exp2``)."""
    return reader().unary("exp2", x)


@op()
def log(x: Tile) -> Tile:
    """Natural logarithm, float32 (``tl.log``)."""
    return reader().unary("log", x)


@op()
def maximum(x: Any, y: Any) -> Any:
    """The larger of *x* and *y*, tiles or scalars (``tl.maximum``)."""
    return reader().binary("maximum", x, y)


@op()
def minimum(x: Any, y: Any) -> Any:
    """The smaller of *x* and *y*, tiles or scalars (``tl.minimum``)."""
    return reader().binary("minimum", x, y)


@op()
def cast(x: Any, dtype: DType) -> Any:
    """*x* converted to *dtype*, round to nearest even for floats (``tl.cast``)."""
    return reader().cast(x, dtype)


@op()
def cdiv(a: int, b: int) -> int:
    """``ceil(a / b)`` for ints, *b* positive (``tl.cdiv``)."""
    return (a + b - 1) // b


@op(visible=True)
def atomic_add(view: View, offset: Any, value: Any) -> Any:
    """Add the scalar *value* to one element of a local int *view*; return what was there.

    Stronger than ``tl.atomic_add``: one addition per program instance, after a CTA barrier,
    acquire and release at GPU scope. So the instance whose addition completes a count may
    signal on behalf of all whose additions it counted.
    """
    return reader().atomic_add(view, _tuple(offset), value)


def _tuple(value: Any) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


__all__ = [
    "arange",
    "atomic_add",
    "cast",
    "cdiv",
    "dot",
    "exp",
    "exp2",
    "float32",
    "full",
    "load",
    "log",
    "max",
    "maximum",
    "minimum",
    "store",
    "sum",
    "trans",
    "where",
    "zeros",
]  # fmt: skip
