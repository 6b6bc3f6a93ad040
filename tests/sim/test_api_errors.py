"""Forbidden calls: each is one line that says what, where and how to cure it."""

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ApiError

X = (8, 16)


@td.kernel
def symm_at_kernel(x, loc, sig, pe):
    td.load(td.symm_at(x, pe), (0, 0), (1, 16))


@td.kernel
def put_kernel(x, loc, sig, pe):
    td.putmem(x, x, pe)


@td.kernel
def get_kernel(x, loc, sig, pe):
    td.getmem(loc, x, pe)


@td.kernel
def signal_kernel(x, loc, sig, pe):
    td.signal_op(sig, 0, 1, "set", pe)


@td.kernel
def put_signal_kernel(x, loc, sig, pe):
    td.putmem_signal_nbi(x, x, sig, 0, 1, "set", pe)


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize("pe", [-1, 2, 99])
@pytest.mark.parametrize(
    "kernel",
    [symm_at_kernel, put_kernel, get_kernel, signal_kernel, put_signal_kernel],
    ids=lambda k: k.name,
)
def test_a_pe_that_does_not_exist_is_named_with_the_line(kernel, pe, functional):
    with pytest.raises(ApiError) as refused:
        launch(kernel, pe, functional=functional)
    line = kernel.source.tree.body[0].lineno
    assert str(refused.value) == (
        f"{__file__}:{line}: PE 0 {kernel.name}[0] names PE {pe}, which does not exist; "
        "PEs are 0 to 1"
    )
    assert refused.value.verdict == "API-ERROR"


def launch(kernel, *args, on="h800x2", functional=True):
    def host(ctx):
        local = ctx.local(X, td.int32 if kernel.name.startswith("count") else td.float32)
        ctx.launch(kernel, 1, (ctx.symmetric(X, td.float32), local, ctx.signals(3), *args))

    return run(host, on, functional=functional)


@td.kernel
def signal_index(x, loc, sig, i):
    td.signal_op(sig, i, 1, "set", 0)


@td.kernel
def wait_index(x, loc, sig, i):
    token = td.signal_wait_until(sig, i, "ge", 1)
    td.after(token, i)


@td.kernel
def put_index(x, loc, sig, i):
    td.putmem_signal(x, x, sig, i, 1, "set", 1)


@td.kernel
def barrier_index(x, loc, sig, i):
    td.grid_barrier(sig, i)


@pytest.mark.parametrize("i", [-1, 3])
@pytest.mark.parametrize(
    "kernel", [signal_index, wait_index, put_index, barrier_index], ids=lambda k: k.name
)
def test_a_signal_index_out_of_range_is_named_with_the_line(kernel, i):
    with pytest.raises(ApiError) as refused:
        launch(kernel, i)
    line = kernel.source.tree.body[0].lineno
    assert str(refused.value) == (
        f"{__file__}:{line}: signal index {i} of sig is out of range; sig has 3 signals, 0 to 2"
    )


@td.kernel
def put_to_local(x, loc, sig):
    td.putmem(loc, x, 1)


@td.kernel
def get_from_local(x, loc, sig):
    td.getmem(x, loc, 1)


@td.kernel
def load_from_peers_local(x, loc, sig):
    td.load(td.symm_at(loc, 1), (0, 0), (1, 16))


@td.kernel
def put_translated_twice(x, loc, sig):
    td.putmem_signal(td.symm_at(x, 1), loc, sig, 0, 1, "set", 1)


@td.kernel
def put_from_a_peer(x, loc, sig):
    td.putmem(x, td.symm_at(x, 1), 1)


@td.kernel
def get_translated_twice(x, loc, sig):
    td.getmem(loc, td.symm_at(x, 1), 1)


@td.kernel
def put_of_another_shape(x, loc, sig):
    td.putmem(td.rows(x, 0, 4), loc, 1)


@td.kernel
def rows_outside(x, loc, sig):
    td.store(td.rows(x, 6, 3), (0, 0), td.zeros((1, 16), td.float32))


@td.kernel
def count_on_another_element(x, loc, sig):
    td.atomic_add(loc, (8, 0), 1)


