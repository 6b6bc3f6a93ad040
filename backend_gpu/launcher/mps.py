"""A private MPS daemon, through which the PEs of a job share one GPU.

The daemon runs in the foreground with a pipe and log directory of its own: it sees no other
daemon, no other client sees it, and the GPU's compute mode stays as it is. Its server
inherits the directory's name, by which both are found when they are to end.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from tdsim.errors import BackendFailure, UsageError

from . import processes
from .job import tail

CONTROL = "nvidia-cuda-mps-control"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_LOG = "daemon.txt"
_START_S = 20.0
_QUIT_S = 2.0


def require() -> str:
    """The control program's path."""
    path = shutil.which(CONTROL)
    if path is None:
        raise UsageError(
            what=f"{CONTROL} is not on PATH",
            where="--share-gpu",
            expected="the MPS programs that come with the NVIDIA driver",
            cure="install them, or leave --share-gpu out and use one PE per GPU",
        )
    return path


def environment(directory: Path) -> dict[str, str]:
    """What makes a process a client of the daemon in *directory*."""
    return {_PIPES: str(directory), "CUDA_MPS_LOG_DIRECTORY": str(directory)}


def start(directory: Path) -> subprocess.Popen[bytes]:
    """Start a daemon in *directory*, which is made."""
    directory.mkdir()
    return processes.start([require(), "-f"], directory / _LOG, environment(directory))


def await_answer(directory: Path, daemon: subprocess.Popen[bytes]) -> None:
    """Wait until *daemon* takes commands; clients that come earlier would run without it."""
    deadline = time.monotonic() + _START_S
    while not _ask(directory, "get_server_list", deadline - time.monotonic()):
        if (code := daemon.poll()) is not None:
            raise BackendFailure(processes.ending(code), "MPS daemon", _log(directory))
        if time.monotonic() > deadline:
            text = f"gives no answer for {_START_S:.0f} s"
            raise BackendFailure(text, "MPS daemon", _log(directory))
        time.sleep(0.05)


def stop(directory: Path) -> None:
    """End the daemon in *directory* and its server: first asked, then told, then killed."""
    if directory.exists():
        _ask(directory, "quit", _QUIT_S)
        processes.end(_PIPES, str(directory))


def _ask(directory: Path, command: str, limit_s: float) -> bool:
    """Whether the daemon in *directory* took *command*."""
    program = shutil.which(CONTROL)
    if program is None or not processes.find(_PIPES, str(directory)):
        return False
    asking = subprocess.Popen(
        [program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(directory),
        start_new_session=True,
    )
    try:
        asking.communicate(f"{command}\n".encode(), max(limit_s, 0.1))
    except subprocess.TimeoutExpired:
        return False
    finally:
        asking.kill()
        asking.wait()
    return asking.returncode == 0


def _log(directory: Path) -> list[str]:
    return tail(directory / _LOG, 4) + tail(directory / "control.log", 8)
