"""Where GPU order is not source order: one program for each trap, right only with its cure.

Neither Triton's software pipeliner nor the threads of a CTA follow the order of the text. Each
program here goes wrong, or hangs, if the cure named in ``catalogue.py`` is taken out of the
lowering; ``broken.py`` takes them out. Memory is reused from call to call, with other contents,
so what is read too early is wrong. Two more traps live in ``programs_signals.py``: an ADD that
counts once (``an_add_counts_once``) and a wait that acquires (``a_wait_sees_past_a_warm_cache``).
"""

import numpy as np
from conformance_tools import whole

from tdsim import lang as td

MOVE = {"move": td.Tunable("tiled", ("tiled", "pointer"), "loads by descriptor or by pointer")}


def tiled(view, move, *shape):
    return view.tiled(*shape) if move == "tiled" else view


@td.function
def bring_late(a, x, ready, K):
    """Write the whole numbers in 4 x, 64 columns at a time, and signal each part."""
    for k in range(0, K, 64):
        for row in range(0, 128, 16):
            part = td.cast(td.load(x, (row, k), (16, 64)) * 4.0, td.int32)
            td.store(a, (row, k), part)
        td.signal_op(ready, k // 64, 1, "set", td.my_pe())


@td.kernel
def late_operand(c, a_out, a, b, x, ready, K):
    """Instance 0 brings a, part by part; instance 1 multiplies and waits in its K loop."""
    if td.program_id(0) == 0:
        bring_late(a_out, x, ready, K)
    else:
        acc = td.zeros((128, 64), td.float32)
        for k in range(0, K, 64):
            token = td.signal_wait_until(ready, k // 64, "ge", 1)
            a_tile = td.load(td.after(token, a), (0, k), (128, 64))
            acc = td.dot(a_tile, td.load(b, (k, 0), (64, 64)), acc)
        td.store(c, (0, 0), acc)


@td.function
def wait_for(ready, i):
    """The token of one part."""
    return td.signal_wait_until(ready, i, "ge", 1)


@td.function
def behind(ready, i, row):
    """*row*, behind the wait for one part and all waits that it was behind before."""
    token = wait_for(ready, i)
    return td.after(token, row)


@td.kernel
def late_operand_by_helpers(c, a_out, a, b, x, ready, K):
    """As :func:`late_operand`; the tie goes through two helpers and from turn to turn."""
    if td.program_id(0) == 0:
        bring_late(a_out, x, ready, K)
    else:
        acc = td.zeros((128, 64), td.float32)
        row = 0
        for k in range(0, K, 64):
            row = behind(ready, k // 64, row)
            a_tile = td.load(a, (row, k), (128, 64))
            acc = td.dot(a_tile, td.load(b, (k, 0), (64, 64)), acc)
        td.store(c, (0, 0), acc)


@td.kernel
def truncate(y, x):
    """y = the whole numbers in 4 x: their products are exact."""
    for row in range(td.program_id(0) * 16, x.shape[0], td.num_programs(0) * 16):
        numbers = td.cast(td.load(x, (row, 0), (16, 64)) * 4.0, td.int32)
        td.store(y, (row, 0), numbers)


def whole_product(tensors):
    def of(x, w):
        return (whole(x) @ whole(w)).astype(x.dtype)

    return {"y": [of(*pair) for pair in zip(tensors["x"], tensors["w"], strict=True)]}


def multiply_late(ctx, kernel, x, w, y, move):
    a, b = ctx.local(x.shape, x.dtype), ctx.local(w.shape, w.dtype)
    ready = ctx.signals(x.shape[1] // 64)
    ctx.launch(truncate, 2, (b, w), num_warps=4)
    args = (y, a, tiled(a, move, 128, 64), tiled(b, move, 64, 64), x, ready, x.shape[1])
    ctx.launch(kernel, 2, args, num_warps=4)


PRODUCT = td.program(
    shape=("K",),
    tensors={"x": td.Input("128", "K"), "w": td.Input("K", "64"), "y": td.Output("128", "64")},
    work=(td.Gemm("128", "64", "K"),),
    reference=whole_product,
    small_shape="K=512",
    tunables=MOVE,
)


@PRODUCT
def wait_in_a_pipelined_loop(ctx, x, w, y, *, move):
    """A load in a pipelined loop stays behind the wait that its view is tied to."""
    multiply_late(ctx, late_operand, x, w, y, move)


@PRODUCT
def token_through_helpers(ctx, x, w, y, *, move):
    """A token holds through nested helpers, and through values carried from turn to turn."""
    multiply_late(ctx, late_operand_by_helpers, x, w, y, move)


@td.kernel
def take_turns(y, box, turn, steps):
    """Two instances rotate a tile in turns: each waits for the other's tile and signal.

    If a wait for the next tile rises above the signal of this one, both wait for ever.
    """
    me = td.program_id(0)
    columns = td.zeros((1, 64), td.int32) + td.arange(0, 64)
    rotation = td.where((td.trans(columns) + 1) % 64 == columns, 1.0, 0.0)
    rotation = td.cast(rotation, y.dtype)
    for step in range(me, steps, 2):
        token = td.signal_wait_until(turn, step, "ge", 1)
        tile = td.load(td.after(token, box), (step * 64, 0), (64, 64))
        tile = td.cast(td.dot(tile, rotation, td.zeros((64, 64), td.float32)), y.dtype)
        td.store(box, (step * 64 + 64, 0), tile)
        td.signal_op(turn, step + 1, 1, "set", td.my_pe())
        td.store(y, (step * 64, 0), tile)


def rotated(tensors):
    def of(x):
        steps = x.shape[0] // 64
        return np.concatenate([np.roll(x[:64], step + 1, axis=1) for step in range(steps)])

    return {"y": [of(x) for x in tensors["x"]]}


@td.program(
    shape=("steps",),
    tensors={"x": td.Input("64*steps", "64"), "y": td.Output("64*steps", "64")},
    work=(),
    reference=rotated,
    small_shape="steps=8",
    tunables=MOVE,
)
def two_ctas_take_turns(ctx, x, y, *, move):
    """No wait of a later tile rises above the store and the signal of an earlier one."""
    steps = x.shape[0] // 64
    box = ctx.local((x.shape[0] + 64, 64), x.dtype)
    turn = ctx.signals(steps + 1)
    ctx.copy(box.rows(0, 64), x.rows(0, 64))
    ctx.signal_op(turn, 0, 1, "set", ctx.my_pe)
    args = (y, tiled(box, move, 64, 64), turn, steps)
    ctx.launch(take_turns, 2, args, num_warps=4)


@td.kernel
def uneven_store(y, box, x, ready):
    """Instance 0 stores tiles whose first rows are there long before the others; 1 copies them.

    The first two rows of each tile lie outside its view and load nothing, while the other 14
    load all of N. With 8 warps, Triton gives warp 0, whose first thread signals, just those two.
    """
    rounds = y.shape[0] // 16
    for i in range(rounds):
        if td.program_id(0) == 0:
            part = td.rows(x, i * 14, 14)
            best = td.zeros((16, 64), td.float32)
            for k in range(0, x.shape[1], 64):
                best = td.maximum(best, td.load(part, (-2, k), (16, 64)))
            td.store(box, (i * 16, 0), best)
            td.signal_op(ready, i, 1, "set", td.my_pe())
        else:
            token = td.signal_wait_until(ready, i, "ge", 1)
            tile = td.load(td.after(token, box), (i * 16, 0), (16, 64))
            td.store(y, (i * 16, 0), tile)


def largest_in_64s(tensors):
    def of(x):
        best = np.maximum(x.reshape(x.shape[0], -1, 64).max(axis=1), 0)
        return np.pad(best.reshape(-1, 14, 64), ((0, 0), (2, 0), (0, 0))).reshape(-1, 64)

    return {"y": [of(x) for x in tensors["x"]]}


@td.program(
    shape=("rounds", "N"),
    tensors={"x": td.Input("14*rounds", "N"), "y": td.Output("16*rounds", "64")},
    work=(),
    reference=largest_in_64s,
    small_shape="rounds=8,N=1024",
)
def a_release_covers_all_threads(ctx, x, y):
    """A signal after a store by pointers releases what all threads of the CTA have stored."""
    args = (y, ctx.local(y.shape, y.dtype), x, ctx.signals(y.shape[0] // 16))
    ctx.launch(uneven_store, 2, args, num_warps=8)


@td.kernel
def hand_over(y, box_out, box_in, x, ready):
    """Instance 0 stores tiles and signals each; instance 1 loads them at once."""
    for row in range(0, x.shape[0], 128):
        if td.program_id(0) == 0:
            td.store(box_out, (row, 0), td.load(x, (row, 0), (128, 128)))
            td.signal_op(ready, row // 128, 1, "set", td.my_pe())
        else:
            token = td.signal_wait_until(ready, row // 128, "ge", 1)
            tile = td.load(td.after(token, box_in), (row, 0), (128, 128))
            td.store(y, (row, 0), tile)


@td.program(
    shape=("tiles",),
    tensors={"x": td.Input("128*tiles", "128"), "y": td.Output("128*tiles", "128")},
    work=(),
    reference=lambda tensors: {"y": list(tensors["x"])},
    small_shape="tiles=8",
    tunables={
        "store": td.Tunable("tiled", ("tiled", "pointer"), "how the tile is stored"),
        "load": td.Tunable("pointer", ("tiled", "pointer"), "how it is loaded"),
    },
)
def a_stored_tile_is_there_when_signalled(ctx, x, y, *, store, load):
    """A signal covers tiles stored by TMA; a wait lets TMA load what ordinary stores wrote."""
    box = ctx.local(x.shape, x.dtype)
    views = tiled(box, store, 128, 128), tiled(box, load, 128, 128)
    ctx.launch(hand_over, 2, (y, *views, x, ctx.signals(x.shape[0] // 128)), num_warps=8)
