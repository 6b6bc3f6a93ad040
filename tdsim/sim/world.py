"""The simulated job: GPUs, network, memory and clocks of all ranks, under one event queue."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy

from tdsim.engine.events import EventLoop
from tdsim.engine.network import Network
from tdsim.engine.timeline import Segment
from tdsim.errors import ApiError
from tdsim.lang import DType
from tdsim.sim.adversary import Adversary
from tdsim.sim.cost import Costs
from tdsim.sim.delays import Delays
from tdsim.sim.delivery import Sent
from tdsim.sim.gpu import Gpu
from tdsim.sim.hooks import Listener, OrderListener
from tdsim.sim.signals import SignalArray, Waiter
from tdsim.sim.sites import Sites
from tdsim.sim.tile import Buffer, View
from tdsim.topology import Machine
from tdsim.units import us

MAX_JITTER_PS = us(20)
"""Extra delay of a delivery on an unordered path while checking: far above any latency."""


class Barrier:
    """All of *pes* arrive, then all leave, *cost_ps* after the last."""

    def __init__(self, env: EventLoop, pes: Sequence[int], cost_ps: int, name: str) -> None:
        self.env, self.pes, self.cost_ps, self.name = env, pes, cost_ps, name
        self.arrived: dict[int, Segment | None] = {}
        self._leave = simpy.Event(env)

    def arrive(self, rank: int, cause: Segment | None) -> simpy.Event:
        """An event that happens when all have arrived; its value is the last one's segment."""
        if rank in self.arrived:
            raise ApiError(
                f"two program instances of PE {rank} are in one {self.name}",
                self.name,
                "let one instance call it and join the others with td.grid_barrier",
            )
        self.arrived[rank] = cause
        leave = self._leave
        if len(self.arrived) == len(self.pes):
            self.arrived, self._leave = {}, simpy.Event(self.env)
            late = Segment(
                "barrier", rank, self.name, self.env.now, self.env.now + self.cost_ps, cause
            )
            _after(self.env, self.cost_ps, lambda _: leave.succeed(late))
        return leave


