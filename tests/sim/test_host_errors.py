"""Host programs that ask for what cannot be: one line, at the line of the host program."""

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ApiError, DeadlockError, UsageError

X = (8, 16)


@td.kernel
def four_arguments(x, loc, sig, pe):
    td.load(x, (0, 0), (1, 16))


def refused_host(host, text, on="h800x2", **job):
    """*host* is refused with *text*, at the last line of its body."""
    with pytest.raises(ApiError) as refused:
        run(host, on, **job)
    last = max(line for *_, line in host.__code__.co_lines() if line)
    assert str(refused.value) == f"{__file__}:{last}: {text}"


def test_a_copy_engine_does_not_reach_another_node():
    def host(ctx):
        x = ctx.symmetric(X, td.float32)
        ctx.copy(x, x.at(1 - ctx.my_pe))

    refused_host(
        host,
        "symmetric#0[8, 16] on PE 1 is on another node than PE 0; "
        "copy engines reach one node; put between nodes from a kernel",
        on="h800x2x1",
    )


def test_a_copy_between_views_of_different_shape_or_dtype_is_refused():
    cure = "give two views of one shape and dtype"

    def shapes(ctx):
        ctx.copy(ctx.local(X, td.float32), ctx.local((8, 8), td.float32))

    def dtypes(ctx):
        ctx.copy(ctx.local(X, td.float32), ctx.local(X, td.int32))

    refused_host(shapes, f"a copy of local#1[8, 8] on PE 0 to local#0[8, 16] on PE 0; {cure}")
    refused_host(dtypes, f"a copy of local#1[8, 16] on PE 0 to local#0[8, 16] on PE 0; {cure}")


def test_a_host_signal_to_a_pe_or_index_that_does_not_exist_is_refused():
    def pe(ctx):
        ctx.signal_op(ctx.signals(2), 0, 1, "set", 2)

    def index(ctx):
        ctx.signal_op(ctx.signals(2), 2, 1, "set", 0)

    def wait_index(ctx):
        ctx.signal_wait_until(ctx.signals(2), 2, "ge", 1)

    def view(ctx):
        ctx.symmetric(X, td.float32).at(2)

    refused_host(pe, "PE 2 does not exist; PEs are 0 to 1")
    out = "signal index 2 of signals#0 is out of range; signals#0 has 2 signals, 0 to 1"
    refused_host(index, f"{out}")
    refused_host(wait_index, f"{out}")
    with pytest.raises(ApiError, match="PE 2 does not exist; PEs are 0 to 1"):
        run(view)


def test_a_host_cannot_name_a_peers_local_memory():
    def host(ctx):
        ctx.local(X, td.float32).at(1)

    with pytest.raises(ApiError, match=r"local#0\[8, 16\] on PE 0 is not symmetric"):
        run(host)


def test_allocations_that_differ_in_shape_between_ranks_are_refused():
    def host(ctx):
        ctx.symmetric((8 + ctx.my_pe, 16), td.float32)

    refused_host(
        host,
        "allocation 0 of symmetric memory is fp32[9, 16] on PE 1 but fp32[8, 16] "
        "on another; allocate the same shapes in the same order on every PE and in every call",
    )


def test_allocations_that_differ_in_dtype_between_ranks_are_refused():
    def host(ctx):
        ctx.symmetric(X, td.float32 if ctx.my_pe else td.bfloat16)

    with pytest.raises(
        ApiError, match=r"is fp32\[8, 16\] on PE 1 but bf16\[8, 16\] on another"
    ):
        run(host)


def test_signal_allocations_that_differ_between_ranks_are_refused():
    def host(ctx):
        ctx.signals(2, per_call=1 + ctx.my_pe)

    refused_host(
        host,
        "array 0 of signals has 2 words of 2 per call on PE 1 but 2 of 1 on another; "
        "allocate the same signals in the same order on every PE and in every call",
    )


