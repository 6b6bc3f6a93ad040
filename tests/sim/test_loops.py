"""Loops: one iteration stands for all where it may, and the predicted time is the same."""

import ast

import pytest
from helpers import frictionless, run, time_of
from hypothesis import given
from hypothesis import strategies as st

from tdsim import lang as td
from tdsim.sim import loops
from tdsim.topology import machine

X = ((1024, 1024), td.bfloat16)


@td.kernel
def plain(x, n):
    for i in range(n):
        td.store(x, (i * 16, 0), td.load(x, (i * 16, 0), (16, 64)))


@td.kernel
def gemm_loop(x, n):
    acc = td.zeros((64, 64), td.float32)
    for k in range(n):
        a = td.load(x, (0, k * 16), (64, 16))
        b = td.load(x, (k * 16, 0), (16, 64))
        acc = td.dot(a, b, acc)
    td.store(x, (0, 0), acc)


@td.kernel
def nested(x, n):
    for i in range(n):
        acc = td.zeros((16, 64), td.float32)
        for k in range(5):
            acc = acc + td.load(x, (i * 16, k * 64), (16, 64))
        for _ in range(3):
            acc = td.exp(acc)
        td.store(x, (i * 16, 0), acc)


@td.kernel
def inner_bound_varies(x, n):
    for i in range(n):
        acc = td.zeros((16, 64), td.float32)
        for k in range(i):
            acc = acc + td.load(x, (i * 16, k * 16), (16, 64))
        td.store(x, (i * 16, 0), acc)


@td.kernel
def inner_bound_zero(x, n):
    for i in range(n):
        for k in range(1, 1):
            row = i + k
            td.store(x, (row * 16, 0), td.load(x, (row * 16, 0), (16, 64)))
        td.store(x, (i * 16, 0), td.load(x, (i * 16, 0), (16, 64)))


@td.kernel
def branch_on_index(x, n):
    for i in range(n):
        tile = td.load(x, (i * 16, 0), (16, 64))
        if i == 3:
            tile = td.exp(tile)
        td.store(x, (i * 16, 0), tile)


@td.kernel
def conditional_expression(x, n):
    for i in range(n):
        cols = 0 if i < 2 else 960
        td.store(x, (i * 16, cols), td.load(x, (i * 16, cols), (16, 128)))


@td.function
def only_first(tile, i):
    if i == 0:
        tile = td.exp(td.exp(tile))
    return tile


@td.kernel
def branch_in_helper(x, n):
    for i in range(n):
        td.store(x, (i * 16, 0), only_first(td.load(x, (i * 16, 0), (16, 64)), i))


@td.function
def straight(x, row):
    tile = td.load(x, (row, 0), (16, 64))
    return tile * 2.0, td.exp(tile)


@td.kernel
def helper_without_branch(x, n):
    for i in range(n):
        first, second = straight(x, i * 16)
        td.store(x, (i * 16, 0), first + second)


@td.kernel
def carried_scalar(x, n):
    count = 0
    for i in range(n):
        for k in range(count):
            td.store(x, (k, 0), td.exp(td.load(x, (k, 0), (16, 64))))
        count = count + 1
        td.store(x, (i * 16, 0), td.load(x, (i * 16, 0), (16, 64)))


@td.kernel
def scalar_used_after(x, n):
    last = 0
    for i in range(n):
        last = i * 16
        td.store(x, (last, 0), td.load(x, (last, 0), (16, 64)))
    for _ in range(last):
        td.store(x, (0, 0), td.load(x, (0, 0), (16, 16)))


@td.kernel
def while_loop(x, n):
    while n > 0:
        td.store(x, (n, 0), td.load(x, (n, 0), (16, 64)))
        n = n - 1


@td.kernel
def written_in_branches(x, n, flag):
    for i in range(n):
        row = 0
        if flag > 0:
            row = i * 16
        else:
            row = 16
        td.store(x, (row, 0), td.load(x, (row, 0), (16, 64)))


@td.kernel
def tile_of_the_last_iteration(x, n):
    tile = td.zeros((16, 64), td.float32)
    for i in range(n):
        tile = tile + td.load(x, (i * 16, 0), (16, 64))
    td.store(x, (0, 0), tile)


@td.kernel
def backwards(x, n):
    for i in range(n, 0, -1):
        td.store(x, (i, 0), td.load(x, (i, 0), (16, 64)))


@td.kernel
def two_loops_and_a_tail(x, n):
    td.store(x, (0, 0), td.load(x, (0, 0), (16, 64)))
    for i in range(n):
        td.store(x, (i, 0), td.load(x, (i, 0), (16, 64)))
    td.store(x, (0, 0), td.exp(td.load(x, (0, 0), (64, 64))))
    for i in range(n):
        td.store(x, (i, 0), td.load(x, (i, 0), (16, 64)))


@td.kernel
def remote_loads(x, n):
    peer = td.symm_at(x, 1)
    acc = td.zeros((16, 64), td.float32)
    for i in range(n):
        acc = acc + td.load(peer, (i * 16, 0), (16, 64))
    td.store(x, (0, 0), acc)


@td.kernel
def remote_stores(x, n):
    peer = td.symm_at(x, 1)
    for i in range(n):
        td.store(peer, (i * 16, 0), td.load(x, (i * 16, 0), (16, 64)))


