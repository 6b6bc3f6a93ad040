"""Contracts of host programs: copies, streams, signals and barriers in stream order, memory kept."""

import numpy as np
from conformance_tools import (
    all_shards,
    contract,
    copy_kernel,
    copy_tiles,
    of_node,
    same,
)

from tdsim import lang as td

NODES = {"nodes": td.Input("node_size")}
X_SYMMETRIC = {"x": td.Input("M", "N", symmetric=True)}


def peers_of_node(ctx):
    """(number in the node, PE) of every PE of this node, own first."""
    first = ctx.my_node * ctx.n_local_pes
    size = ctx.n_local_pes
    order = [(ctx.local_pe + step) % size for step in range(size)]
    return [(local, first + local) for local in order]


@contract(
    out=("M*node_size", "N"), reference=of_node, tunables={"way": ("push", "pull")}, **NODES
)  # fmt: skip
def copies_reach_every_pe_of_the_node(ctx, x, nodes, y, *, way):
    """Copy engines write to peers and read from them; a signal after a copy covers it."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ready = ctx.signals(ctx.n_local_pes)
    count = x.shape[0]
    comm = ctx.stream("comm")
    ctx.barrier_all()
    mine = mail.rows(ctx.local_pe * count, count)
    ctx.copy(mine, x)
    ctx.fork(comm)
    for _, pe in peers_of_node(ctx):
        if way == "push" and pe != ctx.my_pe:
            ctx.copy(mine.at(pe), x, stream=comm)
        ctx.signal_op(ready, ctx.local_pe, 1, "set", pe, stream=comm)
    for local, pe in peers_of_node(ctx):
        part = mail.rows(local * count, count)
        ctx.signal_wait_until(ready, local, "ge", 1)
        source = part.at(pe) if way == "pull" else part
        ctx.copy(y.rows(local * count, count), source)
    ctx.join(comm)


@td.kernel
def ask_and_answer(y, box, answer, x, sig):
    """Signal the host's stream once the box is full; read the answer that it copies."""
    copy_tiles(box, x, 0, 1)
    td.signal_op(sig, 0, 1, "set", td.my_pe())
    token = td.signal_wait_until(sig, 1, "ge", 1)
    copy_tiles(y, td.after(token, answer), 0, 1)


@contract(out=("M", "N"), reference=same)
def streams_and_kernels_signal_each_other(ctx, x, y):
    """A stream waits for a running kernel, and a running kernel for a stream."""
    box, answer = ctx.local(x.shape, x.dtype), ctx.local(x.shape, x.dtype)
    sig = ctx.signals(2)
    comm = ctx.stream("comm")
    ctx.fork(comm)
    ctx.launch(ask_and_answer, 1, (y, box, answer, x, sig), num_warps=4)
    ctx.signal_wait_until(sig, 0, "ge", 1, stream=comm)
    ctx.copy(answer, box, stream=comm)
    ctx.signal_op(sig, 1, 1, "set", ctx.my_pe, stream=comm)
    ctx.join(comm)


@td.kernel
def put_to_all(mail, x, complete):
    """Put x to every PE; wait for its arrival only if told to *complete* it."""
    count = x.shape[0]
    mine = td.rows(mail, td.my_pe() * count, count)
    for step in range(td.n_pes()):
        td.putmem_nbi(mine, x, (td.my_pe() + step) % td.n_pes())
    if complete != 0:
        td.quiet()


