"""Wrong data that no race explains: the inputs must tell positions and ranks apart."""

from __future__ import annotations

import numpy as np

from cases.common import Case, program, total
from tdsim import lang as td

TOPK = 2


@td.kernel
def combine(y, x, w, STRIDE: td.constexpr):
    """Each of 8 tokens: the sum of its two experts' rows, weighted."""
    for t in range(8):
        first = td.load(x, (2 * t, 0), (1, 8)) * td.load(w, (STRIDE * t, 0), (1, 1))
        second = td.load(x, (2 * t + 1, 0), (1, 8)) * td.load(w, (STRIDE * t + 1, 0), (1, 1))
        td.store(y, (t, 0), first + second)


def moe_combine(stride: int):
    """B16: the row of an expert's weight is not multiplied by the number of experts."""

    def host(ctx, x, w, y):
        ctx.launch(combine, 1, (y, x, w, stride))

    def reference(inputs):
        pairs = zip(inputs["x"], inputs["w"], strict=True)
        products = [x.astype(np.float64) * w.astype(np.float64) for x, w in pairs]
        return {"y": [p.reshape(8, 2, 8).sum(axis=1) for p in products]}

    tensors = {"x": td.Input("16", "8"), "w": td.Input("16", "1"), "y": td.Output("8", "8")}
    return program(host, reference, sums=True, **tensors)


def gathered(permuted: bool):
    """B17: an all-gather that swaps two chunks, which data of ones would not show."""

    def host(ctx, x, y):
        ctx.barrier_all()
        place = ctx.my_pe ^ 1 if permuted else ctx.my_pe
        for pe in range(ctx.n_pes):
            ctx.copy(y.rows(4 * place, 4).at(pe), x)
        ctx.barrier_all()

    def reference(inputs):
        return {"y": [np.concatenate(inputs["x"])] * len(inputs["x"])}

    tensors = {"x": td.Input("4", "8"), "y": td.Output("4*world", "8", symmetric=True)}
    return program(host, reference, **tensors)


@td.kernel
def attend(y, keys, own, arrived, PREFIX: td.constexpr):
    """Add up what this PE's keys and the other PE's give; *PREFIX* rows are on both."""
    other = 1 - td.my_pe()
    there = td.rows(keys, 16, 16)
    td.putmem_signal(there, td.rows(own, 0, 16), arrived, 0, 1, "set", other)
    acc = td.zeros((8, 8), td.float32)
    for block in range(2):
        acc = acc + td.load(own, (8 * block, 0), (8, 8))
    token = td.signal_wait_until(arrived, 0, "ge", 1)
    for block in range(2):
        row = td.after(token, 16 + 8 * block)
        if block > 0 or PREFIX == 0:
            acc = acc + td.load(keys, (row, 0), (8, 8))
    td.store(y, (0, 0), acc)


def replicated_prefix(skipped: bool):
    """B33: eight keys are on both PEs; a ring that rotates them too counts them twice."""

    def host(ctx, x, y):
        keys, own = ctx.symmetric((32, 8), x.dtype), ctx.local((16, 8), x.dtype)
        arrived = ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(stack, 1, (own, x))
        ctx.launch(attend, 1, (y, keys, own, arrived, 8 if skipped else 0))

    def reference(inputs):
        x = inputs["x"]
        both = np.full((8, 8), 2.0)
        return {"y": [both + x[0].astype(np.float64) + x[1].astype(np.float64)] * 2}

    tensors = {"x": td.Input("8", "8"), "y": td.Output("8", "8")}
    return program(host, reference, sums=True, **tensors)


@td.kernel
def stack(own, x):
    """Eight keys that every PE has, then eight of this PE."""
    td.store(own, (0, 0), td.full((8, 8), 2, td.float32))
    td.store(own, (8, 0), td.load(x, (0, 0), (8, 8)))


def zigzag(length: int, padded: bool):
    """B33: *length* rows over 4 PEs in 8 zigzag chunks, with and without padding."""
    chunk = -(-length // 8)

    def host(ctx, x, y):
        for i, part in enumerate((ctx.my_pe, 7 - ctx.my_pe)):
            rows = min(chunk, length - part * chunk) if padded else chunk
            place = y.rows(i * chunk, rows)
            ctx.copy(place, x.rows(part * chunk, rows))
            if rows < chunk:
                rest = chunk - rows
                ctx.copy(y.rows(i * chunk + rows, rest), x.rows(0, rest))

    def reference(inputs):
        outputs = []
        for rank, x in enumerate(inputs["x"]):
            ends = np.concatenate([x, x[: 8 * chunk - length]])
            parts = ends.reshape(8, chunk, 8)
            outputs.append(np.concatenate([parts[rank], parts[7 - rank]]))
        return {"y": outputs}

    tensors = {"x": td.Input(str(length), "8"), "y": td.Output(str(2 * chunk), "8")}
    return program(host, reference, **tensors)


@td.kernel
def add_in_turn(y, x, parts, arrived, order, ARRIVAL: td.constexpr):
    """Add up the parts of all PEs in the order of arrival, or in the order of PEs."""
    n, me = td.n_pes(), td.my_pe()
    for pe in range(n):
        td.putmem_signal(td.rows(parts, 4 * me, 4), x, arrived, me, 1, "set", pe)
    acc = td.zeros((4, 8), td.float32)
    for step in range(n):
        pe = (me + step) % n if ARRIVAL else step
        token = td.signal_wait_until(arrived, pe, "ge", 1)
        row = td.after(token, 4 * pe)
        acc = acc + td.load(parts, (row, 0), (4, 8))
    td.store(y, (0, 0), acc)


def reduced(by_arrival: bool):
    """B37: sums in an order that differs between PEs, or is the same on all."""

    def host(ctx, x, y):
        parts, arrived = ctx.symmetric((4 * ctx.n_pes, 8), x.dtype), ctx.signals(ctx.n_pes)
        ctx.barrier_all()
        ctx.launch(add_in_turn, 1, (y, x, parts, arrived, 0, by_arrival))

    return program(host, total, sums=True)


CASES = (
    Case(id="B16 weight row without topk", program=lambda: moe_combine(1),
         verdict="WRONG-RESULT"),
    Case(id="B16 weight row times topk", program=lambda: moe_combine(TOPK), verdict="CLEAN"),
    Case(id="B17 permuted chunks", program=lambda: gathered(True), verdict="WRONG-RESULT"),
    Case(id="B17 chunks in place", program=lambda: gathered(False), verdict="CLEAN"),
    Case(id="B33 prefix counted twice", program=lambda: replicated_prefix(False),
         verdict="WRONG-RESULT"),
    Case(id="B33 prefix counted once", program=lambda: replicated_prefix(True),
         verdict="CLEAN"),
    Case(id="B33 zigzag of 2999 rows", program=lambda: zigzag(2999, False),
         topology="h800x4", verdict="API-ERROR", says=("rows 2625 to 3000",)),
    Case(id="B33 zigzag, padded", program=lambda: zigzag(2999, True), topology="h800x4",
         verdict="CLEAN"),
    Case(id="B37 sums in any order", program=lambda: reduced(True), topology="h800x4",
         verdict="CLEAN"),
    Case(id="B37 sums in one order", program=lambda: reduced(False), topology="h800x4",
         verdict="CLEAN"),
)  # fmt: skip
