"""Signal arrays: words that peers write and program instances wait for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import simpy

from tdsim.engine.timeline import Segment
from tdsim.errors import ApiError

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
STAYS_TRUE = ("ge", "gt")
"""Compares that, once true of a word that only grows within a call, stay true."""


class SignalArray:
    """*count* words on each PE; in a call, word = epoch * per_call + value.

    *epoch* is per PE, because a fast PE may be a call ahead of a slow one. Only the PEs *pes*
    (all, unless a team owns it) have the words.
    """

    def __init__(
        self, name: str, count: int, per_call: int, n_pes: int, pes: Sequence[int] = ()
    ) -> None:
        self.name, self.count, self.per_call = name, count, per_call
        self.key = name
        """The name before the first kernel gave it one of its own."""
        self.pes = pes or range(n_pes)
        self.words = [[0] * count for _ in range(n_pes)]
        self.epoch = [0] * n_pes
        self.added = False
        self.writers: dict[tuple[int, int], str] = {}
        self.causes: dict[tuple[int, int], Segment | None] = {}
        self._labels: dict[int, str] = {}
        self._waiting: dict[tuple[int, int], list[tuple[str, int, simpy.Event]]] = {}

    def check_index(self, i: int, where: Callable[[], str], pe: int | None = None) -> None:
        if pe is not None and pe not in self.pes:
            raise ApiError(
                f"{self.name} belongs to a team without PE {pe}",
                where(),
                f"name one of PE {', '.join(map(str, self.pes))}",
            )
        if not 0 <= i < self.count:
            raise ApiError(
                f"signal index {i} of {self.name} is out of range",
                where(),
                f"{self.name} has {self.count} signals, 0 to {self.count - 1}",
            )

    def label(self, i: int) -> str:
        """How reports and traces name word *i*."""
        found = self._labels.get(i)
        if found is None:
            found = self._labels[i] = f"{self.name}[{i}]"
        return found

    def word_of(self, pe: int, value: int) -> int:
        """The word that stands for *value* in the current call of *pe*."""
        return self.epoch[pe] * self.per_call + value

    def relative(self, pe: int, word: int) -> int:
        """*word* as its user sees it, relative to the call of *pe*."""
        return word - self.epoch[pe] * self.per_call

    def holds(self, pe: int, i: int, cmp: str, word: int) -> bool:
        return COMPARE[cmp](self.words[pe][i], word)

    def wait(self, env: simpy.Environment, pe: int, i: int, cmp: str, word: int) -> simpy.Event:
        """An event that happens once the comparison is true; equal waits share one event."""
        waiting = self._waiting.setdefault((pe, i), [])
        for known_cmp, known_word, event in waiting:
            if known_cmp == cmp and known_word == word:
                return event
        event = simpy.Event(env)
        waiting.append((cmp, word, event))
        return event

    def update(
        self, pe: int, i: int, word: int, op: str, writer: str, cause: Segment | None
    ) -> None:
        """Apply a signal operation at its target and wake whom it satisfies.

        *word* is absolute for ``"set"`` and a difference for ``"add"``.
        """
        if op == "set":
            self.words[pe][i] = word
        else:
            self.words[pe][i] += word
            self.added = True
        self.writers[pe, i] = writer
        self.causes[pe, i] = cause
        waiting = self._waiting.get((pe, i))
        if waiting:
            still = []
            for entry in waiting:
                if COMPARE[entry[0]](self.words[pe][i], entry[1]):
                    entry[2].succeed(cause)
                else:
                    still.append(entry)
            self._waiting[pe, i] = still

    def describe(self, pe: int, i: int) -> str:
        """The word as its user sees it, relative to the call of *pe*."""
        seen = self.relative(pe, self.words[pe][i])
        writer = self.writers.get((pe, i))
        return f"is {seen}, last written by {writer}" if writer else f"is {seen}, never written"


class Waiter:
    """Who waits for what: the facts a hang report needs."""

    __slots__ = ("cmp", "i", "line", "name", "pe", "sig", "value")

    def __init__(
        self, name: str, pe: int, sig: SignalArray, i: int, cmp: str, value: int, line: Any
    ) -> None:
        self.name, self.pe, self.sig, self.i = name, pe, sig, i
        self.cmp, self.value, self.line = cmp, value, line

    def __str__(self) -> str:
        place = f" at {self.line}" if self.line else ""
        return (
            f"{self.name}{place}: waits for {self.sig.name}[{self.i}] {self.cmp} {self.value}; "
            f"it {self.sig.describe(self.pe, self.i)}"
        )
