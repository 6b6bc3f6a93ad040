"""What may overtake what: data, flags and fills on ordered and unordered paths."""

from __future__ import annotations

from cases.common import Case, copy_tile, fill_kernel, from_previous, program, with_lines
from tdsim import lang as td


@td.kernel
def data_then_flag(y, x, mail, ready, FENCED: td.constexpr):
    """Send data, then a flag; the receiver trusts the flag."""
    following = (td.my_pe() + 1) % td.n_pes()
    td.putmem_nbi(mail, x, following)
    if FENCED:
        td.fence()
    td.signal_op(ready, 0, 1, "set", following)
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, mail))
    td.quiet()


def flag_after_data(fenced: bool):
    """B3: a flag that relies on the order in which a network delivers."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(data_then_flag, 1, (y, x, mail, ready, fenced))

    return program(host, from_previous)


@td.kernel
def exchange(x, out, ready):
    """Put x into *out* of the next PE and wait for the one of the PE before."""
    td.putmem_signal(out, x, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.signal_op(ready, 1, td.after(token, 1), "set", td.my_pe())


def filled(barrier: bool):
    """B4: the output is filled with -1, and a fast peer's data may come before the fill."""

    def host(ctx, x, y):
        out, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(2)
        ctx.launch(fill_kernel, 1, (out, -1))
        if barrier:
            ctx.barrier_all()
        ctx.launch(exchange, 1, (x, out, ready))
        ctx.copy(y, out)
        ctx.barrier_all()

    return program(host, from_previous)


@td.kernel
def halves(y, x, mail, count, ready, RELEASED: td.constexpr):
    """Two CTAs make a tile; the second one that is done puts it to the next PE."""
    part = td.program_id(0)
    td.store(y, (2 * part, 0), td.load(x, (2 * part, 0), (2, 8)))
    if RELEASED:
        last = td.atomic_add(count, 0, 1) % 2 == 1
    else:
        last = part == 1
    if last:
        td.putmem_signal(mail, y, ready, 0, 1, "set", (td.my_pe() + 1) % td.n_pes())


def tile_counter(released: bool):
    """F6: a tile is sent when its parts are counted, with and without their release."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        made, count = ctx.local((4, 8), x.dtype), ctx.local((1,), td.int32, zero=True)
        ctx.barrier_all()
        ctx.launch(halves, 2, (made, x, mail, count, ready, released))
        ctx.signal_wait_until(ready, 0, "ge", 1)
        ctx.copy(y, mail)

    return program(host, from_previous)


@td.kernel
def cumulative(y, x, mail, ready):
    """Store to the next PE's memory, then release once for the whole CTA."""
    following = (td.my_pe() + 1) % td.n_pes()
    there = td.symm_at(mail, following)
    td.store(there, (0, 0), td.load(x, (0, 0), (2, 8)))
    td.store(there, (2, 0), td.load(x, (2, 0), (2, 8)))
    td.signal_op(ready, 0, 1, "set", following)
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, mail))


def cumulative_fence():
    """B23: stores of the whole CTA, a CTA barrier, then one release: it covers all of them."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(cumulative, 1, (y, x, mail, ready))

    return program(host, from_previous)


@td.kernel
def low_latency(y, x, mail, ready, LINE: td.constexpr):
    """Put x in lines with flags, wait for the flags, use the data."""
    td.putmem_lines(mail, x, ready, 0, 1, LINE, (td.my_pe() + 1) % td.n_pes())
    token = td.signal_wait_until(ready, 0, "ge", 1)
    copy_tile(y, td.after(token, mail))


def lines(line: int):
    """B31: data that share a line with their flag, on paths that may split lines."""

    def host(ctx, x, y):
        mail, ready = ctx.symmetric((4, 8), x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(low_latency, 1, (y, x, mail, ready, line))

    return program(host, from_previous)


def _b31(line: int, whole: int) -> Case:
    """A line of *line* bytes on a path that delivers *whole* bytes as one."""
    return Case(
        id=f"B31 lines of {line} on a path of {whole}",
        program=lambda: lines(line),
        topology=with_lines(whole),
        verdict="CLEAN" if line <= whole else "RACE",
    )


CASES = (
    *(_b31(line, whole) for line in (8, 128) for whole in (8, 64, 128)),
    Case(
        id="B3 flag after data, no order",
        program=lambda: flag_after_data(False),
        topology="h800x2x1",
        verdict="RACE",
    ),
    Case(
        id="B3 flag after data, ordered",
        program=lambda: flag_after_data(False),
        verdict="CLEAN",
    ),
    Case(
        id="B3 flag after data and a fence",
        program=lambda: flag_after_data(True),
        topology="h800x2x1",
        verdict="CLEAN",
    ),
    Case(id="B4 fill without a barrier", program=lambda: filled(False), verdict="RACE"),
    Case(id="B4 fill, then a barrier", program=lambda: filled(True), verdict="CLEAN"),
    Case(id="F6 parts not released", program=lambda: tile_counter(False), verdict="RACE"),
    Case(id="F6 parts released", program=lambda: tile_counter(True), verdict="CLEAN"),
    Case(id="B23 one release for the CTA", program=cumulative_fence, verdict="CLEAN"),
)
