"""A module of helpers and constants, as kernel libraries have them."""

from __future__ import annotations

import enum

from tdsim import lang as td

WIDTH = 32
SHAPE = (16, 32)
ACCUMULATOR = td.float32


class Mode(enum.IntEnum):
    PLAIN = 3


@td.function
def offset(row, BLOCK_M: td.constexpr = WIDTH):
    return row * BLOCK_M


@td.function
def both(row):
    return offset(row), offset(row, 8)


@td.function
def shifted(token, x):
    return td.after(token, x)


def scaled_by(factor):
    """A helper that multiplies by a number of its closure."""

    @td.function
    def scale(x):
        return x * factor

    return scale
