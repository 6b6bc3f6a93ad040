"""Exceptions inside user code: turned into one line with the user's file and line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tdsim.errors import ApiError, TdsimError, UnknownNameError, UnmodelledError, UsageError

_OWN = Path(__file__).resolve().parents[1]


@contextmanager
def reported_at(who: str) -> Iterator[None]:
    """Raise what user code run by *who* raises as an ApiError that names its place.

    tdsim's own errors pass, but with the user's line if they only named the call.
    """
    try:
        yield
    except (ApiError, UnmodelledError, UsageError) as error:
        place = _place(error)
        if isinstance(error, UnknownNameError) or place is None or _is_line(error.where):
            raise
        what, _, *rest = error.args
        raise type(error)(what, place, *rest) from error
    except TdsimError:
        raise
    except Exception as error:
        what = f"{who} failed: {type(error).__name__}: {error}"
        raise ApiError(what, _place(error) or who, "fix that line") from error


def _is_line(where: str) -> bool:
    return where.rpartition(":")[2].isdigit()


def _place(error: Exception) -> str | None:
    """``file:line`` of the innermost code on *error*'s way that is not tdsim's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not Path(frame.filename).resolve().is_relative_to(_OWN):
            return f"{frame.filename}:{frame.lineno}"
    return None


def host_place() -> str:
    """``file:line`` of the host code that runs now."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("tdsim.sim.") and frame.f_back:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
