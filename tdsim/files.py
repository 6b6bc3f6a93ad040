"""Files that are whole or absent, never half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tdsim.errors import UsageError


def write_whole(path: str | Path, data: bytes) -> None:
    """Write *data* to *path* through a temporary sibling, so that readers see all or nothing.

    An interrupted or failed write leaves what was there before. Raises UsageError when the
    folder does not exist or cannot be written.
    """
    final = Path(path)
    if not final.parent.is_dir():
        raise UsageError(
            f"there is no folder {str(final.parent)!r}",
            str(path),
            "an existing folder",
            "create it first",
        )
    if final.is_dir():
        raise UsageError("this is a folder", str(path), "a file name", "add a name")
    try:
        handle, name = tempfile.mkstemp(dir=final.parent, prefix=".", suffix=".part")
    except OSError as error:
        raise UsageError(
            f"cannot write here ({error.strerror})",
            str(path),
            "a writable folder",
            "choose another",
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(final)
    finally:
        Path(name).unlink(missing_ok=True)
