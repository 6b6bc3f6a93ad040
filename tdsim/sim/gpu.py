"""One rank's device, as the world holds it."""

from __future__ import annotations

from tdsim.engine.events import EventLoop
from tdsim.engine.sm import Admission, SmPool
from tdsim.engine.stream import Connection, CopyEngines, Stream
from tdsim.topology import Machine


class Gpu:
    """One rank's device: SMs, copy engines, streams."""

    def __init__(
        self, env: EventLoop, machine: Machine, admission: Admission | None = None
    ) -> None:
        self.env = env
        self.sms = SmPool(machine.gpu.num_sms, admission)
        self.copy_engines = CopyEngines(env, machine.gpu.copy_engines)
        self.streams: dict[str, Stream] = {}
        self._connections = [Connection() for _ in range(machine.host.connections)]

    def stream(self, name: str) -> Stream:
        """The stream called *name*, made at first use on the next hardware queue."""
        found = self.streams.get(name)
        if found is None:
            connection = self._connections[len(self.streams) % len(self._connections)]
            found = self.streams[name] = Stream(self.env, name, connection)
        return found
