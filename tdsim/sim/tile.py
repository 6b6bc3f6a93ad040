"""Tiles and views as the simulator holds them: shapes always, data in functional mode only."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdsim.errors import ApiError, UsageError
from tdsim.lang import DType, float16, float32, int1, int32, int64
from tdsim.lang import _seam as seam


class Tile:
    """A block of values: *shape*, *dtype* and, in functional mode, a NumPy array *data*.

    *origin* is the view it was loaded from, which tells how many CTAs share its bytes.
    """

    __slots__ = ("data", "dtype", "origin", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: DType, data: Any = None, origin: Any = None
    ) -> None:
        self.shape, self.dtype, self.data, self.origin = shape, dtype, data, origin

    def __add__(self, other: Any) -> Tile:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Tile:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Tile:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tile:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Tile:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Tile:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Tile:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return _binary("divide", other, self)

    def __lt__(self, other: Any) -> Tile:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Tile:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tile:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Tile:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: Any) -> Any:
        return _binary("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return _binary("not_equal", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Tile:
        return _binary("bitwise_and", self, other)

    def __or__(self, other: Any) -> Tile:
        return _binary("bitwise_or", self, other)

    def __floordiv__(self, other: Any) -> Tile:
        return _binary("c_div", self, other)

    def __rfloordiv__(self, other: Any) -> Tile:
        return _binary("c_div", other, self)

    def __mod__(self, other: Any) -> Tile:
        return _binary("fmod", self, other)

    def __rmod__(self, other: Any) -> Tile:
        return _binary("fmod", other, self)

    def __neg__(self) -> Tile:
        return _binary("multiply", self, -1)

    def __bool__(self) -> bool:
        raise UsageError(
            what="a tile was used as a condition",
            where="tdsim.lang",
            expected="a scalar condition",
            cure="select elements with td.where, or reduce the tile first",
        )


def _binary(name: str, x: Any, y: Any) -> Tile:
    result: Tile = seam.reader().binary(name, x, y)
    return result


_COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


def binary_type(name: str, x: Any, y: Any) -> DType:
    """Element type of a result, by Triton's promotion: the wider float wins, float16 of two.

    Quotients are float32.
    """
    if name in _COMPARISONS:
        return int1
    if name == "divide":
        return float32
    types = [v.dtype for v in (x, y) if isinstance(v, Tile)]
    floats = [t for t in types if t.is_float]
    if floats:
        return next((t for t in (float32, float16) if t in floats), floats[0])
    if any(isinstance(v, float) for v in (x, y)):
        return float32
    if types and all(t is int1 for t in types) and name.startswith("bitwise"):
        return int1
    return int64 if int64 in types else int32


def _c_div(x: Any, y: Any) -> Any:
    """``x // y`` truncated towards zero, as on the GPU (``fmod`` is C's ``%``)."""
    return (x - np.fmod(x, y)) // y


def compute(name: str, result: DType, *values: Any) -> Any:
    """NumPy result of the ufunc *name* in the precision of *result*; None without data."""
    if any(isinstance(v, Tile) and v.data is None for v in values):
        return None
    inputs = [v.data if isinstance(v, Tile) else v for v in values]
    if result.is_float:
        inputs = [np.asarray(v).astype(np.float32) for v in inputs]
    with np.errstate(all="ignore"):
        ufunc = _c_div if name == "c_div" else getattr(np, name)
        return ufunc(*inputs).astype(result.numpy)


def broadcast(x: Any, y: Any) -> tuple[int, ...]:
    """Shape of an element-wise result; Triton's rule is NumPy's for equal ranks."""
    if not isinstance(x, Tile):
        return y.shape  # type: ignore[no-any-return]
    if not isinstance(y, Tile):
        return x.shape
    if x.shape == y.shape:
        return x.shape
    try:
        return tuple(np.broadcast_shapes(x.shape, y.shape))
    except ValueError:
        raise UsageError(
            what=f"tiles of shapes {x.shape} and {y.shape} do not fit together",
            where="tdsim.lang",
            expected="equal shapes, or 1 where they differ",
            cure="check the block sizes",
        ) from None


class Buffer:
    """A tensor in device memory: one array per rank in functional mode, else only its shape."""

    __slots__ = ("arrays", "dtype", "name", "shape", "symmetric", "world")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        arrays: list[Any] | None,
        symmetric: bool,
        world: int,
    ) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.arrays, self.symmetric, self.world = arrays, symmetric, world

    def view(self, pe: int) -> View:
        return View(self, pe, 0, self.shape)


class View:
    """Rows *row0* .. of a buffer on one PE; 1-D or 2-D, row-major, last axis whole.

    The host's interface and the device's are the same object here.
    """

    __slots__ = ("buffer", "pe", "row0", "shape", "tile")

    def __init__(
        self,
        buffer: Buffer,
        pe: int,
        row0: int,
        shape: tuple[int, ...],
        tile: tuple[int, ...] | None = None,
    ) -> None:
        self.buffer, self.pe, self.row0, self.shape, self.tile = buffer, pe, row0, shape, tile

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def nbytes(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count * self.buffer.dtype.itemsize

    @property
    def data(self) -> Any:
        """The memory itself, or None in timing mode."""
        arrays = self.buffer.arrays
        return (
            None if arrays is None else arrays[self.pe][self.row0 : self.row0 + self.shape[0]]
        )

    def rows(self, start: int, count: int) -> View:
        if start < 0 or count < 0 or start + count > self.shape[0]:
            raise ApiError(
                f"rows {start} to {start + count} of {self} do not exist",
                "rows",
                f"stay within its {self.shape[0]} rows",
            )
        return View(self.buffer, self.pe, self.row0 + start, (count, *self.shape[1:]))

    def at(self, pe: int) -> View:
        if not self.buffer.symmetric:
            raise ApiError(
                f"{self} is not symmetric, so no other PE has it",
                "at",
                "allocate it with ctx.symmetric, or declare it symmetric=True",
            )
        if not 0 <= pe < self.buffer.world:
            raise ApiError(
                f"PE {pe} does not exist", "at", f"PEs are 0 to {self.buffer.world - 1}"
            )
        return View(self.buffer, pe, self.row0, self.shape)

    def tiled(self, *shape: int) -> View:
        return View(self.buffer, self.pe, self.row0, self.shape, shape)

    def window(self, offsets: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """The part of the memory under a tile, clipped at the view's edges."""
        data = self.data
        if len(shape) == 1:
            return data[_clip(offsets[0], shape[0], self.shape[0])]
        return data[
            _clip(offsets[0], shape[0], self.shape[0]),
            _clip(offsets[1], shape[1], self.shape[1]),
        ]

    def read(self, offsets: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """A tile's values; elements outside the view are 0."""
        window = self.window(offsets, shape)
        if window.shape == shape:
            return window.copy()
        values = np.zeros(shape, self.buffer.dtype.numpy)
        starts = [max(0, -o) for o in offsets]
        index = tuple(slice(b, b + n) for b, n in zip(starts, window.shape, strict=True))
        values[index] = window
        return values

    def write(self, offsets: tuple[int, ...], values: Any) -> None:
        """Store a tile's values, cast to the buffer's dtype; outside nothing is written."""
        window = self.window(offsets, values.shape)
        starts = [max(0, -o) for o in offsets]
        index = tuple(slice(b, b + n) for b, n in zip(starts, window.shape, strict=True))
        window[...] = values[index].astype(self.buffer.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.buffer.name}{list(self.shape)} on PE {self.pe}"


def _clip(offset: int, size: int, limit: int) -> slice:
    low = max(offset, 0)
    return slice(low, max(low, min(offset + size, limit)))
