"""Integer division as kernels have it: on the GPU, in the simulator and between constants."""

from __future__ import annotations

from typing import Any


def c_div(a: Any, b: Any) -> Any:
    """``a // b`` truncated towards zero, as in C, for two ints; Python's for anything else."""
    if not (isinstance(a, int) and isinstance(b, int)) or (a >= 0 and b > 0):
        return a // b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def c_mod(a: Any, b: Any) -> Any:
    """``a % b`` with the sign of *a*, as in C, for two ints; Python's for anything else."""
    if not (isinstance(a, int) and isinstance(b, int)) or (a >= 0 and b > 0):
        return a % b
    return a - c_div(a, b) * b
