"""An exhaustive oracle for small programs: every outcome that any schedule can have.

It shares nothing with the simulator. A program is a list of CTAs, each a list of operations;
what they send travels as messages that land in any order that the contract of
:mod:`tdsim.lang.remote` allows. All interleavings of CTA steps and landings are visited, each
state once.

The contract in terms of messages:

- a message lands after those to the same PE that precede a fence which precedes it;
- a signal is a release: it lands after all blocking puts and own signals of its CTA before it;
- a put with signal is one message, ordered as a put is: the signal covers its own data only;
- a signal to the own PE is a store. Others may see it late, its CTA never;
- on an *ordered* path, what one CTA sends to one PE lands in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import eq, ge
from typing import Any

OK, WRONG, DEADLOCK = "OK", "WRONG", "DEADLOCK"
RACY = "RACY"
"""Two accesses to one place, one of them a write, can both be next: even if nobody can tell."""
COMPARE = {"eq": eq, "ge": ge}


@dataclass(frozen=True, slots=True)
class Put:
    """Write *value* to *loc* on PE *dst*; *nbi* does not count for later signals."""

    dst: int
    loc: str
    value: int
    nbi: bool = False


@dataclass(frozen=True, slots=True)
class PutSignal:
    """A put and, after its data, an update of *word* on *dst*: ``"set"`` or ``"add"``."""

    dst: int
    loc: str
    value: int
    word: str
    op: str
    operand: int
    nbi: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """Update *word* on PE *dst*; to the own PE with ``"set", 0`` it is a reset."""

    dst: int
    word: str
    op: str
    operand: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Order what this CTA has sent before what it sends next, PE by PE."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Wait until all that this CTA has sent has landed."""


@dataclass(frozen=True, slots=True)
class Store:
    """Write *value* to the own *loc*, visible at once."""

    loc: str
    value: int


@dataclass(frozen=True, slots=True)
class Add:
    """Add *value* to the own counter *loc*, atomically."""

    loc: str
    value: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the own *word* compares ``"eq"`` or ``"ge"`` with *operand*."""

    word: str
    cmp: str
    operand: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read the own *loc*; any value but *expected* makes the run WRONG."""

    loc: str
    expected: int


Op = Put | PutSignal | Signal | Fence | Quiet | Store | Add | Wait | Read


@dataclass(frozen=True, slots=True)
class Cta:
    """A program instance on PE *rank*."""

    rank: int
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """*ctas* in launch order; each PE holds *slots* of its own at a time (None: all).

    Locations are ``"d0"`` .. for data, unwritten at first, and ``"c0"`` .. for counters, 0 at
    first; words ``"s0"`` .. are 0 at first.
    """

    n_pes: int
    ctas: tuple[Cta, ...]
    slots: int | None = None
    ordered: bool = False


class TooLargeError(Exception):
    """The program has more states than the oracle was allowed to visit."""


@dataclass(frozen=True, slots=True)
class _Message:
    dst: int
    writes: tuple[tuple[tuple[int, str], str, int], ...]
    before: frozenset[tuple[int, int]]
    """Messages, by CTA and operation, that land first."""


def outcomes(program: Program, limit: int = 200_000) -> frozenset[str]:
    """Which of OK, WRONG and DEADLOCK some schedule of *program* ends in.

    A schedule that gets stuck is DEADLOCK whatever it has read. RACY is among them if two
    accesses can meet. Raises TooLargeError beyond *limit* states.
    """
    messages = {key: m for p in range(len(program.ctas)) for key, m in _messages(program, p)}
    places = sorted(_places(program, messages))
    index = {place: i for i, place in enumerate(places)}
    memory = tuple(None if name.startswith("d") else 0 for _, name in places)
    start = ((0,) * len(program.ctas), frozenset(), memory, False)
    seen, stack, found = {start}, [start], set()
    while stack:
        state = stack.pop()
        pcs, _, _, wrong = state
        if all(pc == len(c.ops) for pc, c in zip(pcs, program.ctas, strict=True)):
            found.add(WRONG if wrong else OK)
            continue
        stuck = True
        if RACY not in found and _meet(program, messages, state):
            found.add(RACY)
        for after in _successors(program, messages, index, state):
            stuck = False
            if after not in seen:
                seen.add(after)
                stack.append(after)
        if stuck:
            found.add(DEADLOCK)
        if len(seen) > limit:
            raise TooLargeError(f"more than {limit} states")
    if program.slots is not None:  # whoever gets a slot later has learnt nothing by that
        found |= outcomes(replace(program, slots=None), limit) & {RACY}
    return frozenset(found)


