"""Print every number of a machine with its source: ``python machine_numbers.py h800x16``."""

import sys
from dataclasses import fields

from tdsim.topology import machine
from tdsim.units import Bandwidth, format_time

target = machine(sys.argv[1])


def text(name, value):
    """*value* with its unit, which the field's name tells for plain integers."""
    if name == "tiles":
        shapes = (f"{m}x{n}x{k} {tile.efficiency:g}, {format_time(tile.drain_ps)}"
                  for (m, n, k), tile in value.items())  # fmt: skip
        return "; ".join(shapes) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {rate / 1e12:g}T" for key, rate in value.items())
    if isinstance(value, Bandwidth):
        return str(value)
    if name.endswith("_ps"):
        return format_time(value)
    return f"{value:,}"


for part in ("gpu", "host", "collective"):
    spec = getattr(target, part)
    for field in fields(spec):
        if field.name in spec.sources:
            value = text(field.name, getattr(spec, field.name))
            print(f"{part}.{field.name} = {value}: {spec.sources[field.name]}")

links = {}
for a, b, edge in target.graph.edges(data=True):
    ends = f"{a.rstrip('0123456789')} to {b.rstrip('0123456789')}"
    links.setdefault(ends, edge["link"])
for ends, link in links.items():
    print(f"{ends} = {link.bandwidth}, {format_time(link.latency_ps)}: {link.source}")
