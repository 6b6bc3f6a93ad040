"""Where a program synchronises, and runs in which one of these places does nothing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A synchronising operation in the text: ``file:line`` and the operation's name."""

    place: str
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} at {self.place}"


@dataclass(slots=True)
class Sites:
    """Counts how often each site is reached; *without* is left out."""

    without: Site | None = None
    reached: dict[Site, int] = field(default_factory=dict)

    def leaves_out(self, operation: str, place: str) -> bool:
        """Note that *operation* is reached at *place*; whether it must do nothing."""
        site = Site(place, operation)
        self.reached[site] = self.reached.get(site, 0) + 1
        return site == self.without
