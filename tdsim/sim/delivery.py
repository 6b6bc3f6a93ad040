"""What a CTA has sent and what may be sent: copies and stores on their way to a PE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import simpy

from tdsim.errors import ApiError
from tdsim.sim.signals import SignalArray
from tdsim.sim.tile import View


class Delivery:
    """Data or a signal on its way to *pe*; *arrived* happens when it is visible there."""

    __slots__ = ("arrived", "blocking", "pe")

    def __init__(self, env: simpy.Environment, pe: int, blocking: bool) -> None:
        self.arrived, self.pe, self.blocking = simpy.Event(env), pe, blocking


class Sent(NamedTuple):
    """What a delivery does at PE *pe*: whose it is, what it writes, reads late and signals.

    *writes* are (view, offsets, values) or (view,) alone; *word* is (signals, index, op).
    """

    issuer: Any
    rank: int
    pe: int
    writes: Sequence[tuple[Any, ...]] = ()
    reads: Sequence[View] = ()
    word: tuple[SignalArray, int, str] | None = None


def before_put(
    cta: Any, pe: int, ordered: bool, signals: bool = False
) -> tuple[simpy.Event, ...]:
    """Arrivals that *cta*'s put to *pe* may not overtake: fenced ones, all on an ordered path.

    One that *signals* releases what the CTA has stored before in its own PE's memory, signals
    among it. Without data the order of arrival is left to the bytes: nobody could tell.
    """
    functional = cta.world.functional
    earlier = [
        d for d in (cta.outstanding if ordered and functional else cta.fenced) if d.pe == pe
    ]
    if signals and functional:
        earlier += [d for d in cta.outstanding if d.blocking and d.pe == cta.rank != pe]
    return tuple(d.arrived for d in earlier if not d.arrived.triggered)


def before_signal(cta: Any, pe: int, ordered: bool) -> tuple[simpy.Event, ...]:
    """Arrivals that its signal to *pe* may not overtake: all blocking puts are among them."""
    earlier = set(before_put(cta, pe, ordered))
    return tuple(
        d.arrived
        for d in cta.outstanding
        if not d.arrived.triggered and (d.blocking or d.arrived in earlier)
    )


def storing(stores: list[Any], delivery: Delivery) -> Callable[[Any], None]:
    """What lands *stores*, tiles for a peer, as *delivery*."""

    def land(_: Any) -> None:
        for view, offsets, values in stores:
            if values is not None and view.data is not None:
                view.write(offsets, values)
        delivery.arrived.succeed()

    return land


def check_copy(cta: Any, verb: str, remote: View, local: View, dst: View, src: View) -> None:
    """Refuse a copy of *cta* between memories that it may not name so."""
    if not remote.buffer.symmetric:
        raise ApiError(
            f"{cta.name} {verb} {remote}, which is not symmetric",
            cta.here(),
            "allocate it with ctx.symmetric, or declare it symmetric=True",
        )
    for view in (remote, local):
        if view.pe != cta.rank:
            raise ApiError(
                f"{cta.name} {verb} another PE through {view}, not its own memory",
                cta.here(),
                "name this PE's view and the other PE by number: the call translates",
            )
    if dst.shape != src.shape or dst.dtype != src.dtype:
        raise ApiError(
            f"{cta.name} copies {src.dtype.short}{list(src.shape)} into "
            f"{dst.dtype.short}{list(dst.shape)}",
            cta.here(),
            "give two views of one shape and dtype",
        )
