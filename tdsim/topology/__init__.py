"""Machines as immutable graphs of GPUs, switches and adapters; knows nothing of events.

`machine` makes one from a name or a YAML file; `Machine.route` is how bytes get between ranks.
"""

from tdsim.topology.machine import Machine
from tdsim.topology.names import cluster, machine, preset_names
from tdsim.topology.specs import (
    CollectiveSpec,
    GpuSpec,
    HostSpec,
    LinkId,
    LinkKind,
    LinkSpec,
    Route,
    RouteKind,
    TileSpec,
)
from tdsim.topology.yaml_machine import load_yaml

__all__ = [
    "CollectiveSpec",
    "GpuSpec",
    "HostSpec",
    "LinkId",
    "LinkKind",
    "LinkSpec",
    "Machine",
    "Route",
    "RouteKind",
    "TileSpec",
    "cluster",
    "load_yaml",
    "machine",
    "preset_names",
]
