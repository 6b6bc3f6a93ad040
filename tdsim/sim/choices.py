"""Choices: who goes next, wherever a program does not say.

Under a chooser, time decides nothing. A run stops whenever each CTA is about to touch what
others touch, each delivery is about to land and each stream to start something; these are the
pending steps. The chooser names one, it is taken, and the run goes on to the next stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

import simpy

Place = tuple[Any, ...]
"""What a step touches: memory of a PE, a signal word, the SM slots of a PE."""


class Touch(NamedTuple):
    """An access to the *box* of *place*: from and to along each axis. *kind*: "read" or not."""

    place: Place
    kind: str
    box: tuple[tuple[int, int], ...] = ()

    def meets(self, other: Touch) -> bool:
        """Whether the order of the two accesses can matter."""
        return (
            self.place == other.place
            and (self.kind != "read" or other.kind != "read")
            and all(a < d and c < b for (a, b), (c, d) in zip(self.box, other.box, strict=True))
        )


@dataclass(slots=True, kw_only=True)
class Step:
    """What *actor* does when it is chosen.

    A *wait* is enabled while its signal compares true; anything else stays enabled once it is.
    A *late* step is the first of a CTA that had to wait for a slot: whichever CTA gave it up.
    """

    actor: str
    what: str
    where: str
    touches: list[Touch]
    ready: Callable[[], bool]
    fire: Callable[[], Any]
    gates: Sequence[simpy.Event] = ()
    wait: bool = False
    late: bool = False
    enabled: bool = False
    born: int = 0
    """How many steps had been taken when it became pending."""

    def __str__(self) -> str:
        return f"{self.what} ({self.where})" if self.where else self.what


class Chooser(Protocol):
    """Decides who goes next; *pending* steps come in the order in which they became so."""

    sharing: Sharing | None

    def choose(self, pending: Sequence[Step]) -> Step:
        """One of the enabled steps, of which there is at least one."""

    def watch(self, schedule: Schedule) -> None:
        """A run begins; *schedule* is its."""

    def ended(self, pending: Sequence[Step]) -> None:
        """No step is enabled: all is done, or what is pending waits for ever."""


@dataclass(slots=True)
class Sharing:
    """What more than one actor touches, as far as runs until now have shown.

    Only there can the order of steps matter, so only there does a run under exploration stop.
    Whoever finds something new (*grew*) must explore again from the start.
    """

    places: set[Place] = field(default_factory=set)
    streams: set[int] = field(default_factory=set)
    """PEs with more than one stream."""
    grew: bool = False
    left: set[str] = field(default_factory=set)
    """Choices that a run made by its seed, because no step stands for them."""
    _seen: dict[Place, set[tuple[str, Touch]]] = field(default_factory=dict)

    def has(self, actor: str, touches: Sequence[Touch]) -> bool:
        """Whether others touch what *actor* is about to touch."""
        found = False
        for touch in touches:
            if touch.place in self.places:
                found = True
                continue
            seen = self._seen.setdefault(touch.place, set())
            if any(actor != other and touch.meets(theirs) for other, theirs in seen):
                self.places.add(touch.place)
                self.grew = found = True
            seen.add((actor, touch))
        return found

    def second_stream(self, rank: int) -> None:
        if rank not in self.streams:
            self.streams.add(rank)
            self.grew = True


class Schedule:
    """The pending steps of a run and the chooser's way through them."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser, self.sharing = chooser, chooser.sharing
        self.pending: dict[str, Step] = {}
        self.enabled: dict[str, Step] = {}
        """Those that could be taken now; without an order that means anything."""
        self.fresh: list[Step] = []
        """Those that became pending since the last choice, in that order."""
        self._waits: dict[Place, dict[str, Step]] = {}
        self._gated: dict[str, Step] = {}
        self.current: Step | None = None
        self.taken = 0
        self.landed: set[Place] = set()
        """Words that have changed since the last step although no step stands for it."""
        self.learnt: list[tuple[Any, Any]] = []
        """Who has learnt what another knows, since the last step: see :mod:`.causes`."""
        self.sent: dict[str, int] = {}
        """Deliveries by issuer, for their names."""
        chooser.watch(self)

    def shared(self, actor: str, touches: Sequence[Touch]) -> bool:
        return self.sharing is None or self.sharing.has(actor, touches)

    def offer(self, step: Step) -> None:
        """Make *step* pending; its actor has no other one."""
        step.born = self.taken
        self.pending[step.actor] = step
        self.fresh.append(step)

    def run(self, env: simpy.Environment) -> None:
        """Let *env* run dry between steps until none is enabled any more."""
        while True:
            env.run()
            pending = list(self.pending.values())
            self._see_who_can()
            if not self.enabled:
                break
            self.current = self.chooser.choose(pending)
            self.learnt.clear()
            self.fresh.clear()
            self._take(self.current)
            self.taken += 1
            self.current.fire()
        self.chooser.ended(pending)

    def _take(self, step: Step) -> None:
        """*step* is pending no more."""
        del self.pending[step.actor], self.enabled[step.actor]
        if step.wait:
            del self._waits[step.touches[0].place][step.actor]

    def _see_who_can(self) -> None:
        """Look at waits whose word has changed, at what was gated and at new steps."""
        touches = self.current.touches if self.current else ()
        changed = {touch.place for touch in touches} | self.landed
        self.landed = set()
        for place in changed:
            for step in self._waits.get(place, {}).values():
                self._look(step)
        for step in list(self._gated.values()):
            self._look(step)
        for step in self.fresh:
            if step.wait:
                self._waits.setdefault(step.touches[0].place, {})[step.actor] = step
            self._look(step)

    def _look(self, step: Step) -> None:
        """Note whether *step* could be taken now."""
        step.enabled = step.ready()
        if step.enabled:
            self.enabled[step.actor] = step
            self._gated.pop(step.actor, None)
        else:
            self.enabled.pop(step.actor, None)
            if not step.wait:
                self._gated[step.actor] = step


