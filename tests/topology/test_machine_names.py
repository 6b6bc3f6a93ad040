"""Machines by name: which names mean what, and what a wrong one is told."""

import pytest

from tdsim.errors import TdsimError, TopologyError, UnknownNameError
from tdsim.topology import cluster, machine, preset_names


@pytest.mark.parametrize("name", preset_names())
def test_every_listed_name_makes_a_machine_of_that_name(name):
    assert machine(name).name == name


@pytest.mark.parametrize(
    ("name", "nodes", "gpus_per_node"),
    [
        *((f"h800x{gpus}", 1, gpus) for gpus in range(1, 9)),
        ("h100x16", 2, 8),
        ("h20x24", 3, 8),
        ("h800x1024", 128, 8),
        ("h800x2x3", 2, 3),
        ("h200x3x2", 3, 2),
        ("h200-shared-3", 1, 3),
        ("h200-shared-16", 1, 16),
    ],
)
def test_a_name_gives_nodes_and_gpus_per_node(name, nodes, gpus_per_node):
    built = machine(name)
    assert (built.num_nodes, built.gpus_per_node) == (nodes, gpus_per_node)
    assert built.world_size == nodes * gpus_per_node


def test_ranks_are_numbered_node_by_node():
    built = machine("h800x2x3")
    assert [built.node_of(rank) for rank in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [built.local_rank(rank) for rank in range(6)] == [0, 1, 2, 0, 1, 2]
    assert list(built.ranks_of(1)) == [3, 4, 5]


def test_cluster_makes_the_machine_of_the_long_name():
    built = cluster("h800", 2, 3)
    assert built.name == "h800x2x3"
    assert built.capacities() == machine("h800x2x3").capacities()


ALL = (
    "h100x8, h800x8, h200x8, h20x8, h800x16, h800x32, h800x64, "
    "h200-shared-2, h200-shared-4, h200-shared-8"
)
SIZES = "expected at least one node and one GPU in it, and at most 16384 GPUs in all; change the numbers"


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (
            "h80x8",
            UnknownNameError,
            "unknown topology 'h80x8'; expected one of h100x8, h800x8, h200x8, h20x8; "
            "did you mean 'h800x8'?",
        ),
        (
            "h80x2x3",
            UnknownNameError,
            "unknown topology 'h80x2x3'; expected one of h100x2x3, h800x2x3, h200x2x3, h20x2x3; "
            "did you mean 'h800x2x3'?",
        ),
        ("moon", UnknownNameError, f"unknown topology 'moon'; expected one of {ALL}"),
        ("", UnknownNameError, f"unknown topology ''; expected one of {ALL}"),
        (
            "h800x-8",
            UnknownNameError,
            f"unknown topology 'h800x-8'; expected one of {ALL}; did you mean 'h800x8'?",
        ),
        (
            "h800x12",
            TopologyError,
            "topology 'h800x12': 12 GPUs do not fill nodes of 8; expected 1 to 8 GPUs or a "
            "multiple of 8; write GPUxNODESxGPUS_PER_NODE for nodes of another size, such as h800x2x3",
        ),
        ("h800x0", TopologyError, f"topology 'h800x0': 1 nodes of 0 GPUs; {SIZES}"),
        ("h800x0x4", TopologyError, f"topology 'h800x0x4': 0 nodes of 4 GPUs; {SIZES}"),
        ("h800x16392", TopologyError, f"topology 'h800x16392': 2049 nodes of 8 GPUs; {SIZES}"),
        (
            "h200-shared-1",
            TopologyError,
            "topology 'h200-shared-1': one GPU shared by 1; expected 2 to 16 PEs; "
            "change the number in the name",
        ),
        (
            "h200-shared-17",
            TopologyError,
            "topology 'h200-shared-17': one GPU shared by 17; expected 2 to 16 PEs; "
            "change the number in the name",
        ),
    ],
)
def test_a_wrong_name_is_told_what_was_expected(name, kind, sentence):
    with pytest.raises(TdsimError) as error:
        machine(name)
    assert type(error.value) is kind
    assert str(error.value) == sentence


def test_an_unknown_gpu_of_a_cluster_is_told_the_known_ones():
    with pytest.raises(UnknownNameError) as error:
        cluster("h80", 2, 3)
    assert str(error.value) == (
        "unknown GPU 'h80'; expected one of h100, h800, h200, h20; did you mean 'h800'?"
    )
