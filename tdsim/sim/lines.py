"""Puts in lines that carry their own flags (NCCL's LL and LL128)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

_CARRIED = {8: Fraction(2), 128: Fraction(128, 120)}
"""Bytes on the path for each byte of data, by the length of lines."""


def put_lines(cta: Any, dst: Any, src: Any, signal: Any, line: int, pe: int) -> None:
    """*cta*'s put in lines: with its signal, or after it where the path splits such lines."""
    cta._check_pe(pe)
    carried = math.ceil(src.nbytes * _CARRIED[line])
    if line <= cta.world.machine.route(cta.rank, pe).line_bytes:
        cta.put(dst, src, pe, True, signal, carried)
        return
    sig, i, value, op = signal
    cta.signal_op(sig, i, value, op, pe)  # flags may come before their data
    cta.put(dst, src, pe, True, None, carried)
