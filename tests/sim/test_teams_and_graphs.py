"""Teams of PEs, captured graphs, plain signal words, own signals and GPU scope."""

from __future__ import annotations

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ApiError, DeadlockError


@td.kernel
def add_to_all(sig, first, last):
    """Add 1 to word 0 of the PEs from *first* to *last* - 1."""
    for pe in range(first, last):
        td.signal_op(sig, 0, 1, "add", pe)


def words(done, index=0):
    return [row[0] for row in done.world.signal_arrays[index].words]


def test_a_team_numbers_its_members_and_has_signals_of_its_own():
    seen = {}

    def host(ctx):
        team = ctx.team((2, 0) if ctx.my_pe in (0, 2) else (1, 3))
        seen[ctx.my_pe] = (team.my_pe, team.n_pes, [team.pe(i) for i in range(2)])
        sig = team.signals(1, per_call=1)
        ctx.launch(add_to_all, 1, (sig, ctx.my_pe, ctx.my_pe + 1))

    done = run(host, "h800x4")
    assert seen == {
        0: (1, 2, [2, 0]), 1: (0, 2, [1, 3]), 2: (0, 2, [2, 0]), 3: (1, 2, [1, 3]),
    }  # fmt: skip
    assert sorted([words(done, 0), words(done, 1)]) == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_a_signal_to_a_pe_outside_the_team_is_refused():
    def host(ctx):
        if ctx.my_pe < 2:
            ctx.launch(add_to_all, 1, (ctx.team((0, 1)).signals(1), 2, 3))

    with pytest.raises(ApiError, match="belongs to a team without PE 2; name one of PE 0, 1"):
        run(host, "h800x4")


@pytest.mark.parametrize("pes", [(1, 2), (0, 0), (0, 9)])
def test_a_team_that_cannot_be_is_refused(pes):
    def host(ctx):
        if ctx.my_pe == 0:
            ctx.team(pes)

    with pytest.raises(ApiError, match="PE 0 makes a team of the PEs"):
        run(host, "h800x4")


def test_the_barrier_of_a_team_holds_its_members_only():
    def host(ctx):
        if ctx.my_pe < 2:
            ctx.team((0, 1)).barrier_all()

    ends = run(host, "h800x4", delays={1: 10**9}).ends
    assert min(ends[:2]) > 10**9 > max(ends[2:])


def test_a_member_that_does_not_allocate_is_named():
    def host(ctx):
        team = ctx.team(tuple(range(3))) if ctx.my_pe < 3 else None
        if ctx.my_pe < 2:
            team.signals(1)

    with pytest.raises(DeadlockError) as stopped:
        run(host, "h800x4")
    assert stopped.value.waiters == (
        "PE 0, 1: in ctx.signals of team 0,1,2, allocation 0 of the call",
    )
    assert stopped.value.notes[0].startswith("PE 2 never makes it")


def test_a_graph_is_captured_once_and_replays_what_the_host_counted():
    captured = []

    def host(ctx):
        sig = ctx.signals(1, per_call=0)
        ctx.number = getattr(ctx, "number", 0) + 1
        number = ctx.number

        def capture():
            captured.append(ctx.my_pe)
            ctx.signal_op(sig, 0, number, "add", ctx.my_pe)

        ctx.replay("count", capture)

    done = run(host, "h800x2", calls=3)
    assert sorted(captured) == [0, 1]
    assert words(done) == [3, 3]


def test_a_graph_keeps_the_order_of_its_streams():
    def host(ctx, x, y):
        side, half = ctx.stream("side"), ctx.local((4, 8), x.dtype)

        def capture():
            ctx.copy(half, x)
            ctx.fork(side)
            ctx.copy(y, half, stream=side)
            ctx.join(side)

        ctx.replay("copies", capture)

    tensors = {"x": td.Input("4", "8"), "y": td.Output("4", "8")}
    done = run(host, "h800x1", tensors=tensors, calls=3)
    for call in range(3):
        assert (done.outputs[call]["y"][0] == done.inputs[call]["x"][0]).all()


def test_a_graph_in_a_graph_is_refused():
    def host(ctx):
        ctx.replay("outer", lambda: ctx.replay("inner", lambda: None))

    with pytest.raises(ApiError, match="graph inner inside another; replay it outside"):
        run(host, "h800x1")


def test_plain_words_go_on_from_call_to_call():
    def host(ctx):
        ctx.launch(add_to_all, 1, (ctx.signals(1, per_call=0), 0, ctx.n_pes))

    assert words(run(host, "h800x2", calls=3)) == [6, 6]


@td.kernel
def set_then_clear(sig):
    """Set the own word and clear it; a wait for at least 1 can then not be satisfied."""
    td.signal_op(sig, 0, 1, "set", td.my_pe())
    token = td.signal_wait_until(sig, 0, "ge", 1)
    td.signal_op(sig, td.after(token, 0), 0, "set", td.my_pe())
    token = td.signal_wait_until(sig, 0, "ge", 1)
    td.signal_op(sig, 1, td.after(token, 1), "set", td.my_pe())


@pytest.mark.parametrize("functional", [True, False])
def test_a_wait_sees_what_its_own_cta_has_written_to_the_word(functional):
    def host(ctx):
        ctx.launch(set_then_clear, 1, (ctx.signals(2),))

    with pytest.raises(DeadlockError, match="it is 0, last written by PE 0 set_then_clear"):
        run(host, "h800x1", functional=functional)


@td.kernel
def tell_then_work(sig, SCOPE: td.constexpr):
    """Signal the other PE, then go on working for a while."""
    td.signal_op(sig, 0, 1, "set", 1 - td.my_pe(), SCOPE)
    tile = td.zeros((128, 128), td.float32)
    for _ in range(2000):
        tile = td.exp(tile)
    td.signal_op(sig, 1, 1, "set", td.my_pe())


@pytest.mark.parametrize("scope", ["sys", "gpu"])
def test_a_signal_of_gpu_scope_arrives_at_the_latest_when_its_kernel_ends(scope):
    def host(ctx):
        ctx.launch(tell_then_work, 1, (ctx.signals(2), scope))

    for seed in range(4):
        assert words(run(host, "h800x2", skewed=True, seed=seed)) == [1, 1]


def test_a_scope_that_is_none_is_named():
    with pytest.raises(ApiError, match='scope=\'block\'; write one of "sys" "gpu"'):
        td.signal_op(None, 0, 1, "set", 0, "block")


def test_memory_beyond_the_gpu_is_refused_with_the_figures():
    def host(ctx):
        ctx.symmetric((2**30, 16), td.float32)
        ctx.symmetric((2**30, 16), td.float32)

    with pytest.raises(ApiError) as refused:
        run(host, "h800x1", functional=False)
    assert "symmetric#1 asks for 64.0 GiB; of the GPU's 74.5 GiB 64.0 GiB are in use" in str(
        refused.value
    )
