"""Signal words as the happens-before analysis sees them: what landed, and who waited for it.

A wait is taken to have been satisfied by the earliest landing that could satisfy it: a faster
waiter would have seen no more. Adds carry on what was released before them (a chain of atomic
updates), a set begins anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tdsim.check.clocks import Clock, Stamp, join, knows
from tdsim.check.story import Event
from tdsim.sim.signals import COMPARE, STAYS_TRUE

_KEPT = 256
"""Landings of a word that are remembered; a wait that needs an older one takes the oldest."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that is over: what it asked for, and what must be known for it to be past."""

    who: str
    rank: int
    place: str
    cmp: str
    value: int
    past: tuple[Stamp, ...]


@dataclass(frozen=True, slots=True)
class Landing:
    """The word after an update, what its waiters learn, and who sent it."""

    position: int
    value: int
    clock: Clock
    event: Event
    place: str


class Word:
    """One signal word on one PE; *number* is the actor that counts its landings."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.value = 0
        self.count = 0
        self._landings: deque[Landing] = deque(maxlen=_KEPT)
        self._waits: dict[tuple[int, str, int], Wait] = {}
        self._missed: list[Wait] = []

    def land(
        self, value: int, clock: Clock, op: str, event: Event, place: str
    ) -> tuple[list[tuple[Wait, Landing]], list[Wait]]:
        """An update made the word *value*: waits that it may have come too early for.

        And those of an earlier update that this one answers after all.
        """
        last = self._landings[-1] if self._landings else None
        told = dict(clock)
        if op == "add" and last is not None:
            join(told, last.clock)
        self.count += 1
        told[self.number] = self.count
        landing = Landing(self.count, value, told, event, place)
        falls, self.value = value < self.value, value
        answered = [
            w
            for w in self._missed
            if COMPARE[w.cmp](value, w.value) and not knows(clock, w.past)
        ]
        lost = []
        for key, wait in list(self._waits.items()):
            if wait.cmp in STAYS_TRUE and not falls:
                continue
            if not COMPARE[wait.cmp](value, wait.value):
                del self._waits[key]
                if not knows(clock, wait.past):
                    lost.append((wait, landing))
        self._missed = [w for w in self._missed if w not in answered] + [w for w, _ in lost]
        for wait in answered:
            self.waited(wait.past[0][0], wait)  # until it is undone again
        self._landings.append(landing)
        return lost, answered

    def satisfied_by(self, clock: Clock, cmp: str, value: int) -> Landing | None:
        """The earliest landing that compares true and that *clock* does not know to be over.

        None if the word satisfied the wait as it was before any landing.
        """
        known = clock.get(self.number, 0)
        if known == 0 and COMPARE[cmp](0, value):
            return None
        for landing in self._landings:
            if landing.position >= known and COMPARE[cmp](landing.value, value):
                return landing
        return None

    def waited(self, actor: int, wait: Wait) -> None:
        """Remember that *actor*'s *wait* is over."""
        self._waits[actor, wait.cmp, 0 if wait.cmp in STAYS_TRUE else wait.value] = wait
