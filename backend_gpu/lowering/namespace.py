"""What ``td`` means on the GPU: every operation's lowering, under the language's own names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from . import collectives, identity, one_sided, signals, tiles, views
from .device import DeviceFunction

_MODULES = (identity, tiles, views, one_sided, signals, collectives)


def _name(lowering: Any) -> str:
    fn = lowering.fn if isinstance(lowering, DeviceFunction) else lowering
    name: str = fn.__name__
    return name


LOWERINGS: Mapping[str, Any] = MappingProxyType(
    {_name(lowering): lowering for module in _MODULES for lowering in module.LOWERINGS}
)
"""Device function (or Triton builtin) of every operation, by name."""
