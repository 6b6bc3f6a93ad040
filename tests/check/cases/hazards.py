"""Suspected hazards H1 to H13 of a published kernel library: as found, as repaired."""

from __future__ import annotations

from cases.common import Case, call_of, copy_tile, from_previous, program
from tdsim import lang as td


@td.kernel
def gather_low_latency(y, x, mail, ready, number, CMP: td.constexpr):
    """Put x to the next PE with the number of the call; wait for that number."""
    td.putmem_signal(mail, x, ready, 0, number, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, CMP, number)
    copy_tile(y, td.after(token, mail))


def h1(repaired: bool):
    """H1: a wait for equality on a counter that grows from call to call, with no answer."""

    def host(ctx, x, y):
        number = 1 + call_of(ctx)
        mail = ctx.symmetric((8, 8), x.dtype).rows(4 * (number % 2), 4)
        ready = ctx.signals(1, per_call=0)
        if repaired:
            ctx.barrier_all()
        cmp = "ge" if repaired else "eq"
        ctx.launch(gather_low_latency, 1, (y, x, mail, ready, number, cmp))

    return program(host, from_previous)


@td.kernel
def owner_tells(flags, n):
    """The owner sets its flag on all PEs, waits for theirs, then clears its own everywhere."""
    me = td.my_pe()
    for pe in range(n):
        td.signal_op(flags, me, 1, "set", pe)
    last = 0
    for pe in range(n):
        token = td.signal_wait_until(flags, pe, "ge", 1)
        last = td.after(token, 0)
    for pe in range(n):
        td.signal_op(flags, me, last, "set", pe)


@td.kernel
def owner_tells_once(flags, n):
    """The owner sets its flag on all PEs and waits for theirs; the call number does the rest."""
    me = td.my_pe()
    for pe in range(n):
        td.signal_op(flags, me, 1, "set", pe)
    last = 0
    for pe in range(n):
        token = td.signal_wait_until(flags, pe, "ge", 1)
        last = td.after(token, 1)
    td.signal_op(flags, n, last, "set", me)


def h2(repaired: bool):
    """H2: the owner clears its tile flags on peers that may not have looked yet."""

    def host(ctx):
        if repaired:
            ctx.launch(owner_tells_once, 1, (ctx.signals(ctx.n_pes + 1), ctx.n_pes))
        else:
            ctx.launch(owner_tells, 1, (ctx.signals(ctx.n_pes, per_call=0), ctx.n_pes))

    return program(host)


@td.kernel
def tell_experts(counts, REPAIRED: td.constexpr):
    """Tell the PE of each of four experts that this PE has no tokens for it."""
    for expert in range(4):
        slot = 2 * td.my_pe() + (expert % 2 if REPAIRED else expert // 2)
        td.signal_op(counts, slot, 1, "set", expert // 2)
    last = 0
    for slot in range(4):
        token = td.signal_wait_until(counts, slot, "ge", 1)
        last = td.after(token, 1)
    td.signal_op(counts, 4, last, "set", td.my_pe())


def h3(repaired: bool):
    """H3: a slot index that divides by experts per PE where it should take the rest."""

    def host(ctx):
        ctx.launch(tell_experts, 1, (ctx.signals(5), repaired))

    return program(host)


@td.kernel
def make_tile(tile, x, flag):
    """Make a tile and flag it as done."""
    copy_tile(tile, x)
    td.signal_op(flag, 0, 1, "set", td.my_pe())


@td.kernel
def use_tile(y, tile, flag):
    """Wait for the flag, use the tile."""
    token = td.signal_wait_until(flag, 0, "ge", 1)
    copy_tile(y, td.after(token, tile))


@td.kernel
def clear_flag(flag):
    """Flag the tile as not done."""
    td.signal_op(flag, 0, 0, "set", td.my_pe())


def h4(repaired: bool):
    """H4 and H13: flags are cleared on one stream after their reader's stream was forked."""

    def host(ctx, x, y):
        tile, flag = ctx.local((4, 8), x.dtype), ctx.signals(1, per_call=0)
        reader = ctx.stream("reader")
        if repaired:
            ctx.launch(clear_flag, 1, (flag,))
        ctx.fork(reader)
        ctx.launch(use_tile, 1, (y, tile, flag), stream=reader)
        if not repaired:
            ctx.launch(clear_flag, 1, (flag,))
        ctx.launch(make_tile, 1, (tile, x, flag))
        ctx.join(reader)

    def reference(inputs):
        return {"y": [a.copy() for a in inputs["x"]]}

    return program(host, reference)


def h5(repaired: bool):
    """H5: flags that are never cleared, and a wait for at least 1."""

    def host(ctx, x, y):
        mail = ctx.symmetric((4, 8), x.dtype)
        ready = ctx.signals(1, per_call=1 if repaired else 0)
        ctx.barrier_all()
        ctx.launch(gather_low_latency, 1, (y, x, mail, ready, 1, "ge"))

    return program(host, from_previous)


@td.kernel
def with_scales(y, x, mail, ready, REPAIRED: td.constexpr):
    """Put the rows in two parts, without blocking; the signal goes with the second part."""
    following = (td.my_pe() + 1) % td.n_pes()
    td.putmem_nbi(td.rows(mail, 0, 2), td.rows(x, 0, 2), following)
    if REPAIRED:
        td.fence()
    td.putmem_signal_nbi(td.rows(mail, 2, 2), td.rows(x, 2, 2), ready, 0, 1, "set", following)
    if REPAIRED == 0:
        td.fence()
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, mail))
    td.quiet()


