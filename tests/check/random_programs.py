"""Small random programs in the oracle's language, right and wrong, each made from its seed.

A program is a correct protocol, or two of them on the same CTAs, with up to two changes: an
operation dropped, doubled, moved or altered, a word or place shared, a slot taken away.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from oracle import (
    Add,
    Cta,
    Fence,
    Program,
    Put,
    PutSignal,
    Quiet,
    Read,
    Signal,
    Store,
    Wait,
)

MAX_OPS = 8
"""Most operations of a CTA."""


def random_program(seed):
    """The program of *seed*: 1 to 3 PEs, 1 to 4 CTAs of up to MAX_OPS operations."""
    rng = Random(seed)
    program = rng.choice(PROTOCOLS)(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2))):
        program = rng.choice(CHANGES)(rng, program)
    ctas = tuple(replace(c, ops=c.ops[:MAX_OPS]) for c in program.ctas)
    return replace(program, ctas=ctas, ordered=rng.random() < 0.25)


# Protocols ---------------------------------------------------------------------------------


def _send(rng, dst, loc, value, word, op, operand):
    """A put and its announcement, in one of the ways that are right."""
    flag = Signal(dst, word, op, operand)
    return rng.choice(
        (
            [Put(dst, loc, value), flag],
            [Put(dst, loc, value, nbi=True), Fence(), flag],
            [Put(dst, loc, value, nbi=True), Quiet(), flag],
            [PutSignal(dst, loc, value, word, op, operand)],
            [PutSignal(dst, loc, value, word, op, operand, nbi=True)],
        )
    )


def _program(n_pes, ctas, slots=None):
    return Program(n_pes, tuple(Cta(rank, tuple(ops)) for rank, ops in ctas), slots)


def mailboxes(rng):
    """Each chunk has a place and a word of its own."""
    chunks = rng.randint(1, 3)
    sender, receiver = [], []
    for i in range(chunks):
        sender += _send(rng, 1, f"d{i}", i + 1, f"s{i}", "set", 1)
        receiver += [Wait(f"s{i}", rng.choice(("eq", "ge")), 1), Read(f"d{i}", i + 1)]
    return _program(2, [(0, sender), (1, receiver)])


def credits(rng):
    """Rounds through one or two mailboxes; the receiver acknowledges."""
    buffers, rounds = rng.randint(1, 2), rng.randint(2, 3)
    sender, receiver = [], []
    for e in range(rounds):
        if e >= buffers:
            sender.append(Wait("s2", "ge", e - buffers + 1))
        place, word = f"d{e % buffers}", f"s{e % buffers}"
        sender += _send(rng, 1, place, e + 1, word, "set", e + 1)
        receiver += [Wait(word, rng.choice(("eq", "ge")), e + 1), Read(place, e + 1)]
        receiver.append(Signal(0, "s2", "add", 1))
    return _program(2, [(0, sender), (1, receiver)])


def totals(rng):
    """Several CTAs add to one word; a reader waits for the total."""
    n_pes = rng.randint(2, 3)
    senders = [
        (rng.randint(0, n_pes - 2), _send(rng, n_pes - 1, f"d{i}", i + 1, "s0", "add", 1))
        for i in range(rng.randint(1, 2))
    ]
    reader = [Wait("s0", "ge", len(senders))]
    reader += [Read(f"d{i}", i + 1) for i in range(len(senders))]
    return _program(n_pes, [*senders, (n_pes - 1, reader)])


def exchanges(rng):
    """Both PEs send and receive, in one or two rounds with places of their own."""
    rounds = rng.randint(1, 2)
    ctas = []
    for pe in (0, 1):
        ops = []
        for e in range(rounds):
            ops += _send(rng, 1 - pe, f"d{e}", 2 * e + pe + 1, f"s{e}", "set", 1)
            ops += [Wait(f"s{e}", "ge", 1), Read(f"d{e}", 2 * e + (1 - pe) + 1)]
        ctas.append((pe, ops))
    return _program(2, ctas)


def barriers(rng):
    """All PEs arrive at all others, then read what they were sent before."""
    n_pes = rng.randint(2, 3)
    ctas = []
    for pe in range(n_pes):
        ops = [Put((pe + 1) % n_pes, "d0", pe + 1, nbi=rng.random() < 0.5), Quiet()]
        ops += [Signal(q, "s0", "add", 1) for q in range(n_pes) if q != pe]
        ops += [Wait("s0", "ge", n_pes - 1), Read("d0", (pe - 1) % n_pes + 1)]
        ctas.append((pe, ops))
    return _program(n_pes, ctas)


def resets(rng):
    """A flag that its owner resets before it acknowledges."""
    sender, receiver = [], []
    for e in range(2):
        if e:
            sender.append(Wait("s1", "ge", e))
        sender += _send(rng, 1, "d0", e + 1, "s0", rng.choice(("set", "add")), 1)
        receiver += [Wait("s0", rng.choice(("eq", "ge")), 1), Read("d0", e + 1)]
        if not e:
            receiver += [Signal(1, "s0", "set", 0), Signal(0, "s1", "add", 1)]
    return _program(2, [(0, sender), (1, receiver)])


def relays(rng):
    """A CTA passes on to another PE, directly or through a neighbour CTA, what it was told."""
    first = _send(rng, 1, "d0", 1, "s0", "set", 1)
    if rng.random() < 0.5:
        middle = [
            (1, [Wait("s0", "ge", 1), Read("d0", 1), *_send(rng, 2, "d1", 2, "s1", "set", 1)])
        ]
    else:
        middle = [
            (
                1,
                [Wait("s0", "ge", 1), Read("d0", 1), Store("d2", 3), Signal(1, "s2", "set", 1)],
            ),
            (1, [Wait("s2", "ge", 1), Read("d2", 3), *_send(rng, 2, "d1", 2, "s1", "set", 1)]),
        ]
    last = [Wait("s1", rng.choice(("eq", "ge")), 1), Read("d1", 2)]
    return _program(3, [(0, first), *middle, (2, last)], rng.choice((None, None, 1, 2)))


def counters(rng):
    """CTAs of one PE add to a counter and say so; another reads the sum."""
    adders = rng.randint(1, 3)
    ctas = [(0, [Add("c0", i + 1), Signal(0, "s0", "add", 1)]) for i in range(adders)]
    ctas.append((0, [Wait("s0", "ge", adders), Read("c0", sum(range(1, adders + 1)))]))
    return _program(1, ctas, rng.choice((None, 1, 2)))


def queues(rng):
    """Producers and consumers share the slots of one PE, producers first."""
    consumers = rng.randint(1, 2)
    producer = (0, [Store("d0", 1), *[Signal(0, f"s{i}", "set", 1) for i in range(consumers)]])
    ctas = [(0, [Wait(f"s{i}", "ge", 1), Read("d0", 1)]) for i in range(consumers)]
    return _program(1, [producer, *ctas], rng.randint(1, consumers))


def cleared(rng):
    """A PE clears its mailbox, says that it is ready, and is sent data."""
    sender = [Wait("s1", "ge", 1), *_send(rng, 1, "d0", 7, "s0", "set", 1)]
    receiver = [Store("d0", 0), Signal(0, "s1", "set", 1), Wait("s0", "eq", 1), Read("d0", 7)]
    return _program(2, [(0, sender), (1, receiver)])


def laps(rng):
    """A free-running producer and a consumer that may be lapped."""
    rounds = rng.randint(2, 3)
    sender = []
    for k in range(1, rounds + 1):
        sender += [Signal(1, "s0", "set", k), *([Fence()] if rng.random() < 0.8 else [])]
    receiver = [Wait("s0", rng.choice(("ge", "ge", "eq")), k) for k in range(1, rounds + 1)]
    return _program(2, [(0, sender), (1, receiver)])


def soup(rng):
    """Operations thrown together, over two words and two places."""
    n_pes = rng.randint(1, 3)
    ctas = [
        (pe, [_any(rng, pe, n_pes) for _ in range(rng.randint(2, 4))])
        for pe in (rng.randrange(n_pes) for _ in range(rng.randint(2, 3)))
    ]
    return _program(n_pes, ctas, rng.choice((None, None, None, 1, 2)))


def _any(rng, pe, n_pes):
    dst, loc, word = rng.randrange(n_pes), f"d{rng.randint(0, 1)}", f"s{rng.randint(0, 1)}"
    value, nbi = rng.randint(1, 2), rng.random() < 0.5
    how = rng.choice((("set", 0), ("set", 1), ("add", 1), ("add", 1)))
    if dst == pe:
        local = (Store(loc, value), Add("c0", 1), Signal(pe, word, *how), Fence(), Quiet())
        return rng.choice(local)
    return rng.choice(
        (
            Put(dst, loc, value, nbi),
            PutSignal(dst, loc, value, word, *how, nbi),
            Signal(dst, word, *how),
            Signal(dst, word, *how),
            Wait(word, rng.choice(("eq", "ge")), rng.randint(0, 2)),
            Wait(word, "ge", 1),
            Read(loc, value),
            Read("c0", 1),
        )
    )


PROTOCOLS = (
    mailboxes, credits, totals, exchanges, barriers, resets, relays, counters, queues, cleared,
    laps, soup, soup, soup,
)  # fmt: skip


# Changes -----------------------------------------------------------------------------------


def _edited(rng, program, edit):
    """*program* with ``edit(ops, k)`` done to a random operation's CTA."""
    p = rng.randrange(len(program.ctas))
    ops = list(program.ctas[p].ops)
    if ops:
        edit(ops, rng.randrange(len(ops)))
    ctas = list(program.ctas)
    ctas[p] = replace(ctas[p], ops=tuple(ops))
    return replace(program, ctas=tuple(ctas))


