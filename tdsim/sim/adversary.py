"""What hardware leaves open, decided by chance: a check must be right whatever it does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tdsim.units import us

MAX_PAUSE_PS = us(20)
"""The longest pause of a CTA, and the longest that a grid waits for its slots."""
PAUSES = 1 / 8
"""The part of visible operations before which a CTA pauses."""


class Adversary:
    """Admits grids of several streams in any order, lets CTAs pause, hides what it may hide.

    The admission of an SM pool (see :class:`tdsim.engine.sm.Admission`), for all GPUs.
    """

    def __init__(self, env: Any, chance: random.Random) -> None:
        self._env, self._random = env, chance
        self._place: float | None = None
        """Where the favourite is among the waiting grids; None: CTAs of all are mixed."""

    def later(self, call: Callable[[], None]) -> None:
        self._place = self._random.choice((None, self._random.random()))
        event = self._env.timeout(self._random.randrange(MAX_PAUSE_PS))
        event.callbacks.append(lambda _: call())

    def pick(self, count: int) -> int:
        place = self._random.random() if self._place is None else self._place
        return int(place * count)

    def pause(self) -> int:
        """How long a CTA stands still before what others may see: most times not at all."""
        return self._random.randrange(MAX_PAUSE_PS) if self._random.random() < PAUSES else 0

    def hides(self) -> bool:
        """Whether what is written at GPU scope stays unseen by peers until its kernel ends."""
        return self._random.random() < 0.5
