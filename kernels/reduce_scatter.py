"""ReduceScatter: PE p ends with the sum over PEs of the rows of segment p.

Two-level. Each PE scatters the segments of its own node's PEs, for one target node after the
other, into the *slots* of its node peers: slot (node, local PE of the sender), announced by
``arrived[slot]``. The owner sums its slots of a node and puts the sum to its twin on that node
(``node_arrived[sender's node]``), which adds up the nodes. The next node's segments come
first and the own node's last, so that the slow hop starts early.

``arrived`` counts parts: 1 for copy engines, ``num_comm_sms`` when CTAs scatter.
"""

from tdsim import lang as td

from . import reference
from .copying import MOVE_CTAS_PER_SM, MOVE_TILE, MOVE_WARPS, comm_ctas, part

SCATTER_TUNABLES = {
    "comm": td.Tunable("ce", ("ce", "sm"), "copy engines scatter, or communication CTAs"),
    "num_comm_sms": td.Tunable(8, (1, 2, 4, 8, 16, 32), "communication CTAs when comm is sm"),
    "num_reduce_sms": td.Tunable(
        15, (1, 2, 4, 8, 15, 16, 32, 64, 128), "CTAs of each sum beside a running GEMM"
    ),
    "final_reduce_sms": td.Tunable(
        0, (0, 8, 15, 16, 32, 64, 128), "CTAs of the last sum; 0 fills all SMs"
    ),
    "copy_own": td.Tunable(
        0, (0, 1), "1 copies the own segment to a slot too, as Triton-distributed does"
    ),
}
NUM_SEND_SMS = 1
"""CTAs that put node sums to other nodes."""


