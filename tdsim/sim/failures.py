"""Exceptions inside user code: turned into one line with the user's file and line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tdsim.errors import ApiError, TdsimError

_OWN = Path(__file__).resolve().parents[1]


@contextmanager
def reported_at(who: str) -> Iterator[None]:
    """Raise what user code run by *who* raises as an ApiError that names its place.

    tdsim's own errors pass: they say more already.
    """
    try:
        yield
    except TdsimError:
        raise
    except Exception as error:
        where = who
        for frame in traceback.extract_tb(error.__traceback__):
            if not Path(frame.filename).resolve().is_relative_to(_OWN):
                where = f"{frame.filename}:{frame.lineno}"
        raise ApiError(
            f"{who} failed: {type(error).__name__}: {error}", where, "fix that line"
        ) from error