@td.kernel
def count_without_an_axis(x, loc, sig):
    td.atomic_add(loc, 0, 1)


@td.kernel
def count_floats(x, loc, sig):
    td.atomic_add(x, (0, 0), 1)


@td.kernel
def count_at_a_peer(x, loc, sig):
    td.atomic_add(td.symm_at(x, 1), (0, 0), 1)


SYMMETRIC = "allocate it with ctx.symmetric, or declare it symmetric=True"
OWN = "name this PE's view and the other PE by number: the call translates"
WRONG_MEMORY = {
    put_to_local: f"PE 0 put_to_local[0] puts to local#0[8, 16] on PE 0, which is not symmetric; {SYMMETRIC}",
    get_from_local: f"PE 0 get_from_local[0] gets from local#0[8, 16] on PE 0, which is not symmetric; {SYMMETRIC}",
    load_from_peers_local: f"local#0[8, 16] on PE 0 is not symmetric, so no other PE has it; {SYMMETRIC}",
    put_translated_twice: f"PE 0 put_translated_twice[0] puts to another PE through symmetric#0[8, 16] on PE 1, not its own memory; {OWN}",
    put_from_a_peer: f"PE 0 put_from_a_peer[0] puts to another PE through symmetric#0[8, 16] on PE 1, not its own memory; {OWN}",
    get_translated_twice: f"PE 0 get_translated_twice[0] gets from another PE through symmetric#0[8, 16] on PE 1, not its own memory; {OWN}",
    put_of_another_shape: "PE 0 put_of_another_shape[0] copies fp32[8, 16] into fp32[4, 16]; give two views of one shape and dtype",
    rows_outside: "rows 6 to 9 of symmetric#0[8, 16] on PE 0 do not exist; stay within its 8 rows",
    count_on_another_element: "element [8, 0] of local#0[8, 16] on PE 0 does not exist; check the index",
    count_without_an_axis: "element [0] of local#0[8, 16] on PE 0 does not exist; check the index",
    count_floats: "atomic_add to symmetric#0[8, 16] on PE 0, fp32; add to local memory of an integer type",
    count_at_a_peer: "atomic_add to symmetric#0[8, 16] on PE 1, fp32; add to local memory of an integer type",
}  # fmt: skip


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize("kernel", WRONG_MEMORY, ids=lambda k: k.name)
def test_memory_that_the_call_cannot_name_is_refused(kernel, functional):
    with pytest.raises(ApiError) as refused:
        launch(kernel, functional=functional)
    line = kernel.source.tree.body[0].lineno
    assert str(refused.value) == f"{__file__}:{line}: {WRONG_MEMORY[kernel]}"


def test_another_node_cannot_be_loaded_from_or_stored_to():
    with pytest.raises(
        ApiError,
        match=r"PE 1 is on another node, so PE 0 symm_at_kernel\[0\] cannot load or store there; "
        "use putmem or getmem between nodes",
    ):
        launch(symm_at_kernel, 1, on="h800x2x1")
    launch(put_kernel, 0, on="h800x2x1")
    launch(symm_at_kernel, 0, on="h800x1")


@td.kernel
def divides(x, loc, sig, n):
    td.store(loc, (1 // n, 0), td.zeros((1, 1), td.float32))


def test_an_exception_in_a_kernel_is_one_line_with_its_place():
    with pytest.raises(ApiError) as failed:
        launch(divides, 0)
    line = divides.source.tree.body[0].lineno
    assert str(failed.value).startswith(
        f"{__file__}:{line}: PE 0 divides[0] failed: ZeroDivisionError"
    )


@td.kernel
def store_before_the_view(x, loc, sig, offsets):
    td.store(loc, offsets, td.zeros((8, 16), td.float32))


@pytest.mark.parametrize("functional", [True, False])
def test_a_store_begins_inside_its_view_and_may_end_outside(functional):
    launch(store_before_the_view, (7, 15), functional=functional)
    with pytest.raises(ApiError, match=r"begins at \[0, -1\], before the view; begin at 0"):
        launch(store_before_the_view, (0, -1), functional=functional)
