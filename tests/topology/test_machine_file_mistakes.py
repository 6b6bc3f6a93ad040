"""Mistakes in machine files: each gets one line with its place, and none a traceback."""

import os

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_files import BASE, FULL, RING, WIRE, links_of, write

from tdsim.errors import TdsimError
from tdsim.topology import load_yaml, machine, sections

A_COUNT = "expected a whole number of at least 1"
KINDS = "expected one of nvlink, pcie, ib, shared"
ROUTE = "expected a path of links that passes through no third GPU; add the missing link"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        # the document
        ("", "{file}: empty; expected lines of 'key: value'"),
        ("3\n", "{file}: 3 is no section; expected lines of 'key: value'"),
        ("base: h800\n", "{file}: missing key 'gpus_per_node'; add 'gpus_per_node: ...'"),
        (
            BASE + "gpus_per_node: 4\n",
            "{file}: not valid YAML: key 'gpus_per_node' is given twice, line 3; "
            "expected a YAML machine",
        ),
        (
            "base: [h80\ngpus_per_node: 8\n",
            "{file}: not valid YAML: expected ',' or ']', but got ':', line 2; "
            "expected a YAML machine",
        ),
        (
            "name: 2024-13-01\n",
            "{file}: not valid YAML: month must be in 1..12; expected a YAML machine",
        ),
        ("[" * 5000, "{file}: nested too deeply; expected a YAML machine"),
        (
            "base: h80\ngpus_per_node: 8\n",
            "{file}, base: unknown preset GPU 'h80'; expected one of h100, h800, h200, h20; "
            "did you mean 'h800'?",
        ),
        (
            "base: [7]\ngpus_per_node: 8\n",
            "{file}, base: unknown preset GPU '[7]'; expected one of h100, h800, h200, h20",
        ),
        (BASE + "nodes: 0\n", "{file}, nodes: 0 is no count; " + A_COUNT),
        (BASE + "nodes: two\n", "{file}, nodes: 'two' is no count; " + A_COUNT),
        (BASE + "nodes: true\n", "{file}, nodes: True is no count; " + A_COUNT),
        (
            BASE + "nodes: 9999\n",
            "{file}: 9999 nodes of 8 GPUs; expected at least one node and one GPU in it, and "
            "at most 16384 GPUs in all; change the numbers",
        ),
        (
            BASE + "name: 8\n",
            "{file}, name: 8 is no text; expected a name or sentence; quote it",
        ),
        # its sections
        (BASE + "gpu:\n", "{file}, gpu: empty; expected lines of 'key: value'"),
        (BASE + "gpu: 3\n", "{file}, gpu: 3 is no section; expected lines of 'key: value'"),
        ("gpus_per_node: 8\n", "{file}, nvlink: missing key 'bandwidth'; add 'bandwidth: ...'"),
        (
            BASE + "gpu: {hbm: 3}\n",
            "{file}, gpu, hbm: 3 has no unit; expected a bandwidth such as '450 GB/s' or "
            "'400 Gb/s'; write the unit behind it",
        ),
        (
            BASE + "gpu: {flops: {bf16: 989}}\n",
            "{file}, gpu, flops, bf16: 989 has no unit; expected a compute rate such as "
            "'989 TFLOP/s'; write the unit behind it",
        ),
        (
            BASE + "gpu: {flops: {bf61: 1 TFLOP/s}}\n",
            "{file}, gpu, flops: unknown key 'bf61'; expected one of bf16, fp16, fp32, fp8; "
            "did you mean 'bf16'?",
        ),
        (
            BASE + "gpu: {mma_efficiency: 77}\n",
            "{file}, gpu, mma_efficiency: 77 is no fraction; expected a number above 0, "
            "at most 1",
        ),
        (
            BASE + "nvlink: {line_bytes: 32}\n",
            "{file}, nvlink, line_bytes: 32 is no size of a line; expected 8, 64 or 128",
        ),
        (
            BASE + "nvlink: {ordered: 1}\n",
            "{file}, nvlink, ordered: 1 is neither true nor false; expected true or false",
        ),
        (
            BASE + "host: {launch: 3}\n",
            "{file}, host, launch: 3 has no unit; expected a time such as '600 ns'; "
            "write the unit behind it",
        ),
        (FULL + "nodes: 2\n", "{file}, pcie: missing key 'bandwidth'; add 'bandwidth: ...'"),
        (FULL.replace("  hbm: 2 TB/s\n", ""), "{file}, gpu: missing key 'hbm'; add 'hbm: ...'"),
        (
            FULL.replace("fp16: 500 TFLOP/s, ", ""),
            "{file}, gpu, flops: missing key 'fp16'; add 'fp16: ...'",
        ),
        (
            FULL.replace("scale_up: 90 GB/s, ", ""),
            "{file}, collective: missing key 'scale_up'; add 'scale_up: ...'",
        ),
        # its links
        (
            RING + "nvlink: {bandwidth: 9 GB/s}\n",
            "{file}: both 'nvlink' and 'links'; expected one of them; give the links alone",
        ),
        (
            RING.replace("collective:", "host: {} #"),
            "{file}, collective: missing key 'scale_up'; add 'scale_up: ...'",
        ),
        (
            BASE + "collective: {scale_up: 1 GB/s, scale_out: 1 GB/s}\nlinks: gpu0\n",
            "{file}, links: 'gpu0' is no list; expected one '- {{from: ..., to: ...}}' each",
        ),
        (links_of("from: gpu0"), "{file}, links[0]: missing key 'to'; add 'to: ...'"),
        (
            links_of("from: gpu0, to: gpu1, kind: nvlink, bandwidth: 50, latency: 7 ns"),
            "{file}, links[0], bandwidth: 50 has no unit; expected a bandwidth such as "
            "'450 GB/s' or '400 Gb/s'; write the unit behind it",
        ),
        (
            links_of("from: gpu0, to: gpu1, kind: nvlnk, bandwidth: 5 GB/s, latency: 7 ns"),
            "{file}, links[0], kind: unknown kind of link 'nvlnk'; "
            + KINDS
            + "; did you mean 'nvlink'?",
        ),
        (
            links_of(f"from: gpu0, to: GPU 1, {WIRE}"),
            "{file}, links[0]: 'GPU 1' is no endpoint; expected a kind and a number, "
            "such as nic3",
        ),
        *(
            (
                links_of(f"from: gpu0, to: {end}, {WIRE}"),
                f"{{file}}, links[0]: {end} is none of the machine's GPUs; expected gpu0 to gpu2; "
                "change nodes or gpus_per_node, or the link",
            )
            for end in ("gpu3", "gpu01", "gpux", "gpu")
        ),
        (
            links_of(f"from: gpu1, to: gpu1, {WIRE}"),
            "{file}, links[0]: a link from gpu1 to itself; expected two endpoints",
        ),
        (
            links_of(f"from: gpu0, to: gpu1, {WIRE}", f"from: gpu1, to: gpu0, {WIRE}"),
            "{file}, links[1]: a second link from gpu1 to gpu0; expected one link in each "
            "direction; add the bandwidths up, or mark both links with 'one_way: true'",
        ),
        (RING, "{file}, links: no route from gpu0 to gpu2; " + ROUTE),
        (
            links_of(f"from: gpu0, to: gpu1, {WIRE}", f"from: gpu1, to: gpu2, {WIRE}"),
            "{file}, links: no route from gpu0 to gpu2; " + ROUTE,
        ),
        (
            links_of(
                f"from: gpu0, to: switch0, {WIRE}",
                f"from: gpu1, to: switch0, {WIRE}",
                f"from: switch0, to: gpu2, {WIRE}, one_way: true",
            ),
            "{file}, links: no route from gpu2 to gpu0; " + ROUTE,
        ),
        (
            BASE + "collective: {scale_up: 1 GB/s, scale_out: 1 GB/s}\nlinks: []\n",
            "{file}, links: no route from gpu0 to gpu1; " + ROUTE,
        ),
    ],
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


def test_a_file_that_cannot_be_read_is_one_line_that_says_why(tmp_path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    for path, reason in (
        (tmp_path / "nowhere.yaml", "no such file"),
        (binary, "not UTF-8 text"),
        (folder, f"cannot be read: {os.strerror(21)}"),
    ):
        with pytest.raises(TdsimError) as error:
            machine(str(path))
        assert str(error.value) == f"{path}: {reason}; expected a YAML machine"


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["h800", "3 TB/s", "gpu0", "700 ns", "x", "ib"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*sections.GPU, *sections.LINK, "base", "nodes", "gpu", "nic", "links", "from"]
            )
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["base", "nodes", "gpu", "host", "nic", "links"]), junk))
def test_whatever_a_file_holds_it_makes_a_machine_or_one_line(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("junk") / "own.yaml"
    path.write_text(yaml.safe_dump({"gpus_per_node": 2, **document}))
    assert len(outcome(path).splitlines()) == 1


def outcome(path):
    try:
        return load_yaml(path).name
    except TdsimError as error:
        return str(error)
