"""Measured GEMM tiles in machine files."""

import pytest
from machine_files import BASE, FULL, write

from tdsim.errors import TopologyError
from tdsim.topology import TileSpec, load_yaml, machine


def with_tiles(tmp_path, text):
    return load_yaml(write(tmp_path, f"{BASE}gpu: {{tiles: {text}}}\n"))


def test_a_file_gives_efficiency_and_drain_by_tile(tmp_path):
    built = with_tiles(tmp_path, "{128x256x64: {efficiency: 0.8, drain: 4 us}}")
    assert built.gpu.tiles == {(128, 256, 64): TileSpec(efficiency=0.8, drain_ps=4_000_000)}
    assert built.gpu.sources["tiles"].endswith("own.yaml")
    assert built.gpu.mma_efficiency == machine("h800x8").gpu.mma_efficiency


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{128x256: {}}", "tile '128x256'; expected MxNxK, such as 128x256x64"),
        (
            "{128x256x64: {efficiency: 0.8}}",
            "128x256x64: missing key 'drain'; add 'drain: ...'",
        ),
        ("{128x256x64: {efficiency: 2, drain: 1 us}}", "2 is no fraction"),
    ],
)
def test_a_tile_that_says_too_little_gets_one_clear_line(tmp_path, text, line):
    with pytest.raises(TopologyError) as error:
        with_tiles(tmp_path, text)
    assert line in str(error.value)


def test_a_gpu_of_its_own_needs_neither_tiles_nor_a_busy_copy_rate(tmp_path):
    gpu = load_yaml(write(tmp_path, FULL)).gpu
    assert (gpu.tiles, gpu.busy_copy) == ({}, 1.0)
