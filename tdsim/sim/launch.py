"""A kernel launch: its grid, its CTAs' progress, and where its time went."""

from __future__ import annotations

from collections import Counter
from typing import Any

import simpy

from tdsim.engine.sm import Grid
from tdsim.engine.timeline import Segment
from tdsim.lang import Kernel
from tdsim.sim.cta import Cta


class Launch:
    """One launch of *kernel* on *rank*: submits its grid and happens (*done*) when all end."""

    def __init__(
        self,
        world: Any,
        rank: int,
        kernel: Kernel,
        grid: tuple[int, ...],
        args: tuple[Any, ...],
        ctas_per_sm: int,
        role: str,
        stream: Any,
    ) -> None:
        self.world, self.rank, self.kernel = world, rank, kernel
        self.grid, self.args, self.role, self.cause = grid, args, role, stream.state
        self.count = 1
        for n in grid:
            self.count *= n
        self.stream_name = stream.name
        self.done = simpy.Event(world.env)
        self.busy: Counter[int] = Counter()
        """Picoseconds of work by SM, waits left out."""
        self.own_role: Counter[int] = Counter()
        """The part of it that is the launch's role, not puts and gets."""
        self.waited = 0
        self.last: Segment | None = self.cause
        self.ctas: dict[int, Cta] = {}
        self.left: list[Any] = []
        """Deliveries that were under way when their CTA ended."""
        self._left = self.count
        self._cost = Grid(1, ctas_per_sm, self._start, "").cost
        label = f"PE {rank} {kernel.name}"
        world.launches.append(self)
        if world.order is not None:
            world.order.launch_begins(self, stream)
        self.submitted = False
        world.gpus[rank].sms.submit(Grid(self.count, ctas_per_sm, self._start, label))
        self.submitted = True
        """From now on an instance that starts has waited for a slot."""

    def _start(self, index: int, sm: int) -> None:
        self.ctas[index] = (self.world.new_cta or Cta)(self, index, sm)

    def position(self, index: int, axis: int) -> int:
        """Coordinate of instance *index* along *axis*; axis 0 varies fastest, as in CUDA."""
        for size in self.grid[:axis]:
            index //= size
        return index % self.grid[axis] if axis < len(self.grid) else 0

    def finished(self, cta: Cta) -> None:
        """Take back the slot of *cta*; the last one ends the launch."""
        del self.ctas[cta.index]
        if self.world.order is not None:
            self.world.order.cta_ends(cta)
        if cta.last is not None and (self.last is None or cta.last.end >= self.last.end):
            self.last = cta.last
        left = [d for d in cta.outstanding if not d.arrived.triggered]
        if left:
            self.world.remember(self.rank, left)
            self.left += left
        self.world.gpus[self.rank].sms.multiplying -= cta.multiplies
        self.world.gpus[self.rank].sms.release(cta.sm, self._cost)
        self._left -= 1
        if self._left == 0:
            self.world.end_launch(self)