def h6(repaired: bool):
    """H6: the signal is sent before the fence for what it announces."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(with_scales, 1, (y, x, mail, ready, repaired))

    return program(host, from_previous)


@td.kernel
def tile_in_parts(tile, x, joined, ready, REPAIRED: td.constexpr):
    """Two parts of a tile; part 0 tells the peer that the tile is done, joined or not."""
    part = td.program_id(0)
    there = td.symm_at(tile, (td.my_pe() + 1) % td.n_pes())
    td.store(there, (2 * part, 0), td.load(x, (2 * part, 0), (2, 8)))
    if REPAIRED:
        td.grid_barrier(joined, 0)
    if part == 0:
        td.signal_op(ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())


def h7(repaired: bool):
    """H7: one part of a tile releases it without having met the others (parts are CTAs)."""

    def host(ctx, x, y):
        tile, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        joined = ctx.signals(1, per_call=2)
        ctx.barrier_all()
        ctx.launch(tile_in_parts, 2, (tile, x, joined, ready, repaired))
        ctx.launch(use_tile, 1, (y, tile, ready))

    return program(host, from_previous)


@td.kernel
def tile_with_scope(tile, x, ready, SCOPE: td.constexpr):
    """Store a tile on the next PE and release it at some scope."""
    following = (td.my_pe() + 1) % td.n_pes()
    copy_tile(td.symm_at(tile, following), x)
    td.signal_op(ready, 0, 1, "set", following, SCOPE)


def h8(scope: str):
    """H8: data for another GPU, released at the scope of this one."""

    def host(ctx, x, y):
        tile, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(tile_with_scope, 1, (tile, x, ready, scope))
        ctx.launch(use_tile, 1, (y, tile, ready))

    return program(host, from_previous)


@td.kernel
def dispatch(mail, x, count, ready, REPAIRED: td.constexpr):
    """Two parts put their rows; the last one to be counted signals, each quiet or only it."""
    part = td.program_id(0)
    following = (td.my_pe() + 1) % td.n_pes()
    td.putmem_nbi(td.rows(mail, 2 * part, 2), td.rows(x, 2 * part, 2), following)
    if REPAIRED:
        td.quiet()
    if td.atomic_add(count, 0, 1) % 2 == 1:
        td.fence()
        td.signal_op(ready, 0, 1, "set", following)


def h9(repaired: bool):
    """H9: only the last part fences, and its fence does not cover the others' puts."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        count = ctx.local((1,), td.int32, zero=True)
        ctx.barrier_all()
        ctx.launch(dispatch, 2, (mail, x, count, ready, repaired))
        ctx.launch(use_tile, 1, (y, mail, ready))

    return program(host, from_previous)


@td.kernel
def notify_tiles(done, REPAIRED: td.constexpr):
    """Notify three tiles and wait for value 1 in each."""
    for tile in range(3):
        td.signal_op(done, tile, 1 if REPAIRED else tile, "set", td.my_pe())
    last = 0
    for tile in range(3):
        token = td.signal_wait_until(done, tile, "eq", 1)
        last = td.after(token, 1)
    td.signal_op(done, 3, last, "set", td.my_pe())


def h11(repaired: bool):
    """H11: tiles are notified with their number, and waited for with 1."""

    def host(ctx):
        ctx.launch(notify_tiles, 1, (ctx.signals(4, per_call=2), repaired))

    return program(host)


CASES = (
    Case(id="H1 as found", program=lambda: h1(False), verdict="HANG"),
    Case(id="H1 repaired", program=lambda: h1(True), verdict="CLEAN"),
    Case(id="H2 as found", program=lambda: h2(False), verdict="HANG"),
    Case(id="H2 repaired", program=lambda: h2(True), verdict="CLEAN"),
    Case(id="H3 as found", program=lambda: h3(False), verdict="HANG!", says=("never written",)),
    Case(id="H3 repaired", program=lambda: h3(True), verdict="CLEAN"),
    Case(id="H4 H13 as found", program=lambda: h4(False), verdict="RACE"),
    Case(id="H4 H13 repaired", program=lambda: h4(True), verdict="CLEAN"),
    Case(id="H5 as found", program=lambda: h5(False), verdict="RACE"),
    Case(id="H5 repaired", program=lambda: h5(True), verdict="CLEAN"),
    Case(id="H6 as found", program=lambda: h6(False), topology="h800x2x1", verdict="RACE"),
    Case(id="H6 repaired", program=lambda: h6(True), topology="h800x2x1", verdict="CLEAN"),
    Case(id="H7 as found", program=lambda: h7(False), verdict="RACE"),
    Case(id="H7 repaired", program=lambda: h7(True), verdict="CLEAN"),
    Case(id="H8 as found", program=lambda: h8("gpu"), verdict="RACE"),
    Case(id="H8 repaired", program=lambda: h8("sys"), verdict="CLEAN"),
    Case(id="H9 as found", program=lambda: h9(False), verdict="RACE"),
    Case(id="H9 repaired", program=lambda: h9(True), verdict="CLEAN"),
    Case(id="H11 as found", program=lambda: h11(False), verdict="HANG!"),
    Case(id="H11 repaired", program=lambda: h11(True), verdict="CLEAN"),
)
