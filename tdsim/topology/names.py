"""Machines by name.

``h800x8`` is one node of 8 GPUs (1 to 8 can be had), ``h800x64`` 8 rail-optimised nodes of 8,
``h800x2x3`` 2 nodes of 3, ``h200-shared-4`` one H200 as 4 PEs; a path is a YAML file.
"""

from __future__ import annotations

import re

from tdsim.errors import TopologyError, UnknownNameError
from tdsim.topology.builders import check_size, rail_optimized
from tdsim.topology.machine import Machine
from tdsim.topology.presets import H200_HUB, H200_SHARED, PLATFORMS
from tdsim.topology.shared import shared_gpu
from tdsim.topology.yaml_machine import load_yaml

NODE_SIZE = 8
"""GPUs in a full node of the preset machines."""
MAX_SHARED = 16

_CLUSTER_NAME = re.compile(r"(?P<gpu>[a-z0-9]+?)x(?P<first>\d+)(?:x(?P<second>\d+))?")
_SHARED_NAME = re.compile(r"h200-shared-(?P<ways>\d+)")


def preset_names() -> tuple[str, ...]:
    """The machines to begin with; other sizes follow the same pattern."""
    nodes = [f"{gpu}x{NODE_SIZE}" for gpu in PLATFORMS]
    clusters = [f"h800x{gpus}" for gpus in (16, 32, 64)]
    return (*nodes, *clusters, *(f"h200-shared-{ways}" for ways in (2, 4, 8)))


def machine(name_or_path: str) -> Machine:
    """The machine of that name, or the one a YAML file describes.

    Raises `UnknownNameError` or `TopologyError`.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return load_yaml(name_or_path)
    if match := _SHARED_NAME.fullmatch(name_or_path):
        return _shared(name_or_path, int(match["ways"]))
    match = _CLUSTER_NAME.fullmatch(name_or_path)
    if match is None:
        raise UnknownNameError("topology", name_or_path, preset_names())
    gpu, sizes = match["gpu"], name_or_path[match.end("gpu") :]
    if gpu not in PLATFORMS:
        choices = [f"{known}{sizes}" for known in PLATFORMS]
        raise UnknownNameError("topology", name_or_path, choices)
    nodes, gpus_per_node = _sizes(name_or_path, match["first"], match["second"])
    return _cluster(name_or_path, gpu, nodes, gpus_per_node)


def cluster(gpu: str, nodes: int, gpus_per_node: int) -> Machine:
    """Rail-optimised nodes of a preset GPU: ``cluster("h800", 2, 3)`` is 2 nodes of 3.

    Raises `UnknownNameError` or `TopologyError`.
    """
    if gpu not in PLATFORMS:
        raise UnknownNameError("GPU", gpu, tuple(PLATFORMS))
    return _cluster(f"{gpu}x{nodes}x{gpus_per_node}", gpu, nodes, gpus_per_node)


def _sizes(name: str, first: str, second: str | None) -> tuple[int, int]:
    """Nodes and GPUs per node of ``GPUxN`` or ``GPUxNODESxGPUS``."""
    if second is not None:
        return int(first), int(second)
    gpus = int(first)
    if gpus <= NODE_SIZE:
        return 1, gpus
    if gpus % NODE_SIZE:
        raise TopologyError(
            f"{gpus} GPUs do not fill nodes of {NODE_SIZE}",
            f"topology '{name}'",
            f"1 to {NODE_SIZE} GPUs or a multiple of {NODE_SIZE}",
            "write GPUxNODESxGPUS_PER_NODE for nodes of another size, such as h800x2x3",
        )
    return gpus // NODE_SIZE, NODE_SIZE


def _cluster(name: str, gpu: str, nodes: int, gpus_per_node: int) -> Machine:
    check_size(nodes, gpus_per_node, f"topology '{name}'")
    return rail_optimized(PLATFORMS[gpu], name=name, nodes=nodes, gpus_per_node=gpus_per_node)


def _shared(name: str, ways: int) -> Machine:
    if not 2 <= ways <= MAX_SHARED:
        raise TopologyError(
            f"one GPU shared by {ways}",
            f"topology '{name}'",
            f"2 to {MAX_SHARED} PEs",
            "change the number in the name",
        )
    return shared_gpu(H200_SHARED, H200_HUB, name=name, ways=ways)