FOLDED = [
    plain, gemm_loop, nested, inner_bound_zero, helper_without_branch,
    tile_of_the_last_iteration, backwards, two_loops_and_a_tail, remote_loads, remote_stores,
]  # fmt: skip
UNFOLDED = [
    inner_bound_varies, branch_on_index, conditional_expression, branch_in_helper,
    carried_scalar, scalar_used_after, while_loop,
]  # fmt: skip
ONE_OR_TWO = {"remote_loads": "h800x2", "remote_stores": "h800x2"}


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("kernel", [*FOLDED, *UNFOLDED], ids=lambda k: k.name)
def test_timing_mode_and_functional_mode_predict_the_same_time(kernel, n):
    on = machine(ONE_OR_TWO.get(kernel.name, "h800x1"))
    timed = time_of(kernel, X, n, functional=False, on=on)
    assert timed == time_of(kernel, X, n, functional=True, on=on)
    assert timed > 0 or n == 0


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch_that_is_the_same_in_every_iteration_folds(flag):
    times = {
        functional: time_of(
            written_in_branches, X, 30, flag, functional=functional, on="h800x1"
        )
        for functional in (False, True)
    }
    assert times[False] == times[True]
    assert iterations(written_in_branches, X, 30, flag) == 1


def iterations(kernel, *args):
    """How many of its tiles *kernel* really stores in timing mode."""

    def host(ctx):
        values = [ctx.symmetric(*a) if isinstance(a, tuple) else a for a in args]
        if ctx.my_pe == 0:
            ctx.launch(kernel, 1, values)

    return run(host, ONE_OR_TWO.get(kernel.name, "h800x1"), functional=False).world.tiles


@pytest.mark.parametrize(
    "kernel", [plain, nested, helper_without_branch, remote_stores], ids=lambda k: k.name
)
def test_a_pure_loop_runs_one_iteration(kernel):
    assert iterations(kernel, X, 40) == 1


@pytest.mark.parametrize("kernel", UNFOLDED[1:], ids=lambda k: k.name)
def test_a_loop_whose_iterations_differ_runs_in_full(kernel):
    assert iterations(kernel, X, 40) >= 40


def test_a_loop_with_a_visible_operation_runs_in_full():
    counted = []

    def host(ctx):
        ready = ctx.signals(1, per_call=9)
        ctx.launch(signalling, 1, (ready, 9))
        counted.append(ready)

    run(host, "h800x1", functional=False)
    assert counted[0].words == [[9]]


@td.kernel
def signalling(ready, n):
    for _ in range(n):
        td.signal_op(ready, 0, 1, "add", td.my_pe())


def test_a_visible_operation_hidden_in_a_helper_is_seen():
    counted = []

    def host(ctx):
        counted.append(ctx.signals(1))
        ctx.launch(hidden, 1, (counted[0], 9))

    run(host, "h800x1", functional=False)
    assert counted[0].words == [[1]]


@td.function
def notify_last(ready, i, n):
    if i == n - 1:
        td.signal_op(ready, 0, 1, "set", td.my_pe())


@td.kernel
def hidden(ready, n):
    for i in range(n):
        notify_last(ready, i, n)


@given(st.integers(0, 60), st.sampled_from([16, 64]), st.integers(0, 3))
def test_a_folded_loop_costs_what_the_sum_of_its_iterations_costs(n, inner, exps):
    both = [
        time_of(parametric, X, n, inner, exps, functional=functional, on=TOY)
        for functional in (False, True)
    ]
    assert both[0] == both[1]


@td.kernel
def parametric(x, n, INNER: td.constexpr, exps):
    for i in range(n):
        tile = td.load(x, (i * 16, 0), (16, INNER))
        for _ in range(exps):
            tile = td.exp(tile)
        td.store(x, (i * 16, 0), tile)


TOY = machine("h800x1")


def test_a_ragged_last_step_counts_as_a_full_one_when_folded():
    """A known gap: the first iteration stands for all, also for one that the edge cuts."""
    x = ((1024, 90), td.bfloat16)
    times = [time_of(ragged, x, functional=f, on="h800x1") for f in (False, True)]
    assert times[0] > times[1]


@td.kernel
def ragged(x):
    for col in range(0, 90, 64):
        td.store(x, (0, col), td.load(x, (0, col), (512, 64)))


def test_line_numbers_survive_the_rewriting():
    def host(ctx):
        ctx.launch(out_of_range, 1, (ctx.local((8, 8), td.float32),))

    with pytest.raises(Exception, match="names PE 9") as failed:
        run(host, "h800x1")
    here = out_of_range.source.tree.body[-1].lineno
    assert failed.value.where == f"{__file__}:{here}"


@td.kernel
def out_of_range(x):
    for i in range(4):
        td.store(x, (i, 0), td.zeros((1, 1), td.float32))

    td.symm_at(x, 9)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a = b\nb = a", {"b"}),
        ("a = 1\nb = a", set()),
        ("if c:\n    a = 1\nelse:\n    a = 2\nb = a", {"c"}),
        ("if c:\n    a = 1\nb = a", {"c", "a"}),
        ("for i in range(n):\n    a = i\nb = a", {"range", "n", "a"}),
        ("for i in range(n):\n    a = i\n    b = a", {"range", "n"}),
        ("while c:\n    c = c - 1", {"c"}),
    ],
)
def test_what_an_iteration_reads_before_it_surely_wrote_it(text, want):
    assert loops.read_first(ast.parse(text).body, set()) == want


def test_a_frictionless_machine_costs_nothing():
    assert time_of(plain, X, 3, functional=False, on=frictionless()) <= 3