class World:
    """Everything of one simulated job that its parts share.

    *functional*: tiles carry data, loops run in full, fresh memory is NaN, deliveries on
    unordered paths are shuffled by *seed*. Otherwise tiles are shapes and loops fold.
    *hostile*: an adversary decides what hardware leaves open, by *seed*.
    """

    new_cta: Any = None
    """What makes a program instance, if it is not a plain one."""
    schedule: Any = None
    """The pending steps, under a chooser."""

    def __init__(
        self,
        machine: Machine,
        functional: bool,
        seed: int,
        listeners: tuple[Listener, ...] = (),
        slowdown: float = 1.0,
        order: OrderListener | None = None,
        sites: Sites | None = None,
        hostile: bool = False,
        delays: Delays | None = None,
    ) -> None:
        self.order, self.sites, self.delays = order, sites, delays
        self.machine, self.functional, self.listeners = machine, functional, listeners
        self.n_pes, self.node_size = machine.world_size, machine.gpus_per_node
        self.env = EventLoop()
        self.costs = Costs(machine, slowdown)
        self.random = random.Random(seed)
        capacity: dict[Any, int] = dict(machine.capacities())
        for rank in range(self.n_pes):
            capacity[f"gpu{rank}", "hbm"] = machine.gpu.hbm.bytes_per_s // 2
        self.net = Network(self.env, capacity, soft=machine.soft_links())
        self.net.on_rates = self._rates if listeners else None
        self.adversary = Adversary(self.env, self.random) if hostile else None
        self.gpus = [Gpu(self.env, machine, self.adversary) for _ in range(self.n_pes)]
        cost, everyone = self._barrier_ps(), range(self.n_pes)
        self.barriers = {
            "device": Barrier(self.env, everyone, cost, "sync_all"),
            "stream": Barrier(self.env, everyone, cost, "barrier_all on the stream"),
        }
        self.buffers: list[Buffer] = []
        self.allocated = 0
        self.signal_arrays: list[SignalArray] = []
        self._arrays: dict[tuple[str, int], SignalArray] = {}
        self.launches: list[Any] = []
        self.stream_waits: dict[tuple[int, str], Waiter] = {}
        self.copy_busy = [0] * self.n_pes
        self.tiles = self.puts = 0
        self._counters: dict[tuple[int, ...], int] = {}
        self._deliveries: list[list[Any]] = [[] for _ in range(self.n_pes)]

    def _barrier_ps(self) -> int:
        """A flat exchange in the node, then a dissemination over nodes."""
        last = self.node_size - 1
        cost = self.machine.host.barrier_ps + 2 * self.machine.route(0, last).latency_ps
        hops = (self.machine.num_nodes - 1).bit_length()
        far = self.machine.route(0, self.n_pes - 1).latency_ps if hops else 0
        return cost + hops * far

    def run(self) -> None:
        """Let everything happen."""
        self.env.run()

    def end_launch(self, launch: Any) -> None:
        """Let what waits for *launch* go on: all its CTAs have ended."""
        launch.done.succeed()

    # movement -----------------------------------------------------------------------------

    def transfer(
        self, nbytes: int, src: int, dst: int, cap: int, engine: bool = False
    ) -> simpy.Event:
        """Move bytes between ranks; happens when the last byte has left (no latency).

        *cap* limits load/store traffic and copy engines; network adapters read memory
        themselves, so it does not apply between nodes. *engine*: by a copy engine.
        """
        if engine and self.machine.engine_links:
            return self.net.start(nbytes, self.machine.engine_links, 0, cap)
        if src == dst:
            return self.net.start(nbytes, ((f"gpu{src}", "hbm"),), 0, cap)
        route = self.machine.route(src, dst)
        limit = None if route.kind == "scale_out" else cap
        return self.net.start(nbytes, route.links, 0, limit)

    def deliver(
        self,
        sent: simpy.Event | None,
        delay: int,
        gates: tuple[simpy.Event, ...],
        land: Callable[[Any], Any],
        about: Sent,
    ) -> None:
        """Call *land*, which does what *about* says, *delay* after *sent* and after *gates*."""
        if gates:
            self.env.process(self._gated(sent, delay, gates, land))
        elif sent is None or sent.callbacks is None:
            _after(self.env, delay, land)
        else:
            sent.callbacks.append(lambda _: _after(self.env, delay, land))

    def _gated(
        self,
        sent: simpy.Event | None,
        delay: int,
        gates: tuple[simpy.Event, ...],
        land: Callable[[Any], Any],
    ) -> Generator[simpy.Event, Any, None]:
        if sent is not None and sent.callbacks is not None:
            yield sent
        yield self.env.timeout(delay)
        for gate in gates:
            if gate.callbacks is not None:
                yield gate
        land(None)

    def remember(self, rank: int, deliveries: list[Any]) -> None:
        """Keep what CTAs of *rank* that have ended still have under way."""
        self._deliveries[rank] = [
            d for d in (*self._deliveries[rank], *deliveries) if not d.arrived.triggered
        ]

    def under_way(self, rank: int, non_blocking: bool) -> tuple[simpy.Event, ...]:
        """Arrivals to come of puts and stores by ended CTAs; *non_blocking* ones too or not."""
        return tuple(
            d.arrived
            for d in self._deliveries[rank]
            if (d.blocking or non_blocking) and not d.arrived.triggered
        )

    def jitter(self, ordered: bool) -> int:
        """Extra delay of one delivery: adversarial on unordered paths in functional mode."""
        if ordered or not self.functional:
            return 0
        return self.random.randrange(MAX_JITTER_PS)

    def may_stay_hidden(self) -> bool:
        """Whether a signal at GPU scope stays unseen by peers until its kernel ends."""
        return self.adversary is not None and self.adversary.hides()

    # memory -------------------------------------------------------------------------------

    def allocate(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        symmetric: bool,
        zero: bool = False,
    ) -> Buffer:
        """A tensor on every rank; NaN (or the least int) until written, unless *zero*.

        Raises ApiError if it does not fit into a GPU's memory beside what is there.
        """
        asked = math.prod(shape) * dtype.itemsize
        if self.allocated + asked > self.machine.gpu.hbm_bytes:
            has, used = self.machine.gpu.hbm_bytes / 2**30, self.allocated / 2**30
            raise ApiError(
                f"{name} asks for {asked / 2**30:.1f} GiB; of the GPU's {has:.1f} GiB "
                f"{used:.1f} GiB are in use",
                "memory",
                "allocate less on each PE, or use more PEs",
            )
        self.allocated += asked
        arrays = None
        if self.functional:
            blank: Any = 0
            if not zero:
                blank = np.nan if dtype.is_float else np.iinfo(dtype.numpy).min
            arrays = [np.full(shape, blank, dtype.numpy) for _ in range(self.n_pes)]
        buffer = Buffer(name, shape, dtype, arrays, symmetric, self.n_pes)
        self.buffers.append(buffer)
        return buffer

    def signal_array(
        self, kind: str, index: int, count: int, per_call: int, pes: tuple[int, ...]
    ) -> SignalArray:
        """Array *index* of *kind*, made at first use; all arrays are in *signal_arrays*."""
        found = self._arrays.get((kind, index))
        if found is None:
            found = SignalArray(f"{kind}#{index}", count, per_call, self.n_pes, pes)
            self._arrays[kind, index] = found
            self.signal_arrays.append(found)
        return found

    def owners(self, kind: str) -> Sequence[int]:
        """The PEs that allocate *kind* together: all, but for signals of teams."""
        first = self._arrays.get((kind, 0))
        return first.pes if first is not None else range(self.n_pes)

    def team_barrier(self, pes: tuple[int, ...]) -> str:
        """The key of the barrier that *pes* meet in on their streams, made at first use."""
        key = f"team {','.join(map(str, pes))}"
        if key not in self.barriers:
            cost = self.barriers["stream"].cost_ps
            self.barriers[key] = Barrier(self.env, pes, cost, f"barrier_all of {key}")
        return key

    def add_to(self, view: View, offset: tuple[int, ...], value: int) -> int:
        """Add to one element and return what was there.

        Counters keep their values without data too, because control depends on them.
        """
        if view.data is not None:
            old = int(view.data[offset])
            view.data[offset] = np.array(old + value).astype(view.dtype.numpy)  # wraps
            return old
        place = (id(view.buffer), view.pe, view.row0 + offset[0], *offset[1:])
        old = self._counters.get(place, 0)
        self._counters[place] = old + value
        return old

    # observation --------------------------------------------------------------------------

    def emit(self, segment: Segment) -> None:
        for listener in self.listeners:
            listener.segment(segment)

    def signalled(
        self, cause: Segment | None, rank: int, lane: str, pe: int, sig: SignalArray, i: int
    ) -> None:
        for listener in self.listeners:
            listener.signal(self.env.now, cause, rank, lane, pe, sig.name, i)

    def _rates(self, link: Any, now: int, rate: int) -> None:
        for listener in self.listeners:
            listener.rate(link, now, rate)

    def place(self, kernel: Any, frame: Any = None) -> str:
        """``file:line`` of the innermost kernel code on the stack of *frame* (default: now)."""
        frame = frame or sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if "__int32__" in frame.f_globals and not name.endswith("instrument.py"):
                return f"{name}:{frame.f_lineno}"
            frame = frame.f_back
        return f"{kernel.source.file}:{kernel.source.line}"


def _after(env: EventLoop, delay: int, call: Callable[[Any], Any]) -> None:
    """Call *call* with the event after *delay* picoseconds."""
    callbacks: Any = env.timeout(delay).callbacks
    callbacks.append(call)
