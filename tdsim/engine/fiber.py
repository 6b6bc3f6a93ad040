"""Fibers: plain, straight-line functions that wait for events at any call depth.

A kernel must not contain ``yield``, because Triton could not compile it, yet in the simulator
it stops while it waits. A fiber is a greenlet that runs the function; waiting hands the event
to the event loop, whose callback switches back in. No SimPy process stands between, which
halves the cost of a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlet
import simpy


class Fiber:
    """One running function. *enter* is called whenever it gains control, before it does."""

    __slots__ = ("_enter", "_greenlet", "_resume_callback", "done", "env")

    def __init__(
        self, env: simpy.Environment, body: Callable[[], None], enter: Callable[[], None]
    ) -> None:
        self.env = env
        self.done = simpy.Event(env)
        self._enter = enter
        self._greenlet = greenlet.greenlet(lambda _: body())
        self._resume_callback = self._resume
        start = simpy.Event(env)
        start.callbacks.append(self._resume_callback)
        start.succeed()

    @property
    def frame(self) -> Any:
        """The innermost Python frame while the fiber waits, for reports; None otherwise."""
        return self._greenlet.gr_frame

    def _resume(self, event: simpy.Event) -> None:
        fiber = self._greenlet
        self._enter()
        target = fiber.switch(event._value)
        while not fiber.dead:
            callbacks = target.callbacks
            if callbacks is not None:
                callbacks.append(self._resume_callback)
                return
            target = fiber.switch(target._value)  # it has happened already: go on at once
        self.done.succeed()


def wait(event: simpy.Event) -> Any:
    """Park the calling fiber until *event* happens; return the event's value."""
    parent = greenlet.getcurrent().parent
    if parent is None:
        raise RuntimeError(
            "wait() called outside a fiber; start one with Fiber(env, body, enter)"
        )
    return parent.switch(event)
