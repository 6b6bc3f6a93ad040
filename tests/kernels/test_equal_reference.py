"""All library kernels equal their NumPy reference: three skewed calls on NaN-filled memory."""

import pytest
from helpers import assert_equals_reference, library
from tdsim.kernels.ag_gemm import ag_gemm
from tdsim.kernels.allgather import allgather
from tdsim.kernels.gemm_rs import gemm_rs
from tdsim.kernels.reduce_scatter import reduce_scatter

from tdsim import lang as td
from tdsim.sim import simulate

WORLDS = [*(f"h800x{n}" for n in range(2, 9)), "h800x1x16"]
NODES = ["h800x2x2", "h800x2x3", "h800x3x2", "h800x3x1", "h800x16"]
SMALL_TILES = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2}
VARIANTS = [
    (allgather, {"comm": "pull"}),
    (allgather, {"comm": "push"}),
    (allgather, {"comm": "sm", "num_comm_sms": 4}),
    (reduce_scatter, {"comm": "ce"}),
    (reduce_scatter, {"comm": "ce", "copy_own": 1, "num_reduce_sms": 2}),
    (reduce_scatter, {"comm": "sm", "num_comm_sms": 4, "final_reduce_sms": 8}),
    (ag_gemm, {"comm": "pull", **SMALL_TILES}),
    (ag_gemm, {"comm": "push", "BLOCK_M": 64, "BLOCK_N": 64}),
    (ag_gemm, {"comm": "sm", "num_comm_sms": 2, **SMALL_TILES, "GROUP_M": 1}),
    (gemm_rs, {"comm": "ce", **SMALL_TILES}),
    (gemm_rs, {"comm": "ce", "copy_own": 1, "BLOCK_M": 64, "BLOCK_N": 64}),
    (gemm_rs, {"comm": "sm", "num_comm_sms": 4, **SMALL_TILES, "GROUP_M": 1}),
]


def name_of(value):
    if isinstance(value, td.Program):
        return value.name
    return "-".join(f"{v}" for v in value.values()) if isinstance(value, dict) else value


def check(prog, tunables, on, shape=None, **job):
    made = library(prog, on, shape, tunables, functional=True, skewed=True, calls=3, **job)
    assert_equals_reference(made, simulate(made))


@pytest.mark.parametrize(("prog", "tunables"), VARIANTS, ids=name_of)
@pytest.mark.parametrize("on", WORLDS)
def test_one_node(prog, tunables, on):
    check(prog, tunables, on)


@pytest.mark.parametrize(("prog", "tunables"), VARIANTS, ids=name_of)
@pytest.mark.parametrize("on", NODES)
def test_several_nodes(prog, tunables, on):
    check(prog, tunables, on, seed=7)


@pytest.mark.parametrize(("prog", "tunables"), VARIANTS, ids=name_of)
@pytest.mark.parametrize("on", ["h800x3", "h800x2x2", "h200-shared-4"])
def test_tiles_that_divide_neither_the_shape_nor_a_shard(prog, tunables, on):
    world = {"h800x3": 3}.get(on, 4)
    sizes = {"M": 21 * world, "N": 37 * world, "K": 44 * world}
    check(prog, tunables, on, {key: sizes[key] for key in prog.shape}, seed=3)


@pytest.mark.parametrize("prog", [allgather, reduce_scatter, ag_gemm, gemm_rs], ids=name_of)
@pytest.mark.parametrize("on", ["h800x4", "h800x2x2"])
def test_a_shard_of_a_single_row(prog, on):
    sizes = {"M": 4, "N": 4, "K": 4}
    check(prog, {}, on, {key: sizes[key] for key in prog.shape})


@pytest.mark.parametrize("prog", [allgather, reduce_scatter, ag_gemm, gemm_rs], ids=name_of)
@pytest.mark.parametrize("dtype", [td.float16, td.float32], ids=repr)
def test_other_dtypes(prog, dtype):
    check(prog, {}, "h800x2x2", dtype=dtype)


@pytest.mark.parametrize("prog", [allgather, reduce_scatter, ag_gemm, gemm_rs], ids=name_of)
@pytest.mark.parametrize("seed", range(1, 5))
def test_any_order_of_delivery_on_unordered_paths(prog, seed):
    check(prog, {}, "h800x3x2", seed=seed)