def _messages(program: Program, p: int) -> Iterator[tuple[tuple[int, int], _Message]]:
    """What CTA *p* sends: key (CTA, operation) and message."""
    rank = program.ctas[p].rank
    sent: list[tuple[tuple[int, int], Op]] = []
    fenced: frozenset[tuple[int, int]] = frozenset()
    for k, op in enumerate(program.ctas[p].ops):
        if isinstance(op, Fence):
            fenced = frozenset(key for key, _ in sent)
        if not isinstance(op, (Put, PutSignal, Signal)):
            continue
        before = {key for key, other in sent if key in fenced and other.dst == op.dst}
        if isinstance(op, Signal):
            before |= {key for key, other in sent if _released(other, rank)}
        if program.ordered:
            before |= {key for key, other in sent if other.dst == op.dst}
        writes: list[Any] = []
        if not isinstance(op, Signal):
            writes.append(((op.dst, op.loc), "set", op.value))
        if not isinstance(op, Put):
            writes.append(((op.dst, op.word), op.op, op.operand))
        yield (p, k), _Message(op.dst, tuple(writes), frozenset(before))
        sent.append(((p, k), op))


def _released(op: Op, rank: int) -> bool:
    """Whether a later signal of the same CTA on *rank* is behind *op*."""
    return op.dst == rank if isinstance(op, Signal) else not op.nbi


def _places(program: Program, messages: dict[Any, _Message]) -> set[tuple[int, str]]:
    places = {place for m in messages.values() for place, _, _ in m.writes}
    for cta in program.ctas:
        for op in cta.ops:
            if isinstance(op, (Store, Add, Read)):
                places.add((cta.rank, op.loc))
            if isinstance(op, Wait):
                places.add((cta.rank, op.word))
    return places


def _successors(program: Program, messages: Any, index: Any, state: Any) -> Iterator[Any]:
    pcs, flying, memory, wrong = state
    for key in flying:
        message = messages[key]
        if not message.before & flying:
            yield pcs, flying - {key}, _written(memory, index, message.writes), wrong
    for p in _resident(program, pcs):
        cta = program.ctas[p]
        op = cta.ops[pcs[p]]
        then = (*pcs[:p], pcs[p] + 1, *pcs[p + 1 :])
        if isinstance(op, (Put, PutSignal, Signal)):
            yield then, flying | {(p, pcs[p])}, memory, wrong
        elif isinstance(op, Fence):
            yield then, flying, memory, wrong
        elif isinstance(op, Quiet):
            if not any(q == p for q, _ in flying):
                yield then, flying, memory, wrong
        elif isinstance(op, (Store, Add)):
            how = "set" if isinstance(op, Store) else "add"
            writes = (((cta.rank, op.loc), how, op.value),)
            yield then, flying, _written(memory, index, writes), wrong
        elif isinstance(op, Read):
            value = memory[index[cta.rank, op.loc]]
            yield then, flying, memory, wrong or value != op.expected
        else:
            word = (cta.rank, op.word)
            own = any(
                q == p and any(place == word for place, _, _ in messages[q, k].writes)
                for q, k in flying
            )
            if not own and COMPARE[op.cmp](memory[index[word]], op.operand):
                yield then, flying, memory, wrong


def _meet(program: Program, messages: Any, state: Any) -> bool:
    """Whether two conflicting accesses to data are possible next."""
    pcs, flying, _, _ = state
    next_ones: list[tuple[tuple[int, str], str]] = []
    for key in flying:
        if not messages[key].before & flying:
            next_ones += [(place, "write") for place, _, _ in messages[key].writes]
    for p in _resident(program, pcs):
        op = program.ctas[p].ops[pcs[p]]
        if isinstance(op, (Store, Add, Read)):
            kind = {Store: "write", Add: "atomic", Read: "read"}[type(op)]
            next_ones.append(((program.ctas[p].rank, op.loc), kind))
    kinds: dict[tuple[int, str], list[str]] = {}
    for place, kind in next_ones:
        if not place[1].startswith("s"):
            kinds.setdefault(place, []).append(kind)
    return any(("write" in k and len(k) > 1) or len(set(k)) > 1 for k in kinds.values())


def _written(memory: tuple[Any, ...], index: Any, writes: Any) -> tuple[Any, ...]:
    after = list(memory)
    for place, how, value in writes:
        i = index[place]
        after[i] = value if how == "set" else after[i] + value
    return tuple(after)


def _resident(program: Program, pcs: tuple[int, ...]) -> Iterator[int]:
    """CTAs that hold a slot and have not ended: admitted in launch order, PE by PE."""
    free = [len(pcs) if program.slots is None else program.slots] * program.n_pes
    for p, cta in enumerate(program.ctas):
        if pcs[p] < len(cta.ops) and free[cta.rank]:
            free[cta.rank] -= 1
            yield p
