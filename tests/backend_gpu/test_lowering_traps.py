"""GPU order is not source order: each trap's cure is seen in TTGIR or PTX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

import tdsim.backend_gpu
from lowering_tools import (
    COUNTERS,
    INT,
    ONE_NODE,
    SIGNALS,
    Ttgir,
    heap,
    instructions,
    last_before,
    threads_where,
    view,
)
from tdsim.backend_gpu.lowering.compile import compile_kernel

from tdsim import lang as td

ACQUIRE = "atomic_rmw add, acquire, sys"
TIED = "mov.u32 $0, 0;"


@td.kernel
def wait_in_k_loop(a, b, c, ready, K, TIE: td.constexpr):
    acc = td.zeros((128, 128), td.float32)
    last = 0
    for k in range(0, K, 64):
        token = td.signal_wait_until(ready, k // 64, "ge", 1)
        if TIE:
            a_tile = td.load(td.after(token, a), (0, k), (128, 64))
        else:
            a_tile = td.load(a, (0, k), (128, 64))
            last = td.after(token, last)
        acc = td.dot(a_tile, td.load(b, (k, 0), (64, 128)), acc)
    td.store(c, (last, 0), acc)


def _k_loop(tile_a, tile_b, tie):
    args = {
        "a": view(*tile_a), "b": view(*tile_b), "c": view(), "ready": SIGNALS, "K": INT,
    }  # fmt: skip
    compiled = compile_kernel(wait_in_k_loop, args, {"TIE": tie}, world=ONE_NODE, num_stages=3)
    return Ttgir(compiled.ttgir)


def _place_of_a(ttgir, copies):
    """What the first copy of the pipelined loop computes its source from."""
    assert any("local_alloc : () -> !ttg.memdesc<3x128x64xbf16" in t for t in ttgir.lines)
    (loop,) = ttgir.loops()
    first = next(i for i in range(loop, len(ttgir.lines)) if copies in ttgir.lines[i])
    return ttgir.sources(0, first) + ttgir.sources(1, first)


def test_a_tma_load_in_a_pipelined_loop_depends_on_the_wait_of_its_iteration():
    ttgir = _k_loop((128, 64), (64, 128), tie=True)
    place = _place_of_a(ttgir, "async_tma_copy_global_to_local")
    assert TIED in place
    assert ACQUIRE in place
    assert "scf.while" in place


def test_a_cp_async_load_in_a_pipelined_loop_depends_on_the_wait_of_its_iteration():
    ttgir = _k_loop((), (), tie=True)
    place = _place_of_a(ttgir, "async_copy_global_to_local")
    assert TIED in place
    assert ACQUIRE in place
    assert "scf.while" in place


def test_a_load_without_its_token_does_not_depend_on_the_wait():
    ttgir = _k_loop((128, 64), (64, 128), tie=False)
    place = _place_of_a(ttgir, "async_tma_copy_global_to_local")
    assert TIED not in place
    assert ACQUIRE not in place


def test_tma_sees_what_the_wait_acquired():
    args = {
        "a": view(128, 64), "b": view(64, 128), "c": view(), "ready": SIGNALS, "K": INT,
    }  # fmt: skip
    compiled = compile_kernel(wait_in_k_loop, args, {"TIE": True}, world=ONE_NODE)
    text = instructions(compiled.ptx)
    loads = [i for i, t in enumerate(text) if "cp.async.bulk.tensor" in t]
    assert loads
    for load in loads:
        fence = last_before(text, r"^fence\.proxy\.async$", load)
        assert last_before(text, r"ld\.global\.sys\.acquire", load) < fence


@td.kernel
def wait_and_signal_in_k_loop(a, b, c, ready, K, SIGNAL: td.constexpr):
    acc = td.zeros((128, 128), td.float32)
    for k in range(0, K, 64):
        token = td.signal_wait_until(ready, k // 64, "ge", 1)
        a_tile = td.load(td.after(token, a), (0, k), (128, 64))
        acc = td.dot(a_tile, td.load(b, (k, 0), (64, 128)), acc)
        if SIGNAL:  # noqa: SIM102 - a constant condition, then one of the run
            if k > 64:
                td.signal_op(ready, k, 1, "set", 0)
    td.store(c, (0, 0), acc)


@pytest.mark.parametrize("signals", [True, False])
def test_no_wait_rises_above_the_signal_of_an_earlier_iteration(signals):
    args = {
        "a": view(128, 64), "b": view(64, 128), "c": view(), "ready": SIGNALS, "K": INT,
    }  # fmt: skip
    compiled = compile_kernel(
        wait_and_signal_in_k_loop, args, {"SIGNAL": signals}, world=ONE_NODE
    )
    ttgir = Ttgir(compiled.ttgir)
    (loop,) = ttgir.loops()
    pipelined = "memdesc<3x128x64xbf16" in compiled.ttgir
    assert pipelined is not signals
    if signals:
        assert ACQUIRE not in compiled.ttgir.split("scf.for")[0]
        body = "\n".join(ttgir.operation(loop))
        assert body.index(ACQUIRE) < body.index("atomic_rmw exch, release, sys")


@td.kernel
def tile_loop(a, b, c, ready, K, count):
    for tile in range(td.program_id(0), count, td.num_programs(0)):
        token = td.signal_wait_until(ready, tile, "ge", 1)
        acc = td.zeros((128, 128), td.float32)
        row = td.after(token, tile * 128)
        for k in range(0, K, 64):
            a_tile = td.load(a, (row, k), (128, 64))
            acc = td.dot(a_tile, td.load(b, (k, 0), (64, 128)), acc)
        td.store(c, (tile * 128, 0), acc)
        td.signal_op(ready, tile, 2, "set", 1)


def test_signals_around_the_k_loop_leave_it_pipelined():
    args = {
        "a": view(128, 64), "b": view(64, 128), "c": view(128, 128), "ready": SIGNALS,
        "K": INT, "count": INT,
    }  # fmt: skip
    compiled = compile_kernel(tile_loop, args, world=ONE_NODE)
    ttgir = Ttgir(compiled.ttgir)
    outer, inner = ("\n".join(ttgir.operation(loop)) for loop in ttgir.loops())
    assert "memdesc<3x128x64xbf16" in compiled.ttgir
    assert "warp_group_dot " in inner
    assert "gpu.barrier" not in inner
    assert "gpu.barrier" in outer
    assert "tt.flatten" not in compiled.ttgir


def test_no_lowering_asks_for_a_flattened_loop():
    package = Path(tdsim.backend_gpu.__file__).parent
    assert not [p.name for p in package.rglob("*.py") if "flatten" in p.read_text()]
    assert "range" not in td.OPS


@td.kernel
def store_then_release(c, sig, counters, OP: td.constexpr):
    td.store(c, (0, 0), td.zeros((128, 128), td.float32))
    if OP == "signal_op":
        td.signal_op(sig, 0, 1, "set", 1)
    if OP == "atomic_add":
        td.atomic_add(counters, 0, 1)
    if OP == "putmem_signal":
        td.putmem_signal(c, c, sig, 0, 1, "add", 1)
    if OP == "grid_barrier":
        td.grid_barrier(sig, 0)
    if OP == "sync_all":
        td.sync_all()


RELEASES = {
    "signal_op": r"atom\.global\.sys\.release\.exch",
    "atomic_add": r"atom\.global\.gpu\.acq_rel\.add",
    "putmem_signal": r"atom\.global\.sys\.release\.add",
    "grid_barrier": r"atom\.global\.gpu\.release\.add",
    "sync_all": r"atom\.global\.sys\.release\.exch",
}


def _release(op):
    args = {"c": heap(128, 128), "sig": SIGNALS, "counters": COUNTERS}
    compiled = compile_kernel(store_then_release, args, {"OP": op}, world=ONE_NODE)
    text = instructions(compiled.ptx)
    (release,) = [i for i, t in enumerate(text) if re.search(RELEASES[op], t)]
    return text, release


@pytest.mark.parametrize("op", RELEASES)
def test_a_release_follows_written_tiles_and_a_cta_barrier(op):
    text, release = _release(op)
    stored = last_before(text, r"cp\.async\.bulk\.tensor.*global\.shared", release)
    written = last_before(text, r"^cp\.async\.bulk\.wait_group 0$", release)
    barrier = last_before(text, r"^bar\.sync 0$", release)
    assert 0 <= stored < written < barrier < release


@pytest.mark.parametrize("op", [op for op in RELEASES if op != "sync_all"])
def test_exactly_one_thread_releases(op):
    text, release = _release(op)
    predicate = re.match(r"@(%p\d+) ", text[release])[1]
    assert threads_where(text, predicate, 256) == [0]


def test_a_barrier_of_all_pes_writes_from_one_thread_for_each():
    text, release = _release("sync_all")
    predicate = re.match(r"@(%p\d+) ", text[release])[1]
    assert len(threads_where(text, predicate, 256)) == ONE_NODE.n_pes


def test_the_result_of_a_wait_reaches_the_cta_behind_a_barrier():
    compiled = compile_kernel(
        tile_loop,
        {
            "a": view(128, 64), "b": view(64, 128), "c": view(128, 128), "ready": SIGNALS,
            "K": INT, "count": INT,
        },
        world=ONE_NODE,
    )  # fmt: skip
    text = instructions(compiled.ptx)
    polls = [i for i, t in enumerate(text) if "ld.global.sys.acquire" in t]
    assert len(polls) == 2
    for poll in polls:
        after = text[poll:]
        shared = next(i for i, t in enumerate(after) if "st.shared.b64" in t)
        barrier = next(i for i, t in enumerate(after) if re.match(r"bar\.sync 0", t))
        result = next(i for i, t in enumerate(after) if "ld.shared.b64" in t)
        assert shared < barrier < result
        assert text[poll].startswith("@%p")


@pytest.mark.parametrize(
    ("cmp", "spins_while"),
    [("eq", "ne"), ("ne", "eq"), ("gt", "sle"), ("ge", "slt"), ("lt", "sge"), ("le", "sgt")],
)
def test_a_wait_spins_while_its_comparison_fails(cmp, spins_while):
    args = {"ready": SIGNALS, "out": COUNTERS, "i": INT}
    compiled = compile_kernel(waits, args, {"CMP": cmp}, world=ONE_NODE)
    ttgir = Ttgir(compiled.ttgir)
    assert f"arith.cmpi {spins_while}, %" in ttgir.lines[ttgir.line("scf.while") + 1]


@td.kernel
def waits(ready, out, i, CMP: td.constexpr):
    token = td.signal_wait_until(ready, i, CMP, 3)
    td.store(td.after(token, out), 0, td.full(1, 1, td.int32))


def test_epochs_and_integers_are_arguments_that_no_value_specialises():
    args = {"ready": SIGNALS, "out": COUNTERS, "i": INT}
    compiled = compile_kernel(waits, args, {"CMP": "ge"}, world=ONE_NODE)
    header = next(line for line in compiled.ttgir.splitlines() if "tt.func public" in line)
    header = re.sub(r" loc\([^()]*(\([^()]*\))*[^()]*\)", "", header)
    for name, kind in {"ready": "!tt.ptr<i64>", "i": "i32"}.items():
        assert re.search(rf"%{name}\w*: {re.escape(kind)}[,)]", header), header
    assert re.search(r"%ready_\d+: i64[,)]", header), "per_call is specialised"
