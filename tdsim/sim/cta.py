"""One program instance: the reader of the language's operations."""

from __future__ import annotations

from typing import Any

from tdsim.engine.fiber import Fiber, wait
from tdsim.lang import Function
from tdsim.lang import _seam as seam
from tdsim.sim.failures import reported_at
from tdsim.sim.instrument import prepare
from tdsim.sim.remote import RemoteOps
from tdsim.sim.tile_ops import TileOps


class Cta(TileOps, RemoteOps):
    """A running program instance; its fiber starts at once."""

    def __init__(self, launch: Any, index: int, sm: int) -> None:
        super().__init__(launch, index, sm)
        if self.world.order is not None:
            self.world.order.cta_begins(self)
        self.fiber = Fiber(self.env, self._body, self._enter)

    def _enter(self) -> None:
        seam.activate(self)

    def _body(self) -> None:
        with reported_at(self.name):
            prepare(self.launch.kernel, self.world.functional)(*self.launch.args)
        self.flush()
        if self.world.functional:
            self.see_own_signals()
        self.launch.finished(self)

    def see_own_signals(self) -> None:
        """Let signals to words of this PE land before the kernel ends: they are in order."""
        for arrival in self.own_signals.values():
            if arrival.callbacks is not None:
                wait(arrival)

    def call(self, function: Function, args: Any, kwargs: Any) -> Any:
        """Run a helper of the kernel."""
        return prepare(function, self.world.functional)(*args, **kwargs)

    def leaves_out(self, operation: str) -> bool:
        """Whether this run is to go without the synchronising operation that is due now."""
        sites = self.world.sites
        return sites is not None and sites.leaves_out(operation, self.here())

    def program_id(self, axis: int) -> int:
        coordinate: int = self.launch.position(self.index, axis)
        return coordinate

    def num_programs(self, axis: int) -> int:
        grid: tuple[int, ...] = self.launch.grid
        return grid[axis] if axis < len(grid) else 1

    def my_pe(self) -> int:
        return self.rank

    def n_pes(self) -> int:
        return self.n_ranks

    def my_node(self) -> int:
        return self.rank // self.node_size

    def n_nodes(self) -> int:
        return self.n_ranks // self.node_size

    def local_pe(self) -> int:
        return self.rank % self.node_size

    def n_local_pes(self) -> int:
        return self.node_size
