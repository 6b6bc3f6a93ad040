"""Every operation of the language compiles to a cubin, without a GPU and without torch."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

from lowering_tools import COUNTERS, INT, ONE_NODE, SIGNALS, heap, instructions, view
from tdsim.backend_gpu.lowering import one_sided
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.lowering.device import DeviceFunction
from tdsim.backend_gpu.lowering.namespace import LOWERINGS
from tdsim.backend_gpu.lowering.references import references
from tdsim.backend_gpu.lowering.specs import TRITON_NAMES, ScalarSpec, ViewSpec
from triton.backends.compiler import GPUTarget

from tdsim import lang as td


@td.kernel
def identity(out):
    td.store(out, 0, td.full(1, td.program_id(0) * 10 + td.num_programs(), td.int32))
    td.store(out, 1, td.full(1, td.my_pe() + td.n_pes() + td.my_node(), td.int32))
    td.store(out, 2, td.full(1, td.n_nodes() + td.local_pe() + td.n_local_pes(), td.int32))


@td.kernel
def moves(x, y, row, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr):
    tile = td.load(x, (row, 0), (BLOCK_M, BLOCK_N))
    td.store(y, (row, 0), tile)


@td.kernel
def moves_one_axis(x, y, start):
    tile = td.load(x, start, 64) + td.cast(td.arange(0, 64), x.dtype)
    td.store(y, (start,), tile)


@td.kernel
def math(x, y):
    a = td.load(view=x, offsets=(0, 0), shape=(32, 64))
    b = td.exp(a) + td.exp2(a) + td.log(td.maximum(a, 1.0))
    b = td.where(a > 0.0, b, td.minimum(a, 0.0))
    total = td.sum(b, 1) + td.max(a, axis=1)
    td.store(y, 0, total + td.exp(td.arange(0, 32)))
    td.store(y, 31, x.shape[0])
    td.store(y, 32, td.zeros(32, td.float32) + td.cdiv(x.shape[0], 32))


@td.kernel
def products(a, b, c, K):
    acc = td.zeros((64, 64), td.float32)
    for k in range(0, K, 32):
        a_tile = td.load(a, (0, k), (64, 32))
        acc = td.dot(a_tile, td.trans(td.load(b, (0, k), (64, 32))), acc)
    td.store(c, (0, 0), td.cast(acc, c.dtype))


@td.kernel
def counts(counters, i, out):
    old = td.atomic_add(counters, i, 1)
    td.store(out, 0, td.full((1,), old, td.int32))


@td.kernel
def peers(x, y, pe):
    there = td.symm_at(td.rows(x, pe * 32, 32), pe)
    td.store(y, (0, 0), td.load(there, (0, 0), (32, 64)))
    td.store(there, (0, 0), td.load(y, (32, 0), (32, 64)))


@td.kernel
def signals(ready, x, y, i, pe):
    token = td.signal_wait_until(ready, i, "ge", 1)
    td.store(y, (0, 0), td.load(td.after(token, x), (0, 0), (32, 64)))
    td.signal_op(ready, i, 1, "set", pe)
    td.signal_op(ready, td.after(token, i), 2, "add", pe)


@td.kernel
def puts(dst, src, ready, pe):
    td.putmem(dst, src, pe)
    td.putmem_nbi(dst, src, pe)
    td.fence()
    td.putmem_signal(dst, src, ready, 0, 1, "add", pe)
    td.putmem_signal_nbi(dst, src, ready, 1, 1, "set", pe)
    td.putmem_lines(dst, src, ready, 1, 1, 128, pe)
    td.quiet()


@td.kernel
def gets(dst, src, pe):
    td.getmem(dst, src, pe)


@td.kernel
def barriers(ready):
    td.grid_barrier(ready, 0)
    td.barrier_all()
    td.sync_all()


VECTOR = ViewSpec(dtype=td.float32, ndim=1)
TILE = {"BLOCK_M": 64, "BLOCK_N": 64}
FAMILIES = {
    "identity": (identity, {"out": COUNTERS}, {}),
    "moves by descriptor": (moves, {"x": view(64, 64), "y": view(64, 64), "row": INT}, TILE),
    "moves by pointer": (moves, {"x": view(), "y": view(aligned=False), "row": INT}, TILE),
    "moves on one axis": (moves_one_axis, {"x": VECTOR, "y": VECTOR, "start": INT}, {}),
    "math": (math, {"x": view(), "y": VECTOR}, {}),
    "products": (products, {"a": view(64, 32), "b": view(), "c": view(), "K": INT}, {}),
    "counts": (counts, {"counters": COUNTERS, "i": INT, "out": COUNTERS}, {}),
    "peers": (peers, {"x": heap(), "y": view(), "pe": INT}, {}),
    "signals": (
        signals,
        {"ready": SIGNALS, "x": view(32, 64), "y": view(), "i": INT, "pe": INT},
        {},
    ),
    "puts": (puts, {"dst": heap(), "src": view(), "ready": SIGNALS, "pe": INT}, {}),
    "gets": (gets, {"dst": view(), "src": heap(), "pe": INT}, {}),
    "barriers": (barriers, {"ready": SIGNALS}, {}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_operations_compiles_without_spills(family):
    kernel, args, constexprs = FAMILIES[family]
    compiled = compile_kernel(kernel, args, constexprs, world=ONE_NODE)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources.stack_bytes == 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arch", [80, 100])
def test_other_chips_are_compiled_for_without_spills(family, arch):
    kernel, args, constexprs = FAMILIES[family]
    if arch < 90:
        args = {name: _without_tile(spec) for name, spec in args.items()}
    target = GPUTarget("cuda", arch, 32)
    compiled = compile_kernel(kernel, args, constexprs, world=ONE_NODE, target=target)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources.stack_bytes == 0
    if arch < 90:
        assert not re.search(r"cp\.async\.bulk|fence\.proxy", compiled.ptx)
    elif compiled.tensor_maps:
        assert "cp.async.bulk.tensor" in compiled.ptx


def _without_tile(spec):
    """*spec*, passed by pointer: chips before sm_90 have no TMA."""
    return replace(spec, tile=None) if isinstance(spec, ViewSpec) else spec


@td.kernel
def one_put(dst, src, pe):
    td.putmem_nbi(dst, src, pe)


class Copies:
    """The copies in a PTX text, by their width in bytes: how many there are and what masks them."""

    def __init__(self, ptx):
        self.asynchronous, self.loads = set(), {}
        for item in instructions(ptx):
            if found := re.match(r"cp\.async\.\w+\.shared\.global .*, (0x\w+), ", item):
                self.asynchronous.add(int(found[1], 16))
            elif found := re.match(r"(@%p\d+ )?ld\.global(?:\.v(\d))?\.b(\d+)", item):
                guarded, elements, bits = found.groups()
                width = int(elements or 1) * int(bits) // 8
                self.loads.setdefault(width, []).append(bool(guarded))


@pytest.mark.parametrize("num_warps", [4, 8, 16])
@pytest.mark.parametrize("aligned", [True, False])
def test_aligned_blocks_of_a_copy_come_through_shared_memory_16_bytes_at_a_time(
    num_warps, aligned
):
    args = {"dst": heap(aligned=aligned), "src": view(aligned=aligned), "pe": INT}
    compiled = compile_kernel(one_put, args, world=ONE_NODE, num_warps=num_warps)
    copies = Copies(compiled.ptx)
    assert copies.asynchronous == {16}
    # What is left of an aligned copy after its whole blocks: one masked block, and one masked
    # access for the elements that do not fill 16 bytes.
    assert set(copies.loads[16]) == {True}
    block = min(
        one_sided.COPY_BYTES_PER_WARP.value * num_warps, one_sided.COPY_BYTES_PER_CTA.value
    )
    assert compiled.resources.shared_bytes == (one_sided.COPY_STAGES.value - 1) * block
    # The other path, chosen at run time by the addresses: elements, whole blocks without a mask.
    whole, masked = copies.loads[2].count(False), copies.loads[2].count(True)
    assert whole == block // 16 // (32 * num_warps)
    assert masked == whole + 1


def test_a_copy_between_odd_addresses_moves_no_more_than_an_element_at_a_time():
    args = {"dst": heap(aligned=False), "src": view(aligned=False), "pe": INT}
    assert set(Copies(compile_kernel(one_put, args, world=ONE_NODE).ptx).loads) == {2, 16}


@pytest.mark.parametrize("cmp", ["eq", "ne", "gt", "ge", "lt", "le"])
@pytest.mark.parametrize("dtype", [td.int32, td.int64])
def test_a_wait_compiles_for_every_comparison_and_width(cmp, dtype):
    args = {"ready": SIGNALS, "out": COUNTERS, "value": ScalarSpec(dtype)}
    compile_kernel(waits, args, {"CMP": cmp}, world=ONE_NODE)


@td.kernel
def waits(ready, out, value, CMP: td.constexpr):
    token = td.signal_wait_until(ready, 0, CMP, value)
    td.store(td.after(token, out), 0, td.full(1, 1, td.int32))


@pytest.mark.parametrize("dtype", [td.float32, td.float16, td.bfloat16, td.int32, td.int64])
def test_a_tile_of_every_element_type_is_copied(dtype):
    args = {"x": view(dtype=dtype), "y": view(dtype=dtype), "row": INT}
    compile_kernel(moves, args, {"BLOCK_M": 16, "BLOCK_N": 32}, world=ONE_NODE)


def test_every_operation_has_a_lowering_and_nothing_else_has():
    assert LOWERINGS.keys() == td.OPS.keys()


def test_the_families_use_every_operation():
    used = {
        chain[0]
        for kernel, _, _ in FAMILIES.values()
        for chain in references(kernel.fn)["td"]
        if chain
    }
    assert used >= td.OPS.keys()


@pytest.mark.parametrize("name", td.OPS)
def test_a_lowering_takes_the_parameters_of_its_operation(name):
    lowering = LOWERINGS[name]
    fn = lowering.fn if isinstance(lowering, DeviceFunction) else inspect.unwrap(lowering)
    wanted = inspect.signature(td.OPS[name].call).parameters.values()
    found = [p for p in inspect.signature(fn).parameters.values() if p.name != "_semantic"]
    assert [(p.name, p.default) for p in found] == [(p.name, p.default) for p in wanted]


def test_every_element_type_has_a_name_in_signatures():
    dtypes = {d.name for d in vars(td).values() if isinstance(d, td.DType)}
    assert TRITON_NAMES.keys() == dtypes


def test_a_lowering_called_as_python_names_the_cure():
    with pytest.raises(TypeError, match="load is text for Triton: call it from a kernel"):
        LOWERINGS["load"](None, 0, 1)


def test_importing_the_package_imports_no_triton():
    code = "import sys, tdsim.backend_gpu; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
