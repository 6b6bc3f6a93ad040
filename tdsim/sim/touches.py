"""What steps touch, in the terms of a chooser: memory, signal words and SM slots."""

from __future__ import annotations

from collections.abc import Sequence

from tdsim.sim.choices import Touch
from tdsim.sim.signals import SignalArray
from tdsim.sim.tile import View


def touch(
    view: View,
    kind: str,
    offsets: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
) -> Touch:
    """An access to a tile of *view*, or to all of it."""
    starts = offsets or (0,) * len(view.shape)
    sizes = shape or view.shape
    box = []
    for axis, (start, size, limit) in enumerate(zip(starts, sizes, view.shape, strict=True)):
        base = view.row0 if axis == 0 else 0
        box.append((base + max(start, 0), base + min(start + size, limit)))
    return Touch(("memory", view.buffer.name, view.pe), kind, tuple(box))


def named(part: Touch) -> str:
    """Memory by its rows, which is how programs divide what they send."""
    _, name, pe = part.place
    first, end = part.box[0]
    return f"rows {first} to {end - 1} of {name} on PE {pe}"


def signal_word(sig: SignalArray, pe: int, i: int, kind: str) -> Touch:
    return Touch(("word", sig.key, pe, i), kind)


def slots(rank: int) -> Touch:
    return Touch(("slots", rank), "take")
