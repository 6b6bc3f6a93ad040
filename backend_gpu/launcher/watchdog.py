"""Takes a job down, whatever happens to its launcher.

The watchdog is a process in a session of its own, so neither Ctrl-C nor the death of the
launcher reaches it. It waits until the launcher closes its pipe or is gone, then ends the PEs
and the MPS daemon and removes every file. There is one way down for every ending: success,
error, interrupt and SIGKILL.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import leftovers, mps, processes
from .job import JobFolder

_POLL_S = 0.1


@contextmanager
def watched(folder: JobFolder) -> Iterator[None]:
    """On leaving, nothing is left of the job in *folder*, its files included.

    An interrupt while leaving only stops the waiting: the watchdog works on.
    """
    leftovers.note(folder)
    command = [sys.executable, "-P", "-m", __name__, str(folder.path), str(os.getpid())]
    dog = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        assert dog.stdin is not None
        dog.stdin.close()
        if dog.wait() != 0:  # it was killed
            take_down(folder)


def take_down(folder: JobFolder) -> None:
    """End the processes of the job in *folder*, then remove its files. Takes at most 10 s."""
    processes.end(processes.MARK, str(folder.path))
    mps.stop(folder.mps)  # after its clients
    leftovers.remove(folder)
    shutil.rmtree(folder.path, ignore_errors=True)


def main(path: str, launcher: int) -> None:
    """Wait for *launcher*'s word or end, then take down."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.getppid() == launcher and not select.select([0], [], [], _POLL_S)[0]:
        pass
    take_down(JobFolder(Path(path)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
