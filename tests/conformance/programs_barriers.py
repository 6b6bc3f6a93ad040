"""Contracts of barriers in kernels: of all PEs, of a grid, and of both together."""

import numpy as np
from conformance_tools import all_shards, contract, copy_tiles, from_previous

from tdsim import lang as td

X_SYMMETRIC = {"x": td.Input("M", "N", symmetric=True)}


@td.kernel
def put_and_meet(y, mail, x, completed):
    """Put x to all PEs without waiting, meet, and read what the others put here."""
    count = x.shape[0]
    mine = td.rows(mail, td.my_pe() * count, count)
    for step in range(td.n_pes()):
        td.putmem_nbi(mine, x, (td.my_pe() + step) % td.n_pes())
    if completed != 0:
        td.quiet()
        td.sync_all()
    else:
        td.barrier_all()
    copy_tiles(y, mail, 0, 1)


@contract(
    out=("M*world", "N"),
    reference=all_shards,
    tunables={"how": ("barrier_all", "quiet_sync_all")},
    **X_SYMMETRIC,
)
def a_barrier_completes_puts(ctx, x, y, *, how):
    """barrier_all completes all puts; sync_all alone would not, so quiet comes before it."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()
    ctx.launch(put_and_meet, 1, (y, mail, x, int(how == "quiet_sync_all")))


@td.kernel
def relay(y, mail, x):
    """Pass x on from PE to PE with two barriers for each hop: after n - 1 hops it is back."""
    to = (td.my_pe() + 1) % td.n_pes()
    here = td.rows(mail, 0, x.shape[0])
    there = td.rows(mail, x.shape[0], x.shape[0])
    copy_tiles(here, x, 0, 1)
    for _ in range(td.n_pes() + 1):
        td.barrier_all()  # every PE has the next thing to pass on
        td.putmem(there, here, to)
        td.barrier_all()  # and every PE has got it
        copy_tiles(here, there, 0, 1)
    td.sync_all()
    copy_tiles(y, here, 0, 1)


@contract(out=("M", "N"), reference=from_previous)
def barriers_follow_each_other(ctx, x, y):
    """Any number of barriers in a row, and in a loop, keep their rounds apart."""
    mail = ctx.symmetric((2 * x.shape[0], x.shape[1]), x.dtype)
    ctx.barrier_all()
    ctx.launch(relay, 1, (y, mail, x), num_warps=4)


@td.kernel
def pass_around(y, box, x, sig):
    """Every instance reads what its neighbours have stored, twice, with a barrier before."""
    i = td.program_id(0)
    n = td.num_programs(0)
    count = x.shape[0] // n
    first = td.rows(box, 0, x.shape[0])
    second = td.rows(box, x.shape[0], x.shape[0])
    mine = td.rows(x, i * count, count)
    copy_tiles(td.rows(first, i * count, count), mine, 0, 1)
    td.grid_barrier(sig, 0)
    left = (i + n - 1) % n
    got = td.rows(first, left * count, count)
    copy_tiles(td.rows(second, i * count, count), got, 0, 1)
    td.grid_barrier(sig, 1)
    right = (i + 1) % n
    back = td.rows(second, right * count, count)
    copy_tiles(td.rows(y, i * count, count), back, 0, 1)


def same_four_parts(tensors):
    return {"y": list(tensors["x"])}


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("4*M", "N"), "y": td.Output("4*M", "N")},
    work=(),
    reference=same_four_parts,
    small_shape="M=5,N=72",
)
def a_grid_barrier_shows_all_stores(ctx, x, y):
    """After a grid barrier each instance sees what all have stored before it."""
    box = ctx.local((2 * x.shape[0], x.shape[1]), x.dtype)
    ctx.launch(pass_around, 4, (y, box, x, ctx.signals(2, per_call=4)))


@td.kernel
def all_instances_meet(y, mail, x, sig):
    """Four instances of each PE put a quarter each; one of them meets the other PEs."""
    i = td.program_id(0)
    count = x.shape[0] // td.num_programs(0)
    to = (td.my_pe() + 1) % td.n_pes()
    part = td.rows(x, i * count, count)
    td.putmem(td.rows(mail, i * count, count), part, to)
    td.grid_barrier(sig, 0)
    if i == 0:
        td.barrier_all()
    td.grid_barrier(sig, 1)
    last = td.num_programs(0) - 1 - i
    got = td.rows(mail, last * count, count)
    copy_tiles(td.rows(y, last * count, count), got, 0, 1)


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("4*M", "N", symmetric=True), "y": td.Output("4*M", "N")},
    work=(),
    reference=from_previous,
    small_shape="M=3,N=41",
)
def one_instance_meets_for_all(ctx, x, y):
    """grid_barrier, then barrier_all by one instance, then grid_barrier: all PEs have met."""
    mail = ctx.symmetric(x.shape, x.dtype)
    ctx.barrier_all()
    ctx.launch(all_instances_meet, 4, (y, mail, x, ctx.signals(2, per_call=4)))


@td.kernel
def largest_of_all(y, mail, x, sig):
    """Send the largest values so far around the ring, twice: then every PE has them."""
    me = td.my_pe()
    n = td.n_pes()
    best = td.load(x, (0, 0), (8, 64))
    for lap in range(2):
        if me + lap > 0:
            token = td.signal_wait_until(sig, 0, "ge", lap + 1)
            got = td.load(td.after(token, mail), (0, 0), (8, 64))
            best = td.maximum(best, got)
        if lap * n + me < 2 * n - 1:
            pass_on(mail, best, sig, (me + 1) % n)
    td.store(y, (0, 0), best)


@td.function
def pass_on(mail, best, sig, to):
    """Put *best*, from the second half of this PE's mail, into the first half on *to*."""
    out = td.rows(mail, 8, 8)
    td.store(out, (0, 0), best)
    td.putmem_signal(td.rows(mail, 0, 8), out, sig, 0, 1, "add", to)


def largest(tensors):
    x = tensors["x"]
    best = np.maximum.reduce([v.astype(np.float32) for v in x])
    return {"y": [best.astype(v.dtype) for v in x]}


@td.program(
    shape=("N",),
    tensors={"x": td.Input("8", "N"), "y": td.Output("8", "N")},
    work=(),
    reference=largest,
    small_shape="N=53",
)
def signals_chain_the_pes_of_a_job(ctx, x, y):
    """Data and signals go from PE to PE inside one launch of each, around the ring."""
    mail = ctx.symmetric((16, x.shape[1]), x.dtype)
    sig = ctx.signals(1, per_call=2)
    ctx.barrier_all()
    if ctx.my_pe == 0:  # where the ring begins, nothing arrives in the first lap
        ctx.signal_op(sig, 0, 1, "add", 0)
    ctx.launch(largest_of_all, 1, (y, mail, x, sig), num_warps=4)
