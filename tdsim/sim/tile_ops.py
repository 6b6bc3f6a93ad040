"""Tile operations of a CTA: values in functional mode, counted work in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdsim.errors import ApiError, UsageError
from tdsim.lang import DType, float32, int32
from tdsim.sim.clock import CtaClock
from tdsim.sim.tile import Tile, View, binary_type, broadcast, compute

_LARGEST = 2**31 - 1


class TileOps(CtaClock):
    """What :mod:`tdsim.lang.tiles` asks of a reader."""

    def load(self, view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> Tile:
        self._check_tile(view, offsets, shape)
        dtype = view.buffer.dtype
        nbytes = _inside(view, offsets, shape) * dtype.itemsize
        if view.pe == self.rank:
            self.loaded += nbytes
        else:
            self.reads[view.pe] = self.reads.get(view.pe, 0) + nbytes
        data = view.read(offsets, shape) if view.buffer.arrays is not None else None
        if self.world.order is not None:
            self.world.order.access(self, "read", view, offsets, shape)
        return Tile(shape, dtype, data, view)

    def store(self, view: View, offsets: tuple[int, ...], tile: Any) -> None:
        if not isinstance(tile, Tile):
            tile = self.full((1,) * len(view.shape), tile, view.dtype)
        self._check_tile(view, offsets, tile.shape)
        if min(offsets) < 0:
            raise ApiError(
                f"a store to {view} begins at {list(offsets)}, before the view",
                self.here(),
                "begin at 0 or later; only loads may begin before their view",
            )
        nbytes = _inside(view, offsets, tile.shape) * view.buffer.dtype.itemsize
        self.world.tiles += 1
        if self.world.order is not None:
            self.world.order.access(self, "write", view, offsets, tile.shape)
        if view.pe != self.rank:
            write = self.writes.setdefault(view.pe, [0, []])
            write[0] += nbytes
            write[1].append((view, offsets, tile.data))
            return
        self.stored += nbytes
        if view.buffer.arrays is not None and tile.data is not None:
            view.write(offsets, tile.data)

    def _check_tile(self, view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> None:
        if not len(shape) == len(offsets) == len(view.shape):
            raise UsageError(
                what=f"a {len(shape)}-D tile at {len(offsets)} offsets on {view}",
                where=self.name,
                expected=f"{len(view.shape)} of each",
                cure="give one offset and one size per axis",
            )
        if max(offsets) > _LARGEST:
            raise ApiError(
                f"offset {max(offsets)} into {view} is beyond int32, in which kernels compute",
                self.here(),
                "give the view two axes, or take td.rows of it first",
            )

    def full(self, shape: tuple[int, ...], value: Any, dtype: DType) -> Tile:
        data = np.full(shape, value, dtype.numpy) if self.world.functional else None
        return Tile(shape, dtype, data)

    def arange(self, start: int, end: int) -> Tile:
        data = np.arange(start, end, dtype=np.int32) if self.world.functional else None
        return Tile((end - start,), int32, data)

    def dot(self, a: Tile, b: Tile, acc: Tile) -> Tile:
        if a.shape[1] != b.shape[0] or acc.shape != (a.shape[0], b.shape[1]):
            raise UsageError(
                what=f"dot of {a.shape} and {b.shape} into {acc.shape}",
                where=self.name,
                expected="[m, k], [k, n] and [m, n]",
                cure="check the block sizes",
            )
        self.count_product(a, b)
        if a.data is None:
            return acc
        product = _operand(a) @ _operand(b)
        return Tile(acc.shape, float32, acc.data.astype(np.float32) + product)

    def trans(self, x: Tile) -> Tile:
        data = None if x.data is None else x.data.T
        return Tile(x.shape[::-1], x.dtype, data)

    def where(self, condition: Tile, x: Any, y: Any) -> Tile:
        dtype = binary_type("where", x, y)
        shape = broadcast(condition, Tile(broadcast(x, y), dtype) if _any_tile(x, y) else x)
        self._count(shape)
        if condition.data is None:
            return Tile(shape, dtype)
        values = [v.data if isinstance(v, Tile) else v for v in (x, y)]
        return Tile(shape, dtype, np.where(condition.data, *values).astype(dtype.numpy))

    def reduce(self, name: str, x: Tile, axis: int) -> Tile:
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        self._count(x.shape)
        dtype = float32 if name == "sum" and x.dtype.is_float else x.dtype
        if x.data is None:
            return Tile(shape, dtype)
        return Tile(shape, dtype, getattr(np, name)(x.data.astype(dtype.numpy), axis=axis))

    def unary(self, name: str, x: Tile) -> Tile:
        self._count(x.shape)
        return Tile(x.shape, float32, compute(name, float32, x))

    def binary(self, name: str, x: Any, y: Any) -> Any:
        if not _any_tile(x, y):
            return {"maximum": max, "minimum": min}[name](x, y)
        dtype = binary_type(name, x, y)
        shape = broadcast(x, y)
        self._count(shape)
        return Tile(shape, dtype, compute(name, dtype, x, y))

    def cast(self, x: Any, dtype: DType) -> Any:
        if not isinstance(x, Tile):
            return float(x) if dtype.is_float else int(x)
        self._count(x.shape)
        return Tile(x.shape, dtype, None if x.data is None else x.data.astype(dtype.numpy))

    def _count(self, shape: tuple[int, ...]) -> None:
        count = 1
        for n in shape:
            count *= n
        self.elements += count


def _any_tile(*values: Any) -> bool:
    return any(isinstance(v, Tile) for v in values)


def _inside(view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Elements of a tile that lie inside the view: only those are moved."""
    count = 1
    for limit, offset, size in zip(view.shape, offsets, shape, strict=True):
        if offset < 0 or offset + size > limit:
            size = max(0, min(offset + size, limit) - max(offset, 0))
        count *= size
    return count


def _operand(x: Tile) -> Any:
    """*x* as the tensor cores take it: float32 rounded to TF32 (10 mantissa bits)."""
    if x.dtype is not float32:
        return x.data.astype(np.float32)
    bits = np.ascontiguousarray(x.data).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x.data), rounded.view(np.float32), x.data)
