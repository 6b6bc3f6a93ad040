"""Predictions: baseline and bound by hand, losses called losses, a path that adds up."""

from __future__ import annotations

import dataclasses

import pytest

from tdsim.errors import UsageError
from tdsim.lang import bfloat16, float32
from tdsim.predict import predict, scale
from tdsim.predict.baseline import collective_ps, gemm_ps
from tdsim.predict.bound import bound
from tdsim.programs import load_program
from tdsim.sim.cost import LIBRARY_TILE_PS
from tdsim.topology import machine
from tdsim.units import PS_PER_S, us

LLAMA = {"M": 8192, "N": 28672, "K": 8192}


def test_the_critical_path_adds_up_to_the_time():
    row = predict("ag_gemm", shape=LLAMA)
    assert sum(step.us for step in row.critical_path) == pytest.approx(row.time_us, abs=1e-6)
    assert {step.rank for step in row.critical_path} <= set(range(8))


@pytest.mark.parametrize("kernel", ["ag_gemm", "gemm_rs"])
def test_no_prediction_beats_its_bound(kernel):
    for world in (2, 4, 8, 16):
        row = predict(kernel, topology=f"h800x{world}", shape=LLAMA)
        assert row.time_us > row.bound_us


def test_the_bound_is_the_scarcest_resource_by_hand():
    program, target = load_program("ag_gemm"), machine("h800x8")
    sizes = program.sizes(LLAMA, 8, 1)
    limit = bound(program, sizes, target, bfloat16)
    gathered = 8192 * 8192 * 2
    link = target.route(0, 1).bandwidth.bytes_per_s
    assert limit.by_resource["nvlink"] == gathered * 7 // 8 * PS_PER_S // link
    flops = 2 * 8192 * (28672 // 8) * 8192
    assert limit.by_resource["compute"] == flops * PS_PER_S // target.gpu.flops["bf16"]
    assert limit.resource == "nvlink"


def test_links_of_both_kinds_bound_a_gather_over_nodes_together_by_hand():
    """Inside a node every byte may take the NIC's way too: only the sum of both is a bound."""
    program, target = load_program("ag_gemm"), machine("h800x16")
    limit = bound(program, program.sizes(LLAMA, 16, 2), target, bfloat16)
    gathered, nvlink, nic = 8192 * 8192 * 2, 164_800_000_000, 48_000_000_000
    both = gathered * 15 // 16 * PS_PER_S // (nvlink + nic)
    assert limit.by_resource["nvlink and network"] == both
    assert limit.by_resource["network"] == gathered // 16 * PS_PER_S // nic
    assert (limit.resource, limit.ps) == ("nvlink and network", both)


def test_the_memory_bound_counts_inputs_and_outputs_once_by_hand():
    program, target = load_program("gemm_rs"), machine("h20x8")
    sizes = program.sizes({"M": 16, "N": 8192, "K": 29568}, 8, 1)
    elements = 16 * 29568 // 8 + 29568 // 8 * 8192 + 16 // 8 * 8192
    limit = bound(program, sizes, target, bfloat16)
    assert limit.by_resource["memory"] == elements * 2 * PS_PER_S // (4000 * 10**9)
    assert limit.resource == "memory"


def test_the_bound_names_the_kind_of_links_that_a_shared_gpu_has():
    program, target = load_program("ag_gemm"), machine("h200-shared-4")
    limit = bound(program, program.sizes(LLAMA, 4, 1), target, bfloat16)
    assert limit.by_resource.keys() == {"compute", "memory", "shared"}


def test_a_single_gpu_has_no_link_in_its_bound_and_no_collective_in_its_baseline():
    row = predict("ag_gemm", topology="h800x1", shape={"M": 256, "N": 256, "K": 256})
    assert (row.bound_by, row.overlap_efficiency) == ("memory", None)
    assert row.baseline_us == row.gemm_us


def test_a_library_gemm_of_one_wave_takes_one_tile_by_hand():
    """132 tiles of 256 x 128 fill an H800 once; every other library tile needs more time."""
    target = machine("h800x8")
    gpu = target.gpu
    depth, flops = 8192 // 64, 2 * 256 * 128 * 64
    product = round(flops * PS_PER_S / (gpu.flops["bf16"] / 132 * gpu.mma_efficiency))
    loads = (256 + 128) * 64 * 2 * PS_PER_S // (gpu.l2.bytes_per_s // 132)
    expected = depth * max(product, loads) + LIBRARY_TILE_PS + target.host.launch_latency_ps
    assert gemm_ps(256 * 12, 128 * 11, 8192, target, bfloat16) == expected


def test_a_library_gemm_takes_half_the_rate_in_tf32():
    target = machine("h800x8")
    half, full = (gemm_ps(8192, 8192, 8192, target, kind) for kind in (bfloat16, float32))
    assert full == pytest.approx(2 * half, rel=0.05)


def test_a_collective_takes_launch_hops_and_bytes_at_the_bus_bandwidth():
    target = machine("h800x8")
    nccl = target.collective
    nbytes = 2**27
    moved = nbytes * 7 // 8
    expected = (
        nccl.launch_ps + 7 * nccl.hop_ps + -(-moved * PS_PER_S // nccl.scale_up.bytes_per_s)
    )
    assert collective_ps(nbytes, target) == expected


def test_a_collective_over_nodes_is_never_faster_than_inside_one():
    assert collective_ps(2**27, machine("h800x16")) > collective_ps(2**27, machine("h800x8"))


def test_a_library_gemm_is_near_what_one_h200_measured():
    """735 TFLOP/s for 8192 cubed bf16 in cuBLAS on one H200 is 1496 us."""
    assert gemm_ps(8192, 8192, 8192, machine("h200x8"), bfloat16) == pytest.approx(
        us(1496), rel=0.05
    )


def test_a_library_gemm_with_few_rows_is_bound_by_memory():
    target = machine("h20x8")
    weights = 8192 * 3696 * 2 * PS_PER_S // target.gpu.hbm.bytes_per_s
    assert weights < gemm_ps(32, 8192, 3696, target, bfloat16) < 4 * weights + us(10)


@pytest.mark.parametrize("rows", [32, 128])
def test_few_rows_on_an_h20_are_predicted_as_a_loss(rows):
    """Triton-distributed issue 48: 0.55 ms against 0.07 ms at M 32."""
    row = predict("gemm_rs", topology="h20x8", shape={"M": rows, "N": 8192, "K": 29568})
    assert row.speedup < 1
    assert row.overlap_efficiency is not None
    assert row.overlap_efficiency < 0


def test_the_published_schedule_on_an_h20_is_predicted_as_a_loss():
    """Triton-distributed issue 48: 4.17 ms against 4.01 ms at M 8192."""
    row = predict(
        "gemm_rs",
        topology="h20x8",
        shape={"M": 8192, "N": 8192, "K": 29568},
        tunables={"copy_own": 1, "final_reduce_sms": 15},
    )
    assert row.speedup < 1
    assert row.baseline_us == pytest.approx(4010, rel=0.05)
    assert row.time_us == pytest.approx(4170, rel=0.05)


def test_a_slow_main_loop_is_a_loss_and_the_report_says_where_it_goes():
    """FLUX issue 90: a fused GEMM 1.2 times slower loses where communication is a fifth."""
    shape = {"M": 8192, "N": 4096, "K": 65536}
    good = predict("gemm_rs", topology="h100x8", shape=shape)
    slow = predict("gemm_rs", topology="h100x8", shape=shape, gemm_slowdown=1.2)
    communication = 1 - good.gemm_us / good.baseline_us
    assert 0.1 < communication < 0.25
    assert slow.speedup < 1 < good.speedup
    assert slow.gemm_inefficiency_us > 0.15 * slow.gemm_us
    assert slow.exposed_us < 0.2 * slow.time_us


def test_own_shard_first_is_worth_more_than_nothing_on_every_machine():
    for name in ("h100x8", "h800x8", "h200x8"):
        assert predict("ag_gemm", topology=name, shape=LLAMA).speedup > 1


def test_a_late_rank_delays_the_others_and_shows_as_exposed_time():
    good = predict("ag_gemm", shape=LLAMA)
    late = predict("ag_gemm", shape=LLAMA, delays={3: us(500)})
    assert late.time_us == pytest.approx(good.time_us + 500, rel=0.02)
    assert late.exposed_us > good.exposed_us + 400


def test_an_impossible_straggler_or_slowdown_is_refused():
    with pytest.raises(UsageError, match="rank 8 is late, but h800x8 has no such rank"):
        predict("ag_gemm", shape=LLAMA, delays={8: 1})
    with pytest.raises(UsageError, match="a GEMM slowdown of 0; expected a positive factor"):
        predict("ag_gemm", shape=LLAMA, gemm_slowdown=0)
    with pytest.raises(UsageError, match="delays: -1 ps; expected a delay of at least 0"):
        predict("ag_gemm", shape=LLAMA, delays={0: -1})


def test_scaling_rows_are_single_predictions():
    rows = scale("ag_gemm", topologies=["h800x2", "h800x4"], shape=LLAMA)
    alone = predict("ag_gemm", topology="h800x4", shape=LLAMA)
    again = dataclasses.replace(rows[1], wall_s=alone.wall_s, tiles_per_s=alone.tiles_per_s)
    assert again == alone


def test_a_prediction_is_the_same_every_time():
    first, second = (predict("gemm_rs", shape=LLAMA).time_us for _ in range(2))
    assert first == second
