"""What host programs hold: views and signal arrays as addresses, and as kernel arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tdsim.lang import DType, float32, int32

from ..lowering.compile import TensorMap
from ..lowering.specs import ArgSpec, ScalarSpec, SignalSpec, ViewSpec
from .driver import tensor_map
from .heap import Heap

Word = tuple[Any, Any]
"""A kernel parameter: its value and its ctypes type (None: the value knows)."""


@dataclass(frozen=True, slots=True)
class View:
    """Device memory, row-major, 1-D or 2-D; rows are *step* elements apart."""

    address: int
    shape: tuple[int, ...]
    dtype: DType
    step: int
    heap: Heap | None = None
    tile: tuple[int, ...] | None = None

    def rows(self, start: int, count: int) -> View:
        to = self.address + start * self.step * self.dtype.itemsize
        return replace(self, address=to, shape=(count, *self.shape[1:]))

    def at(self, pe: int) -> View:
        assert self.heap is not None, "only symmetric memory lies on other PEs"
        return replace(self, address=self.heap.on(self.address, pe), heap=None)

    def tiled(self, *shape: int) -> View:
        return replace(self, tile=shape)

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)

    def spec(self) -> ArgSpec:
        """TMA takes rows that begin at multiples of 16 bytes; other views go by pointer."""
        aligned = self.address % 16 == 0 and all(
            n % 16 == 0 for n in (self.shape[-1], self.step)
        )
        by_tma = self.address % 16 == 0 and self.step * self.dtype.itemsize % 16 == 0
        return ViewSpec(
            dtype=self.dtype,
            ndim=len(self.shape),
            tile=self.tile if by_tma and len(self.shape) == 2 else None,
            symmetric=self.heap is not None,
            aligned=aligned,
        )

    def words(self, maps: Iterator[TensorMap]) -> Iterator[Word]:
        yield self.address, ctypes.c_void_p
        yield from ((n, ctypes.c_int32) for n in self.shape)
        yield self.step, ctypes.c_int64
        yield 0, ctypes.c_int32
        yield self.address, ctypes.c_void_p
        if self.heap is not None:
            yield self.heap.peers.data_ptr(), ctypes.c_void_p
        spec = self.spec()
        if isinstance(spec, ViewSpec) and spec.tile is not None:
            strides = (self.step, 1)
            yield tensor_map(next(maps), self.address, self.shape, strides), None
            yield from ((n, ctypes.c_int32) for n in self.shape)
            yield from ((n, ctypes.c_int64) for n in strides)


@dataclass(frozen=True, slots=True)
class Signals:
    """A symmetric signal array; *epoch* is the address of the call number."""

    address: int
    count: int
    per_call: int
    epoch: int
    heap: Heap

    def spec(self) -> ArgSpec:
        return SignalSpec()

    def words(self, maps: Iterator[TensorMap]) -> Iterator[Word]:
        del maps
        yield self.address, ctypes.c_void_p
        yield self.epoch, ctypes.c_void_p
        yield self.per_call, ctypes.c_int64
        yield self.heap.peers.data_ptr(), ctypes.c_void_p


def scalar_spec(value: float) -> ScalarSpec:
    """Numbers of a launch: int32, or float32 for a Python float."""
    return ScalarSpec(float32 if isinstance(value, float) else int32)


def packed(arguments: list[Any], maps: tuple[TensorMap, ...]) -> tuple[Any, ...]:
    """The flat parameters of a launch, ended by Triton's two scratch pointers."""
    left = iter(maps)
    words: list[Word] = []
    for argument in arguments:
        if isinstance(argument, View | Signals):
            words += argument.words(left)
        else:
            kind: Callable[..., Any] = (
                ctypes.c_float if isinstance(argument, float) else ctypes.c_int32
            )
            words.append((argument, kind))
    words += [(0, ctypes.c_void_p)] * 2
    return tuple(value for value, _ in words), tuple(kind for _, kind in words)
