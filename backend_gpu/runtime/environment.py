"""What a result was measured on: device, driver, versions, and the SMs of this PE."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from .driver import driver_version
from .sms import SmSet

_PACKAGES = (
    "torch", "triton", "nvshmem4py-cu12", "nvshmem4py-cu13", "nvidia-nvshmem-cu12",
    "nvidia-nvshmem-cu13",
)  # fmt: skip


def environment(sms: SmSet | None) -> dict[str, Any]:
    """Names and versions, as a record keeps them; *sms* is this PE's part of the GPU."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "device": properties.name,
        "driver": driver_version(),
        "cuda": torch.version.cuda,
        "sms": sms.num_sms if sms else properties.multi_processor_count,
        **{name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