@td.function
def scatter_parts(partial, slots, arrived, done, i, parts, FUSED: td.constexpr):
    """CTA *i* of *parts* puts its part of every segment to its owner's twin in this node."""
    size = td.n_local_pes()
    base = td.my_node() * size
    count = slots.shape[0] // td.n_pes()
    for step in range(td.n_pes()):
        node = (td.my_node() + 1 + step // size) % td.n_nodes()
        local = (td.local_pe() + 1 + step % size) % size
        segment = node * size + local
        slot = node * size + td.local_pe()
        start = segment * count
        if FUSED:
            token = td.signal_wait_until(done, segment, "ge", 1)
            start = td.after(token, start)
        if local == td.local_pe():
            td.signal_op(arrived, slot, 1, "add", td.my_pe())
        else:
            src = part(partial, start, count, i, parts)
            dst = part(slots, slot * count, count, i, parts)
            td.putmem_signal(dst, src, arrived, slot, 1, "add", base + local)


@td.kernel
def scatter_kernel(partial, slots, arrived):
    """Every CTA scatters its part of each segment."""
    scatter_parts(partial, slots, arrived, arrived, td.program_id(0), td.num_programs(0), False)


@td.kernel
def sum_slots(
    out, own, own_row, slots, arrived, first_slot, own_slot, num_slots, parts,
    BLOCK_M: td.constexpr, BLOCK_N: td.constexpr,
):  # fmt: skip
    """out = rows *own_row*.. of *own* plus every slot but *own_slot*, once all have arrived.

    float32 sums in slot order from the own slot upwards: the same bits in every run.
    """
    count = out.shape[0]
    first_row = first_slot * count
    for i in range(num_slots):
        token = td.signal_wait_until(arrived, first_slot + i, "ge", parts)
        first_row = td.after(token, first_row)
    num_n = td.cdiv(out.shape[1], BLOCK_N)
    num_tiles = td.cdiv(count, BLOCK_M) * num_n
    for tile in range(td.program_id(0), num_tiles, td.num_programs(0)):
        row = tile // num_n * BLOCK_M
        col = tile % num_n * BLOCK_N
        acc = td.cast(td.load(own, (own_row + row, col), (BLOCK_M, BLOCK_N)), td.float32)
        for i in range(1, num_slots):
            slot_row = first_row + (own_slot + i) % num_slots * count
            acc = acc + td.load(slots, (slot_row + row, col), (BLOCK_M, BLOCK_N))
        td.store(out, (row, col), acc)


def launch_sum(ctx, ctas, args, stream=None):
    """Queue a sum on *ctas* CTAs; *args* are those of :func:`sum_slots` before the tile."""
    ctx.launch(
        sum_slots, ctas, (*args, *MOVE_TILE), stream=stream, num_warps=MOVE_WARPS,
        ctas_per_sm=MOVE_CTAS_PER_SM, role="reduce",
    )  # fmt: skip


@td.kernel
def send_node_sum(node_sums, node_slots, node_arrived, node):
    """Put this PE's sum for *node* into the slot of its own node at its twin there."""
    count = node_sums.shape[0] // td.n_nodes()
    src = td.rows(node_sums, node * count, count)
    dst = td.rows(node_slots, td.my_node() * count, count)
    pe = node * td.n_local_pes() + td.local_pe()
    td.putmem_signal(dst, src, node_arrived, td.my_node(), 1, "add", pe)


def scatter_by_copy_engine(ctx, partial, slots, arrived, done=None, copy_own=0):
    """Queue the scatter on stream comm, which the caller has forked from main.

    With *done*, each segment waits for its signal.
    """
    size = ctx.n_local_pes
    base = ctx.my_node * size
    count = slots.shape[0] // ctx.n_pes
    comm = ctx.stream("comm")
    for step in range(ctx.n_pes):
        node = (ctx.my_node + 1 + step // size) % ctx.n_nodes
        local = (ctx.local_pe + 1 + step % size) % size
        segment, slot = node * size + local, node * size + ctx.local_pe
        if done is not None:
            ctx.signal_wait_until(done, segment, "ge", 1, stream=comm)
        if local != ctx.local_pe or copy_own:
            target = slots.rows(slot * count, count).at(base + local)
            ctx.copy(target, partial.rows(segment * count, count), stream=comm)
        ctx.signal_op(arrived, slot, 1, "add", base + local, stream=comm)


def reduce_slots(
    ctx, out, partial, slots, arrived, parts, num_reduce_sms, final_reduce_sms, num_beside=0
):
    """Queue the sums over PEs and nodes into *out*; call it after the producer's launch.

    *num_beside* SMs stay free for a scatter kernel on another stream: sums that wait on every
    SM would keep it out for ever.
    """
    size, count = ctx.n_local_pes, out.shape[0]
    most = ctx.num_sms - num_beside if num_beside else MOVE_CTAS_PER_SM * ctx.num_sms
    final = min(final_reduce_sms or most, most)
    if ctx.n_nodes == 1:
        args = (out, partial, ctx.my_pe * count, slots, arrived, 0, ctx.local_pe, size, parts)
        launch_sum(ctx, final, args)
        return
    sums = ctx.symmetric((ctx.n_nodes * count, out.shape[1]), out.dtype)
    node_slots = ctx.symmetric((ctx.n_nodes * count, out.shape[1]), out.dtype)
    node_arrived = ctx.signals(ctx.n_nodes)
    reduce, between = ctx.stream("reduce"), ctx.stream("between_nodes")
    for step in range(ctx.n_nodes):
        node = (ctx.my_node + step + 1) % ctx.n_nodes
        segment = node * size + ctx.local_pe
        args = (
            sums.rows(node * count, count), partial, segment * count, slots, arrived,
            node * size, ctx.local_pe, size, parts,
        )  # fmt: skip
        launch_sum(ctx, num_reduce_sms, args, reduce)
        if node != ctx.my_node:
            ctx.fork(between, of=reduce)
            send = (sums, node_slots, node_arrived, node)
            ctx.launch(send_node_sum, NUM_SEND_SMS, send, stream=between, role="comm")
    ctx.join(reduce)
    ctx.join(between)
    ctx.signal_op(node_arrived, ctx.my_node, 1, "add", ctx.my_pe)
    args = (
        out, sums, ctx.my_node * count, node_slots, node_arrived, 0, ctx.my_node,
        ctx.n_nodes, 1,
    )  # fmt: skip
    launch_sum(ctx, final, args)


@td.program(
    shape=("M", "N"),
    tensors={"x": td.Input("M", "N", symmetric=True), "y": td.Output("M/world", "N")},
    tunables=SCATTER_TUNABLES,
    work=(td.ReduceScatter("M*N"),),
    reference=reference.reduce_scatter,
    small_shape="M=24*world,N=80",
)
def reduce_scatter(
    ctx, x, y, *, comm, num_comm_sms, num_reduce_sms, final_reduce_sms, copy_own
):
    """ReduceScatter of rows, two-level scatter and reduce, on copy engines or CTAs."""
    num_comm = comm_ctas(ctx, comm, num_comm_sms)
    parts = max(num_comm, 1)
    slots = ctx.symmetric(x.shape, x.dtype)
    arrived = ctx.signals(ctx.n_pes, per_call=parts)
    ctx.barrier_all()  # every PE has read its slots of the last call
    ctx.fork(ctx.stream("reduce"))
    ctx.fork(ctx.stream("comm"))
    if comm == "sm":
        args = (x, slots, arrived)
        ctx.launch(scatter_kernel, parts, args, stream=ctx.stream("comm"), role="comm")
    else:
        scatter_by_copy_engine(ctx, x, slots, arrived, copy_own=copy_own)
    reduce_slots(ctx, y, x, slots, arrived, parts, num_reduce_sms, final_reduce_sms, num_comm)
    ctx.join(ctx.stream("comm"))
