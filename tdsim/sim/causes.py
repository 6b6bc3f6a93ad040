"""What follows from what without a step of its own: ends of kernels, stream order, barriers."""

from __future__ import annotations

from typing import Any

from tdsim.sim.choices import Schedule
from tdsim.sim.hooks import OrderListener


class Causes(OrderListener):
    """Tells *schedule* who learns what others have done, between its steps."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._streams: dict[Any, str] = {}
        self._launched: dict[Any, str] = {}
        self._gathered: dict[str, tuple[set[int], object]] = {}

    def stream_begins(self, stream: Any, rank: int, place: str) -> None:
        self._streams[stream] = f"PE {rank} stream {stream.name}"

    def launch_begins(self, launch: Any, stream: Any) -> None:
        self._launched[launch] = self._streams[stream]

    def cta_begins(self, cta: Any) -> None:
        if not cta.late:  # else it may owe its slot to any of several
            self._learns(cta.actor, self._launched[cta.launch])

    def cta_ends(self, cta: Any) -> None:
        self._learns(self._launched[cta.launch], cta.actor)

    def record(self, event: Any, stream: Any) -> None:
        self._learns(event, self._streams[stream])

    def wait_event(self, event: Any, stream: Any) -> None:
        self._learns(self._streams[stream], event)

    def arrive(self, barrier: str, actor: Any, rank: int) -> Any:
        ranks, meeting = self._gathered.get(barrier, (set(), object()))
        if rank in ranks:
            ranks, meeting = set(), object()
        ranks.add(rank)
        self._gathered[barrier] = ranks, meeting
        self._learns(meeting, self._name(actor))
        return meeting

    def leave(self, arrived: Any, actor: Any) -> None:
        self._learns(self._name(actor), arrived)

    def _name(self, actor: Any) -> str:
        name: str = self._streams.get(actor) or actor.actor
        return name

    def _learns(self, who: Any, of: Any) -> None:
        self._schedule.learnt.append((who, of))
