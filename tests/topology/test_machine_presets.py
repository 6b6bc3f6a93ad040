"""The presets' numbers: each has a source, and they stand in the proportions that the hardware has."""

import dataclasses

import pytest
import simpy

from tdsim.engine.network import Network
from tdsim.topology import machine, preset_names
from tdsim.topology.presets import H200_SHARED
from tdsim.topology.shared import FRONT_END

ALL = [*preset_names(), "h100x16", "h20x2x3", "h200-shared-3"]
each_preset = pytest.mark.parametrize("name", ALL)


@each_preset
def test_every_number_names_its_source(name):
    built = machine(name)
    for spec in (built.gpu, built.host, built.collective):
        names = {field.name for field in dataclasses.fields(spec)} - {"name", "sources"}
        assert set(spec.sources) == names
        assert all(spec.sources.values())
    assert all(built.link(edge).source for edge in built.graph.edges)


@each_preset
def test_every_time_is_whole_picoseconds_and_no_less_than_zero(name):
    built = machine(name)
    specs = [built.host, built.collective, *(built.link(edge) for edge in built.graph.edges)]
    for spec in specs:
        for field in dataclasses.fields(spec):
            if field.name.endswith("_ps"):
                value = getattr(spec, field.name)
                assert isinstance(value, int)
                assert value >= 0


@pytest.mark.parametrize(
    ("name", "sheet"), [("h100x8", 450), ("h800x8", 200), ("h200x8", 450), ("h20x8", 450)]
)
def test_the_nvlink_rate_is_a_reachable_part_of_the_data_sheet_which_its_source_names(
    name, sheet
):
    link = machine(name).link(("gpu0", "nvswitch0"))
    reached = link.bandwidth.bytes_per_s / (sheet * 10**9)
    assert 0.75 < reached < 0.9
    assert f"{sheet} GB/s" in link.source


def test_the_nic_rate_is_below_its_400_gbit_data_sheet():
    link = machine("h800x16").link(("nic0", "leaf0"))
    assert 0.9 < link.bandwidth.bytes_per_s / (50 * 10**9) < 1
    assert "400 Gb/s" in link.source


def test_h800_differs_from_h100_in_nvlink_and_h200_in_memory_only():
    h100, h800, h200 = (machine(f"{name}x8").gpu for name in ("h100", "h800", "h200"))
    same = {"name": "", "sources": {}}
    assert dataclasses.replace(h800, **same) == dataclasses.replace(h100, **same)
    memory = {"hbm": h100.hbm, "hbm_bytes": h100.hbm_bytes}
    assert dataclasses.replace(h200, **same, **memory) == dataclasses.replace(h100, **same)
    assert h200.hbm > h100.hbm


def test_h20_multiplies_slowly_but_moves_memory_fast():
    h20, h100 = machine("h20x8").gpu, machine("h100x8").gpu
    assert h20.flops["bf16"] * 6 < h100.flops["bf16"]
    assert h20.hbm > h100.hbm


@each_preset
def test_half_precision_is_twice_tf32_and_half_of_fp8(name):
    flops = machine(name).gpu.flops
    assert flops["fp16"] == flops["bf16"]
    assert flops["bf16"] == pytest.approx(2 * flops["fp32"], rel=0.001)
    assert flops["fp8"] == pytest.approx(2 * flops["bf16"], rel=0.001)


@pytest.mark.parametrize("name", ["h100x8", "h800x8", "h200x8", "h20x8"])
def test_a_collective_stays_below_the_nvlink_it_runs_on(name):
    built = machine(name)
    link = built.link(("gpu0", "nvswitch0")).bandwidth
    assert 0.9 * link.bytes_per_s < built.collective.scale_up.bytes_per_s < link.bytes_per_s


@pytest.mark.parametrize("gpus_per_node", range(1, 9))
def test_a_collective_over_nodes_is_no_faster_than_all_nics_of_a_node(gpus_per_node):
    built = machine(f"h800x2x{gpus_per_node}")
    nics = built.link(("nic0", "leaf0")).bandwidth.scaled(gpus_per_node)
    assert built.collective.scale_out == min(nics, built.collective.scale_up.scaled(9, 10))


def test_a_signal_on_one_gpu_takes_the_measured_0_94_us():
    built = machine("h200-shared-4")
    assert built.route(0, 1).latency_ps + built.host.signal_ps == 940_000


def test_a_put_to_another_node_begins_to_arrive_after_4_to_5_us():
    built = machine("h800x16")
    first_signal = built.host.nic_issue_ps + built.route(0, 8).latency_ps + built.host.signal_ps
    assert 4_000_000 < first_signal < 5_000_000


@pytest.mark.parametrize("ways", range(2, 17))
def test_pes_on_one_gpu_divide_it_and_never_exceed_it(ways):
    part, whole = machine(f"h200-shared-{ways}").gpu, machine("h200x1").gpu
    assert part.num_sms % 8 == 0
    assert 132 / ways - 8 < part.num_sms <= 132 / ways
    assert part.hbm.bytes_per_s * ways <= whole.hbm.bytes_per_s
    assert part.l2.bytes_per_s * ways <= whole.l2.bytes_per_s
    for dtype, rate in part.flops.items():
        per_sm = whole.flops[dtype] / whole.num_sms
        assert rate / part.num_sms == pytest.approx(per_sm, rel=1e-9)


@pytest.mark.parametrize("ways", [2, 3, 8])
def test_all_pes_on_one_gpu_are_one_node_and_share_one_hub(ways):
    built = machine(f"h200-shared-{ways}")
    for src in range(ways):
        for dst in range(ways):
            route = built.route(src, dst)
            assert built.reachable(src, dst)
            assert route.ordered
            if src != dst:
                assert ("l2", "hbm") in route.links
                assert {built.link(link).kind for link in route.links} == {"shared"}


@pytest.mark.parametrize("ways", [2, 8])
def test_pes_on_one_gpu_wait_for_their_turns_at_its_front_end_and_at_nothing_else(ways):
    shared, alone = machine(f"h200-shared-{ways}").host, H200_SHARED.host
    for field in dataclasses.fields(shared):
        if field.name.endswith("_ps"):
            factor = ways if field.name in FRONT_END else 1
            assert getattr(shared, field.name) == factor * getattr(alone, field.name)


def carried(target, flows):
    """GB/s of *flows* copying CTAs together, spread over all PEs."""
    env = simpy.Environment()
    net = Network(env, target.capacities(), soft=target.soft_links())
    for i in range(flows):
        src = i % target.world_size
        links = target.route(src, (src + 1) % target.world_size).links
        net.start(10**9, links, 0, target.gpu.sm_copy.bytes_per_s)
    env.run(1)
    return net.in_flight(("l2", "hbm")) / 10**9


@pytest.mark.parametrize(("flows", "measured"), [(1, 47), (16, 702), (132, 2003)])
def test_copying_ctas_on_one_gpu_reach_the_measured_rates_together(flows, measured):
    assert carried(machine("h200-shared-4"), flows) == pytest.approx(measured, rel=0.02)


def test_copy_engines_on_one_gpu_share_a_link_and_the_hub():
    built = machine("h200-shared-4")
    assert built.engine_links == (("copy_engines", "l2"), ("l2", "hbm"))
    assert all(built.link(link).kind == "shared" for link in built.engine_links)
    assert built.gpu.copy_engine == built.gpu.local_copy
    assert machine("h200x4").engine_links == ()
