"""The streams of what happens: traces, counters and checkers only listen to them."""

from __future__ import annotations

from typing import Any

from tdsim.engine.timeline import Segment


class Listener:
    """Receives what happens in a run; override what you need. Times are picoseconds.

    A run without listeners makes none of these calls.
    """

    def segment(self, segment: Segment) -> None:
        """A stretch of time ended on some lane."""

    def signal(
        self, now: int, cause: Segment | None, rank: int, lane: str, pe: int, name: str, i: int
    ) -> None:
        """A signal of *rank*'s *lane* landed as word *i* of *name* on *pe*."""

    def rate(self, link: Any, now: int, rate: int) -> None:
        """The traffic on *link* is *rate* bytes/s from *now* on."""


class OrderListener:
    """Receives every access to memory and everything that orders one before another.

    An *actor* is whatever executes in program order: a CTA or a stream. Calls come in an order
    that agrees with the happens-before order of the run. A run without one makes no calls.
    """

    def stream_begins(self, stream: Any, rank: int, place: str) -> None:
        """The next operation of *stream* takes its turn; *place* is its line of host code."""

    def stream_ends(self, stream: Any) -> None:
        """That operation is complete."""

    def launch_begins(self, launch: Any, stream: Any) -> None:
        """The operation of *stream* is a kernel launch."""

    def cta_begins(self, cta: Any) -> None:
        """A program instance got its slot."""

    def cta_ends(self, cta: Any) -> None:
        """It returned; its non-blocking puts may still be under way."""

    def access(
        self, actor: Any, kind: str, view: Any, offsets: Any = None, shape: Any = None
    ) -> None:
        """*actor* makes a ``"read"``, ``"write"`` or ``"atomic"`` of a tile or a whole view."""

    def put(
        self, cta: Any, target: Any, src: Any, blocking: bool, signals: bool, ordered: bool
    ) -> Any:
        """*cta* puts *src* into *target*, a view on the other PE; returns what signals it.

        *ordered*: the path keeps the order of what a CTA sends over it.
        """

    def fence(self, cta: Any) -> None:
        """*cta*'s earlier puts come before its later ones, PE by PE."""

    def quiet(self, cta: Any) -> None:
        """*cta*'s puts are complete."""

    def release(self, actor: Any, pe: int, scope: str = "sys") -> Any:
        """*actor* sends a signal to *pe*; returns what :meth:`landed` is given.

        At *scope* ``"gpu"`` it tells another PE nothing of what came before.
        """

    def landed(self, released: Any, sig: Any, pe: int, i: int, op: str) -> None:
        """A signal has changed word *i* of *sig* on *pe*."""

    def acquire(self, actor: Any, sig: Any, pe: int, i: int, cmp: str, word: int) -> None:
        """*actor*'s wait for that word is over."""

    def arrive(self, barrier: str, actor: Any, rank: int) -> Any:
        """*actor* enters a barrier of all PEs; returns what :meth:`leave` is given."""

    def leave(self, arrived: Any, actor: Any) -> None:
        """*actor* leaves it."""

    def record(self, event: Any, stream: Any) -> None:
        """*event* stands for what *stream* holds so far."""

    def wait_event(self, event: Any, stream: Any) -> None:
        """*stream* continues after *event*."""
