"""Delays that a user injects: an operation of one PE is held up each time it is made."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tdsim.units import to_us, us

DELAYED = ("put", "signal", "wait", "launch", "copy")
"""What can be delayed: in kernels and on streams alike."""
MAX_DRAWN_US = 100
"""The longest delay that is drawn at random."""


@dataclass(frozen=True, slots=True, order=True)
class Delay:
    """Each *op* of PE *rank* begins *ps* picoseconds late."""

    rank: int
    op: str
    ps: int

    def __str__(self) -> str:
        return f"rank={self.rank},op={self.op},{to_us(self.ps):g}us"


class Delays:
    """Delays and how often each was really applied, over all runs that were given them."""

    def __init__(self, delays: Sequence[Delay]) -> None:
        self.applied: Counter[Delay] = Counter(dict.fromkeys(delays, 0))
        self._by_place: dict[tuple[int, str], list[Delay]] = {}
        for delay in self.applied:
            self._by_place.setdefault((delay.rank, delay.op), []).append(delay)

    def of(self, rank: int, op: str) -> int:
        """How late this *op* of *rank* is, in picoseconds; counts what it applies."""
        found = self._by_place.get((rank, op), ())
        self.applied.update(found)
        return sum(delay.ps for delay in found)


def drawn(seed: int, n_pes: int) -> list[Delay]:
    """One delay for each PE, of an operation and a length that follow from *seed*."""
    chance = random.Random(seed)
    return [
        Delay(rank, chance.choice(DELAYED), us(chance.randrange(1, MAX_DRAWN_US + 1)))
        for rank in range(n_pes)
    ]
