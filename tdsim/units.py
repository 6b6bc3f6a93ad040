"""Quantities: time in whole picoseconds, bandwidth in whole bytes per second; how both print.

Time is a plain ``int`` of picoseconds everywhere, so that integers decide ties, never float
rounding. Bytes become time in one place, `Bandwidth.transfer_ps`, rounded up once.
"""

from __future__ import annotations

from dataclasses import dataclass

PS_PER_S = 10**12


def ns(x: float) -> int:
    """*x* nanoseconds in picoseconds, rounded to the nearest."""
    return round(x * 10**3)


def us(x: float) -> int:
    """*x* microseconds in picoseconds, rounded to the nearest."""
    return round(x * 10**6)


def ms(x: float) -> int:
    """*x* milliseconds in picoseconds, rounded to the nearest."""
    return round(x * 10**9)


def to_us(ps: int) -> float:
    """*ps* picoseconds in microseconds, for reports."""
    return ps / 10**6


@dataclass(frozen=True, slots=True, order=True)
class Bandwidth:
    """A rate in bytes per second, per direction; positive and whole."""

    bytes_per_s: int

    def __post_init__(self) -> None:
        if self.bytes_per_s <= 0:
            raise ValueError(f"a bandwidth must be positive, got {self.bytes_per_s} B/s")

    @classmethod
    def gb_per_s(cls, x: float) -> Bandwidth:
        """*x* GB/s: 10**9 bytes per second each."""
        return cls(round(x * 10**9))

    @classmethod
    def gbit_per_s(cls, x: float) -> Bandwidth:
        """*x* Gb/s: 10**9 bits per second each, the unit of network data sheets."""
        return cls(round(x * 10**9 / 8))

    def transfer_ps(self, nbytes: int) -> int:
        """Serialisation time of *nbytes* in picoseconds, rounded up."""
        return -(-nbytes * PS_PER_S // self.bytes_per_s)

    def scaled(self, numerator: int, denominator: int = 1) -> Bandwidth:
        """This rate times *numerator* / *denominator*, rounded down to a whole B/s."""
        return Bandwidth(self.bytes_per_s * numerator // denominator)

    def __str__(self) -> str:
        return f"{self.bytes_per_s / 10**9:g} GB/s"


def format_time(ps: int) -> str:
    """*ps* picoseconds with three significant digits in a fitting unit, such as ``12.3 us``."""
    return _with_unit(ps, 1000, ("ps", "ns", "us", "ms", "s"))


def format_bytes(nbytes: int) -> str:
    """*nbytes* with three significant digits in a fitting binary unit (1 KiB is 1024 bytes)."""
    return _with_unit(nbytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _with_unit(value: int, step: int, units: tuple[str, ...]) -> str:
    power = 0
    # 999.5 would be printed as 1000: it belongs to the next unit.
    while power < len(units) - 1 and abs(value) >= (step - 0.5) * step**power:
        power += 1
    if power == 0:
        return f"{value} {units[0]}"
    scaled = value / step**power
    digits = max(0, 2 - (abs(scaled) >= 9.995) - (abs(scaled) >= 99.95))
    return f"{scaled:.{digits}f} {units[power]}"
