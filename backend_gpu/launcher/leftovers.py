"""Files that killed PEs leave outside their job folder: NVSHMEM's shared memory and sockets.

NVSHMEM 3 names shared memory ``mps_shm_PE``, the same for every job of a machine, and its
sockets ``nvshmem-socket-PID-PID``. So what was there before the job stays, and so does what
a living process has mapped.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from .job import JobFolder

_SHARED_MEMORY = Path("/dev/shm")
_SOCKETS = Path("/tmp")


def note(folder: JobFolder) -> None:
    """Remember what shared memory there is before the job starts."""
    (folder.path / "shm-before").write_text("\n".join(_names(_SHARED_MEMORY)))


def remove(folder: JobFolder) -> None:
    """Remove what the job's PEs, all ended by now, made and left."""
    note = folder.path / "shm-before"
    if not note.exists():
        return
    before, pids = set(note.read_text().splitlines()), folder.pids()
    for name in _names(_SHARED_MEMORY):
        made = name not in before and (_is_nvshmem(name) or _has_pid(name, pids))
        if made and not _is_mapped(_SHARED_MEMORY / name):
            _unlink(_SHARED_MEMORY / name)
    for name in _names(_SOCKETS):
        if name.startswith("nvshmem-socket-") and _has_pid(name, pids):
            _unlink(_SOCKETS / name)


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def _is_nvshmem(name: str) -> bool:
    return "nvshmem" in name or re.fullmatch(r"mps_shm_\d+", name) is not None


def _has_pid(name: str, pids: list[int]) -> bool:
    return not {int(number) for number in re.findall(r"\d+", name)}.isdisjoint(pids)


def _is_mapped(path: Path) -> bool:
    """Whether a process that this user may look at has *path* mapped."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if any(line.endswith(f" {path}") for line in maps.read_text().splitlines()):
                return True
    return False


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.lstat().st_uid == os.getuid():
            path.unlink()
