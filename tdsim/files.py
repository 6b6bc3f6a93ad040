"""Files that are whole or absent, never half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tdsim.errors import UsageError


def require_folder(path: str | Path, where: str) -> None:
    """Raise UsageError unless a file can be made at *path*, which *where* (an option) names."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(
            f"no folder '{folder}'", where, "an existing folder", "create it first"
        )
    if Path(path).is_dir():
        raise UsageError(f"'{path}' is a folder", where, "a file name", "add a name")
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"folder '{folder}' is read-only", where, "a folder to write to", "choose another"
        )


def write_whole(path: str | Path, data: bytes, where: str = "path") -> None:
    """Write *data* to *path* through a temporary sibling, so that readers see all or nothing.

    An interrupted or failed write leaves what was there before and no temporary file.
    """
    require_folder(path, where)
    final = Path(path)
    handle, name = tempfile.mkstemp(dir=final.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(final)
    finally:
        Path(name).unlink(missing_ok=True)
