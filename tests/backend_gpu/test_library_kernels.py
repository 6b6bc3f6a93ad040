"""Every kernel of the library compiles for one node and for two, without a spilled register."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

import tdsim.kernels
from lowering_tools import COUNTERS, INT, ONE_NODE, SIGNALS, TWO_NODES, Ttgir, heap, view
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.kernels import ag_gemm, gemm_rs

from tdsim import lang as td

TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}
CALLS = {
    "copy_rows": ({"dst": view(), "src": view()}, {"BLOCK_M": 32, "BLOCK_N": 128}),
    "push_kernel": ({"gathered": heap(), "ready": SIGNALS}, {}),
    "send_between_nodes": ({"gathered": heap(), "ready": SIGNALS}, {}),
    "wait_for_all": ({"ready": SIGNALS, "parts": INT}, {}),
    "all_gather_gemm": (
        {
            "a": heap(128, 64), "b": view(64, 256), "c": view(128, 256), "ready": SIGNALS,
            "num_comm": INT, "parts": INT,
        },
        TILE,
    ),
    "gemm_scatter": (
        {
            "a": view(128, 64), "b": view(64, 256), "partial": heap(128, 256),
            "counter": COUNTERS, "slots": heap(), "arrived": SIGNALS, "done": SIGNALS,
            "num_comm": INT,
        },
        TILE,
    ),
    "scatter_kernel": ({"partial": heap(), "slots": heap(), "arrived": SIGNALS}, {}),
    "sum_slots": (
        {
            "out": view(), "own": heap(), "own_row": INT, "slots": heap(), "arrived": SIGNALS,
            "first_slot": INT, "own_slot": INT, "num_slots": INT, "parts": INT,
        },
        {"BLOCK_M": 32, "BLOCK_N": 256},
    ),
    "send_node_sum": (
        {"node_sums": heap(), "node_slots": heap(), "node_arrived": SIGNALS, "node": INT},
        {},
    ),
}  # fmt: skip


def _library():
    """All kernels of the library, by name."""
    names = [m.name for m in pkgutil.iter_modules(tdsim.kernels.__path__)]
    modules = [importlib.import_module(f"tdsim.kernels.{name}") for name in names]
    values = [value for module in modules for value in vars(module).values()]
    return {value.name: value for value in values if isinstance(value, td.Kernel)}


KERNELS = _library()


def test_every_kernel_of_the_library_is_compiled_here():
    assert CALLS.keys() == KERNELS.keys()


@pytest.mark.parametrize("world", [ONE_NODE, TWO_NODES], ids=["one node", "two nodes"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_library_kernel_compiles_and_spills_nothing(name, world):
    args, constexprs = CALLS[name]
    compiled = compile_kernel(KERNELS[name], args, constexprs, world=world)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources.stack_bytes == 0
    assert compiled.resources.shared_bytes <= 227 * 1024
    if world.single_node:
        assert compiled.externs == ()


@pytest.mark.parametrize("kernel", [ag_gemm.all_gather_gemm, gemm_rs.gemm_scatter])
def test_the_gemms_run_on_tma_wgmma_and_three_stages(kernel):
    args, constexprs = CALLS[kernel.name]
    compiled = compile_kernel(kernel, args, constexprs, world=ONE_NODE)
    loops = ("\n".join(Ttgir(compiled.ttgir).operation(i)) for i in _loops(compiled))
    (k_loop,) = [text for text in loops if "warp_group_dot " in text and "scf.for" in text[:99]]
    assert "async_tma_copy_global_to_local" in k_loop
    assert "memdesc<3x128x64xbf16" in k_loop
    assert "gpu.barrier" not in k_loop
    assert "async_tma_copy_local_to_global" in compiled.ttgir


def _loops(compiled):
    """The innermost loops."""
    ttgir = Ttgir(compiled.ttgir)
    return [i for i in ttgir.loops() if sum("scf.for" in t for t in ttgir.operation(i)) == 1]
