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

from tdsim.errors import TopologyError, UnknownNameError
from tdsim.topology import sections
from tdsim.topology.builders import Platform, check_size, rail_optimized
from tdsim.topology.free_graph import free_graph
from tdsim.topology.machine import Machine
from tdsim.topology.presets import PLATFORMS
from tdsim.topology.specs import CollectiveSpec, GpuSpec, HostSpec, LinkKind, LinkSpec
from tdsim.topology.strict_yaml import read_yaml

_FABRIC: Mapping[str, LinkKind] = {
    "nvlink": "nvlink",
    "pcie": "pcie",
    "nic": "ib",
    "spine": "ib",
}
_TEMPLATE = PLATFORMS["h100"]
"""For a file without a base: fixed costs of host and collectives, equal in all presets."""


def load_yaml(path: str | Path) -> Machine:
    """The machine that a file describes; its name is the file's unless it gives one.

    Raises `TopologyError` or `UnknownNameError`; the sentence begins with the file and the key.
    """
    file = str(path)
    given = sections.read_section(_SCHEMA, read_yaml(file), file, required=("gpus_per_node",))
    document = _Document(file, {"name": Path(path).stem, "nodes": 1, **given})
    check_size(document.given["nodes"], document.given["gpus_per_node"], file)
    return document.free_machine() if "links" in given else document.clustered_machine()


def _read_base(value: object, where: str) -> Platform:
    name = str(value)
    if name not in PLATFORMS:
        raise UnknownNameError("preset GPU", name, tuple(PLATFORMS), where)
    return PLATFORMS[name]


def _read_later(value: object, where: str) -> object:
    return value


_SCHEMA: sections.Schema = {
    "name": sections.read_text,
    "base": _read_base,
    "nodes": sections.read_count,
    "gpus_per_node": sections.read_count,
    **dict.fromkeys(("gpu", "host", "collective", *_FABRIC), sections.read_mapping),
    "links": _read_later,
}


@dataclass(frozen=True, slots=True)
class _Document:
    """A file whose top-level keys are known to be legal."""

    file: str
    given: Mapping[str, Any]

    @property
    def base(self) -> Platform | None:
        return self.given.get("base")

    def clustered_machine(self) -> Machine:
        """NVSwitch nodes on rails, as the presets are."""
        links = {key: self._link(key, kind) for key, kind in _FABRIC.items()}
        if "bandwidth" not in self.given.get("spine", {}):  # stay non-blocking
            links["spine"] = replace(links["spine"], bandwidth=links["nic"].bandwidth)
        platform = Platform(
            gpu=self._gpu(),
            host=self._host(),
            collective=self._collective(links["nvlink"]),
            **links,
        )
        return rail_optimized(
            platform,
            name=self.given["name"],
            nodes=self.given["nodes"],
            gpus_per_node=self.given["gpus_per_node"],
        )

    def free_machine(self) -> Machine:
        """The graph of `links`, about whose collectives a preset knows nothing."""
        for key in _FABRIC:
            if key in self.given:
                raise TopologyError(
                    f"both '{key}' and 'links'",
                    self.file,
                    "one of them",
                    "give the links alone",
                )
        nodes, gpus_per_node = self.given["nodes"], self.given["gpus_per_node"]
        world = nodes * gpus_per_node
        return Machine(
            name=self.given["name"],
            gpu=self._gpu(),
            host=self._host(),
            collective=self._collective(None),
            num_nodes=nodes,
            gpus_per_node=gpus_per_node,
            graph=free_graph(self.given["links"], world=world, file=self.file),
        )

    def _section(
        self, key: str, schema: sections.Schema, required: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        data = self.given.get(key, {})
        return sections.read_section(schema, data, f"{self.file}, {key}", required=required)

    def _gpu(self) -> GpuSpec:
        required = (
            () if self.base else tuple(k for k in sections.GPU if k not in sections.OPTIONAL)
        )
        given = self._section("gpu", sections.GPU, required)
        if self.base:
            flops = {**self.base.gpu.flops, **given.get("flops", {})}
            changed = {**given, "flops": flops} if "flops" in given else given
            return sections.derive(self.base.gpu, changed, self.file)
        for dtype in sections.NEEDED_DTYPES:
            if dtype not in given["flops"]:
                raise sections.missing_key(dtype, f"{self.file}, gpu, flops")
        return sections.new_gpu(given, self.file)

    def _host(self) -> HostSpec:
        base = self.base or _TEMPLATE
        return sections.derive(base.host, self._section("host", sections.HOST), self.file)

    def _link(self, key: str, kind: LinkKind) -> LinkSpec:
        if self.base is None and (key == "nvlink" or self.given["nodes"] > 1):
            given = self._section(key, sections.LINK, ("bandwidth", "latency"))
            return sections.new_link(given, self.file, kind)
        base: LinkSpec = getattr(self.base or _TEMPLATE, key)
        return sections.derive_link(base, self._section(key, sections.LINK), self.file)

    def _collective(self, nvlink: LinkSpec | None) -> CollectiveSpec:
        """As given; otherwise the base's, in proportion to the NVLink rate."""
        known = self.base is not None and nvlink is not None
        required = () if known else ("scale_up", "scale_out")
        given = self._section("collective", sections.COLLECTIVE, required)
        base = self.base or _TEMPLATE
        spec = base.collective
        if known and nvlink and nvlink.bandwidth != base.nvlink.bandwidth:
            ratio = (nvlink.bandwidth.bytes_per_s, base.nvlink.bandwidth.bytes_per_s)
            scaled = {
                key: getattr(spec, key).scaled(*ratio) for key in ("scale_up", "scale_out")
            }
            spec = sections.derive(
                spec, scaled, f"{self.file}: the base's in proportion to the NVLink rate"
            )
        return sections.derive(spec, given, self.file)
