"""The one stream of what happens: traces, counters and checkers only listen to it."""

from __future__ import annotations

from typing import Any

from tdsim.engine.timeline import Segment


class Listener:
    """Receives what happens in a run; override what you need. Times are picoseconds.

    A run without listeners makes none of these calls.
    """

    wants_memory = False
    """Whether :meth:`memory` is wanted; it costs a call for each tile."""

    def segment(self, segment: Segment) -> None:
        """A stretch of time ended on some lane."""

    def signal(
        self, now: int, cause: Segment | None, rank: int, lane: str, pe: int, name: str, i: int
    ) -> None:
        """A signal of *rank*'s *lane* landed as word *i* of *name* on *pe*."""

    def rate(self, link: Any, now: int, rate: int) -> None:
        """The traffic on *link* is *rate* bytes/s from *now* on."""

    def memory(
        self, now: int, who: str, kind: str, view: Any, offsets: Any, shape: Any, where: str
    ) -> None:
        """Program instance *who* read or wrote (*kind*) a tile of *view*."""
