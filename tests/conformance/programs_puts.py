"""Contracts of copies between PEs: what has arrived when, at any size and alignment.

Puts read symmetric memory, as the network of a cluster needs. ``ctx.barrier_all()`` at the
begin of a call says that every PE has read what the last call put there.
"""

from conformance_tools import (
    all_shards,
    contract,
    copy_tiles,
    from_previous,
    of_node,
)

from tdsim import lang as td

X_SYMMETRIC = {"x": td.Input("M", "N", symmetric=True)}
HOW = (
    "putmem_signal", "putmem_signal_nbi", "putmem", "putmem_nbi_fence", "putmem_nbi_quiet",
    "two_puts_fence", "putmem_lines",
)  # fmt: skip


PUTMEM_SIGNAL, PUTMEM_SIGNAL_NBI, PUTMEM, NBI_FENCE, NBI_QUIET, TWO_PUTS, LINES = range(7)


@td.kernel
def all_to_all(y, mail, x, sig, how):
    """Instance i sends x to PE me + i and receives from it; the data lie behind the signal."""
    me = td.my_pe()
    count = x.shape[0]
    other = (me + td.program_id(0)) % td.n_pes()
    dst = td.rows(mail, me * count, count)
    if how == PUTMEM_SIGNAL:
        td.putmem_signal(dst, x, sig, me, 1, "set", other)
    if how == PUTMEM_SIGNAL_NBI:
        td.putmem_signal_nbi(dst, x, sig, me, 1, "set", other)
    if how == PUTMEM:
        td.putmem(dst, x, other)
        td.signal_op(sig, me, 1, "set", other)
    if how == NBI_FENCE:
        td.putmem_nbi(dst, x, other)
        td.fence()
        td.signal_op(sig, me, 1, "set", other)
    if how == NBI_QUIET:
        td.putmem_nbi(dst, x, other)
        td.quiet()
        td.signal_op(sig, me, 1, "set", other)
    if how == TWO_PUTS:
        rest = count - 2
        td.putmem_nbi(td.rows(dst, 0, 2), td.rows(x, 0, 2), other)
        td.fence()
        last = td.rows(x, 2, rest)
        td.putmem_signal_nbi(td.rows(dst, 2, rest), last, sig, me, 1, "set", other)
    if how == LINES:
        td.putmem_lines(dst, x, sig, me, 1, 8, other)
    token = td.signal_wait_until(sig, other, "ge", 1)
    here = td.after(token, td.rows(mail, other * count, count))
    copy_tiles(td.rows(y, other * count, count), here, 0, 1)
    td.quiet()  # x may change after this kernel


@contract(
    out=("M*world", "N"), reference=all_shards, tunables={"how": HOW}, **X_SYMMETRIC
)  # fmt: skip
def data_lie_behind_their_signal(ctx, x, y, *, how):
    """Six ways to send data and a signal: who has seen the signal may read the data."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()
    args = (y, mail, x, ctx.signals(ctx.n_pes), HOW.index(how))
    ctx.launch(all_to_all, ctx.n_pes, args)


@td.kernel
def get_all(y, mail, x):
    """Instance i fetches the x of PE me + i."""
    count = x.shape[0]
    other = (td.my_pe() + td.program_id(0)) % td.n_pes()
    part = td.rows(mail, other * count, count)
    td.getmem(part, x, other)
    copy_tiles(td.rows(y, other * count, count), part, 0, 1)


@contract(out=("M*world", "N"), reference=all_shards, **X_SYMMETRIC)
def a_get_has_the_data_on_return(ctx, x, y):
    """getmem returns with the data in place, for the whole CTA."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()  # every PE has its x
    ctx.launch(get_all, ctx.n_pes, (y, mail, x))
    ctx.barrier_all()  # every PE has fetched mine


@td.kernel
def put_own_pieces(mail, x, pieces, shift):
    """Instance i puts every n-th piece to PE me + i; piece k has k + 1 elements."""
    other = (td.my_pe() + td.program_id(0)) % td.n_pes()
    for k in range(td.my_pe(), pieces, td.n_pes()):
        start = k * (k + 1) // 2
        td.putmem(td.rows(mail, start + shift, k + 1), td.rows(x, start, k + 1), other)