def drop(rng, program):
    return _edited(rng, program, lambda ops, k: ops.pop(k))


def double(rng, program):
    return _edited(rng, program, lambda ops, k: ops.insert(k, ops[k]))


def move(rng, program):
    return _edited(
        rng, program, lambda ops, k: ops.insert(rng.randint(0, len(ops) - 1), ops.pop(k))
    )


def alter(rng, program):
    def edit(ops, k):
        op = ops[k]
        ways = []
        if hasattr(op, "word"):
            ways.append({"word": f"s{rng.randint(0, 1)}"})
        if hasattr(op, "loc") and op.loc[0] == "d":
            ways.append({"loc": f"d{rng.randint(0, 1)}"})
        if hasattr(op, "nbi"):
            ways += [{"nbi": not op.nbi}] * 2
        if hasattr(op, "cmp"):
            ways.append({"cmp": "eq" if op.cmp == "ge" else "ge"})
        if hasattr(op, "op"):
            ways.append({"op": "set" if op.op == "add" else "add"})
        if hasattr(op, "operand"):
            ways.append({"operand": max(0, op.operand + rng.choice((-1, 1)))})
        if ways:
            ops[k] = replace(op, **rng.choice(ways))

    return _edited(rng, program, edit)


def insert(rng, program):
    new = rng.choice((Fence(), Quiet(), Store("d0", 9), Read("d0", 1), Wait("s0", "ge", 1)))
    return _edited(rng, program, lambda ops, k: ops.insert(k, new))


def retry(rng, program):
    """Another CTA sends to a place that is in use."""
    dst = rng.randrange(program.n_pes)
    rank = rng.randrange(program.n_pes)
    if rank == dst or len(program.ctas) > 3:
        return drop(rng, program)
    return replace(program, ctas=(*program.ctas, Cta(rank, (Put(dst, "d0", 9),))))


def reorder(rng, program):
    """Launch the CTAs in another order, perhaps on fewer slots."""
    ctas = rng.sample(program.ctas, len(program.ctas))
    return replace(program, ctas=tuple(ctas), slots=rng.choice((program.slots, 1, 2)))


CHANGES = (drop, drop, drop, double, move, move, alter, alter, alter, insert, retry, reorder)