@contract(out=("M*world", "N"), reference=all_shards, **X_SYMMETRIC)
def a_stream_barrier_completes_puts(ctx, x, y):
    """ctx.barrier_all completes the puts of kernels that have ended."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()
    ctx.launch(put_to_all, 1, (mail, x, 0), num_warps=4)
    ctx.barrier_all()
    ctx.launch(copy_kernel, 2, (y, mail), num_warps=4)


@contract(
    out=("M*world", "N"), reference=all_shards, tunables={"op": ("add", "set")}, **X_SYMMETRIC
)  # fmt: skip
def a_signal_follows_its_stream(ctx, x, y, *, op):
    """A signal of a stream is seen only after the kernels before it; on any PE, also far away."""
    mail = ctx.symmetric(y.shape, y.dtype)
    count = ctx.signals(1, per_call=ctx.n_pes)
    each = ctx.signals(ctx.n_pes)
    ctx.barrier_all()
    ctx.launch(put_to_all, 1, (mail, x, 1), num_warps=4)
    for pe in range(ctx.n_pes):
        if op == "add":
            ctx.signal_op(count, 0, 1, "add", pe)
        else:
            ctx.signal_op(each, ctx.my_pe, 1, "set", pe)
    if op == "add":
        ctx.signal_wait_until(count, 0, "eq", ctx.n_pes)
    else:
        for pe in range(ctx.n_pes):
            ctx.signal_wait_until(each, pe, "ge", 1)
    ctx.launch(copy_kernel, 2, (y, mail), num_warps=4)


@contract(out=("M", "N"), reference=same)
def forks_and_joins_order_streams(ctx, x, y):
    """x goes over two side streams and back; each fork and join is needed for its next copy."""
    first, second, third = (ctx.local(x.shape, x.dtype) for _ in range(3))
    side, beyond = ctx.stream("side"), ctx.stream("beyond")
    ctx.launch(copy_kernel, 2, (first, x), num_warps=4)
    ctx.fork(side)
    ctx.launch(copy_kernel, 1, (second, first), stream=side, num_warps=4)
    ctx.fork(beyond, of=side)
    ctx.launch(copy_kernel, 1, (third, second), stream=beyond, num_warps=4)
    ctx.join(beyond, into=side)
    ctx.join(side)
    ctx.copy(y, third)


@td.kernel
def mirror(y, kept, ones, never):
    """Count calls in *kept* and compare with the epoch: *never* is a word that nobody writes.

    In call e a word of 0 is the value -e, so the wait comes back only if the count is e.
    """
    calls = td.atomic_add(kept, 0, 1)
    token = td.signal_wait_until(never, 0, "eq", -calls)
    row = td.after(token, 0)
    if calls == 0:
        td.store(ones, (0, 0), 1.0)
    td.quiet()  # joins the CTA before it loads what it has stored
    td.store(y, (0, 0), td.load(ones, (row, 0), (1, 1)))


def one(tensors):
    return {"y": [np.ones((1, 1), x.dtype) for x in tensors["x"]]}


@contract(out=("1", "1"), reference=one)
def local_memory_is_kept(ctx, x, y):
    """Local memory keeps its contents from call to call; ``zero=True`` clears it once.

    Both are ``zero=True``: a backend may fill other memory with NaN between runs.
    """
    kept = ctx.local((1,), td.int32, zero=True)
    ones = ctx.local((1, 1), td.float32, zero=True)
    ctx.launch(mirror, 1, (y, kept, ones, ctx.signals(1)), num_warps=4)


@td.kernel
def copy_square(y, x):
    """y = x by one tile of 32 x 64, through descriptors where the views have them."""
    td.store(y, (0, 0), td.load(x, (0, 0), (32, 64)))


def from_previous_of_node(tensors):
    x, size = tensors["x"], len(tensors["nodes"][0])
    ranks = range(len(x))
    return {"y": [x[rank // size * size + (rank % size - 1) % size] for rank in ranks]}


@contract(
    out=("M", "N"), reference=from_previous_of_node, tunables={"side": ("load", "store")}, **NODES
)  # fmt: skip
def tiles_move_through_a_peers_view(ctx, x, nodes, y, *, side):
    """``view.at(pe)`` may be declared tiled and given to a kernel, as own memory may."""
    mail = ctx.symmetric(x.shape, x.dtype)
    first = ctx.my_node * ctx.n_local_pes
    before = first + (ctx.local_pe - 1) % ctx.n_local_pes
    after = first + (ctx.local_pe + 1) % ctx.n_local_pes
    ctx.barrier_all()
    if side == "store":
        ctx.launch(copy_square, 1, (mail.at(after).tiled(32, 64), x), num_warps=4)
        ctx.barrier_all()
        ctx.launch(copy_square, 1, (y, mail), num_warps=4)
    else:
        ctx.copy(mail, x)
        ctx.barrier_all()
        ctx.launch(copy_square, 1, (y, mail.at(before).tiled(32, 64)), num_warps=4)
