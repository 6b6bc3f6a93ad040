"""Quantities as users write them: a number and a unit in one string, such as ``400 Gb/s``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tdsim.errors import TopologyError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Dimension:
    """What can be measured, with its units as multiples of the one that the model counts in."""

    name: str
    example: str
    units: Mapping[str, Fraction]
    least: int
    """The smallest value that makes sense, in the model's unit."""


def _decimal(*units: str, first: int, base: Fraction | None = None) -> dict[str, Fraction]:
    """*units* as growing powers of 1000 times *base*, the first of them 1000**first."""
    one = base or Fraction(1)
    return {unit: one * 1000 ** (first + i) for i, unit in enumerate(units)}


def _binary(*units: str) -> dict[str, Fraction]:
    """*units* as powers of 1024, beginning with 1024."""
    return {unit: Fraction(1024 ** (1 + i)) for i, unit in enumerate(units)}


BANDWIDTH = Dimension(
    "bandwidth",
    "'450 GB/s' or '400 Gb/s'",
    {
        **_decimal("B/s", "KB/s", "MB/s", "GB/s", "TB/s", first=0),
        **_binary("KiB/s", "MiB/s", "GiB/s", "TiB/s"),
        **_decimal("Mb/s", "Gb/s", "Tb/s", first=2, base=Fraction(1, 8)),
    },
    least=1,
)
TIME = Dimension("time", "'600 ns'", _decimal("ps", "ns", "us", "ms", "s", first=0), least=0)
SIZE = Dimension(
    "size",
    "'50 MB' or '80 GiB'",
    {**_decimal("B", "KB", "MB", "GB", "TB", first=0), **_binary("KiB", "MiB", "GiB", "TiB")},
    least=1,
)
COMPUTE = Dimension(
    "compute rate",
    "'989 TFLOP/s'",
    _decimal("GFLOP/s", "TFLOP/s", "PFLOP/s", first=3),
    least=1,
)

_QUANTITY = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?)\s*(.*)", re.DOTALL)


def parse(value: object, dimension: Dimension, where: str) -> int:
    """*value* as a whole number of the dimension's base unit, rounded to the nearest.

    The base units are B/s, ps, B and FLOP/s. *where* begins the error's sentence. Raises
    `TopologyError` or `UnknownNameError`.
    """
    expected = f"a {dimension.name} such as {dimension.example}"
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise TopologyError(f"{value!r} is no {dimension.name}", where, expected)
    number, unit = match.groups()
    if not unit:
        raise TopologyError(
            f"{value!r} has no unit", where, expected, "write the unit behind it"
        )
    if unit not in dimension.units:
        raise UnknownNameError(f"unit of {dimension.name}", unit, tuple(dimension.units), where)
    amount = round(Fraction(number) * dimension.units[unit])
    if amount < dimension.least:
        bound = "above zero" if dimension.least else "of zero or more"
        raise TopologyError(f"{value!r} is too small", where, f"a {dimension.name} {bound}")
    return amount
