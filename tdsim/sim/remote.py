"""One-sided copies, signals and barriers of a CTA: delivery with its order and its time."""

from __future__ import annotations

from typing import Any

import simpy

from tdsim.engine.fiber import wait
from tdsim.engine.timeline import Segment
from tdsim.errors import ApiError
from tdsim.sim.clock import CtaClock
from tdsim.sim.delivery import (
    Delivery,
    Sent,
    before_put,
    before_signal,
    check_copy,
    storing,
)
from tdsim.sim.lines import put_lines
from tdsim.sim.signals import STAYS_TRUE, SignalArray
from tdsim.sim.tile import View

MAX_REMEMBERED = 32
"""Deliveries a CTA keeps before it looks which have arrived."""


class RemoteOps(CtaClock):
    """What :mod:`tdsim.lang.remote` asks of a reader."""

    def symm_at(self, view: View, pe: int) -> View:
        self._check_pe(pe)
        if not self.world.machine.reachable(self.rank, pe):
            raise ApiError(
                f"PE {pe} is on another node, so {self.name} cannot load or store there",
                self.here(),
                "use putmem or getmem between nodes",
            )
        return view.at(pe)

    def rows(self, view: View, start: int, count: int) -> View:
        return view.rows(start, count)

    def after(self, token: Any, x: Any) -> Any:
        return x

    def put(
        self,
        dst: View,
        src: View,
        pe: int,
        blocking: bool,
        signal: Any = None,
        carried: int = 0,
    ) -> None:
        """Copy *src*; the path carries *carried* bytes for it (default: its own)."""
        self._check_pe(pe)
        check_copy(self, "puts to", dst, src, dst, src)
        if signal is not None:
            signal[0].check_index(signal[1], self.here, pe)
            if self.leaves_out("putmem_signal"):
                signal = None
        self.held_up("put")
        self.flush()
        self.world.puts += 1
        self.clock += (
            self.costs.host.nic_issue_ps
            if pe // self.world.node_size != self.rank // self.world.node_size
            else 0
        )
        data = src.data.copy() if blocking and src.data is not None else None
        route = self.world.machine.route(self.rank, pe)
        delivery = Delivery(self.env, pe, blocking)
        gates = before_put(self, pe, route.ordered, signal is not None)
        begin, target = self.env.now, dst.at(pe)
        order = self.world.order
        released = order and order.put(
            self, target, src, blocking, signal is not None, route.ordered
        )
        issued, rank, name = self.last, self.rank, self.name
        if signal is not None:
            signal = (*signal[:2], signal[0].word_of(rank, signal[2]), *signal[2:])

        def land(_: Any) -> None:
            link = Segment(
                "link", rank, f"to PE {pe}", begin, self.env.now, issued, f"{src.nbytes} bytes"
            )
            self.world.emit(link)
            if target.data is not None:
                target.data[...] = data if blocking else src.data
            if signal is not None:
                sig, i, word, value, op = signal
                self.world.signalled(link, rank, f"to PE {pe}", pe, sig, i)
                sig.update(pe, i, word if op == "set" else value, op, name, link)
                if order:
                    order.landed(released, sig, pe, i, op)
            delivery.arrived.succeed()

        sent = self.world.transfer(carried or src.nbytes, rank, pe, self._copy_cap())
        self._remember(delivery)
        latency = route.latency_ps + (self.costs.host.signal_ps if signal is not None else 0)
        word = None if signal is None else (signal[0], signal[1], signal[-1])
        about = Sent(self, rank, pe, [(target,)], () if blocking else (src,), word)
        delay = latency + self.world.jitter(route.ordered)
        self.world.deliver(sent, delay, gates, land, about)
        if blocking:
            self._hold(sent, f"put to PE {pe}")

    put_lines = put_lines

    def _copy_cap(self) -> int:
        """Bytes per second that this CTA copies, beside what its GPU multiplies now."""
        cap: int = self.costs.copy_per_s(self.pool.multiplying)
        return cap

    def _hold(self, event: simpy.Event, detail: str) -> None:
        """Block on a transfer of this CTA's own; the time is the CTA's work, not a wait."""
        begin = self.env.now
        if event.callbacks is not None:
            wait(event)
        self.clock = max(self.clock, self.env.now)
        self.mark = begin
        self.note(detail, "comm")
        if self.clock > self.env.now:
            self.sleep_until(self.clock)

    def get(self, dst: View, src: View, pe: int) -> None:
        self._check_pe(pe)
        check_copy(self, "gets from", src, dst, dst, src)
        self.flush()
        source = src.at(pe)
        got = self.world.transfer(src.nbytes, pe, self.rank, self._copy_cap())
        self._hold(got, f"get from PE {pe}")
        route = self.world.machine.route(self.rank, pe)
        self.clock += 2 * route.latency_ps
        self.flush()
        if self.world.order is not None:
            self.world.order.access(self, "read", source)
            self.world.order.access(self, "write", dst)
        if dst.data is not None:
            dst.data[...] = source.data

    def move_remote(self) -> None:
        """Move the bytes that loads and stores of peers' memory have counted."""
        events = []
        cap = self._copy_cap()
        for pe, nbytes in self.reads.items():
            events.append(self.world.transfer(nbytes, pe, self.rank, cap))
            self.clock += 2 * self.world.machine.route(self.rank, pe).latency_ps
        for pe, (nbytes, stores) in self.writes.items():
            sent = self.world.transfer(nbytes, self.rank, pe, cap)
            events.append(sent)
            delivery = Delivery(self.env, pe, True)
            self._remember(delivery)
            latency = self.world.machine.route(self.rank, pe).latency_ps
            about = Sent(self, self.rank, pe, stores)
            self.world.deliver(sent, latency, (), storing(stores, delivery), about)
        self.reads, self.writes = {}, {}
        for event in events:
            if event.callbacks is not None:
                wait(event)
        self.clock = max(self.clock, self.env.now)

    def _remember(self, delivery: Delivery) -> None:
        """Keep *delivery* for quiet and releases; those that have arrived are forgotten."""
        if len(self.outstanding) >= MAX_REMEMBERED:
            self.outstanding = [d for d in self.outstanding if not d.arrived.triggered]
        self.outstanding.append(delivery)

    def fence(self) -> None:
        self.flush()
        if self.leaves_out("fence"):
            return
        self.fenced = tuple(d for d in self.outstanding if not d.arrived.triggered)
        if self.world.order is not None:
            self.world.order.fence(self)

    def quiet(self) -> None:
        self.flush()
        if self.leaves_out("quiet"):
            return
        begin = self.env.now
        for delivery in self.outstanding:
            if delivery.arrived.callbacks is not None:
                wait(delivery.arrived)
        self.outstanding = []
        if self.world.order is not None:
            self.world.order.quiet(self)
        self.waited("wait", begin, None, "quiet")

    def signal_op(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, scope: str = "sys"
    ) -> None:
        self._check_pe(pe)
        sig.check_index(i, self.here, pe)
        if not self.leaves_out("signal_op"):
            self._signal(sig, i, value, op, pe, scope)

    def _signal(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, scope: str = "sys"
    ) -> None:
        self.settle()
        self.held_up("signal")
        self.clock += self.costs.host.signal_ps
        self.flush()
        route = self.world.machine.route(self.rank, pe)
        gates = before_signal(self, pe, route.ordered)
        # A signal to the own PE is a store: later signals release it, and this CTA's own waits
        # see it. One to another PE only counts for fence and quiet.
        delivery = Delivery(self.env, pe, blocking=pe == self.rank)
        if pe == self.rank:
            self.own_signals[sig, i] = delivery.arrived
        cause, name = self.last, self.name
        word = sig.word_of(self.rank, value) if op == "set" else value
        order = self.world.order
        released = order and order.release(self, pe, scope)
        if scope == "gpu" and pe != self.rank and self.world.may_stay_hidden():
            gates = (*gates, self.launch.done)
        elif self.world.functional:
            self._remember(delivery)

        def land(_: Any) -> None:
            self.world.signalled(cause, self.rank, self.lane, pe, sig, i)
            sig.update(pe, i, word, op, name, cause)
            if order:
                order.landed(released, sig, pe, i, op)
            delivery.arrived.succeed()

        delay = route.latency_ps + self.costs.host.signal_ps + self.world.jitter(route.ordered)
        about = Sent(self, self.rank, pe, word=(sig, i, op))
        self.world.deliver(None, delay, gates, land, about)

    def signal_wait_until(self, sig: SignalArray, i: int, cmp: str, value: int) -> int:
        sig.check_index(i, self.here, self.rank)
        if not self.leaves_out("signal_wait_until"):
            self._wait_until(sig, i, cmp, value)
        return 0

    def _wait_until(self, sig: SignalArray, i: int, cmp: str, value: int) -> None:
        self.settle()
        self.held_up("wait")
        rank = self.rank
        word = sig.word_of(rank, value)
        if cmp not in STAYS_TRUE or self.reads or self.writes:
            self.flush()
        elif self.world.listeners:
            self.note()
        own = self.own_signals.get((sig, i))
        if (own is not None and not own.triggered) or not sig.holds(rank, i, cmp, word):
            self.note()
            begin = max(self.clock, self.env.now)
            self.blocked_on = (sig, i, cmp, value)
            if own is not None and not own.triggered:
                wait(own)
            cause = sig.causes.get((rank, i))
            if not sig.holds(rank, i, cmp, word):
                cause = wait(sig.wait(self.env, rank, i, cmp, word))
            self.blocked_on = None
            if self.env.now > begin:
                self.waited("wait", begin, cause, sig.label(i))
        if self.world.order is not None:
            self.world.order.acquire(self, sig, rank, i, cmp, word)

    def atomic_add(self, view: View, offset: tuple[int, ...], value: Any) -> int:
        self.settle()
        self.clock += self.costs.host.signal_ps
        self.flush()
        if view.dtype.is_float or view.pe != self.rank:
            raise ApiError(
                f"atomic_add to {view}, {view.dtype.short}", self.here(),
                "add to local memory of an integer type",
            )  # fmt: skip
        if len(offset) != len(view.shape) or not all(
            0 <= o < n for o, n in zip(offset, view.shape, strict=True)
        ):
            raise ApiError(
                f"element {list(offset)} of {view} does not exist",
                self.here(),
                "check the index",
            )
        if self.world.order is not None:
            self.world.order.access(self, "atomic", view, offset, (1,) * len(offset))
        old: int = self.world.add_to(view, offset, int(value))
        return old

    def sync_all(self) -> None:
        self.flush()
        if self.leaves_out("sync_all"):
            return
        begin = self.env.now
        order = self.world.order
        arrived = order and order.arrive("device", self, self.rank)
        cause = wait(self.world.barriers["device"].arrive(self.rank, self.last))
        if order:
            order.leave(arrived, self)
        self.waited("barrier", begin, cause, "sync_all")

    def grid_barrier(self, sig: SignalArray, i: int) -> None:
        total = 1
        for n in self.launch.grid:
            total *= n
        sig.check_index(i, self.here, self.rank)
        self._signal(sig, i, 1, "add", self.rank)
        if not self.leaves_out("grid_barrier"):
            self._wait_until(sig, i, "ge", total)

    def _check_pe(self, pe: int) -> None:
        if not 0 <= pe < self.world.n_pes:
            raise ApiError(
                f"{self.name} names PE {pe}, which does not exist",
                self.here(),
                f"PEs are 0 to {self.world.n_pes - 1}",
            )
