"""NVSHMEM's device library: the bitcode that kernels for several nodes link."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tdsim.errors import UsageError

PACKAGES = ("nvidia-nvshmem-cu12", "nvidia-nvshmem-cu13")
"""Both install the same files, so only one can be there."""
_WHERE = "a kernel for several nodes"


@dataclass(frozen=True, slots=True)
class DeviceLibrary:
    """The bitcode for one chip, and the version of the package that it came with."""

    path: Path
    version: str


def device_library(arch: int) -> DeviceLibrary:
    """The installed library for sm_*arch*.

    NVSHMEM up to 3.6 has one file for all chips. Since 3.7 each has its own; a chip that has
    none takes that of the newest older chip. Raises `UsageError` if nothing fits.
    """
    version = _version()
    for folder in _folders():
        files = {_arch(path): path for path in folder.glob("libnvshmem_device*.bc")}
        fitting = [of for of in files if of <= arch]
        if fitting:
            return DeviceLibrary(files[max(fitting)], version)
    raise _missing(
        f"{version} has no device library for sm_{arch}" if version else "is not installed"
    )


def _arch(path: Path) -> int:
    """The chip that a file is for; 0 for all."""
    found = re.fullmatch(r"libnvshmem_device_sm_(\d+)", path.stem)
    return int(found[1]) if found else 0


def _folders() -> list[Path]:
    package = importlib.util.find_spec("nvidia")
    places = (package.submodule_search_locations or ()) if package else ()
    return [Path(place) / "nvshmem" / "lib" for place in places]


def _version() -> str:
    """The installed version, or nothing."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if len(set(found.values())) > 1:
        both = " and ".join(f"{package} {version}" for package, version in found.items())
        raise UsageError(
            what=f"{both} are both installed, and one has overwritten the other's files",
            where=_WHERE,
            expected="one of them",
            cure=f"pip uninstall {' '.join(found)}, then install the one for torch's CUDA",
        )
    return next(iter(found.values()), "")


def _missing(what: str) -> UsageError:
    return UsageError(
        what=f"NVSHMEM {what}",
        where=_WHERE,
        expected="the device library of NVSHMEM 3.4.5",
        cure="pip install nvidia-nvshmem-cu12==3.4.5",
    )
