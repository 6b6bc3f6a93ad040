"""Every kernel of the library compiles for one node and for two, without a spilled register."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

import triton
from library_calls import CALLS, CHIPS, KERNELS, RECORD, compiled_for
from lowering_tools import ONE_NODE, TWO_NODES, Ttgir
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.kernels import ag_gemm, gemm_rs


def test_every_kernel_of_the_library_is_compiled_here():
    assert CALLS.keys() == KERNELS.keys()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_library_kernel_takes_of_a_chip_what_is_recorded_and_spills_nothing(name, chip):
    compiled = compiled_for(name, chip)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.externs == ()
    assert compiled.resources.stack_bytes == 0
    assert compiled.resources.shared_bytes <= 227 * 1024
    record = json.loads(RECORD.read_text())
    if record["triton"] == triton.__version__:
        found = asdict(compiled.resources)
        assert found == record["kernels"][name][f"sm_{chip}"], "see library_calls.py"


def test_the_record_is_of_these_kernels_and_chips():
    record = json.loads(RECORD.read_text())["kernels"]
    assert record.keys() == KERNELS.keys()
    assert all(chips.keys() == {f"sm_{chip}" for chip in CHIPS} for chips in record.values())


@pytest.mark.parametrize("name", KERNELS)
def test_a_library_kernel_compiles_to_be_watched_and_traced_without_spills(name):
    compiled = compiled_for(name, debug=True, traced=True)
    assert compiled.resources.stack_bytes == 0
    assert compiled.module_words is ("globaltimer" in compiled.ptx)


@pytest.mark.parametrize("name", KERNELS)
def test_a_library_kernel_compiles_for_two_nodes(name):
    args, constexprs = CALLS[name]
    compiled = compile_kernel(KERNELS[name], args, constexprs, world=TWO_NODES)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.externs or compiled.resources.stack_bytes == 0
    assert compiled.resources.shared_bytes <= 227 * 1024


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
