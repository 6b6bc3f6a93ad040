"""Own machines from YAML: what a file inherits, changes and builds."""

import dataclasses

import pytest
from machine_files import BASE, FULL, RING, WIRE, links_of, write

from tdsim.topology import load_yaml, machine, sections, specs
from tdsim.units import Bandwidth


def test_a_file_inherits_a_preset_and_changes_what_it_names(tmp_path):
    own = machine(
        write(
            tmp_path,
            "base: h800\nnodes: 2\ngpus_per_node: 4\ngpu: {num_sms: 114, hbm: 3 TB/s}\n"
            "nic: {bandwidth: 200 Gb/s}\n",
        )
    )
    assert (own.name, own.world_size, own.num_nodes) == ("own", 8, 2)
    assert own.gpu.num_sms == 114
    assert own.gpu.hbm == Bandwidth.gb_per_s(3000)
    assert own.route(0, 4).bandwidth == Bandwidth.gb_per_s(25)
    assert own.route(0, 1) == machine("h800x4").route(0, 1)


def test_a_free_graph_routes_over_its_own_links(tmp_path):
    links = "".join(
        f"  - {{from: gpu{a}, to: gpu{b}, kind: nvlink, bandwidth: 50 GB/s, latency: 700 ns}}\n"
        for a in range(3)
        for b in range(3)
        if a < b
    )
    text = RING.split("links:")[0] + "links:\n" + links
    own = machine(write(tmp_path, text))
    assert own.route(0, 2).links == (("gpu0", "gpu2"),)
    assert own.route(0, 2).latency_ps == 700_000


def test_a_path_needs_no_ending_if_it_has_a_folder(tmp_path):
    path = tmp_path / "own"
    path.write_text(BASE)
    assert machine(str(path)).world_size == 8


def test_a_file_may_name_its_machine(tmp_path):
    assert load_yaml(write(tmp_path, BASE + "name: rack 7\n")).name == "rack 7"


def test_values_from_the_file_have_it_as_their_source_and_others_keep_theirs(tmp_path):
    text = BASE + "gpu: {hbm: 3 TB/s}\nhost: {launch: 1 us}\nnvlink: {latency: 1 us}\n"
    path = write(tmp_path, text)
    own, base = load_yaml(path), machine("h800x8")
    assert own.gpu.sources == {**base.gpu.sources, "hbm": path}
    assert own.host.launch_ps == 1_000_000
    assert own.host.sources == {**base.host.sources, "launch_ps": path}
    edge = ("gpu0", "nvswitch0")
    assert own.link(edge).source == f"{path}: latency; else {base.link(edge).source}"
    assert own.collective == base.collective


def test_a_link_may_cite_its_own_source(tmp_path):
    own = load_yaml(write(tmp_path, BASE + "nvlink: {latency: 1 us, source: my bench}\n"))
    assert own.link(("gpu0", "nvswitch0")).source == "my bench"


def test_one_dtype_changes_and_the_others_stay(tmp_path):
    own = load_yaml(write(tmp_path, BASE + "gpu: {flops: {bf16: 500 TFLOP/s}}\n"))
    assert own.gpu.flops == {**machine("h800x8").gpu.flops, "bf16": 500 * 10**12}


def test_collectives_follow_the_nvlink_rate_unless_given(tmp_path):
    base = machine("h800x8").collective
    own = load_yaml(write(tmp_path, BASE + "nvlink: {bandwidth: 82.4 GB/s}\n"))
    assert own.collective.scale_up == base.scale_up.scaled(1, 2)
    assert own.collective.launch_ps == base.launch_ps
    text = BASE + "nvlink: {bandwidth: 82.4 GB/s}\ncollective: {scale_up: 70 GB/s}\n"
    assert load_yaml(write(tmp_path, text)).collective.scale_up == Bandwidth.gb_per_s(70)


def test_a_faster_nic_keeps_the_spine_non_blocking(tmp_path):
    own = load_yaml(write(tmp_path, BASE + "nodes: 2\nnic: {bandwidth: 800 Gb/s}\n"))
    assert own.link(("leaf0", "spine0")).bandwidth == Bandwidth.gb_per_s(200)
    text = BASE + "nodes: 2\nspine: {bandwidth: 100 Gb/s}\n"
    blocking = load_yaml(write(tmp_path, text))
    assert blocking.link(("leaf0", "spine0")).bandwidth == Bandwidth.gb_per_s(25)


def test_a_file_without_a_base_gives_all_that_is_not_a_fixed_cost(tmp_path):
    path = write(tmp_path, FULL)
    own = load_yaml(path)
    assert own.gpu.l2_bytes == 40 * 10**6
    assert "fp8" not in own.gpu.flops
    assert set(own.gpu.sources.values()) == {path}
    assert own.host == machine("h100x8").host
    assert own.link(("gpu0", "nvswitch0")).ordered
    assert own.link(("gpu0", "nvswitch0")).source == path


def test_nodes_without_a_base_need_their_whole_network_and_infiniband_is_unordered(tmp_path):
    wires = "".join(
        f"{key}: {{bandwidth: 10 GB/s, latency: 1 us}}\n" for key in ("pcie", "nic", "spine")
    )
    own = load_yaml(write(tmp_path, FULL + "nodes: 2\n" + wires))
    assert own.route(0, 2).latency_ps == 6_000_000
    assert not own.route(0, 2).ordered
    assert own.collective.scale_out == Bandwidth.gb_per_s(20)


def test_a_one_way_link_has_one_direction(tmp_path):
    ring = links_of(
        f"from: gpu0, to: switch0, {WIRE}",
        f"from: gpu1, to: switch0, {WIRE}",
        f"from: gpu2, to: switch0, {WIRE}",
        f"from: gpu0, to: gpu1, {WIRE}, one_way: true",
    )
    own = load_yaml(write(tmp_path, ring))
    assert len(own.route(0, 1).links) == 1
    assert len(own.route(1, 0).links) == 2


@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        (sections.GPU, specs.GpuSpec),
        (sections.HOST, specs.HostSpec),
        (sections.COLLECTIVE, specs.CollectiveSpec),
        ({**sections.LINK, "kind": None}, specs.LinkSpec),
    ],
)
def test_every_field_of_a_spec_can_be_given_in_a_file(schema, spec):
    fields = {field.name.removesuffix("_ps") for field in dataclasses.fields(spec)}
    assert set(schema) == fields - {"sources"}
