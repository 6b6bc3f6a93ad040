"""The last things that happened before a finding, in an order that explains it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEPT = 4096
"""Events that are remembered; a finding shows a few of the last."""
MAX_TOLD = 24


@dataclass(frozen=True, slots=True)
class Event:
    """*who* of *rank* did *what* at *place*; *cause* is the number of the event it answers."""

    number: int
    rank: int
    who: str
    what: str
    place: str
    cause: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number, "rank": self.rank, "who": self.who, "what": self.what,
            "place": self.place, "cause": self.cause,
        }  # fmt: skip


class Story:
    """A log of events, of which it keeps the last."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._count = 0

    def tell(
        self, rank: int, who: str, what: str, place: str = "", cause: int | None = None
    ) -> Event:
        """Add an event and return it."""
        self._count += 1
        event = Event(self._count, rank, who, what, place, cause)
        self._events.append(event)
        return event

    def about(self, actors: Iterable[str], first: Event | None = None) -> tuple[Event, ...]:
        """The last events of *actors* and what they answer, from *first* on, in order."""
        names = set(actors)
        known = {event.number: event for event in self._events}
        told: dict[int, Event] = {}
        if first is not None:
            told[first.number] = first
        begin = first.number if first is not None else 0
        for event in reversed(self._events):
            if len(told) >= MAX_TOLD or event.number < begin:
                break
            if event.who in names:
                told[event.number] = event
                answered = known.get(event.cause or 0)
                if answered is not None:
                    told[answered.number] = answered
        return tuple(told[number] for number in sorted(told))

    def last(self, count: int) -> tuple[Event, ...]:
        """The very last events of all."""
        return tuple(self._events)[-count:]


def lines_of(events: Iterable[Event]) -> list[str]:
    """*events* one to a line, for people."""
    return [
        f"{event.number}. {label(event)}" + (f" (answers {event.cause})" if event.cause else "")
        for event in events
    ]


def label(event: Event) -> str:
    """Who did what, and the line of the text."""
    place = f" ({Path(event.place).name})" if event.place else ""
    return f"{event.who}{place}: {event.what}"
