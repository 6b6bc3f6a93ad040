"""Devices under a chooser: every place where the order is open is a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import simpy

from tdsim.engine.fiber import wait
from tdsim.sim.causes import Causes
from tdsim.sim.choices import Chooser, Schedule, Step, Touch
from tdsim.sim.cta import Cta
from tdsim.sim.delivery import Sent
from tdsim.sim.signals import SignalArray
from tdsim.sim.tile import Tile, View
from tdsim.sim.touches import named, signal_word, slots, touch
from tdsim.sim.world import World


def launch_name(launch: Any) -> str:
    """The same for a launch in all schedules: its number among those of its stream."""
    alike = [
        other
        for other in launch.world.launches
        if (other.rank, other.stream_name) == (launch.rank, launch.stream_name)
    ]
    number = next(n for n, other in enumerate(alike) if other is launch)
    return f"PE {launch.rank} {launch.stream_name} #{number}"


class ChosenCta(Cta):
    """A CTA that stops before each access to what others may touch as well."""

    def __init__(self, launch: Any, index: int, sm: int) -> None:
        self.actor = f"{launch_name(launch)} [{index}]"
        self.schedule: Schedule = launch.world.schedule
        self.late = launch.submitted
        super().__init__(launch, index, sm)
        if self.late and self.schedule.current is not None:
            self.schedule.current.touches.append(slots(self.rank))

    def _body(self) -> None:
        if self.late:
            self._turn("gets a slot", [slots(self.rank)], late=True)
        super()._body()

    def _turn(
        self,
        what: str,
        touches: list[Touch],
        ready: Callable[[], bool] | None = None,
        gates: Sequence[simpy.Event] = (),
        late: bool = False,
    ) -> None:
        """Stop until chosen, if *touches* are shared or it takes a condition to go on."""
        if not (ready or gates or late or self.schedule.shared(self.actor, touches)):
            return
        go = simpy.Event(self.env)
        self.schedule.offer(
            Step(
                actor=self.actor,
                what=f"{self.name} {what}",
                where=self.here(),
                touches=touches,
                ready=ready or (lambda: all(gate.triggered for gate in gates)),
                fire=go.succeed,
                gates=gates,
                wait=ready is not None,
                late=late,
            )
        )
        wait(go)

    def see_own_signals(self) -> None:
        """The end of the kernel waits for them, not the slot: see :meth:`~.end_launch`."""

    def load(self, view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> Tile:
        part = touch(view, "read", offsets, shape)
        self._turn(f"loads {named(part)}", [part])
        return super().load(view, offsets, shape)

    def store(self, view: View, offsets: tuple[int, ...], tile: Any) -> None:
        shape = tile.shape if isinstance(tile, Tile) else (1,) * len(view.shape)
        if view.pe == self.rank:
            part = touch(view, "write", offsets, shape)
            self._turn(f"stores to {named(part)}", [part])
        super().store(view, offsets, tile)
        if view.pe != self.rank:
            self.flush()  # each store to a peer lands by itself

    def put(
        self, dst: View, src: View, pe: int, blocking: bool, signal: Any = None,
        carried: int = 0,
    ) -> None:  # fmt: skip
        touches = [touch(src, "read")] if blocking else []
        if signal is not None:
            touches += self.world.epoch(self.rank, "read")
        self._turn("sends a put", touches)
        super().put(dst, src, pe, blocking, signal, carried)

    def _signal(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, scope: str = "sys"
    ) -> None:
        self._turn("sends a signal", self.world.epoch(self.rank, "read"))
        super()._signal(sig, i, value, op, pe, scope)

    def get(self, dst: View, src: View, pe: int) -> None:
        source = src.at(pe) if src.buffer.symmetric and 0 <= pe < self.n_ranks else src
        touches = [touch(source, "read"), touch(dst, "write")]
        self._turn(f"gets {named(touches[0])}", touches)
        super().get(dst, src, pe)

    def quiet(self) -> None:
        under_way = [d.arrived for d in self.outstanding if not d.arrived.triggered]
        if under_way:
            self._turn("passes quiet", [], gates=under_way)
        super().quiet()

    def atomic_add(self, view: View, offset: tuple[int, ...], value: Any) -> int:
        part = touch(view, "atomic", offset, (1,) * len(offset))
        self._turn(f"adds to {named(part)}", [part])
        return super().atomic_add(view, offset, value)

    def _wait_until(self, sig: SignalArray, i: int, cmp: str, value: int) -> None:
        word, own = sig.word_of(self.rank, value), self.own_signals.get((sig, i))
        self.blocked_on = (sig, i, cmp, value)
        self._turn(
            f"passes its wait for {sig.label(i)} {cmp} {value}",
            [signal_word(sig, self.rank, i, "read"), *self.world.epoch(self.rank, "read")],
            ready=lambda: (
                (own is None or own.triggered) and sig.holds(self.rank, i, cmp, word)
            ),
        )
        self.blocked_on = None
        super()._wait_until(sig, i, cmp, value)


class ChosenWorld(World):
    """A world in which deliveries land when chosen, after what they may not overtake."""

    new_cta = ChosenCta

    def __init__(self, chooser: Chooser, *args: Any) -> None:
        super().__init__(*args)
        self.schedule = Schedule(chooser)
        if self.order is None and chooser.sharing is not None:
            self.order = Causes(self.schedule)

    def run(self) -> None:
        self.schedule.run(self.env)

    def epoch(self, rank: int, kind: str) -> list[Touch]:
        """The call number of *rank*, which streams share: values of signals count from it."""
        return [Touch(("epoch", rank), kind)] if len(self.gpus[rank].streams) > 1 else []

    def _landing(self, about: Sent, land: Callable[[Any], Any]) -> Callable[[Any], None]:
        """*land* for a stream's signal to its own PE, which is no step of its own."""
        assert about.word is not None
        sig, i, op = about.word
        word = signal_word(sig, about.pe, i, op)

        def landing(event: Any) -> None:
            land(event)
            self.schedule.landed.add(word.place)
            if self.schedule.current is not None:
                self.schedule.current.touches.append(word)

        return landing

    def may_stay_hidden(self) -> bool:
        sharing = self.schedule.sharing
        if sharing is None:
            return self.random.random() < 0.5
        sharing.left.add("GPU-scope signals that stay hidden from peers until the kernel ends")
        return False

    def end_launch(self, launch: Any) -> None:
        """A kernel has ended when what it sent within its node is there."""
        gates = [
            delivery.arrived
            for delivery in launch.left
            if self.machine.route(launch.rank, delivery.pe).ordered
            and not delivery.arrived.triggered
        ]
        if not gates:
            launch.done.succeed()
            return
        self.schedule.offer(
            Step(
                actor=f"{launch_name(launch)} end",
                what=f"PE {launch.rank} {launch.kernel.name} ends",
                where="",
                touches=[],
                ready=lambda: all(gate.triggered for gate in gates),
                fire=launch.done.succeed,
                gates=gates,
            )
        )

    def deliver(
        self,
        sent: simpy.Event | None,
        delay: int,
        gates: tuple[simpy.Event, ...],
        land: Callable[[Any], Any],
        about: Sent,
    ) -> None:
        of_stream = isinstance(about.issuer, str)
        if of_stream and about.rank == about.pe:  # in stream order, so its stop was before
            super().deliver(sent, 0, gates, self._landing(about, land), about)
            return
        issuer = about.issuer if of_stream else about.issuer.actor
        number = self.schedule.sent[issuer] = self.schedule.sent.get(issuer, 0) + 1
        writes = [
            touch(view, "write", part[0], part[1].shape) if part else touch(view, "write")
            for view, *part in about.writes
        ]
        touches = [*writes, *(touch(view, "read") for view in about.reads)]
        name = about.issuer if of_stream else about.issuer.name
        parts = [f"write of {named(part)}" for part in writes]
        if about.word is not None:
            sig, i, op = about.word
            touches.append(signal_word(sig, about.pe, i, op))
            parts.append(f"{op} of {sig.label(i)} on PE {about.pe}")
        step = Step(
            actor=f"{issuer} sent {number}",
            what=f"{' and '.join(parts)} from {name} lands",
            where="" if of_stream else about.issuer.here(),
            touches=touches,
            ready=lambda: all(gate.triggered for gate in gates),
            fire=lambda: land(None),
            gates=gates,
        )
        # A place becomes shared by what is under way, whether it has landed or not.
        self.schedule.shared(step.actor, touches)
        self.schedule.offer(step)
