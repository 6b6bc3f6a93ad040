"""What host programs may ask of the simulator and not of a GPU: one line, and no attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tdsim import lang as td
from tdsim.errors import UsageError


class SimulatorOnly:
    """The operations of ``tdsim.lang.Context`` that only the simulator has."""

    def team(self, pes: Sequence[int]) -> td.Team:
        raise refused(f"a team of the PEs {list(pes)}", "ctx.team")

    def replay(self, name: str, capture: Callable[[], None]) -> None:
        raise refused(f"graph {name}", "ctx.replay")


def refuse_clusters(size: int) -> None:
    """Refuse a launch whose CTAs come in clusters of *size*, unless that is 1."""
    if size != 1:
        raise refused(f"a launch in clusters of {size}", "ctx.launch")


def refused(what: str, where: str) -> UsageError:
    """The error for *what*, which a GPU does not run."""
    return UsageError(
        what=f"{what} on a GPU",
        where=where,
        expected="a program without it",
        cure="the simulator only has it: use tdsim check or predict",
    )
