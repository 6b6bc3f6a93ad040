"""What is known of a kernel's arguments when it is compiled, as Triton signatures."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tdsim.lang import DType

TRITON_NAMES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int32": "i32", "int64": "i64",
    "int1": "i1",
}  # fmt: skip
"""Element types in Triton's signatures, by the language's name."""

Path = tuple[int, ...]
"""Where a leaf of an argument lies: indices of fields, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSpec:
    """A tensor argument: *dtype*, number of axes, and what the compiler may rely on.

    *tile*: the host passes a TMA descriptor for tiles of this shape. *symmetric*: the host
    passes the table of heap addresses. *aligned*: address, rows and row length are multiples
    of 16 elements, so that pointers move 16 bytes at a time.
    """

    dtype: DType
    ndim: int = 2
    tile: tuple[int, ...] | None = None
    symmetric: bool = False
    aligned: bool = True

    def signature(self) -> Any:
        element = TRITON_NAMES[self.dtype.name]
        fields: dict[str, Any] = {
            "ptr": f"*{element}",
            "shape": ("i32",) * self.ndim,
            "stride0": "i64",
            "row_bias": "i32",
            "dtype": f"*{element}",
        }
        if self.symmetric:
            fields["peers"] = "*i64"
        if self.tile is not None:
            fields["desc"] = f"tensordesc<{element}[{','.join(map(str, self.tile))}]>"
        return _named("View", fields)

    def aligned_leaves(self) -> Iterator[Path]:
        """Leaves that are multiples of 16: never a value that may change between calls."""
        yield (3,)
        if self.aligned:
            yield from ((0,), (1, self.ndim - 1), (2,))


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """A signal array argument."""

    def signature(self) -> Any:
        fields = {"ptr": "*i64", "epoch": "*i64", "per_call": "i64", "peers": "*i64"}
        return _named("Signals", fields)

    def aligned_leaves(self) -> Iterator[Path]:
        yield from ()


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number that the kernel is given anew at each call; it is never specialised."""

    dtype: DType

    def signature(self) -> str:
        return TRITON_NAMES[self.dtype.name]

    def aligned_leaves(self) -> Iterator[Path]:
        yield from ()


ArgSpec = ViewSpec | SignalSpec | ScalarSpec


def _named(name: str, fields: Mapping[str, Any]) -> Any:
    """Triton takes the field names of a tuple argument from the type of its signature."""
    return namedtuple(name, fields)(**fields)
