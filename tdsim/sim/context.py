"""The simulator's ``ctx``: host programs on simulated streams (see ``tdsim.lang.Context``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import simpy

from tdsim.engine.fiber import wait
from tdsim.engine.stream import Stream
from tdsim.engine.timeline import Segment
from tdsim.errors import ApiError, UnmodelledError, UsageError
from tdsim.lang import DType, Kernel
from tdsim.sim import operations as run
from tdsim.sim.failures import host_place
from tdsim.sim.signals import SignalArray
from tdsim.sim.teams import Team
from tdsim.sim.tile import View
from tdsim.sim.world import World


class HostContext:
    """One rank's host program; the host itself takes time for every call it makes."""

    def __init__(self, world: World, rank: int) -> None:
        machine = world.machine
        self.world, self.rank, self.env = world, rank, world.env
        self.my_pe, self.n_pes = rank, world.n_pes
        self.n_local_pes, self.n_nodes = world.node_size, machine.num_nodes
        self.my_node, self.local_pe = divmod(rank, world.node_size)
        self.num_sms = machine.gpu.num_sms
        self.main = world.gpus[rank].stream("main")
        self.last: Segment | None = None
        self._graphs: dict[str, list[Callable[[], None]]] = {}
        self._capture: list[Callable[[], None]] | None = None
        self.begin_call()

    def begin_call(self) -> None:
        """Allocations of a call are matched to those of the call before, by order."""
        self.allocated: Counter[str] = Counter()

    def symmetric(self, shape: tuple[int, ...], dtype: DType) -> View:
        return self._memory("symmetric", shape, dtype, False)

    def local(self, shape: tuple[int, ...], dtype: DType, zero: bool = False) -> View:
        return self._memory("local", shape, dtype, zero)

    def _memory(self, kind: str, shape: tuple[int, ...], dtype: DType, zero: bool) -> View:
        index = self.allocated[kind]
        self.allocated[kind] += 1
        symmetric = kind == "symmetric"
        known = [b for b in self.world.buffers if b.name.startswith(f"{kind}#")]
        if index == len(known):
            name = f"{kind}#{index}"
            known.append(self.world.allocate(name, tuple(shape), dtype, symmetric, zero))
        buffer = known[index]
        if (buffer.shape, buffer.dtype) != (tuple(shape), dtype):
            raise ApiError(
                f"allocation {index} of {kind} memory is {dtype.short}{list(shape)} on PE "
                f"{self.rank} but {buffer.dtype.short}{list(buffer.shape)} on another",
                f"ctx.{kind}",
                "allocate the same shapes in the same order on every PE and in every call",
            )
        return buffer.view(self.rank)

    def team(self, pes: Sequence[int]) -> Team:
        return Team(self, tuple(pes))

    def signals(self, count: int, per_call: int = 1) -> SignalArray:
        return self.team_signals(tuple(range(self.n_pes)), count, per_call)

    def team_signals(self, pes: tuple[int, ...], count: int, per_call: int) -> SignalArray:
        """The next signal array of the team *pes*, which may be all PEs."""
        kind = "signals"
        if len(pes) < self.n_pes:
            kind += f" of team {','.join(map(str, pes))}"
        index = self.allocated[kind]
        self.allocated[kind] += 1
        found = self.world.signal_array(kind, index, count, per_call, pes)
        if (found.count, found.per_call) != (count, per_call):
            raise ApiError(
                f"array {index} of {kind} has {count} words of {per_call} per call on PE "
                f"{self.rank} but {found.count} of {found.per_call} on another",
                "ctx.signals",
                "allocate the same signals in the same order on every PE and in every call",
            )
        return found

    def stream(self, name: str) -> Stream:
        return self.world.gpus[self.rank].stream(name)

    def launch(
        self,
        kernel: Kernel,
        grid: int | tuple[int, ...],
        args: Sequence[Any],
        stream: Stream | None = None,
        num_warps: int = 8,
        num_stages: int = 3,
        ctas_per_sm: int = 1,
        role: str = "compute",
        cluster: int = 1,
    ) -> None:
        if cluster != 1:
            raise UnmodelledError(f"a cluster of {cluster} CTAs", "ctx.launch")
        shape = grid if isinstance(grid, tuple) else (grid,)
        if len(args) != len(kernel.params) or min(shape) < 1 or not 1 <= ctas_per_sm <= 32:
            raise UsageError(
                what=f"launch of {kernel.name} with grid {shape} and {len(args)} arguments",
                where=f"{kernel.source.file}:{kernel.source.line}",
                expected=f"a positive grid and the {len(kernel.params)} arguments "
                + " ".join(kernel.params),
                cure="fix the ctx.launch call",
            )
        for name, value in zip(kernel.params, args, strict=True):
            if isinstance(value, SignalArray) and value.name.startswith("signals#"):
                value.name = name
        self._spend(self.world.machine.host.launch_ps, f"launch {kernel.name}")
        self._enqueue(
            stream,
            run.launch(self, kernel, shape, tuple(args), ctas_per_sm, role, self.env.now),
        )

    def copy(self, dst: View, src: View, stream: Stream | None = None) -> None:
        if dst.shape != src.shape or dst.dtype != src.dtype:
            raise ApiError(
                f"a copy of {src} to {dst}", "ctx.copy", "give two views of one shape and dtype"
            )
        for view in (dst, src):
            if not self.world.machine.reachable(self.rank, view.pe):
                raise ApiError(
                    f"{view} is on another node than PE {self.rank}",
                    "ctx.copy",
                    "copy engines reach one node; put between nodes from a kernel",
                )
        self._spend(self.world.machine.host.issue_ps, "copy")
        self._enqueue(stream, run.copy(self, dst, src))

    def signal_op(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        if not 0 <= pe < self.n_pes:
            raise ApiError(
                f"PE {pe} does not exist", "ctx.signal_op", f"PEs are 0 to {self.n_pes - 1}"
            )
        sig.check_index(i, lambda: "ctx.signal_op", pe)
        if self._leaves_out("signal_op"):
            return
        host = self.world.machine.host
        self._spend(host.add_issue_ps if op == "add" else host.issue_ps, "signal")
        self._enqueue(stream, run.signal(self, sig, i, value, op, pe))

    def signal_wait_until(
        self, sig: SignalArray, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        sig.check_index(i, lambda: "ctx.signal_wait_until")
        if self._leaves_out("signal_wait_until"):
            return
        self._spend(self.world.machine.host.issue_ps, "wait")
        self._enqueue(stream, run.wait_until(self, sig, i, cmp, value))

    def fork(self, stream: Stream, of: Stream | None = None) -> None:
        if not self._leaves_out("fork"):
            self._order(of or self.main, stream)

    def join(self, stream: Stream, into: Stream | None = None) -> None:
        if not self._leaves_out("join"):
            self._order(stream, into or self.main)

    def _leaves_out(self, operation: str) -> bool:
        """Whether this run is to go without the ordering operation that is due now."""
        sites = self.world.sites
        return sites is not None and sites.leaves_out(operation, host_place())

    def _order(self, first: Stream, then: Stream) -> None:
        """*then* waits for what *first* holds now; nothing to do if that is complete."""
        if self._capture is not None:
            self._capture.append(lambda: self._order(first, then))
            return
        if first.idle and self.world.order is None:
            if first.state is not None and then.idle:
                then.state = first.state
            return
        event = simpy.Event(self.env)
        self._enqueue(first, run.record(self, first, event))
        self._enqueue(then, run.wait_event(self, then, event))

    def barrier_all(self, stream: Stream | None = None) -> None:
        if self._leaves_out("barrier_all"):
            return
        self._spend(self.world.machine.host.launch_ps, "barrier")
        self._enqueue(stream, run.barrier(self))

    def team_barrier(self, pes: tuple[int, ...], stream: Stream | None) -> None:
        self._spend(self.world.machine.host.launch_ps, "barrier")
        self._enqueue(stream, run.barrier(self, self.world.team_barrier(pes)))

    def replay(self, name: str, capture: Callable[[], None]) -> None:
        if self._capture is not None:
            raise ApiError(f"graph {name} inside another", "ctx.replay", "replay it outside")
        graph = self._graphs.get(name)
        if graph is None:
            graph = self._graphs[name] = self._capture = []
            try:
                capture()
            finally:
                self._capture = None
        self._spend(self.world.machine.host.launch_ps, f"graph {name}")
        for again in graph:
            again()

    def fill(self, steps: Any) -> None:
        """Queue what a call finds in memory: on the main stream, in no time."""
        order = self.world.order
        if order is not None:
            steps = run.observed(steps, order, self.main, self.rank, "what a call is given")
        self.main.enqueue(steps)

    def end_call(self, finish: Callable[[], None]) -> None:
        """Queue the end of a call on the main stream."""
        self._enqueue(None, run.call_end(self, finish))

    def _enqueue(self, stream: Stream | None, operation: Any, place: str = "") -> None:
        place = place or (host_place() if self.world.order is not None else "")
        if self._capture is not None:
            self._capture.append(lambda: self._enqueue(stream, operation, place))
            return
        chosen = stream or self.main
        host = self.last

        def steps() -> Any:
            if host is not None and (chosen.state is None or chosen.state.end < host.end):
                chosen.state = host
            return operation(chosen)

        order = self.world.order
        if order is None:
            chosen.enqueue(steps)
        else:
            chosen.enqueue(run.observed(steps, order, chosen, self.rank, place))

    def _spend(self, ps: int, what: str) -> None:
        if self._capture is not None:
            return
        if self.world.delays is not None:
            ps += self.world.delays.of(self.rank, what.partition(" ")[0])
        begin = self.env.now
        wait(self.env.timeout(ps))
        self.last = Segment("host", self.rank, "host", begin, self.env.now, self.last, what)
        self.world.emit(self.last)
