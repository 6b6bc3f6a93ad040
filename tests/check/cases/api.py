"""Calls that are refused: addresses, indices, options, sizes and reach."""

from __future__ import annotations

from cases.common import Case, copy_tile, from_previous, program
from tdsim import lang as td


@td.kernel
def put_to(y, x, mail, ready, TRANSLATED: td.constexpr):
    """Put x to the next PE, whose memory is named by it or, wrongly, by its peer address."""
    following = (td.my_pe() + 1) % td.n_pes()
    there = td.symm_at(mail, following) if TRANSLATED else mail
    td.putmem_signal(there, x, ready, 0, 1, "set", following)
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, mail))


def translated(twice: bool):
    """A1: a peer's address given to a call that translates addresses itself."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(put_to, 1, (y, x, mail, ready, twice))

    return program(host, from_previous)


@td.kernel
def unlock_tiles(locks, tiles):
    """Set the lock of every tile."""
    for i in range(tiles):
        td.signal_op(locks, i, 1, "set", td.my_pe())


def locks(count: int, tiles: int):
    """B13: locks for 64-row tiles, used with 32-row tiles."""

    def host(ctx):
        ctx.launch(unlock_tiles, 1, (ctx.signals(count), tiles))

    return program(host)


@td.kernel
def wait_with(ready, CMP: td.constexpr):
    """Set the own signal, then wait for it with a comparison."""
    td.signal_op(ready, 0, 1, "set", td.my_pe())
    token = td.signal_wait_until(ready, 0, CMP, 1)
    td.signal_op(ready, 1, td.after(token, 1), "set", td.my_pe())


def compared_by(cmp: str):
    """B35: the name of a signal operation where a comparison belongs."""

    def host(ctx):
        ctx.launch(wait_with, 1, (ctx.signals(2), cmp))

    return program(host)


def heap_of(gib: int):
    """D9: a symmetric allocation beyond the memory that there is."""

    def host(ctx):
        ctx.symmetric((16, 8), td.float32)
        if gib:
            ctx.symmetric((gib * 2**20, 256), td.float32)

    return program(host)


@td.kernel
def load_from(y, x, shared, ready):
    """Load from the memory of the next PE."""
    following = (td.my_pe() + 1) % td.n_pes()
    copy_tile(shared, x)
    td.signal_op(ready, 0, 1, "set", (td.my_pe() + td.n_pes() - 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, td.symm_at(shared, following)))


def direct_load():
    """D13: a load from a PE that may be outside the NVLink domain."""

    def host(ctx, x, y):
        shared, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.launch(load_from, 1, (y, x, shared, ready))
        ctx.barrier_all()

    def reference(inputs):
        x = inputs["x"]
        return {"y": [x[(rank + 1) % len(x)] for rank in range(len(x))]}

    return program(host, reference)


CASES = (
    Case(
        id="A1 address translated twice",
        program=lambda: translated(True),
        verdict="API-ERROR",
        says=("puts to another PE through", "the call translates"),
    ),
    Case(id="A1 local address", program=lambda: translated(False), verdict="CLEAN"),
    Case(
        id="B13 736 locks, 1472 tiles",
        program=lambda: locks(736, 1472),
        verdict="API-ERROR",
        says=("signal index 736 of locks is out of range",),
    ),
    Case(id="B13 1472 locks", program=lambda: locks(1472, 1472), verdict="CLEAN", calls=1),
    Case(
        id="B35 an operation as comparison",
        program=lambda: compared_by("set"),
        verdict="API-ERROR",
        says=("cmp='set'", '"eq" "ne" "gt" "ge" "lt" "le"'),
    ),
    Case(id="B35 a comparison", program=lambda: compared_by("eq"), verdict="CLEAN"),
    Case(
        id="D9 beyond the heap",
        program=lambda: heap_of(100),
        verdict="API-ERROR",
        says=("asks for 100.0 GiB", "of the GPU's 74.5 GiB"),
    ),
    Case(id="D9 within the heap", program=lambda: heap_of(0), verdict="CLEAN"),
    Case(
        id="D13 load from another node",
        program=direct_load,
        topology="h800x2x1",
        verdict="API-ERROR",
        says=("is on another node", "use putmem or getmem"),
    ),
    Case(id="D13 load from this node", program=direct_load, verdict="CLEAN"),
)
