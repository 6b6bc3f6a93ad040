"""Kernels and helpers as objects: names, parameters, and calls in the wrong place."""

import pytest

from tdsim import lang as td
from tdsim.errors import ApiError, UsageError
from tdsim.lang import OPS


@td.kernel
def scale(x, factor, BLOCK: td.constexpr, WIDTH: "td.constexpr"):
    """x times factor."""
    td.store(x, (0,), td.load(x, (0,), (BLOCK,)) * factor)


@td.function
def twice(v):
    return v + v


def test_a_kernel_knows_its_parameters_and_where_it_was_written():
    assert scale.params == ("x", "factor", "BLOCK", "WIDTH")
    assert scale.constexprs == {"BLOCK", "WIDTH"}
    assert scale.__doc__ == "x times factor."
    assert scale.source.file == __file__
    with open(__file__) as file:
        lines = file.read().splitlines()
    assert lines[scale.source.tree.lineno - 1].startswith("def scale")
    assert lines[scale.source.line - 1] == "@td.kernel"


def test_kernels_and_helpers_print_their_kind_and_name():
    assert repr(scale) == "<td.kernel scale>"
    assert repr(twice) == "<td.function twice>"


def test_calling_a_kernel_like_a_function_names_the_launch():
    with pytest.raises(
        UsageError,
        match=r"test_definition\.py:\d+: kernel scale was called like a function; expected a "
        r"launch from a host program; write ctx\.launch\(scale, grid=\.\.\., args=\(\.\.\.\)\)",
    ):
        scale(None, 2, 16, 16)


def test_calling_a_helper_outside_a_kernel_names_the_cure():
    with pytest.raises(UsageError, match="called outside a running kernel"):
        twice(2)


CALLS = {
    "load": (None, 0, 1), "store": (None, 0, None), "zeros": ((1,), td.float32),
    "full": ((1,), 0, td.float32), "arange": (0, 4), "dot": (None, None, None),
    "trans": (None,), "where": (None, 0, 0), "sum": (None, 0), "max": (None, 0),
    "exp": (None,), "exp2": (None,), "log": (None,), "maximum": (1, 2), "minimum": (1, 2),
    "cast": (1, td.float32), "atomic_add": (None, 0, 1), "program_id": (), "num_programs": (),
    "my_pe": (), "n_pes": (), "my_node": (), "n_nodes": (), "local_pe": (),
    "n_local_pes": (), "symm_at": (None, 0), "rows": (None, 0, 1), "after": (0, 1),
    "putmem": (None, None, 0), "putmem_nbi": (None, None, 0), "getmem": (None, None, 0),
    "putmem_signal": (None, None, None, 0, 1, "set", 0),
    "putmem_signal_nbi": (None, None, None, 0, 1, "add", 0), "fence": (), "quiet": (),
    "putmem_lines": (None, None, None, 0, 1, 8, 0),
    "signal_op": (None, 0, 1, "set", 0), "signal_wait_until": (None, 0, "ge", 1),
    "barrier_all": (), "sync_all": (), "grid_barrier": (None, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_operation_outside_a_kernel_says_so(name):
    if name == "cdiv":  # pure arithmetic, also useful in host programs
        assert td.cdiv(7, 4) == 2
        return
    with pytest.raises(
        UsageError,
        match=r"tdsim\.lang: a tdsim\.lang operation was called outside a running kernel; "
        r"expected a call from inside a @td\.kernel that a program launched; "
        r"launch the kernel with ctx\.launch\(\.\.\.\) from a @td\.program",
    ):
        OPS[name].call(*CALLS[name])


def test_every_operation_is_exported_and_documented():
    for name, op in OPS.items():
        assert getattr(td, name) is op.call
        assert name in td.__all__
        assert op.call.__doc__, name


def test_every_exported_name_exists():
    assert sorted(td.__all__) == sorted(set(td.__all__))
    for name in td.__all__:
        assert getattr(td, name) is not None


def test_only_waits_return_tokens_and_all_of_them_are_visible():
    assert [name for name, op in OPS.items() if op.waits] == ["signal_wait_until"]
    assert OPS["signal_wait_until"].visible
    assert not OPS["load"].visible


def test_a_signal_operation_that_does_not_exist_is_named():
    with pytest.raises(ApiError, match='op=\'max\'; write one of "set" "add"'):
        td.signal_op(None, 0, 1, "max", 0)


@pytest.mark.parametrize("put", [td.putmem_signal, td.putmem_signal_nbi])
def test_a_put_with_a_signal_operation_that_does_not_exist_is_named(put):
    with pytest.raises(ApiError, match="op='or'"):
        put(None, None, None, 0, 1, "or", 0)


def test_a_compare_that_does_not_exist_is_named():
    with pytest.raises(
        ApiError, match='cmp=\'>=\'; write one of "eq" "ne" "gt" "ge" "lt" "le"'
    ):
        td.signal_wait_until(None, 0, ">=", 1)


@pytest.mark.parametrize(("start", "end"), [(0, 12), (3, 3), (4, 0)])
def test_arange_of_a_length_that_is_no_power_of_two_is_refused(start, end):
    with pytest.raises(
        UsageError,
        match=rf"td\.arange: arange\({start}, {end}\) has {end - start} elements; expected a power of "
        r"two, as Triton demands; take the next power of two and mask with td\.where",
    ):
        td.arange(start, end)