class RandomChooser:
    """Actors get random priorities, which change at random: reorderings far apart are likely.

    Each new actor goes before or after any other with equal chance; every few steps the one
    that would go next falls behind all others. The same *seed* makes the same choices.
    """

    def __init__(self, seed: int, change: float = 0.1, sharing: Sharing | None = None) -> None:
        self.sharing = sharing
        self.taken: list[Step] = []
        self._random, self._change = Random(seed), change
        self._priority: dict[str, float] = {}

    def choose(self, pending: Sequence[Step]) -> Step:
        priority, enabled = self._priority, self._schedule.enabled
        for step in self._schedule.fresh:
            if step.actor not in priority:
                priority[step.actor] = self._random.random()
        first = max(enabled, key=priority.__getitem__)
        if self._random.random() < self._change:
            priority[first] = -self._random.random()
            first = max(enabled, key=priority.__getitem__)
        self.taken.append(enabled[first])
        return enabled[first]

    def ended(self, pending: Sequence[Step]) -> None:
        """Nothing is kept."""

    def watch(self, schedule: Schedule) -> None:
        self._schedule = schedule


class Replay:
    """Repeats a recorded schedule, the *actors* of its steps, then goes on in order."""

    def __init__(self, actors: Sequence[str], sharing: Sharing | None = None) -> None:
        self.actors, self.sharing = actors, sharing
        self.taken: list[Step] = []
        self.stuck: Sequence[Step] = ()

    def choose(self, pending: Sequence[Step]) -> Step:
        enabled = {step.actor: step for step in pending if step.enabled}
        wanted = self.actors[len(self.taken)] if len(self.taken) < len(self.actors) else None
        chosen = enabled.get(wanted) if wanted in enabled else next(iter(enabled.values()))
        assert chosen is not None
        self.taken.append(chosen)
        return chosen

    def ended(self, pending: Sequence[Step]) -> None:
        self.stuck = pending

    def watch(self, schedule: Schedule) -> None:
        """It needs to know no more."""
