"""Sections of a machine file as specs: strict keys, units in strings, the rest from a preset.

A section's keys are its spec's fields; a time's key has no ``_ps``: its value has a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

from tdsim.errors import TopologyError, UnknownNameError
from tdsim.topology import quantity
from tdsim.topology.specs import (
    CollectiveSpec,
    GpuSpec,
    HostSpec,
    LinkKind,
    LinkSpec,
    TileSpec,
)
from tdsim.units import Bandwidth

Reader = Callable[[object, str], object]
Schema = Mapping[str, Reader]
Spec = TypeVar("Spec", GpuSpec, HostSpec, CollectiveSpec)

DTYPES = ("bf16", "fp16", "fp32", "fp8")
NEEDED_DTYPES = ("bf16", "fp16", "fp32")
"""What every GPU must have; fp8 came with Hopper."""


def read_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise TopologyError(f"{value!r} is no text", where, "a name or sentence", "quote it")
    return value


def read_count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TopologyError(f"{value!r} is no count", where, "a whole number of at least 1")
    return value


def read_flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise TopologyError(f"{value!r} is neither true nor false", where, "true or false")
    return value


def read_line_bytes(value: object, where: str) -> int:
    if isinstance(value, bool) or value not in (8, 64, 128):
        raise TopologyError(f"{value!r} is no size of a line", where, "8, 64 or 128")
    return int(str(value))


def read_fraction(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise TopologyError(f"{value!r} is no fraction", where, "a number above 0, at most 1")
    return float(value)


def read_bandwidth(value: object, where: str) -> Bandwidth:
    return Bandwidth(quantity.parse(value, quantity.BANDWIDTH, where))


def read_time(value: object, where: str) -> int:
    return quantity.parse(value, quantity.TIME, where)


def read_size(value: object, where: str) -> int:
    return quantity.parse(value, quantity.SIZE, where)


def read_compute(value: object, where: str) -> int:
    return quantity.parse(value, quantity.COMPUTE, where)


def read_kind(value: object, where: str) -> str:
    kinds = get_args(LinkKind)
    if value not in kinds:
        raise UnknownNameError("kind of link", str(value), kinds, where)
    return str(value)


def read_flops(value: object, where: str) -> dict[str, Any]:
    return read_section(dict.fromkeys(DTYPES, read_compute), value, where)


def read_tiles(value: object, where: str) -> dict[tuple[int, int, int], TileSpec]:
    """``{128x256x64: {efficiency: 0.8, drain: 4 us}}``, one entry per tile shape."""
    tiles = {}
    for key, entry in read_mapping(value, where).items():
        m, _, rest = key.partition("x")
        n, _, k = rest.partition("x")
        if not (m.isdecimal() and n.isdecimal() and k.isdecimal()):
            raise TopologyError(f"tile {key!r}", where, "MxNxK, such as 128x256x64")
        given = read_section(TILE, entry, f"{where}, {key}", required=TILE)
        spec = TileSpec(efficiency=given["efficiency"], drain_ps=given["drain"])
        tiles[int(m), int(n), int(k)] = spec
    return tiles


TILE: Schema = {"efficiency": read_fraction, "drain": read_time}


GPU: Schema = {
    "name": read_text,
    "num_sms": read_count,
    "flops": read_flops,
    "mma_efficiency": read_fraction,
    "hbm": read_bandwidth,
    "hbm_bytes": read_size,
    "l2": read_bandwidth,
    "l2_bytes": read_size,
    "sm_copy": read_bandwidth,
    "copy_engines": read_count,
    "copy_engine": read_bandwidth,
    "local_copy": read_bandwidth,
    "busy_copy": read_fraction,
    "tiles": read_tiles,
}
OPTIONAL = ("busy_copy", "tiles")
"""Keys that even a GPU without a preset need not have."""
HOST: Schema = {
    "launch": read_time,
    "issue": read_time,
    "add_issue": read_time,
    "launch_latency": read_time,
    "copy_issue": read_time,
    "stream_op": read_time,
    "kernel_gap": read_time,
    "stream_add": read_time,
    "stream_wait": read_time,
    "signal": read_time,
    "nic_issue": read_time,
    "connections": read_count,
    "load_latency": read_time,
    "loop_load": read_time,
    "barrier": read_time,
    "call_end": read_time,
}
COLLECTIVE: Schema = {
    "launch": read_time,
    "scale_up": read_bandwidth,
    "scale_out": read_bandwidth,
    "hop": read_time,
}
LINK: Schema = {
    "bandwidth": read_bandwidth,
    "latency": read_time,
    "ordered": read_flag,
    "soft": read_flag,
    "line_bytes": read_line_bytes,
    "source": read_text,
}


def read_mapping(value: object, where: str) -> dict[str, object]:
    if value is None:
        raise TopologyError("empty", where, "lines of 'key: value'")
    if not isinstance(value, dict):
        raise TopologyError(f"{value!r} is no section", where, "lines of 'key: value'")
    return {str(key): item for key, item in value.items()}


def read_section(
    schema: Schema, data: object, where: str, *, required: Iterable[str] = ()
) -> dict[str, Any]:
    """The values of a section by key, each through its reader.

    Raises `TopologyError` for a missing key and `UnknownNameError` for one not in *schema*.
    """
    section = read_mapping(data, where)
    for key in section:
        if key not in schema:
            raise UnknownNameError("key", key, tuple(schema), where)
    for key in required:
        if key not in section:
            raise missing_key(key, where)
    return {key: schema[key](value, f"{where}, {key}") for key, value in section.items()}


def missing_key(key: str, where: str) -> TopologyError:
    return TopologyError(f"missing key '{key}'", where, cure=f"add '{key}: ...'")


def derive(base: Spec, given: Mapping[str, Any], source: str) -> Spec:
    """*base* with the values *given* by key, whose source is *source*."""
    values = _by_field(base.__slots__, given)
    sources = {**base.sources, **dict.fromkeys(values, source)}
    return replace(base, **values, sources=sources)


def new_gpu(given: Mapping[str, Any], source: str) -> GpuSpec:
    """A GPU of its own, from a full section."""
    return GpuSpec(**given, sources=dict.fromkeys(given, source))


def derive_link(base: LinkSpec, given: Mapping[str, Any], file: str) -> LinkSpec:
    """*base* with the values *given* by key; the source says which are *file*'s."""
    changed = [key for key in given if key != "source"]
    if not changed:
        return base
    source = f"{file}: {', '.join(changed)}; else {base.source}"
    return replace(base, **{"source": source, **_by_field(LinkSpec.__slots__, given)})


def new_link(given: Mapping[str, Any], file: str, kind: LinkKind) -> LinkSpec:
    """A link of that *kind* from a full section; ordered unless InfiniBand or it says."""
    defaults = {"ordered": kind != "ib", "source": file}
    return LinkSpec(**{**defaults, **_by_field(LinkSpec.__slots__, given)}, kind=kind)


def _by_field(names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """*given* with the names of the spec's fields in place of the keys."""
    fields = {name.removesuffix("_ps"): name for name in names}
    return {fields[key]: value for key, value in given.items()}
