"""Results as torch tensors, judged against the reference; all of it works on a CPU as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tdsim import lang as td


def as_torch(array: Any) -> torch.Tensor:
    """A CPU tensor of a NumPy array, also of types that torch cannot take from NumPy."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def as_numpy(tensor: torch.Tensor, dtype: td.DType) -> Any:
    """A NumPy array of the bytes of *tensor*, whose type torch and NumPy both call *dtype*."""
    raw = tensor.cpu().contiguous().view(torch.uint8).numpy()
    return raw.view(dtype.numpy).reshape(tuple(tensor.shape))


def judged(found: torch.Tensor, expected: Any) -> tuple[float, bool]:
    """Relative norm of the difference from the reference, and whether every element is right.

    An element is right within 1/64 of its own size and the tensor's: rounding of 16-bit
    results lies well below, one stale or missing element above. NaN counts as infinite error.
    """
    wanted = torch.from_numpy(np.array(expected, np.float64)).to(found.device)
    off = found.double() - wanted
    norm = torch.linalg.vector_norm(wanted)
    error = float(torch.linalg.vector_norm(off) / norm) if float(norm) else float(off.norm())
    size = norm / wanted.numel() ** 0.5
    right = bool((off.abs() <= (wanted.abs() + size) / 64).all())
    return (error if error == error else float("inf")), right
