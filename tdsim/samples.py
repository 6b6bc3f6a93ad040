"""What outputs held, in little room: so that two backends' data can be compared later.

Whole outputs do not belong into records. A digest tells whether two are equal bit by bit; a few
elements at places that every backend chooses alike tell how far apart two are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

ELEMENTS = 64
"""Sampled elements of an output: enough that a shard, tile or row of it is hardly missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the tensor *output* of one *rank* held after one *call*.

    *digest*: SHA-256 of all its bytes, row-major and little-endian. *elements*: the bytes of
    the elements at :func:`places`, in hexadecimal.
    """

    call: int
    rank: int
    output: str
    digest: str
    elements: str

    def values(self, dtype: Any) -> Any:
        """The sampled elements, of NumPy's *dtype* in memory, as float64."""
        return np.frombuffer(bytes.fromhex(self.elements), dtype).astype(np.float64)


def sample(array: Any, *, call: int, rank: int, output: str) -> Sample:
    """The sample of *array*, which *output* of *rank* held after *call*."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return Sample(
        call=call,
        rank=rank,
        output=output,
        digest=hashlib.sha256(flat.tobytes()).hexdigest(),
        elements=flat[places(flat.size, call, rank)].tobytes().hex(),
    )


def places(count: int, call: int, rank: int) -> Any:
    """Which of *count* elements are sampled, by number; others for each *call* and *rank*."""
    return np.random.default_rng((call, rank)).integers(count, size=ELEMENTS)
