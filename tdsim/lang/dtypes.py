"""Element types, under Triton's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tdsim.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: *name* as in Triton, *itemsize* in bytes, *short* on command lines."""

    name: str
    short: str
    itemsize: int
    numpy: Any

    @property
    def is_float(self) -> bool:
        return self.short[0] in "fb" and self.short != "bool"

    def __repr__(self) -> str:
        return f"td.{self.name}"


float32 = DType("float32", "fp32", 4, np.float32)
float16 = DType("float16", "fp16", 2, np.float16)
bfloat16 = DType("bfloat16", "bf16", 2, ml_dtypes.bfloat16)
int32 = DType("int32", "int32", 4, np.int32)
int64 = DType("int64", "int64", 8, np.int64)
int1 = DType("int1", "bool", 1, np.bool_)

_ALL = (float32, float16, bfloat16, int32, int64, int1)
_BY_NAME = {name: d for d in _ALL[:3] for name in (d.name, d.short)}
_BY_NUMPY = {np.dtype(d.numpy): d for d in _ALL}


def dtype(name: str | DType) -> DType:
    """Return the float type called *name* (``"bf16"`` or ``"bfloat16"``), for tensors."""
    if isinstance(name, DType):
        return name
    if name not in _BY_NAME:
        raise UnknownNameError("dtype", name, tuple(_BY_NAME))
    return _BY_NAME[name]


def from_numpy(array_dtype: Any) -> DType:
    """Return the element type that a NumPy array of *array_dtype* holds."""
    return _BY_NUMPY[np.dtype(array_dtype)]
