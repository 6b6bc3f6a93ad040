"""Specs in one word each, and readers of TTGIR and PTX for the tests of the lowering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tdsim.backend_gpu.lowering.specs import ScalarSpec, SignalSpec, ViewSpec
from tdsim.backend_gpu.lowering.world import World

from tdsim import lang as td

ONE_NODE = World(1, 4, 4)
TWO_NODES = World(1, 4, 2)
INT = ScalarSpec(td.int32)
SIGNALS = SignalSpec()
COUNTERS = ViewSpec(dtype=td.int32, ndim=1)


def view(*tile, dtype=td.bfloat16, **spec):
    """A 2-D view, passed with a descriptor if *tile* is given."""
    return ViewSpec(dtype=dtype, tile=tile or None, **spec)


def heap(*tile, **spec):
    """A symmetric :func:`view`."""
    return view(*tile, symmetric=True, **spec)


class Ttgir:
    """The data flow of a TTGIR text: which values a value is computed from."""

    def __init__(self, text: str) -> None:
        self.lines = [re.sub(r" loc\(.*", "", line) for line in text.splitlines()]
        self._definitions: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            found = re.match(r"\s*(%[\w-]+)(?::\d+)? = ", line)
            if found:
                self._definitions.setdefault(found[1], []).append(number)

    def line(self, pattern: str) -> int:
        """The number of the first line that matches."""
        return next(i for i, line in enumerate(self.lines) if re.search(pattern, line))

    def operation(self, start: int) -> list[str]:
        """The lines of the operation that begins at *start*, with its regions."""
        depth, end = 0, start
        while True:
            line = re.sub(r"\{[^{}]*\}", "", self.lines[end])
            depth += line.count("{") - line.count("}")
            end += 1
            if depth <= 0:
                return self.lines[start:end]

    def sources(self, operand: int, use: int) -> str:
        """All operations that operand number *operand* of line *use* is computed from."""
        values = _values(re.sub(r"^\s*%\S+ = ", "", self.lines[use]))
        seen: set[int] = set()
        todo = [(values[operand], use)]
        while todo:
            name, before = todo.pop()
            # Regions beside each other reuse names: the last definition above is the one.
            above = [line for line in self._definitions.get(name, ()) if line < before]
            if above and above[-1] not in seen:
                start = above[-1]
                seen.add(start)
                for offset, line in enumerate(self.operation(start)):
                    todo += [(value, start + offset) for value in _values(line)]
        return "\n".join("\n".join(self.operation(start)) for start in sorted(seen))

    def loops(self) -> list[int]:
        """The lines where loops over a range begin, outer ones before inner ones."""
        return [i for i, line in enumerate(self.lines) if "scf.for" in line]

    def ifs_around(self, line_number: int) -> Iterator[int]:
        """The lines of the ifs that a line stands in."""
        indent = _indent(self.lines[line_number])
        for number in range(line_number - 1, -1, -1):
            line = self.lines[number]
            if line.strip() and _indent(line) < indent and not line.lstrip().startswith("}"):
                indent = _indent(line)
                if "scf.if" in line:
                    yield number


def _values(text: str) -> list[str]:
    return re.findall(r"%[\w-]+", text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def instructions(ptx: str) -> list[str]:
    """The instructions of a PTX text, one per item, inline assembly taken apart."""
    body = re.sub(r"//.*", "", ptx)
    return [" ".join(part.split()) for part in re.split(r"[;\n]", body) if part.strip()]


def scalar_stores(ttgir: Ttgir) -> list[int]:
    """The lines that store an int64 through a plain pointer: reports and events, no tiles."""
    return [
        i
        for i, line in enumerate(ttgir.lines)
        if re.search(r"tt\.store .*: !tt\.ptr<i64>", line)
    ]


def last_before(items: list[str], pattern: str, end: int) -> int:
    """Index of the last item before *end* that matches, or -1."""
    return max((i for i in range(end) if re.search(pattern, items[i])), default=-1)


_PTX = {
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "bfe.u32": lambda a, start, size: a >> start & (1 << size) - 1,
    "shr.u32": lambda a, b: a >> b,
    "and.pred": lambda a, b: a and b,
    "setp.eq.b32": lambda a, b: a == b,
    "setp.lt.u32": lambda a, b: a < b,
}


def threads_where(items: list[str], predicate: str, num_threads: int) -> list[int]:
    """The threads of a CTA in which *predicate*, a function of the thread index, holds."""
    definition = {}
    for item in items:
        found = re.match(r"([a-z0-9.]+) (%\w+), (.+)", item)
        if found:
            definition[found[2]] = (found[1], found[3].split(", "))

    def value(name: str, thread: int) -> int:
        if not name.startswith("%"):
            return int(name)
        if name == "%tid.x":
            return thread
        operation, operands = definition[name]
        values = [value(operand, thread) for operand in operands]
        return values[0] if operation == "mov.u32" else _PTX[operation](*values)

    return [thread for thread in range(num_threads) if value(predicate, thread)]