@pytest.mark.parametrize("kind", ["symmetric", "signals"])
def test_a_rank_that_allocates_more_than_another_hangs_there(kind):
    def host(ctx):
        for _ in range(1 + ctx.my_pe):
            if kind == "signals":
                ctx.signals(2)
            else:
                ctx.symmetric(X, td.float32)

    with pytest.raises(DeadlockError) as stopped:
        run(host)
    assert stopped.value.waiters == (f"PE 1: in ctx.{kind}, allocation 1 of the call",)
    assert stopped.value.notes[0].startswith("PE 0 never makes it; allocations are collective")


def test_a_call_that_allocates_differently_from_the_one_before_is_refused():
    calls = []

    def host(ctx):
        calls.append(ctx.my_pe)
        ctx.local((len(calls), 4), td.float32)

    with pytest.raises(ApiError, match=r"allocation 0 of local memory is fp32\[2, 4\]"):
        run(host, "h800x1", calls=2)


def test_memory_of_a_call_is_that_of_the_call_before():
    seen = []

    def host(ctx):
        seen.append(ctx.local((4,), td.float32).buffer)
        seen.append(ctx.signals(4))

    run(host, "h800x1", calls=2)
    assert seen[0] is seen[2]
    assert seen[1] is seen[3]


@pytest.mark.parametrize(
    ("grid", "args", "options"),
    [
        (0, 4, {}),
        ((2, 0), 4, {}),
        (1, 3, {}),
        (1, 5, {}),
        (1, 4, {"ctas_per_sm": 0}),
        (1, 4, {"ctas_per_sm": 33}),
    ],
)
def test_a_launch_that_does_not_fit_its_kernel_is_refused(grid, args, options):
    def host(ctx):
        ctx.launch(four_arguments, grid, (0,) * args, **options)

    shape = grid if isinstance(grid, tuple) else (grid,)
    with pytest.raises(UsageError) as refused:
        run(host, "h800x1")
    text = str(refused.value)
    assert text.startswith(
        f"{__file__}:{four_arguments.source.line}: launch of four_arguments with grid {shape} and {args} arguments"
    )
    assert text.endswith("and the 4 arguments x loc sig pe; fix the ctx.launch call")


@td.kernel
def adds(x, loc, sig, n):
    for _ in range(n):
        td.signal_op(sig, 1, 1, "add", td.my_pe())


@pytest.mark.parametrize("n", [1, 3])
def test_a_counted_signal_must_receive_exactly_per_call(n):
    def host(ctx):
        views = ctx.symmetric(X, td.float32), ctx.local(X, td.float32)
        ctx.launch(adds, 1, (*views, ctx.signals(2, per_call=2), n))

    with pytest.raises(
        ApiError,
        match=rf"host: sig\[1\] on PE 0 counted {3 * n} in 3 calls instead of 2 per call; "
        "an added-to signal must receive exactly per_call in each call",
    ):
        run(host, calls=3)


def test_counting_exactly_per_call_is_fine():
    def host(ctx):
        views = ctx.symmetric(X, td.float32), ctx.local(X, td.float32)
        ctx.launch(adds, 1, (*views, ctx.signals(2, per_call=2), 2))

    run(host, calls=3)


@td.kernel
def meet():
    td.sync_all()


def test_two_instances_of_a_pe_in_one_barrier_are_refused():
    def host(ctx):
        ctx.launch(meet, 2, ())

    with pytest.raises(ApiError) as refused:
        run(host)
    assert str(refused.value) == (
        f"{__file__}:{meet.source.tree.body[0].lineno}: two program instances of PE 0 are in one "
        "sync_all; let one instance call it and join the others with td.grid_barrier"
    )


def test_an_exception_in_a_host_program_is_one_line_with_its_place():
    def host(ctx):
        raise KeyError("mine")

    with pytest.raises(
        ApiError,
        match=r"test_host_errors\.py:\d+: host program host on PE 0 failed: KeyError: 'mine'",
    ):
        run(host)


def test_a_host_program_may_refuse_a_request_with_one_line():
    def host(ctx):
        td.require(
            ctx.n_pes > 8, what=f"{ctx.n_pes} PEs", expected="more than 8", cure="take more"
        )

    with pytest.raises(
        UsageError, match=r"test_host_errors\.py:\d+: 2 PEs; expected more than 8; take more"
    ):
        run(host)
