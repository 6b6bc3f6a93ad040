"""Teams: subgroups of PEs that own their signals and meet in barriers of their own."""

from __future__ import annotations

from typing import Any

from tdsim.engine.stream import Stream
from tdsim.errors import ApiError
from tdsim.sim.signals import SignalArray


class Team:
    """The PEs *pes*, seen by one of them (see ``tdsim.lang.Team``)."""

    def __init__(self, ctx: Any, pes: tuple[int, ...]) -> None:
        legal = len(set(pes)) == len(pes) and all(0 <= pe < ctx.n_pes for pe in pes)
        if not legal or ctx.my_pe not in pes:
            raise ApiError(
                f"PE {ctx.my_pe} makes a team of the PEs {list(pes)}",
                "ctx.team",
                f"name different PEs from 0 to {ctx.n_pes - 1}, the calling one among them",
            )
        self._ctx, self.pes = ctx, pes
        self.my_pe, self.n_pes = pes.index(ctx.my_pe), len(pes)

    def pe(self, i: int) -> int:
        return self.pes[i]

    def signals(self, count: int, per_call: int = 1) -> SignalArray:
        found: SignalArray = self._ctx.team_signals(self.pes, count, per_call)
        return found

    def barrier_all(self, stream: Stream | None = None) -> None:
        self._ctx.team_barrier(self.pes, stream)
