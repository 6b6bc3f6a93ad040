"""Host programs under a chooser: their streams stop where others can interfere."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import simpy

from tdsim.engine.stream import Stream
from tdsim.sim.choices import Step, Touch
from tdsim.sim.chosen import ChosenWorld
from tdsim.sim.context import HostContext
from tdsim.sim.signals import SignalArray, Waiter
from tdsim.sim.tile import View
from tdsim.sim.touches import named, signal_word, slots, touch


class _Turn(NamedTuple):
    what: str
    touches: list[Touch]
    always: bool = False
    wait: tuple[SignalArray, int, str, int] | None = None


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
            self._turn = _Turn(f"launches {kernel.name}", [slots(self.rank)], always=True)
        super().launch(kernel, *args, **options)

    def copy(self, dst: View, src: View, stream: Stream | None = None) -> None:
        touches = [touch(src, "read"), touch(dst, "write")]
        what = f"copies {named(touches[0])} to {named(touches[1])}"
        self._turn = _Turn(what, touches)
        super().copy(dst, src, stream)

    def signal_op(
        self, sig: SignalArray, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        own, touches = pe == self.rank, self.world.epoch(self.rank, "read")
        if own or touches:
            what = f"sends {op} {value} to {sig.label(i)} on PE {pe}"
            touches += [signal_word(sig, pe, i, op)] if own else []
            self._turn = _Turn(what, touches, always=own)
        super().signal_op(sig, i, value, op, pe, stream)

    def signal_wait_until(
        self, sig: SignalArray, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        what = f"passes its wait for {sig.label(i)} {cmp} {value}"
        touches = [signal_word(sig, self.rank, i, "read"), *self.world.epoch(self.rank, "read")]
        self._turn = _Turn(what, touches, wait=(sig, i, cmp, value))
        super().signal_wait_until(sig, i, cmp, value, stream)

    def fill(self, steps: Any) -> None:
        turn = _Turn("is given the tensors of a call", self._tensors("write"))
        super().fill(lambda: self._stopped(turn, lambda _: steps())(self.main))

    def end_call(self, finish: Callable[[], None]) -> None:
        touches = [*self._tensors("read"), *self.world.epoch(self.rank, "write")]
        self._turn = _Turn("ends a call", touches)
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
