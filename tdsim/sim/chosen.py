"""The simulated job under a chooser: every place where the order is open is a step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import simpy

from tdsim.engine.fiber import wait
from tdsim.engine.stream import Stream
from tdsim.sim.choices import Chooser, Schedule, Step, Touch
from tdsim.sim.context import HostContext
from tdsim.sim.cta import Cta
from tdsim.sim.delivery import Sent
from tdsim.sim.signals import SignalArray, Waiter
from tdsim.sim.tile import Tile, View
from tdsim.sim.world import World


class ChosenCta(Cta):
    """A CTA that stops before each access to what others may touch as well."""

    def __init__(self, launch: Any, index: int, sm: int) -> None:
        alike = [
            other
            for other in launch.world.launches
            if (other.rank, other.stream_name) == (launch.rank, launch.stream_name)
        ]
        number = next(n for n, other in enumerate(alike) if other is launch)
        self.actor = f"PE {launch.rank} {launch.stream_name} #{number} [{index}]"
        self.schedule: Schedule = launch.world.schedule
        self.late = launch.submitted
        super().__init__(launch, index, sm)
        if self.late and self.schedule.current is not None:
            self.schedule.current.touches.append(_slots(self.rank))

    def _body(self) -> None:
        if self.late:
            self._turn("gets a slot", [_slots(self.rank)], late=True)
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

    def load(self, view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> Tile:
        self._turn(f"loads {view}", [touch(view, "read", offsets, shape)])
        return super().load(view, offsets, shape)

    def store(self, view: View, offsets: tuple[int, ...], tile: Any) -> None:
        shape = tile.shape if isinstance(tile, Tile) else (1,) * len(view.shape)
        if view.pe == self.rank:
            self._turn(f"stores to {view}", [touch(view, "write", offsets, shape)])
        super().store(view, offsets, tile)
        if view.pe != self.rank:
            self.flush()  # each store to a peer lands by itself

    def put(self, dst: View, src: View, pe: int, blocking: bool, signal: Any = None) -> None:
        if blocking:
            self._turn(f"reads {src} for a put", [touch(src, "read")])
        super().put(dst, src, pe, blocking, signal)

    def get(self, dst: View, src: View, pe: int) -> None:
        source = src.at(pe) if src.buffer.symmetric and 0 <= pe < self.n_ranks else src
        self._turn(f"gets {source}", [touch(source, "read"), touch(dst, "write")])
        super().get(dst, src, pe)

    def quiet(self) -> None:
        under_way = [d.arrived for d in self.outstanding if not d.arrived.triggered]
        if under_way:
            self._turn("passes quiet", [], gates=under_way)
        super().quiet()

    def atomic_add(self, view: View, offset: tuple[int, ...], value: Any) -> int:
        box = (1,) * len(offset)
        self._turn(f"adds to {view}", [touch(view, "atomic", offset, box)])
        return super().atomic_add(view, offset, value)

    def _wait_until(self, sig: SignalArray, i: int, cmp: str, value: int) -> None:
        word, own = sig.word_of(self.rank, value), self.own_updates.get((sig, i))
        self.blocked_on = (sig, i, cmp, value)
        self._turn(
            f"passes its wait for {sig.label(i)} {cmp} {value}",
            [_word(sig, self.rank, i, "read")],
            ready=lambda: (
                (own is None or own.triggered) and sig.holds(self.rank, i, cmp, word)
            ),
        )
        self.blocked_on = None
        super()._wait_until(sig, i, cmp, value)


class ChosenContext(HostContext):
    """A host program whose stream operations stop where other streams and PEs can interfere."""

    world: ChosenWorld
    _turn: _Turn | None = None

    def stream(self, name: str) -> Stream:
        found = super().stream(name)
        sharing = self.world.schedule.sharing
        if sharing is not None and len(self.world.gpus[self.rank].streams) > 1:
            sharing.second_stream(self.rank)
        return found

    def launch(self, kernel: Any, *args: Any, **options: Any) -> None:
        sharing = self.world.schedule.sharing
        if sharing is None or self.rank in sharing.streams:
            self._turn = _Turn(f"launches {kernel.name}", [_slots(self.rank)], always=True)
        super().launch(kernel, *args, **options)

    def copy(self, dst: View, src: View, stream: Stream | None = None) -> None:
        self._turn = _Turn(f"copies {src} to {dst}", [touch(src, "read"), touch(dst, "write")])
        super().copy(dst, src, stream)

    def signal_op(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        if pe == self.rank:
            what = f"signals its own {sig.label(i)} {op} {value}"
            self._turn = _Turn(what, [_word(sig, pe, i, op)], always=True)
        super().signal_op(sig, i, value, op, pe, stream)

    def signal_wait_until(
        self, sig: SignalArray, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        what = f"passes its wait for {sig.label(i)} {cmp} {value}"
        self._turn = _Turn(what, [_word(sig, self.rank, i, "read")], wait=(sig, i, cmp, value))
        super().signal_wait_until(sig, i, cmp, value, stream)

    def fill(self, steps: Any) -> None:
        turn = _Turn("is given the tensors of a call", self._tensors("write"))
        super().fill(lambda: self._stopped(turn, lambda _: steps())(self.main))

    def end_call(self, finish: Callable[[], None]) -> None:
        self._turn = _Turn("ends a call", self._tensors("read"))
        super().end_call(finish)

    def _enqueue(self, stream: Stream | None, operation: Any, place: str = "") -> None:
        turn, self._turn = self._turn, None
        stopped = operation if turn is None else self._stopped(turn, operation)
        super()._enqueue(stream, stopped, place)

    def _tensors(self, kind: str) -> list[Touch]:
        """All tensors of the program that another stream or PE could reach."""
        alone = len(self.world.gpus[self.rank].streams) == 1
        return [
            touch(buffer.view(self.rank), kind)
            for buffer in self.world.buffers
            if "#" not in buffer.name and (buffer.symmetric or not alone)
        ]

    def _stopped(self, turn: _Turn, operation: Any) -> Any:
        """*operation* behind a stop."""

        def steps(stream: Stream) -> Generator[simpy.Event, Any, None]:
            actor = f"PE {self.rank} stream {stream.name}"
            schedule = self.world.schedule
            if turn.always or turn.wait or schedule.shared(actor, turn.touches):
                go = simpy.Event(self.env)
                key = (self.rank, stream.name)
                if turn.wait:
                    self.world.stream_waits[key] = Waiter(actor, self.rank, *turn.wait, None)
                schedule.offer(
                    Step(
                        actor=actor,
                        what=f"{actor} {turn.what}",
                        where="",
                        touches=list(turn.touches),
                        ready=self._ready(turn.wait),
                        fire=go.succeed,
                        wait=turn.wait is not None,
                    )
                )
                yield go
                self.world.stream_waits.pop(key, None)
            yield from operation(stream)

        return steps

    def _ready(self, waits: Any) -> Callable[[], bool]:
        if waits is None:
            return lambda: True
        sig, i, cmp, value = waits
        word = sig.word_of(self.rank, value)
        return lambda: bool(sig.holds(self.rank, i, cmp, word))


class ChosenWorld(World):
    """A world in which deliveries land when chosen, after what they may not overtake."""

    new_cta = ChosenCta

    def __init__(self, chooser: Chooser, *args: Any) -> None:
        super().__init__(*args)
        self.schedule = Schedule(chooser)

    def run(self) -> None:
        self.schedule.run(self.env)

    def _landing(self, about: Sent, land: Callable[[Any], Any]) -> Callable[[Any], None]:
        """*land* for a stream's signal to its own PE, which is no step of its own."""
        assert about.word is not None
        sig, i, op = about.word
        word = _word(sig, about.pe, i, op)

        def landing(event: Any) -> None:
            land(event)
            self.schedule.landed.add(word.place)
            if self.schedule.current is not None:
                self.schedule.current.touches.append(word)

        return landing

    def may_stay_hidden(self) -> bool:
        if self.schedule.sharing is not None:
            self.schedule.sharing.left.add("how long GPU-scope signals stay hidden from peers")
        return super().may_stay_hidden()

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
        touches = [
            touch(view, "write", part[0], part[1].shape) if part else touch(view, "write")
            for view, *part in about.writes
        ]
        touches += [touch(view, "read") for view in about.reads]
        name = about.issuer if of_stream else about.issuer.name
        parts = [str(view) for view, *_ in about.writes]
        if about.word is not None:
            sig, i, op = about.word
            touches.append(_word(sig, about.pe, i, op))
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


class _Turn(NamedTuple):
    what: str
    touches: list[Touch]
    always: bool = False
    wait: tuple[SignalArray, int, str, int] | None = None


def touch(
    view: View,
    kind: str,
    offsets: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
) -> Touch:
    """An access to a tile of *view*, or to all of it."""
    starts = offsets or (0,) * len(view.shape)
    sizes = shape or view.shape
    box = []
    for axis, (start, size, limit) in enumerate(zip(starts, sizes, view.shape, strict=True)):
        base = view.row0 if axis == 0 else 0
        box.append((base + max(start, 0), base + min(start + size, limit)))
    return Touch(("memory", view.buffer.name, view.pe), kind, tuple(box))


def _word(sig: SignalArray, pe: int, i: int, kind: str) -> Touch:
    return Touch(("word", sig.key, pe, i), kind)


def _slots(rank: int) -> Touch:
    return Touch(("slots", rank), "take")
