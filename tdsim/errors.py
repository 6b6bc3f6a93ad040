"""Every error tdsim raises on purpose.

::

    TdsimError
    ├── UsageError              bad input by the user (exit code 2)
    │   ├── UnknownNameError    a name that is none of the known ones
    │   ├── ShapeError          a size that is missing, not positive or does not divide
    │   ├── TopologyError       a machine that cannot be built or routed
    │   └── KernelFileError     a kernel file that does not import or names no program
    ├── KernelDefinitionError   a kernel refused where it is defined (exit code 2)
    ├── BackendFailure          a PE died or failed while it ran a job (exit code 1)
    └── ProgramError            a program misbehaved while it ran (exit code 1)
        ├── DeadlockError       verdict HANG, in the simulator
        ├── HangError           verdict HANG, on hardware
        ├── ApiError            verdict API-ERROR
        └── UnmodelledError     verdict UNKNOWN

The fields are in ``args`` and the sentence is made in ``__str__``, so an error survives
pickling and ``type(e)(*e.args)``.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import ClassVar


class TdsimError(Exception):
    """Root of the tree: catch it to catch whatever tdsim reports on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(TdsimError):
    """Bad input: what is wrong, where, what was expected and how to cure it, on one line.

    Empty *where*, *expected* or *cure* are left out of the sentence.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, where: str = "", expected: str = "", cure: str = "") -> None:
        super().__init__(what, where, expected, cure)
        self.what, self.where, self.expected, self.cure = what, where, expected, cure

    def __str__(self) -> str:
        return _sentence(self.what, self.where, self.expected, self.cure)


class UnknownNameError(UsageError):
    """*name* is none of *choices*, the known names of this *kind* ("topology", "shape key").

    The closest of *choices* is offered.
    """

    def __init__(self, kind: str, name: str, choices: Sequence[str], where: str = "") -> None:
        close = difflib.get_close_matches(name, choices, n=1)
        super().__init__(
            f"unknown {kind} {name!r}",
            where,
            f"one of {', '.join(choices)}" if choices else "none at all",
            f"did you mean {close[0]!r}?" if close else "",
        )
        self.args = (kind, name, tuple(choices), where)
        self.kind, self.name, self.choices = kind, name, tuple(choices)


class ShapeError(UsageError):
    """A problem size is missing, not a positive integer, or does not divide where it must."""


class TopologyError(UsageError):
    """A machine description that cannot be built, or two GPUs without a route between them."""


class KernelFileError(UsageError):
    """A kernel file that does not exist, does not import or does not hold the named program."""


class KernelDefinitionError(TdsimError):
    """A kernel that the GPU compiler cannot take, refused when it is defined."""

    exit_code: ClassVar[int] = 2

    def __init__(self, file: str, line: int, what: str, cure: str) -> None:
        super().__init__(file, line, what, cure)
        self.file, self.line, self.what, self.cure = file, line, what, cure

    def __str__(self) -> str:
        return _sentence(self.what, f"{self.file}:{self.line}", "", self.cure)


class BackendFailure(TdsimError):  # noqa: N818 - the machine failed, not the user's input
    """A PE ended without its work done: what happened to which one, then the end of its log."""

    def __init__(self, what: str, where: str, log: Sequence[str] = ()) -> None:
        super().__init__(what, where, tuple(log))
        self.what, self.where, self.log = what, where, tuple(log)

    def __str__(self) -> str:
        return _with_lines(f"{self.where}: {self.what}", self.log)


class ProgramError(TdsimError):
    """A program misbehaved while it ran; *verdict* is what a check reports for it."""

    verdict: ClassVar[str] = "UNKNOWN"


class DeadlockError(ProgramError):
    """No event is left at *now_ps* (picoseconds), yet each of *waiters* still waits.

    *waiters* may stand for several program instances each; *count* is their number (default:
    one each). *notes* say what else a reader needs, such as the wait-for cycle.
    """

    verdict: ClassVar[str] = "HANG"

    def __init__(
        self,
        now_ps: int,
        waiters: Sequence[object],
        count: int | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.now_ps, self.waiters, self.notes = now_ps, tuple(waiters), tuple(notes)
        self.count = len(self.waiters) if count is None else count
        super().__init__(now_ps, self.waiters, self.count, self.notes)

    def __str__(self) -> str:
        lines = "".join(f"\n  {line}" for line in (*self.waiters, *self.notes))
        return f"deadlock at {self.now_ps} ps, {self.count} waiting:{lines}"


class HangError(ProgramError):
    """A case did not come to an end on hardware: what is known, then a line for each waiter."""

    verdict: ClassVar[str] = "HANG"

    def __init__(self, what: str, where: str, report: Sequence[str] = ()) -> None:
        super().__init__(what, where, tuple(report))
        self.what, self.where, self.report = what, where, tuple(report)

    def __str__(self) -> str:
        return _with_lines(f"{self.where}: HANG: {self.what}", self.report)


class ApiError(ProgramError):
    """A forbidden call: a PE or signal index out of range, an address that is not symmetric."""

    verdict: ClassVar[str] = "API-ERROR"

    def __init__(self, what: str, where: str, cure: str) -> None:
        super().__init__(what, where, cure)
        self.what, self.where, self.cure = what, where, cure

    def __str__(self) -> str:
        return _sentence(self.what, self.where, "", self.cure)


class UnmodelledError(ProgramError):
    """A construct that is not modelled, so nothing is claimed about the program."""

    verdict: ClassVar[str] = "UNKNOWN"

    def __init__(self, construct: str, where: str, instead: str = "") -> None:
        super().__init__(construct, where, instead)
        self.construct, self.where, self.instead = construct, where, instead

    def __str__(self) -> str:
        what = f"{self.construct} is not modelled, so nothing is known about this program"
        return _sentence(what, self.where, "", self.instead)


def _with_lines(head: str, lines: Sequence[str]) -> str:
    """*head*, with *lines* indented below it if there are any."""
    return head + (":" if lines else "") + "".join(f"\n  {line}" for line in lines)


def _sentence(what: str, where: str, expected: str, cure: str) -> str:
    """``WHERE: WHAT; expected EXPECTED; CURE`` without the parts that are empty."""
    parts = (what, f"expected {expected}" if expected else "", cure)
    return (f"{where}: " if where else "") + "; ".join(part for part in parts if part)
