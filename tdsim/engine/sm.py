"""Streaming multiprocessors: slots that program instances take and keep until they end."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

SM_UNITS = 32
"""An SM's capacity; a CTA that shares its SM with n - 1 others takes ``SM_UNITS // n``."""


class Grid:
    """The program instances of one launch that still wait for a slot."""

    __slots__ = ("cost", "count", "label", "next", "start")

    def __init__(
        self, count: int, ctas_per_sm: int, start: Callable[[int, int], None], label: str
    ) -> None:
        self.count, self.next, self.label = count, 0, label
        self.cost = SM_UNITS // ctas_per_sm
        self.start = start


class Admission(Protocol):
    """Who comes next, when grids of several streams wait: hardware promises no order."""

    def later(self, call: Callable[[], None]) -> None:
        """Call *call* some time from now, so that grids of that time meet."""

    def pick(self, count: int) -> int:
        """Which of *count* waiting grids gets the next slot."""


class SmPool:
    """The SMs of one GPU. Grids are admitted in launch order, each CTA to the emptiest SM.

    A CTA that spins keeps its slot: a launch behind it waits, as on the hardware. With an
    *admission*, grids that wait at one time are admitted in the order that it picks.
    """

    def __init__(self, num_sms: int, admission: Admission | None = None) -> None:
        self.num_sms, self._admission = num_sms, admission
        self.resident = 0
        self.multiplying = 0
        """Resident CTAs that have used the tensor cores; those who count know when."""
        self._used = [0] * num_sms
        self._heap = [(0, sm) for sm in range(num_sms)]
        self._grids: list[Grid] = []

    @property
    def waiting(self) -> tuple[Grid, ...]:
        """Grids with instances that have no slot yet, in order."""
        return tuple(self._grids)

    def submit(self, grid: Grid) -> None:
        """Queue *grid*; ``grid.start(instance, sm)`` is called as each gets its slot."""
        self._grids.append(grid)
        if self._admission is None:
            self._admit()
        else:
            self._admission.later(self._admit)

    def release(self, sm: int, cost: int) -> None:
        """Give back the slot of a CTA that ended on *sm*."""
        self._used[sm] -= cost
        self.resident -= 1
        heapq.heappush(self._heap, (self._used[sm], sm))
        self._admit()

    def _admit(self) -> None:
        while self._grids:
            chosen = self._admission.pick(len(self._grids)) if self._admission else 0
            grid = self._grids[chosen]
            sm = self._take(grid.cost)
            if sm is None:
                return
            grid.next += 1
            if grid.next == grid.count:
                del self._grids[chosen]
            grid.start(grid.next - 1, sm)

    def _take(self, cost: int) -> int | None:
        """The emptiest SM with room for *cost*; stale heap entries are dropped on the way."""
        while self._heap:
            used, sm = self._heap[0]
            if used != self._used[sm]:
                heapq.heappop(self._heap)
                continue
            if used + cost > SM_UNITS:
                return None
            self._used[sm] = used + cost
            self.resident += 1
            heapq.heapreplace(self._heap, (used + cost, sm))
            return sm
        return None
