"""Vector clocks: what each actor knows to have happened, kept small by what covers what.

A clock maps the number of an actor to a time of it: everything that the actor did up to that
time happened before. A CTA is one actor, a stream another; puts that may land out of order
are counted by actors of their own. Once the end of a kernel is known, nothing of its CTAs
needs an entry: *covered* says which entry of the stream stands for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Clock = dict[int, int]
"""Actor number to the time up to which its deeds are known to be done."""
Key = TypeVar("Key", bound=Any)
"""Whatever names an actor: a number here, a name in an exploration."""
Stamp = tuple[int, int]
"""An actor number and a time of it."""

_MIN_LARGE = 64
"""Entries from which a clock is worth pruning."""


def join(clock: dict[Key, int], other: Mapping[Key, int]) -> None:
    """Let *clock* know what *other* knows."""
    get = clock.get
    clock.update({actor: time for actor, time in other.items() if get(actor, 0) < time})


def knows(clock: Clock, stamps: Iterable[Stamp]) -> bool:
    """Whether any of *stamps*, each of which would do, is in *clock*."""
    return any(clock.get(actor, 0) >= time for actor, time in stamps)


class Actor:
    """Who executes in program order: a CTA or a stream.

    *number* counts its own time; *blocking* and *non_blocking* are the actors that count its
    puts on paths without order. *covered* are the same three of the stream when the kernel
    has ended (for a stream: none).
    """

    __slots__ = (
        "clock", "covered", "learned", "name", "numbers", "outstanding", "rank", "sent", "time",
    )  # fmt: skip

    def __init__(
        self, name: str, rank: int, number: int, clock: Clock, covered: tuple[Stamp, ...] = ()
    ) -> None:
        self.name, self.rank, self.clock, self.covered = name, rank, clock, covered
        self.numbers = (number, number + 1, number + 2)
        self.time = 1
        self.sent = [0, 0]
        self.outstanding: list[Put] = []
        self.learned = False
        clock[number] = 1

    @property
    def number(self) -> int:
        return self.numbers[0]

    def stamps(self) -> tuple[Stamp, ...]:
        """What any of must be known for this moment of the actor to be past."""
        return ((self.numbers[0], self.time), *self.covered[:1])

    def tick(self) -> None:
        """Begin a new time: what was sent until now does not tell of what comes."""
        self.time += 1
        self.clock[self.numbers[0]] = self.time

    def tell_before(self, pe: int, sends: Clock) -> None:
        """Add to *sends* the puts that what is sent to *pe* now may not overtake."""
        for put in self.outstanding:
            if put.pe == pe and (put.fenced or put.ordered):
                sends[put.number] = 1

    def learn(self, other: Clock) -> None:
        self.learned = True
        join(self.clock, other)


class Put:
    """A put to *pe* that is not over when it returns: an actor that does one thing.

    *ordered*: what follows to *pe* stays behind it. Any of *past* tells that it is over.
    """

    __slots__ = ("fenced", "number", "ordered", "past", "pe")

    def __init__(self, number: int, pe: int, ordered: bool, past: tuple[Stamp, ...]) -> None:
        self.number, self.pe, self.ordered, self.past = number, pe, ordered, past
        self.fenced = False


class Numbers:
    """Hands out actor numbers and remembers which stamps stand for which."""

    def __init__(self) -> None:
        self._next = 1
        self.covered: dict[int, Stamp] = {}

    def take(self, count: int, covered: tuple[Stamp, ...] = ()) -> int:
        """*count* new numbers; *covered* has for each the stamp that makes it needless."""
        first = self._next
        self._next += count
        for number, stamp in zip(range(first, first + count), covered, strict=False):
            self.covered[number] = stamp
        return first

    def prune(self, clock: Clock) -> None:
        """Drop the entries of *clock* that others of its entries stand for."""
        if len(clock) < _MIN_LARGE:
            return
        covered, get = self.covered, clock.get
        for number in list(clock):
            stamp = covered.get(number)
            if stamp is not None and get(stamp[0], 0) >= stamp[1]:
                del clock[number]
