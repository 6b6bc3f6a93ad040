"""Nodes: NVSHMEM beyond the own one, called by the right threads; none of it within."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

from lowering_tools import COUNTERS, INT, ONE_NODE, SIGNALS, TWO_NODES, Ttgir, heap, view
from tdsim.backend_gpu.lowering import compile as compiler
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.lowering.device_library import DeviceLibrary
from tdsim.backend_gpu.lowering.world import World
from triton.compiler.errors import CompilationError

from tdsim import lang as td
from tdsim.errors import UsageError


@td.kernel
def every_far_call(heap_view, local, ready, pe):
    td.putmem(heap_view, local, pe)
    td.putmem_nbi(heap_view, local, pe)
    td.fence()
    td.putmem_signal(heap_view, local, ready, 0, 1, "add", pe)
    td.putmem_signal_nbi(heap_view, local, ready, 1, 1, "set", pe)
    td.quiet()
    td.signal_op(ready, 0, 1, "add", pe)
    td.signal_op(ready, 0, 1, "set", pe)
    td.getmem(local, heap_view, pe)
    td.sync_all()
    td.barrier_all()


ARGS = {"heap_view": heap(), "local": view(), "ready": SIGNALS, "pe": INT}


@pytest.fixture(scope="module")
def far():
    return compile_kernel(every_far_call, ARGS, world=TWO_NODES)


@pytest.fixture(scope="module")
def near():
    return compile_kernel(every_far_call, ARGS, world=ONE_NODE)


def test_a_kernel_of_several_nodes_calls_nvshmem(far):
    assert far.externs == (
        "nvshmem_fence",
        "nvshmem_quiet",
        "nvshmemx_barrier_all_block",
        "nvshmemx_getmem_block",
        "nvshmemx_putmem_block",
        "nvshmemx_putmem_nbi_block",
        "nvshmemx_putmem_signal_block",
        "nvshmemx_putmem_signal_nbi_block",
        "nvshmemx_signal_op",
        "nvshmemx_sync_all_block",
    )
    assert "nvshmemi_device_state_d" in far.ptx, "the bitcode is linked in"


def test_every_extern_is_called_by_the_threads_it_is_meant_for(far):
    ttgir = Ttgir(far.ttgir)
    calls = [i for i, line in enumerate(ttgir.lines) if "extern_elementwise" in line]
    assert len(calls) >= len(far.externs)
    for call in calls:
        by_one_thread = any(
            re.search(r"%tid\.x.*cmpi eq, [^\n]*$", ttgir.sources(0, at), re.DOTALL)
            for at in ttgir.ifs_around(call)
        )
        by_the_cta = '_block"' in ttgir.lines[call]
        assert by_one_thread is not by_the_cta, ttgir.lines[call]


def test_the_node_of_the_target_is_asked_at_run_time(far):
    ttgir = Ttgir(far.ttgir)
    put = ttgir.line("putmem_nbi_block")
    assert any("arith.divsi %pe" in ttgir.sources(0, at) for at in ttgir.ifs_around(put))


@pytest.mark.parametrize(("op", "code"), [("set", 9), ("add", 10)])
def test_signal_operations_have_nvshmems_numbers(op, code):
    args = {"ready": SIGNALS, "pe": INT}
    ttgir = Ttgir(compile_kernel(one_signal, args, {"OP": op}, world=TWO_NODES).ttgir)
    call = ttgir.line("nvshmemx_signal_op")
    assert f"arith.constant {code} : i32" in ttgir.sources(2, call)


@td.kernel
def one_signal(ready, pe, OP: td.constexpr):
    td.signal_op(ready, 0, 1, OP, pe)


def test_a_kernel_of_one_node_calls_no_extern(near):
    assert near.externs == ()
    assert "nvshmem" not in near.ptx


def test_one_node_compiles_without_bitcode(monkeypatch):
    monkeypatch.setattr(compiler, "device_library", _no_library)
    compile_kernel(every_far_call, ARGS, world=World(0, 2, 2))


def _no_library(arch):
    raise AssertionError("looked for bitcode")


@td.kernel
def local_only(ready, x):
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.store(x, (0, 0), td.load(td.after(token, x), (0, 0), (32, 32)))


@td.function
def tell_other_node(ready, tile):
    td.signal_op(ready, 0, 1, "add", 3)
    return tile


@td.kernel
def with_hook(ready, x, HOOK: td.constexpr):
    td.store(x, (0, 0), HOOK(ready, td.load(x, (0, 0), (32, 32))))


@pytest.mark.parametrize("debug", [False, True])
def test_bitcode_is_looked_for_only_where_a_kernel_can_call_it(monkeypatch, debug):
    monkeypatch.setattr(compiler, "device_library", _no_library)
    args = {"ready": SIGNALS, "x": view()}
    compiled = compile_kernel(local_only, args, world=TWO_NODES, debug=debug)
    assert compiled.externs == ()
    assert "nvshmem" not in compiled.ptx
    with pytest.raises(AssertionError, match="looked for bitcode"):
        compile_kernel(with_hook, args, {"HOOK": tell_other_node}, world=TWO_NODES)


def test_a_set_that_cannot_work_is_refused_before_it_is_tried(monkeypatch):
    monkeypatch.setattr(compiler.triton, "__version__", "3.6.0")
    monkeypatch.setattr(
        compiler, "device_library", lambda arch: DeviceLibrary(Path("unread.bc"), "3.8.0")
    )
    args = {"ready": SIGNALS, "x": view()}
    with pytest.raises(UsageError, match=r"^a kernel for several nodes: Triton 3\.6\.0 cannot"):
        compile_kernel(with_hook, args, {"HOOK": tell_other_node}, world=TWO_NODES)


def test_a_put_needs_a_symmetric_target():
    args = {**ARGS, "heap_view": view()}
    with pytest.raises(CompilationError) as caught:
        compile_kernel(every_far_call, args, world=ONE_NODE)
    assert "the target of a put is a symmetric view" in _causes(caught.value)


def _causes(error):
    return str(error) + (_causes(error.__cause__) if error.__cause__ else "")


@pytest.mark.parametrize(
    ("pe", "n_pes", "pes_per_node"), [(4, 4, 4), (-1, 4, 4), (0, 4, 3), (0, 2, 4)]
)
def test_a_world_has_equal_nodes_and_its_own_pe(pe, n_pes, pes_per_node):
    with pytest.raises(UsageError) as caught:
        World(pe, n_pes, pes_per_node)
    assert str(caught.value) == (
        f"World: PE {pe} of {n_pes} with {pes_per_node} PEs per node; expected 0 <= pe < n_pes "
        "and nodes of equal size; give n_pes as a multiple of pes_per_node"
    )


@td.kernel
def neighbours(out):
    td.store(out, 0, td.full(1, (td.my_pe() - 1) % td.n_pes(), td.int32))
    td.store(out, 1, td.full(1, td.my_node() * 100 + td.n_nodes(), td.int32))
    td.store(out, 2, td.full(1, td.local_pe() * 100 + td.n_local_pes(), td.int32))


def _stored(world):
    ttgir = Ttgir(compile_kernel(neighbours, {"out": COUNTERS}, world=world).ttgir)
    stores = [i for i, line in enumerate(ttgir.lines) if "tt.store" in line]
    return [int(re.search(r"dense<(-?\d+)>", ttgir.sources(1, i))[1]) for i in stores]


def test_identity_is_compiled_in_and_truncates_as_in_c():
    assert _stored(World(0, 8, 4)) == [-1, 2, 4]
    assert _stored(World(6, 8, 4)) == [5, 102, 204]
