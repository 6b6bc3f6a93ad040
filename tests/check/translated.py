"""The oracle's programs translated to programs of tdsim: one kernel reads them from a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from oracle import Add, Fence, Put, PutSignal, Read, Signal, Store, Wait

from tdsim import lang as td
from tdsim.check.checker import functional_job
from tdsim.topology import machine

(
    PUT,
    PUT_NBI,
    PUT_SIGNAL,
    PUT_SIGNAL_NBI,
    SIGNAL,
    FENCE,
    QUIET,
    STORE,
    ADD,
    WAIT,
    READ,
    READ_COUNTER,
) = range(12)
VALUES = 10
"""Data are 0 to 9: row v of the source is v."""


@td.kernel
def interpret(y, data, source, counters, words, table: td.constexpr):
    """Program instance i does the operations of ``table[i]``."""
    ops = table[td.program_id(0)]
    row = 0
    for k in range(len(ops)):
        op = ops[k]
        what = op[0]
        to = td.rows(data, op[2], 1)
        src = td.rows(source, op[3], 1)
        if what == PUT:
            td.putmem(to, src, op[1])
        if what == PUT_NBI:
            td.putmem_nbi(to, src, op[1])
        if what == PUT_SIGNAL:
            td.putmem_signal(to, src, words, op[4], op[6], op[5], op[1])
        if what == PUT_SIGNAL_NBI:
            td.putmem_signal_nbi(to, src, words, op[4], op[6], op[5], op[1])
        if what == SIGNAL:
            td.signal_op(words, op[4], op[6], op[5], op[1])
        if what == FENCE:
            td.fence()
        if what == QUIET:
            td.quiet()
        if what == STORE:
            td.store(data, (op[2], 0), td.load(source, (op[3], 0), (1, 1)))
        if what == ADD:
            td.atomic_add(counters, (op[2], 0), op[6])
        if what == WAIT:
            token = td.signal_wait_until(words, op[4], op[5], op[6])
            row = td.after(token, row)
        if what == READ:
            td.store(y, (op[1], 0), td.load(data, (op[2] + row, 0), (1, 1)))
        if what == READ_COUNTER:
            count = td.load(counters, (op[2] + row, 0), (1, 1))
            td.store(y, (op[1], 0), td.cast(count, td.float32))


def translate(program, name="random"):
    """*program* for tdsim: each read is an element of the output ``y`` and its reference."""
    tables, expected = _tables(program)
    n_reads = max(1, *map(len, expected))

    def reference(_):
        padded = [[*values, *[0] * (n_reads - len(values))] for values in expected]
        return {"y": [np.array(v, np.float32).reshape(-1, 1) for v in padded]}

    def host(ctx, y):
        source = ctx.local((VALUES, 1), td.float32)
        data = ctx.symmetric((_count(program, "d"), 1), td.float32)
        counters = ctx.local((_count(program, "c"), 1), td.int32, zero=True)
        words = ctx.signals(
            _count(program, "s"),
            per_call=0,  # a wrong program adds what it likes
        )
        # Neither the constants nor the unused outputs are part of the program.
        source.data[:, 0] = range(VALUES)
        table = tables[ctx.my_pe]
        if table:
            ctx.launch(interpret, len(table), (y, data, source, counters, words, table))
        ctx.launch(pad, 1, (y, len(expected[ctx.my_pe]), n_reads))

    host.__name__ = name
    host.__doc__ = name
    return td.program(
        shape=("n",),
        tensors={"y": td.Output(str(n_reads), "1")},
        work=(),
        reference=reference,
        small_shape="n=1",
    )(host)


@td.kernel
def pad(y, begin, end):
    """The outputs that this PE has no read for."""
    for row in range(begin, end):
        td.store(y, (row, 0), 0)


def _count(program, letter):
    """How many places *letter* names, over all PEs; one at least."""
    names = [
        getattr(op, field)
        for cta in program.ctas
        for op in cta.ops
        for field in ("loc", "word")
        if hasattr(op, field)
    ]
    return 1 + max((int(n[1:]) for n in names if n[0] == letter), default=0)


def _tables(program):
    """For each PE its CTAs as rows of numbers, and the values that its reads expect."""
    tables = [[] for _ in range(program.n_pes)]
    expected = [[] for _ in range(program.n_pes)]
    for cta in program.ctas:
        tables[cta.rank].append(tuple(_row(op, expected[cta.rank]) for op in cta.ops))
    return [tuple(t) for t in tables], expected


def _row(op, reads):
    """What, PE or output row, place, value, word, how, operand."""
    place = int(op.loc[1:]) if hasattr(op, "loc") else 0
    word = int(op.word[1:]) if hasattr(op, "word") else 0
    match op:
        case Put():
            return (PUT_NBI if op.nbi else PUT, op.dst, place, op.value, 0, "", 0)
        case PutSignal():
            what = PUT_SIGNAL_NBI if op.nbi else PUT_SIGNAL
            return (what, op.dst, place, op.value, word, op.op, op.operand)
        case Signal():
            return (SIGNAL, op.dst, 0, 0, word, op.op, op.operand)
        case Store():
            return (STORE, 0, place, op.value, 0, "", 0)
        case Add():
            return (ADD, 0, place, 0, 0, "", op.value)
        case Wait():
            return (WAIT, 0, 0, 0, word, op.cmp, op.operand)
        case Read():
            reads.append(op.expected)
            what = READ if op.loc[0] == "d" else READ_COUNTER
            return (what, len(reads) - 1, place, 0, 0, "", 0)
        case _:
            return (FENCE if isinstance(op, Fence) else QUIET, 0, 0, 0, 0, "", 0)


def machine_for(program):
    """A machine whose paths and SM slots are those of *program*."""
    one_node = program.ordered or program.n_pes == 1
    base = machine(f"h800x{program.n_pes}" if one_node else f"h800x{program.n_pes}x1")
    if program.slots is None:
        return base
    return replace(base, gpu=replace(base.gpu, num_sms=program.slots))


def job_of(program):
    """One call of *program* on its machine."""
    prog, target = translate(program), machine_for(program)
    return functional_job(prog, target, None, None, "fp32", calls=1, seed=0)
