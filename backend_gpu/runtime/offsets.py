"""What the timers of several GPUs mean together.

PEs on one GPU read one timer. On several GPUs each has its own, and times are compared only
after the offsets are known: all PEs leave a barrier at nearly the same instant.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offsets:
    """Nanoseconds to take from each PE's times to get PE 0's, and how wrong that may be."""

    of: tuple[int, ...]
    uncertainty: int


def offsets(left: Sequence[Sequence[int]]) -> Offsets:
    """Offsets of several GPUs' timers from *left*: by PE, when it left each of some barriers.

    The median over the barriers; the uncertainty is the largest distance of a single barrier
    from it, apart from what one PE always leaves later than another.
    """
    apart = [[t - t0 for t, t0 in zip(times, left[0], strict=True)] for times in left]
    of = tuple(statistics.median_low(each) for each in apart)
    off = [abs(d - middle) for each, middle in zip(apart, of, strict=True) for d in each]
    return Offsets(of, max(off, default=0))


def skew_us(left: Sequence[Sequence[int]], of: Sequence[int]) -> float:
    """How far apart the PEs left a barrier: the median over the barriers, in microseconds.

    *left* as :func:`offsets` takes it, *of* the offsets (all 0 on one GPU). Where the offsets
    come from the same barriers, it is what is left after the median has been taken out.
    """
    starts = [[t - o for t, o in zip(at, of, strict=True)] for at in zip(*left, strict=True)]
    skew: float = statistics.median(max(at) - min(at) for at in starts)
    return skew / 1e3