@td.kernel
def copy_line(y, x, start):
    """y = x[start:], both 1-D."""
    part = td.rows(x, start, y.shape[0])
    for at in range(0, y.shape[0], 256):
        td.store(y, at, td.load(part, at, 256))


def woven(tensors):
    x = tensors["x"]
    y = x[0].copy()
    for k in range(int((2 * len(y)) ** 0.5)):
        piece = slice(k * (k + 1) // 2, (k + 1) * (k + 2) // 2)
        y[piece] = x[k % len(x)][piece]
    return {"y": [y for _ in x]}


@td.program(
    shape=("P",),
    tensors={
        "x": td.Input("P*(P+1)/2", symmetric=True),
        "y": td.Output("P*(P+1)/2"),
    },
    work=(),
    reference=woven,
    small_shape="P=24",
    tunables={"shift": td.Tunable(0, (0, 1, 4), "elements between source and target")},
)
def puts_have_any_size_and_place(ctx, x, y, *, shift):
    """Pieces of 1, 2, 3 ... elements, from all PEs in turn: no put touches its neighbours.

    With two bytes an element, neighbouring elements of one word come from two PEs.
    """
    pieces = int((2 * x.shape[0]) ** 0.5)
    mail = ctx.symmetric((x.shape[0] + 4,), x.dtype)
    ctx.barrier_all()
    ctx.launch(put_own_pieces, ctx.n_pes, (mail, x, pieces, shift), num_warps=4)
    ctx.barrier_all()  # every put has arrived
    ctx.launch(copy_line, 1, (y, mail, shift), num_warps=4)


@td.kernel
def store_own_elements(mail, x):
    """Store every size-th element at all PEs of the node, through their addresses."""
    size = td.n_local_pes()
    first = td.my_node() * size
    there = td.symm_at(mail, first + td.program_id(0))
    for i in range(td.local_pe(), x.shape[0], size):
        td.store(there, i, td.load(x, i, 1))


def interleaved(tensors):
    x, size = tensors["x"], len(tensors["nodes"][0])

    def of(rank):
        y = x[rank].copy()
        for local in range(size):
            y[local::size] = x[rank // size * size + local][local::size]
        return y

    return {"y": [of(rank) for rank in range(len(x))]}


@td.program(
    shape=("N",),
    tensors={"x": td.Input("N"), "nodes": td.Input("node_size"), "y": td.Output("N")},
    work=(),
    reference=interleaved,
    small_shape="N=61",
)
def pes_store_neighbouring_elements(ctx, x, nodes, y):
    """Two PEs may store the two halves of one word at the same time."""
    mail = ctx.symmetric(x.shape, x.dtype)
    ctx.barrier_all()
    ctx.launch(store_own_elements, ctx.n_local_pes, (mail, x), num_warps=4)
    ctx.barrier_all()
    ctx.launch(copy_line, 1, (y, mail, 0), num_warps=4)


@td.kernel
def overwrite(y, mail, x, sig):
    """Put row after row of x to one place of the next PE, fenced; the last must stay."""
    me = td.my_pe()
    n = td.n_pes()
    for row in range(x.shape[0]):
        td.fence()
        td.putmem_nbi(mail, td.rows(x, row, 1), (me + 1) % n)
    td.fence()
    td.signal_op(sig, 0, 1, "set", (me + 1) % n)
    token = td.signal_wait_until(sig, 0, "ge", 1)
    copy_tiles(y, td.after(token, mail), 0, 1)
    td.quiet()


def last_row_of_previous(tensors):
    x = tensors["x"]
    return {"y": [x[rank - 1][-1:] for rank in range(len(x))]}


@contract(out=("1", "N"), reference=last_row_of_previous, **X_SYMMETRIC)
def fenced_puts_arrive_in_order(ctx, x, y):
    """Of two puts with a fence between them, the later one lasts."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()
    ctx.launch(overwrite, 1, (y, mail, x, ctx.signals(1)))


@td.kernel
def reuse(y, mail, scratch, x, sig, with_signal):
    """Send every row of x to the next PE from one row of memory, written anew each time."""
    me = td.my_pe()
    n = td.n_pes()
    to = (me + 1) % n
    for row in range(x.shape[0]):
        copy_tiles(scratch, td.rows(x, row, 1), 0, 1)
        dst = td.rows(mail, row, 1)
        if with_signal != 0:
            td.putmem_signal(dst, scratch, sig, 0, 1, "add", to)
        else:
            td.putmem(dst, scratch, to)
            td.signal_op(sig, 0, 1, "add", to)
    token = td.signal_wait_until(sig, 0, "ge", x.shape[0])
    copy_tiles(y, td.after(token, mail), 0, 1)


@contract(
    out=("M", "N"), reference=from_previous, tunables={"how": ("putmem", "putmem_signal")}
)  # fmt: skip
def a_source_is_free_after_its_put(ctx, x, y, *, how):
    """putmem and putmem_signal return when the source may be written again."""
    mail = ctx.symmetric(x.shape, x.dtype)
    scratch = ctx.symmetric((1, x.shape[1]), x.dtype)
    ctx.barrier_all()
    sig = ctx.signals(1, per_call=x.shape[0])
    ctx.launch(reuse, 1, (y, mail, scratch, x, sig, int(how == "putmem_signal")))


@td.kernel
def store_at_peers(y, mail, x, sig):
    """Instance i stores x at PE i of the node, signals, and reads what PE i stored here."""
    size = td.n_local_pes()
    count = x.shape[0]
    other = (td.local_pe() + td.program_id(0)) % size
    pe = td.my_node() * size + other
    there = td.symm_at(td.rows(mail, td.local_pe() * count, count), pe)
    copy_tiles(there, x, 0, 1)
    td.signal_op(sig, td.local_pe(), 1, "set", pe)
    token = td.signal_wait_until(sig, other, "ge", 1)
    here = td.after(token, td.rows(mail, other * count, count))
    copy_tiles(td.rows(y, other * count, count), here, 0, 1)


NODES = {"nodes": td.Input("node_size")}


@contract(out=("M*node_size", "N"), reference=of_node, **NODES)
def stores_at_peers_lie_behind_a_signal(ctx, x, nodes, y):
    """Stores through symm_at are released by the next signal."""
    mail = ctx.symmetric(y.shape, y.dtype)
    ctx.barrier_all()
    args = (y, mail, x, ctx.signals(ctx.n_local_pes))
    ctx.launch(store_at_peers, ctx.n_local_pes, args)


@td.kernel
def load_from_peers(y, x):
    """Instance i loads the x of PE i of the node."""
    count = x.shape[0]
    i = td.program_id(0)
    there = td.symm_at(x, td.my_node() * td.n_local_pes() + i)
    copy_tiles(td.rows(y, i * count, count), there, 0, 1)


@contract(out=("M*node_size", "N"), reference=of_node, **X_SYMMETRIC, **NODES)
def loads_reach_every_pe_of_the_node(ctx, x, nodes, y):
    """symm_at gives the same memory on a peer, for loads."""
    ctx.barrier_all()
    ctx.launch(load_from_peers, ctx.n_local_pes, (y, x))
    ctx.barrier_all()


@td.kernel
def put_to_all(y, x):
    """Put x into its place on every PE."""
    count = x.shape[0]
    mine = td.rows(y, td.my_pe() * count, count)
    for step in range(td.program_id(0), td.n_pes(), td.num_programs(0)):
        td.putmem(mine, x, (td.my_pe() + step) % td.n_pes())


@td.program(
    shape=("M", "N"),
    tensors={**X_SYMMETRIC, "y": td.Output("M*world", "N", symmetric=True)},
    work=(),
    reference=all_shards,
    small_shape="M=5,N=40",
)
def peers_write_a_symmetric_output(ctx, x, y):
    """A symmetric output is its peers' to write between two barriers."""
    ctx.barrier_all()
    ctx.launch(put_to_all, 2, (y, x))
    ctx.barrier_all()
