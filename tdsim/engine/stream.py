"""Streams and hardware queues: work in order, issued through a few connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, None]
Operation = Callable[[], Steps]


class Place:
    """An operation's place in a hardware queue: whether it has *left*, and who waits for it."""

    __slots__ = ("left", "waiter")

    def __init__(self) -> None:
        self.left = False
        self.waiter: simpy.Event | None = None


class Connection:
    """A hardware queue. Operations of all its streams are issued in the order of enqueueing."""

    __slots__ = ("tail",)

    def __init__(self) -> None:
        self.tail: Place | None = None


class Stream:
    """A CUDA stream: operations run one after another, each a generator of events.

    With several streams on one connection (``CUDA_DEVICE_MAX_CONNECTIONS`` fewer than
    streams), an operation also waits until the ones before it have left the queue: a kernel or
    copy leaves when the device has taken it, a wait when it is over.
    """

    def __init__(self, env: simpy.Environment, name: str, connection: Connection) -> None:
        self.env, self.name, self.connection = env, name, connection
        self.state: Any = None
        """Last segment of the timeline on this stream; owned by the simulator above."""
        self._queue: deque[tuple[Operation, Place | None, Place]] = deque()
        self._wake: simpy.Event | None = None
        self._place = Place()
        self.running = False
        env.process(self._run())

    def enqueue(self, operation: Operation) -> None:
        """Append *operation*; it runs when all earlier ones are complete."""
        before, self.connection.tail = self.connection.tail, Place()
        self._queue.append((operation, before, self.connection.tail))
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake.succeed()

    @property
    def idle(self) -> bool:
        """Whether everything enqueued so far is complete."""
        return not self._queue and not self.running

    def leave_queue(self) -> None:
        """Let the next operation of the hardware queue be issued; at the latest at the end."""
        self._place.left = True
        if self._place.waiter is not None:
            waiter, self._place.waiter = self._place.waiter, None
            waiter.succeed()

    def _run(self) -> Steps:
        while True:
            if not self._queue:
                self._wake = simpy.Event(self.env)
                yield self._wake
            operation, before, self._place = self._queue.popleft()
            self.running = True
            if before is not None and not before.left:
                before.waiter = simpy.Event(self.env)
                yield before.waiter
            yield from operation()
            self.running = False
            self.leave_queue()


class CopyEngines:
    """The copy engines of one GPU: each carries one copy at a time, first come first served."""

    def __init__(self, env: simpy.Environment, count: int) -> None:
        self.env = env
        self._free = list(range(count))[::-1]
        self._waiting: deque[simpy.Event] = deque()

    def acquire(self) -> Generator[simpy.Event, Any, int]:
        """Wait for an engine and return its index."""
        if self._free:
            return self._free.pop()
        turn = simpy.Event(self.env)
        self._waiting.append(turn)
        engine: int = yield turn
        return engine

    def release(self, engine: int) -> None:
        """Hand *engine* to the next waiting copy, or leave it idle."""
        if self._waiting:
            self._waiting.popleft().succeed(engine)
        else:
            self._free.append(engine)
