"""Shadow memory: who wrote each element last, and who has read it since.

One pair of integer arrays beside each PE's copy of a buffer, so ranges are exact to the
element and a tile is looked up at NumPy's speed. All views of a buffer have its element type,
so elements are as exact as bytes: neighbours of one byte never meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdsim.check.clocks import Clock, Stamp, knows
from tdsim.check.story import Event

_MAX_READERS = 16
"""Readers from which a set is worth thinning."""


@dataclass(frozen=True, slots=True)
class Access:
    """Something that was done to memory: by whom, where in the text, and what makes it past.

    *event* is how a story tells it.
    """

    kind: str
    who: str
    rank: int
    place: str
    actor: int
    past: tuple[Stamp, ...]
    event: Event

    def __str__(self) -> str:
        return f"{self.kind} by {self.who} at {self.place}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses to the same elements of a buffer, of which none is known to be first."""

    earlier: Access
    later: Access
    buffer: Any
    pe: int
    first: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def bytes(self) -> tuple[int, int]:
        """First and last byte of the elements, from the start of the buffer."""
        size, shape = self.buffer.dtype.itemsize, self.buffer.shape
        begin, end = (int(np.ravel_multi_index(at, shape)) for at in (self.first, self.last))
        return begin * size, end * size + size - 1


class Shadow:
    """The shadow of one buffer on one PE."""

    def __init__(self, buffer: Any, pe: int, accesses: list[Access]) -> None:
        self.buffer, self.pe = buffer, pe
        self._accesses = accesses
        self._writer = np.zeros(buffer.shape, np.int32)
        self._readers = np.zeros(buffer.shape, np.int32)
        self._sets: list[dict[int, int]] = [{}]
        self._with: dict[tuple[int, int], int] = {}

    def read(self, window: Any, access: int, clock: Clock) -> Iterator[Conflict]:
        """Note that *access*, an index, reads *window* knowing *clock*."""
        yield from self._unknown(self._writer[window], window, access, clock)
        readers = self._readers[window]
        old = _values(readers)
        if len(old) == 1:
            readers[...] = self._joined(old[0], access, clock)
            return
        for before in old:
            readers[readers == before] = -self._joined(before, access, clock)
        np.negative(readers, out=readers)

    def write(
        self, window: Any, access: int, clock: Clock, atomic: bool = False
    ) -> Iterator[Conflict]:
        """Note that *access* writes *window*; *atomic* ones do not race with one another."""
        writer, readers = self._writer[window], self._readers[window]
        yield from self._unknown(writer, window, access, clock, atomic)
        for before in _values(readers):
            for reader in self._sets[before].values():
                if reader != access and not knows(clock, self._accesses[reader].past):
                    yield self._conflict(readers, before, reader, access, window)
        writer[...] = access
        readers[...] = 0

    def _unknown(
        self, writer: Any, window: Any, access: int, clock: Clock, atomic: bool = False
    ) -> Iterator[Conflict]:
        """Conflicts with the last writers."""
        for before in _values(writer):
            if before in (0, access):
                continue
            found = self._accesses[before]
            if not (atomic and found.kind == "atomic") and not knows(clock, found.past):
                yield self._conflict(writer, before, before, access, window)

    def _joined(self, before: int, access: int, clock: Clock) -> int:
        """The set of readers *before* with *access*; equal ones have one number."""
        key = (before, access)
        known = self._with.get(key)
        if known is None:
            members, actor = self._sets[before], self._accesses[access].actor
            if members.get(actor) == access:
                known = before
            else:
                if len(members) > _MAX_READERS:
                    members = {
                        a: r
                        for a, r in members.items()
                        if not knows(clock, self._accesses[r].past)
                    }
                self._sets.append({**members, actor: access})
                known = len(self._sets) - 1
            self._with[key] = known
        return known

    def _conflict(
        self, layer: Any, value: int, earlier: int, later: int, window: Any
    ) -> Conflict:
        at = np.argwhere(layer == value)
        base = [part.start for part in window]
        first, last = (
            tuple(int(b + x) for b, x in zip(base, edge, strict=True))
            for edge in (at[0], at[-1])
        )
        found = self._accesses
        return Conflict(found[earlier], found[later], self.buffer, self.pe, first, last)


def _values(layer: Any) -> list[int]:
    """The distinct values of *layer*, quickly if there is only one."""
    if layer.size == 0:
        return []
    first = layer[(0,) * layer.ndim]
    if layer.size == 1 or (layer == first).all():
        return [int(first)]
    return [int(v) for v in np.unique(layer)]
