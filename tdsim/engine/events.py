"""The event queue: SimPy's, in integer picoseconds."""

from __future__ import annotations

import simpy


class EventLoop(simpy.Environment):
    """SimPy's environment with an integer clock; time starts at 0."""

    @property
    def now(self) -> int:
        """The current time in picoseconds."""
        return self._now  # type: ignore[return-value]
