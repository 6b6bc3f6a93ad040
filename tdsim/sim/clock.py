"""A CTA's own clock and the work it has counted but not yet turned into time.

A CTA's clock may run ahead of the event queue while it computes. It meets the queue only at
operations that others can see or that may block; a wait that is already satisfied for good
(``ge`` on a counter that only grows) does not hold it up either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tdsim.engine.fiber import wait
from tdsim.engine.timeline import Segment
from tdsim.sim.tile import Tile
from tdsim.topology import TileSpec


class CtaClock(ABC):
    """State and time of a running program instance of *launch* on SM *sm*."""

    def __init__(self, launch: Any, index: int, sm: int) -> None:
        world = launch.world
        self.world, self.launch, self.index, self.sm = world, launch, index, sm
        self.rank: int = launch.rank
        self.n_ranks: int = world.n_pes
        self.node_size: int = world.node_size
        self.env = world.env
        self.costs = world.costs
        self.pool = world.gpus[self.rank].sms
        self.folds = not world.functional
        self.carries_scalar = False
        self.multiplies = False
        self.in_loop = 0
        self.clock: int = self.env.now
        self.mark = self.clock
        self.last: Segment | None = launch.cause
        self._clear()
        self.reads: dict[int, int] = {}
        self.writes: dict[int, list[Any]] = {}
        self.outstanding: list[Any] = []
        self.fenced: tuple[Any, ...] = ()
        self.own_signals: dict[Any, Any] = {}
        """Arrivals of the last signals to words of this PE, which its own waits must see."""
        self.blocked_on: Any = None

    @property
    def lane(self) -> str:
        return f"SM {self.sm:03d} {self.launch.role}"

    @property
    def name(self) -> str:
        return f"PE {self.rank} {self.launch.kernel.name}[{self.index}]"

    def here(self) -> str:
        """File and line of the operation that the kernel is executing now."""
        place: str = self.world.place(self.launch.kernel)
        return place

    def sleep_until(self, instant: int) -> None:
        """Let the event queue catch up with *instant*."""
        wait(self.env.timeout(instant - self.env.now))

    @abstractmethod
    def leaves_out(self, operation: str) -> bool:
        """Whether this run is to go without the synchronising operation that is due now."""

    @abstractmethod
    def move_remote(self) -> None:
        """Move the bytes that loads and stores of peers' memory have counted."""

    def _clear(self) -> None:
        self.mma = self.elements = self.loaded = self.hbm = self.stored = self.turns = 0
        self.tile: TileSpec | None = None

    def settle(self) -> None:
        """Turn the work counted so far into time on the own clock."""
        if self.mma or self.loaded or self.stored or self.elements:
            self.clock += self.costs.stretch_ps(
                self.mma, self.elements, self.loaded, self.hbm, self.stored, self.pool.resident,
                self.tile, self.turns,
            )  # fmt: skip
            if self.mma and not self.multiplies:
                self.multiplies = True
                self.pool.multiplying += 1
            self._clear()

    def begin_loop(self) -> tuple[Any, ...]:
        """Open a pipelined stretch; what was counted before is settled apart."""
        if self.in_loop == 0:
            self.settle()
        self.in_loop += 1
        state = (
            self.turns, self.mma, self.elements, self.loaded, self.hbm, self.stored,
            dict(self.reads) if self.reads else {},
            {pe: w[0] for pe, w in self.writes.items()} if self.writes else {},
        )  # fmt: skip
        self.mma = self.elements = self.loaded = self.hbm = self.stored = self.turns = 0
        return state

    def end_loop(self, state: tuple[Any, ...], trips: int, turns: int = 1) -> None:
        """Close the stretch: what :meth:`begin_loop` began happens *trips* times.

        It was *turns* of the loop, each of which waits for its loads unless it multiplies.
        """
        before_turns, mma, elements, loaded, hbm, stored, reads, writes = state
        self.in_loop -= 1
        own = turns if self.loaded and not self.mma else 0
        self.turns = before_turns + (self.turns + own) * trips
        self.mma = mma + self.mma * trips
        self.elements = elements + self.elements * trips
        self.loaded = loaded + self.loaded * trips
        self.hbm = hbm + self.hbm * trips
        self.stored = stored + self.stored * trips
        if trips > 1:
            for pe, nbytes in self.reads.items():
                before = reads.get(pe, 0)
                self.reads[pe] = before + (nbytes - before) * trips
            for pe, write in self.writes.items():
                before = writes.get(pe, 0)
                write[0] = before + (write[0] - before) * trips
        if self.in_loop == 0:
            self.settle()

    def held_up(self, op: str) -> None:
        """Apply the delays that were injected for *op* of this PE."""
        late = self.world.delays.of(self.rank, op) if self.world.delays is not None else 0
        if late:
            self.clock += late
            self.flush()

    def flush(self) -> None:
        """Meet the event queue: remote traffic moves, then the clock's time passes."""
        self.settle()
        if self.world.adversary is not None:
            self.clock += self.world.adversary.pause()
        if self.reads or self.writes:
            self.move_remote()
        self.clock = max(self.clock, self.env.now)
        self.note()
        if self.clock > self.env.now:
            self.sleep_until(self.clock)

    def note(self, detail: str = "", kind: str = "") -> None:
        """Record the time since the last mark as one segment (default: the launch's role)."""
        if self.clock > self.mark:
            length, chosen = self.clock - self.mark, kind or self.launch.role
            self.last = Segment(
                chosen, self.rank, self.lane, self.mark, self.clock, self.last, detail
            )
            self.world.emit(self.last)
            self.launch.busy[self.sm] += length
            if not kind:
                self.launch.own_role[self.sm] += length
            self.mark = self.clock

    def waited(self, kind: str, begin: int, cause: Segment | None, detail: str) -> None:
        """Record that this CTA was held up from *begin* until now because of *cause*."""
        now = self.env.now
        self.clock = self.mark = now
        if now > begin:
            own = self.last
            if cause is None or (own is not None and own.end > cause.end):
                cause = own
            self.last = Segment(kind, self.rank, self.lane, begin, now, cause, detail)
            self.world.emit(self.last)
            self.launch.waited += now - begin

    def count_product(self, a: Tile, b: Tile) -> None:
        """Charge one tile product and the HBM bytes of its operands, shared by a wave."""
        m, k = a.shape
        n = b.shape[1]
        self.mma += self.costs.mma_ps(m, n, k, a.dtype.short)
        self.tile = self.costs.tile(m, n, k, a.dtype.short)
        for tile, across, axis in ((a, n, 1), (b, m, 0)):
            if tile.origin is not None:
                other = (b if tile is a else a).origin
                span = other.shape[axis] if other is not None else across
                nbytes = m * k if tile is a else k * n
                self.hbm += (
                    nbytes * tile.dtype.itemsize // self.costs.sharing(-(-span // across))
                )
