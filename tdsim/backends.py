"""What runs a job on hardware: the interface of backends, and how they are found.

Backends come through entry points, so the core imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, Protocol

from tdsim.errors import UnknownNameError, UsageError
from tdsim.records import Job, Measurement, Record

GROUP = "tdsim.backends"

OnResult = Callable[[int, Measurement], None]
"""Called with the place of a case in its job and what it showed, in the order of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a backend needs: whether it is there, and the one command that mends it.

    ``"missing"`` keeps jobs from running, ``"warning"`` only some of them. *cure* is empty
    exactly where *state* is ``"ok"``.
    """

    name: str
    state: Literal["ok", "missing", "warning"]
    found: str
    cure: str = ""


class Backend(Protocol):
    """Runs jobs in processes of its own and leaves none of them behind, however it ends.

    Raises UsageError for what the user can mend, HangError for a case without an end, and
    BackendFailure for a PE that died.
    """

    def run(self, job: Job, on_result: OnResult) -> Record:
        """Start all PEs of *job*, run its cases, end the PEs."""

    def join(self, job: Job, on_result: OnResult) -> Record | None:
        """Run *job* as the one rank that a launcher such as torchrun made of this process.

        Only rank 0 gets the record; every rank must be given the same job.
        """

    def doctor(self) -> Sequence[Finding]:
        """Look at everything the backend needs; never fails because something is missing."""


def backends() -> dict[str, EntryPoint]:
    """Entry points of the installed backends, by name; nothing is imported."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=str)}


def load_backend(name: str) -> Backend:
    """The installed backend called *name*."""
    points = backends()
    if not points:
        raise UsageError(
            what="no backend is installed",
            where="--backend",
            expected=f"an entry point in the group {GROUP}",
            cure="pip install 'tdsim[gpu]'",
        )
    if name not in points:
        raise UnknownNameError("backend", name, tuple(points))
    made: Backend = points[name].load()()
    return made
