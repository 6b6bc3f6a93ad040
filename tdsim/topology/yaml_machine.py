"""Own machines from a YAML file: a preset with changes, all parts spelled out, or a free graph.

::

    base: h800                    # a preset GPU; its figures hold unless given here
    nodes: 2
    gpus_per_node: 4
    gpu: {num_sms: 114, hbm: 3 TB/s, flops: {bf16: 756 TFLOP/s}}
    nic: {bandwidth: 200 Gb/s}    # also host, collective, nvlink, pcie, spine

A list ``links`` in place of ``nvlink``, ``pcie``, ``nic`` and ``spine`` gives another graph::

    links:
      - {from: gpu0, to: gpu1, kind: nvlink, bandwidth: 50 GB/s, latency: 700 ns}

Keys are strict, quantities carry their unit, and every error is one line that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx

from tdsim.errors import TopologyError, UnknownNameError
from tdsim.topology import sections
from tdsim.topology.builders import Platform, check_size, rail_optimized
from tdsim.topology.free_graph import free_graph
from tdsim.topology.machine import Machine
from tdsim.topology.presets import COMMON, PLATFORMS
from tdsim.topology.sections import COLLECTIVE, GPU, HOST, LINK
from tdsim.topology.specs import CollectiveSpec, GpuSpec, LinkKind, LinkSpec
from tdsim.topology.strict_yaml import read_yaml

_FABRIC: Mapping[str, LinkKind] = {"nvlink": "nvlink", "pcie": "pcie", "nic": "ib", "spine": "ib"}


def load_yaml(path: str | Path) -> Machine:
    """The machine that a file describes.

    Raises `TopologyError` or `UnknownNameError`, whose sentence begins with the file and the key.
    """
    file = str(path)
    given = sections.read_section(_SCHEMA, read_yaml(file), file, required=("gpus_per_node",))
    document = _Document(file, {"nodes": 1, "name": Path(path).stem, **given})
    check_size(document.given["nodes"], document.given["gpus_per_node"], file)
    return document.free_machine() if "links" in given else document.clustered_machine()


def _as_is(value: object, where: str) -> object:
    return value


def _read_base(value: object, where: str) -> Platform:
    if value not in PLATFORMS:
        raise UnknownNameError("preset GPU", str(value), tuple(PLATFORMS), where)
    return PLATFORMS[str(value)]


_SCHEMA: sections.Schema = {
    "name": sections.read_text,
    "base": _read_base,
    "nodes": sections.read_count,
    "gpus_per_node": sections.read_count,
    **dict.fromkeys(("gpu", "host", "collective", *_FABRIC), sections.as_mapping),
    "links": _as_is,
}


@dataclass(frozen=True, slots=True)
class _Document:
    """A file whose top-level keys are known, with `base` as a `Platform` if there is one."""

    file: str
    given: Mapping[str, Any]

    def clustered_machine(self) -> Machine:
        nodes, gpus_per_node = self.given["nodes"], self.given["gpus_per_node"]
        links = {key: self._link(key, kind) for key, kind in _FABRIC.items()}
        if "bandwidth" not in self.given.get("spine", {}):
            links["spine"] = replace(links["spine"], bandwidth=links["nic"].bandwidth)
        platform = Platform(
            gpu=self._gpu(),
            host=self._host(),
            collective=self._collective(links["nvlink"]),
            **links,
        )
        return rail_optimized(
            platform, name=self.given["name"], nodes=nodes, gpus_per_node=gpus_per_node
        )
