"""Processes of a job: started with a mark in their environment, and found again by it.

Children inherit the mark, whatever session or parent they end up with, so a job's processes
are exactly those that carry it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MARK = "TDSIM_JOB"
"""Environment variable that holds the job folder of a PE."""
_POLL_S = 0.02


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str | None]
) -> subprocess.Popen[bytes]:
    """Start *command* in a session of its own, so that no Ctrl-C at the terminal reaches it.

    *environment* is laid over this process's; None takes a variable away.
    """
    merged: dict[str, str | None] = {**os.environ, **environment}
    with log.open("wb") as output:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={key: value for key, value in merged.items() if value is not None},
            start_new_session=True,
        )


def find(variable: str, value: str) -> list[int]:
    """Processes that were started with *variable* set to *value*, this one left out."""
    entry = f"{variable}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if entry in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def end(variable: str, value: str, grace_s: float = 1.0) -> None:
    """End every process that :func:`find` finds: SIGTERM, *grace_s* seconds, SIGKILL.

    Looks again until none is left, since a dying process may still have started another.
    """
    asked: set[int] = set()
    grace_ends = time.monotonic() + grace_s
    give_up = grace_ends + 5.0
    while (pids := find(variable, value)) and time.monotonic() < give_up:
        impatient = time.monotonic() >= grace_ends
        for pid in pids:
            if impatient or pid not in asked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if impatient else signal.SIGTERM)
                asked.add(pid)
        time.sleep(_POLL_S)


def ending(code: int) -> str:
    """An exit code as :class:`subprocess.Popen` gives it, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(number): number.name for number in signal.Signals}
    return f"killed by {names.get(-code, f'signal {-code}')}"
