"""What a check found, with what a reader needs to find it in the program and to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tdsim.check.happens_before import HappensBefore
from tdsim.check.shadow import Conflict
from tdsim.check.story import Event
from tdsim.check.verdicts import HANG, RACE
from tdsim.check.words import Landing, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: what kind of verdict, at which seed, and the explanation.

    *details* are the same facts for programs: accesses, place, buffer and byte range. *stuck*:
    the run itself ended so, with waits that nobody answers.
    """

    verdict: str
    seed: int
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    story: tuple[Event, ...] = ()
    stuck: bool = False


def findings_of(seen: HappensBefore, seed: int) -> Iterator[Finding]:
    """Lost signals first, because they explain more, then races."""
    shown = set()
    for word, wait, landing, told in seen.lost.values():
        places = (wait.place, landing.place)
        if places in shown:
            continue
        shown.add(places)
        yield replace(_lost(word, wait, landing, seed), story=told)
    for conflict, told in seen.conflicts.values():
        yield replace(_race(conflict, seed), story=told)


def _race(conflict: Conflict, seed: int) -> Finding:
    first, last = conflict.bytes
    earlier, later, buffer = conflict.earlier, conflict.later, conflict.buffer
    message = (
        f"{earlier} and {later} meet in bytes {first} to {last} of {buffer.name} on PE "
        f"{conflict.pe}, and nothing orders them; {_cure(conflict)}"
    )
    details = {
        "buffer": buffer.name,
        "pe": conflict.pe,
        "bytes": [first, last],
        "accesses": [
            {"kind": a.kind, "who": a.who, "rank": a.rank, "place": a.place}
            for a in (earlier, later)
        ],
    }
    return Finding(verdict=RACE, seed=seed, message=message, details=details)


def _cure(conflict: Conflict) -> str:
    """What would have ordered the two, as their kinds suggest."""
    earlier, later = conflict.earlier, conflict.later
    if earlier.kind == "put (read)":
        return "a non-blocking put reads its source late: call td.quiet before it is reused"
    if earlier.kind == "read":
        return (
            f"{later.who} must learn first that {earlier.who} has read (a barrier, or a signal "
            "back), or write to another buffer"
        )
    if later.kind.startswith("put"):
        return (
            f"{later.who} must learn first that {earlier.who} has written (a signal, or a "
            "barrier), or td.fence must stand between two puts of one program instance"
        )
    if "read" in later.kind:
        when = "with the put, or after td.fence or td.quiet"
        if earlier.kind != "put (write)":
            when = "after it has written"
        return (
            f"{later.who} must wait for a signal that {earlier.who} sends {when}, and that no "
            "other signal can stand in for"
        )
    return f"let {later.who} wait for a signal that {earlier.who} sends afterwards"


def _lost(word: str, wait: Wait, landing: Landing, seed: int) -> Finding:
    message = (
        f"{word} on PE {wait.rank} may be overwritten before its waiter has seen it: "
        f"{wait.who} at {wait.place} waits for {wait.cmp}, and the update of "
        f"{landing.event.who} at {landing.place} undoes that without knowing that the wait "
        'is over; wait with "ge" for values that only grow, or let the waiter answer before '
        "the next update"
    )
    details = {
        "word": word,
        "pe": wait.rank,
        "wait": {"who": wait.who, "rank": wait.rank, "place": wait.place, "cmp": wait.cmp},
        "update": {"who": landing.event.who, "place": landing.place, "value": landing.value},
    }
    return Finding(verdict=HANG, seed=seed, message=message, details=details)
