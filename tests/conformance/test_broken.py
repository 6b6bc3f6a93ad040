"""Programs without their cure: that the cure is really gone is seen in what they compile to."""

import re

import pytest
from catalogue import trap_pairs

from tdsim import lang as td

pytest.importorskip("triton", reason="the programs without cures need triton")

import broken
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.lowering.specs import ScalarSpec, SignalSpec, ViewSpec
from tdsim.backend_gpu.lowering.world import World

WORLD = World(0, 1, 1)
SIGNALS = ("ready", "sig", "turn", "sent", "taken")
NUMBERS = ("K", "steps", "how")


@pytest.fixture(autouse=True, scope="module")
def triton_cache(tmp_path_factory):
    """A fresh disk cache, so that nothing stale is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def compiled(program, kernel, tiles=None, dtype=td.bfloat16, num_warps=4, **constexprs):
    """*kernel* as the broken *program* launches it, views in *tiles* with descriptors."""
    bound = program.host.__globals__[kernel]
    args = {}
    for name in bound.params:
        if name in SIGNALS:
            args[name] = SignalSpec()
        elif name in NUMBERS:
            args[name] = ScalarSpec(td.int32)
        elif name not in bound.constexprs:
            tile = (tiles or {}).get(name)
            args[name] = ViewSpec(dtype=dtype, tile=tile, symmetric=name == "mail")
    return compile_kernel(bound, args, constexprs, world=WORLD, num_warps=num_warps)


OPERANDS = {"a": (128, 64), "b": (64, 64)}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("loop_wait_untied", "late_operand"),
        ("helper_wait_untied", "late_operand_by_helpers"),
    ],
)
def test_untied_loads_stay_pipelined_and_depend_on_no_wait(name, kernel):
    done = compiled(getattr(broken, name), kernel, OPERANDS)
    assert "memdesc<3x128x64xbf16" in done.ttgir
    assert "fence.proxy.async" not in done.ptx  # what ties them holds the fence


def test_an_unheld_wait_rises_above_the_signal_of_the_tile_before():
    done = compiled(broken.turns_unheld, "take_turns", {"box": (64, 64)})
    assert "acquire, sys" in done.ttgir.split("scf.for")[0]


def test_an_unjoined_release_has_no_barrier_and_warp_0_nothing_to_load():
    kernel, kind = "uneven_store", td.float32
    done = compiled(broken.release_unjoined, kernel, dtype=kind, num_warps=8)
    release = done.ptx.index("atom.global.sys.release")
    stored = done.ptx.rindex("st.global", 0, release)
    assert "bar.sync" not in done.ptx[stored:release]
    layout = r"threadsPerWarp = \[2, 16\], warpsPerCTA = \[8, 1\]"
    assert re.search(rf"sizePerThread = \[1, 4\], {layout}", done.ttgir)


def test_an_unwritten_tile_is_not_waited_for():
    done = compiled(broken.tile_unwritten, "hand_over", {"box_out": (128, 128)}, num_warps=8)
    release = done.ptx.index("atom.global.sys.release")
    assert "cp.async.bulk.tensor" in done.ptx[:release]
    assert "cp.async.bulk.wait_group 0" not in done.ptx


def test_an_unfenced_tile_has_no_fence_behind_the_wait():
    done = compiled(broken.tile_unfenced, "hand_over", {"box_in": (128, 128)}, num_warps=8)
    assert "cp.async.bulk.tensor" in done.ptx
    assert not re.search(r"fence\.proxy\.async;", done.ptx)


def test_all_threads_add():
    done = compiled(broken.add_by_all_threads, "one_by_one", dtype=td.float32)
    adds = re.findall(r"^.*red\.release\.sys\.global\.add.*$", done.ptx, re.MULTILINE)
    assert adds
    assert not any(line.lstrip().startswith("@") for line in adds)


def test_an_unacquired_wait_acquires_nothing():
    done = compiled(broken.wait_unacquired, "read_twice", dtype=td.float32, ON="view")
    assert "acquire" not in done.ptx
    assert "atomic_rmw add, relaxed" in done.ttgir


def test_each_trap_has_its_program_without_cure():
    for good, bad in trap_pairs():
        program = getattr(broken, bad.program.rpartition(":")[2])
        assert program.name == good.program.rpartition(":")[2]
        assert program.tuned(bad.tunables) == program.tuned(good.tunables)
