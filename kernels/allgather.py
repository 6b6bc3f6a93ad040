"""AllGather: every PE ends with all shards, shard p announced by signal ``ready[p]``.

Shards arrive in ring order from the next PE upwards: a PE pulls from the next one first and
pushes to the previous one first, so that each is read or written by one peer at a time. Over
nodes it is two-level: each PE puts its shard to the PE with its local number on every other
node, which forwards it inside its node as soon as the signal is there.

``ready[p]`` counts the parts of shard p that have arrived: 1 for copy engines, ``num_comm_sms``
when communication CTAs each push a part. Per call it reaches exactly that number.
"""

from tdsim import lang as td

from . import reference
from .copying import MOVE_CTAS_PER_SM, comm_ctas, launch_copy, part

COMM_TUNABLES = {
    "comm": td.Tunable(
        "pull", ("pull", "push", "sm"), "copy engines pull or push the shards, or CTAs push"
    ),
    "num_comm_sms": td.Tunable(8, (1, 2, 4, 8, 16, 32), "communication CTAs when comm is sm"),
}


@td.function
def push_part(gathered, ready, shard, i, parts, pe):
    """Put part *i* of *shard* to *pe* and count it there."""
    count = gathered.shape[0] // td.n_pes()
    rows = part(gathered, shard * count, count, i, parts)
    td.putmem_signal(rows, rows, ready, shard, 1, "add", pe)


@td.function
def push_shard_in_node(gathered, ready, shard, i, parts):
    """Put part *i* of *shard* to every other PE of this node, previous PE first."""
    size = td.n_local_pes()
    base = td.my_node() * size
    for step in range(1, size):
        pe = base + (td.local_pe() + size - step) % size
        push_part(gathered, ready, shard, i, parts, pe)


@td.function
def push_shards(gathered, ready, i, parts):
    """CTA *i* of *parts* pushes its part of the own shard everywhere, then forwards others'."""
    me = td.my_pe()
    size = td.n_local_pes()
    for step in range(1, td.n_nodes()):
        push_part(gathered, ready, me, i, parts, (me + td.n_pes() - step * size) % td.n_pes())
    push_shard_in_node(gathered, ready, me, i, parts)
    for step in range(1, td.n_nodes()):
        shard = (me + step * size) % td.n_pes()
        token = td.signal_wait_until(ready, shard, "ge", parts)
        push_shard_in_node(td.after(token, gathered), ready, shard, i, parts)


@td.kernel
def push_kernel(gathered, ready):
    """Every CTA pushes its part of each shard."""
    push_shards(gathered, ready, td.program_id(0), td.num_programs(0))


@td.kernel
def send_between_nodes(gathered, ready):
    """Put the own shard to this PE's twin on every other node, previous node first.

    One after another: together they would share the adapter and all arrive last.
    """
    me = td.my_pe()
    for step in range(1, td.n_nodes()):
        pe = (me + td.n_pes() - step * td.n_local_pes()) % td.n_pes()
        push_part(gathered, ready, me, 0, 1, pe)


def place_own_shard(ctx, gathered, ready, x, parts):
    """Copy *x* into the own place of *gathered*, once every PE has left the last call."""
    ctx.barrier_all()
    count = x.shape[0]
    own = gathered.rows(ctx.my_pe * count, count)
    launch_copy(ctx, own, x, MOVE_CTAS_PER_SM * ctx.num_sms)
    ctx.signal_op(ready, ctx.my_pe, parts, "add", ctx.my_pe)


def gather_by_copy_engine(ctx, gathered, ready, pull):
    """Queue the whole gather on its own streams; *gathered* must hold the own shard."""
    if pull:
        ctx.barrier_all()  # a pull reads the peer's shard, which no signal announces
    size, me = ctx.n_local_pes, ctx.my_pe
    base = ctx.my_node * size
    comm = ctx.stream("comm")
    ctx.fork(comm)
    if ctx.n_nodes > 1:
        between = ctx.stream("between_nodes")
        ctx.fork(between)
        ctx.launch(send_between_nodes, 1, (gathered, ready), stream=between, role="comm")
        ctx.join(between, into=comm)
    count = gathered.shape[0] // ctx.n_pes
    for step in range(1, size):
        if pull:
            pe = base + (ctx.local_pe + step) % size
            shard = gathered.rows(pe * count, count)
            ctx.copy(shard, shard.at(pe), stream=comm)
            ctx.signal_op(ready, pe, 1, "add", me, stream=comm)
        else:
            pe = base + (ctx.local_pe - step) % size
            push_by_copy_engine(ctx, gathered, ready, me, pe, comm)
    for step in range(1, ctx.n_nodes):
        shard = (me + step * size) % ctx.n_pes
        ctx.signal_wait_until(ready, shard, "ge", 1, stream=comm)
        for hop in range(1, size):
            pe = base + (ctx.local_pe - hop) % size
            push_by_copy_engine(ctx, gathered, ready, shard, pe, comm)


def push_by_copy_engine(ctx, gathered, ready, shard, pe, stream):
    """Copy *shard* to *pe* of this node and announce it there."""
    count = gathered.shape[0] // ctx.n_pes
    rows = gathered.rows(shard * count, count)
    ctx.copy(rows.at(pe), rows, stream=stream)
    ctx.signal_op(ready, shard, 1, "add", pe, stream=stream)


@td.kernel
def wait_for_all(ready, parts):
    """Hold the stream until every shard has arrived."""
    shard = 0
    for step in range(td.n_pes()):
        token = td.signal_wait_until(ready, shard, "ge", parts)
        shard = td.after(token, step + 1)


@td.program(
    shape=("M", "K"),
    tensors={"x": td.Input("M/world", "K"), "y": td.Output("M", "K", symmetric=True)},
    tunables=COMM_TUNABLES,
    work=(td.AllGather("M*K"),),
    reference=reference.allgather,
    small_shape="M=24*world,K=80",
)
def allgather(ctx, x, y, *, comm, num_comm_sms):
    """AllGather of row shards into symmetric memory, on copy engines or CTAs."""
    parts = max(comm_ctas(ctx, comm, num_comm_sms), 1)
    ready = ctx.signals(ctx.n_pes, per_call=parts)
    place_own_shard(ctx, y, ready, x, parts)
    if comm == "sm":
        ctx.launch(push_kernel, parts, (y, ready), role="comm")
    else:
        gather_by_copy_engine(ctx, y, ready, pull=comm == "pull")
    ctx.launch(wait_for_all, 1, (ready, parts), role="comm")
    ctx.join(ctx.stream("comm"))
