"""Own machines from YAML: what is read, and the one line that each mistake gets."""

from __future__ import annotations

import pytest

from tdsim.errors import TdsimError
from tdsim.topology import machine
from tdsim.units import Bandwidth

BASE = "base: h800\ngpus_per_node: 8\n"
RING = """
base: h100
gpus_per_node: 3
collective: {scale_up: 50 GB/s, scale_out: 50 GB/s}
links:
  - {from: gpu0, to: gpu1, kind: nvlink, bandwidth: 50 GB/s, latency: 700 ns}
"""


def write(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return str(path)


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "base: h80\ngpus_per_node: 8\n",
            "{file}, base: unknown preset GPU 'h80'; expected one of h100, h800, h200, h20; "
            "did you mean 'h800'?",
        ),
        (
            BASE + "gpus_per_node: 4\n",
            "{file}: not valid YAML: key 'gpus_per_node' is given twice, line 3; "
            "expected a YAML machine",
        ),
        ("", "{file}: empty; expected lines of 'key: value'"),
        ("gpus_per_node: 8\n", "{file}, nvlink: missing key 'bandwidth'; add 'bandwidth: ...'"),
        (
            BASE + "gpu: {hbm: 3}\n",
            "{file}, gpu, hbm: 3 has no unit; expected a bandwidth such as '450 GB/s' or "
            "'400 Gb/s'; write the unit behind it",
        ),
        (
            "base: [h80\ngpus_per_node: 8\n",
            "{file}: not valid YAML: expected ',' or ']', but got ':', line 2; "
            "expected a YAML machine",
        ),
    ],
    ids=["base", "twice", "empty", "missing", "no unit", "syntax"],
)
def test_a_mistake_in_a_file_is_one_line_with_its_place(tmp_path, text, sentence):
    path = write(tmp_path, text)
    with pytest.raises(TdsimError) as error:
        machine(path)
    assert str(error.value) == sentence.format(file=path)


def test_an_unknown_key_is_offered_the_closest_known_one(tmp_path):
    with pytest.raises(TdsimError, match=r"unknown key 'nmu_sms'.*did you mean 'num_sms'"):
        machine(write(tmp_path, BASE + "gpu: {nmu_sms: 3}\n"))


def test_an_unknown_unit_is_offered_the_closest_known_one(tmp_path):
    with pytest.raises(
        TdsimError, match=r"unknown unit of bandwidth 'Gbps'.*did you mean 'Gb/s'"
    ):
        machine(write(tmp_path, BASE + "nic: {bandwidth: 400 Gbps}\n"))


def test_two_gpus_without_a_route_are_named(tmp_path):
    with pytest.raises(TdsimError, match=r"no route from gpu0 to gpu2.*add the missing link"):
        machine(write(tmp_path, RING))


def test_a_file_that_does_not_exist_is_one_line():
    with pytest.raises(TdsimError) as error:
        machine("nowhere/own.yaml")
    assert "nowhere/own.yaml" in str(error.value)
    assert "\n" not in str(error.value)
