"""Public bug reports and suspected hazards as small programs: as reported, as repaired.

Each module is a family. Its ``CASES`` lists what is checked, on which machine, and the verdict
that is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from cases import (
    api,
    buffers,
    collectives,
    data,
    graphs,
    hangs,
    hazards,
    ordering,
    outside,
    protocols,
    signals,
    slots,
)
from cases.common import Case

FAMILIES = (
    hangs, slots, collectives, signals, ordering, buffers, protocols, graphs, api, data, hazards,
    outside,
)  # fmt: skip


def all_cases() -> Iterator[Case]:
    for family in FAMILIES:
        yield from family.CASES
