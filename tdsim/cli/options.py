"""Options that commands share, and how their values are read."""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable
from typing import Any

from tdsim.errors import UsageError
from tdsim.files import require_folder
from tdsim.sim.delays import DELAYED, Delay, drawn
from tdsim.units import us


def add_common(parser: argparse.ArgumentParser, topology: str = "h800x8") -> None:
    """Kernel, shape, tunables, machine, dtype, seed and output format."""
    parser.add_argument("kernel", help="a library name or path/to/file.py:program")
    parser.add_argument("--shape", metavar="M=8192,N=28672,K=8192", help="total problem sizes")
    parser.add_argument("--set", metavar="NAME=VALUE,...", help="tunables", dest="tunables")
    if topology:
        parser.add_argument(
            "--topology", default=topology, help=f"preset or YAML file (default {topology})"
        )
    parser.add_argument("--dtype", default="bf16", help="element type (default bf16)")
    parser.add_argument(
        "--seed", type=seed("--seed"), default=0, help="a number from 0 on (default 0)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def seed(option: str) -> Callable[[str], int]:
    """What reads the seed that *option* gives: NumPy's generators take none below 0."""

    def read(text: str) -> int:
        if not text.isdecimal():
            raise UsageError(text, option, "a whole number of at least 0", "write digits only")
        return int(text)

    return read


def check_output(path: str | None, option: str = "--output") -> None:
    """Refuse an *option* that cannot be written to, before the work and not after it."""
    if path is not None:
        require_folder(path, option)


def count(args: argparse.Namespace, option: str, least: int) -> int:
    """The value of ``--option``, a number that must be at least *least*."""
    value: int = getattr(args, option.replace("-", "_"))
    if value < least:
        raise UsageError(
            f"{value}", f"--{option}", f"at least {least}", f"give {least} or more"
        )
    return value


def size(text: str) -> int:
    """``2G``, ``512M`` or a number of bytes, in bytes; units are powers of 1024."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    digits = text[:-1] if text[-1:].upper() in units else text
    if not digits.isdecimal() or int(digits) == 0:
        raise UsageError(text, "--heap-size", "bytes, or a number with K, M or G", "give 2G")
    return int(digits) * units.get(text[-1].upper(), 1)


def pairs(text: str | None, option: str) -> dict[str, str]:
    """``A=1,B=x`` as a dict; each part must be NAME=VALUE, each name once."""
    result: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if not (name and equals and value):
            raise UsageError(f"'{part}'", option, "NAME=VALUE,...", "write each part so")
        if name in result:
            raise UsageError(f"{name} is given twice", option, "each name once", "drop one")
        result[name] = value
    return result


def shape(args: argparse.Namespace, required: bool = True) -> dict[str, int] | None:
    """``--shape`` as integers; missing sizes are reported by the program itself."""
    if args.shape is None and not required:
        return None
    result = {}
    for name, value in pairs(args.shape, "--shape").items():
        try:
            result[name] = int(value)
        except ValueError:
            raise UsageError(
                f"{name}={value}", "--shape", "a whole number of elements", "write digits only"
            ) from None
    return result


def tunables(args: argparse.Namespace) -> dict[str, Any]:
    """``--set``: integers where they read as such, else words."""
    return {name: _value(text) for name, text in pairs(args.tunables, "--set").items()}


def _value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def delays(text: str | None, world_size: int, seed: int) -> dict[int, int]:
    """``RANK=US,...`` as picoseconds by rank; ``random:US`` draws all delays by *seed*."""
    if text and text.startswith("random:"):
        most = delays(f"0={text.removeprefix('random:')}", world_size, seed)[0]
        draw = random.Random(seed)
        return {rank: draw.randrange(most + 1) for rank in range(world_size)}
    result = {}
    for rank, late in pairs(text, "--straggler").items():
        try:
            result[int(rank)] = us(float(late))
        except (ValueError, OverflowError):
            raise UsageError(
                f"{rank}={late}", "--straggler", "RANK=MICROSECONDS", "write two numbers"
            ) from None
        if result[int(rank)] < 0:
            raise UsageError(f"{late} us", "--straggler", "a delay of at least 0", "drop the -")
    return result


def injected(args: argparse.Namespace, world_size: int) -> list[Delay]:
    """The delays of ``--delay`` and those that ``--delay-seed`` draws."""
    found = [_delay(text) for text in args.delay]
    return found + (drawn(args.delay_seed, world_size) if args.delay_seed is not None else [])


def _delay(text: str) -> Delay:
    match = re.fullmatch(r"rank=(\d+),op=(\w+),(\d+(?:\.\d+)?)us", text)
    if not match or match[2] not in DELAYED:
        raise UsageError(
            text, "--delay", f"rank=RANK,op=OP,TIMEus with OP one of {', '.join(DELAYED)}",
            "write --delay rank=2,op=put,50us",
        )  # fmt: skip
    return Delay(int(match[1]), match[2], us(float(match[3])))


def worlds(text: str) -> list[int]:
    """``8,16,32`` as integers of at least 2."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 1 for part in parts):
        raise UsageError(
            f"'{text}'", "--worlds", "numbers of devices, at least 2", "8,16,32,64"
        )
    return [int(part) for part in parts]
