"""Which versions go together: Triton and NVSHMEM's device library, torch and nvshmem4py.

Every entry was tried (``scripts/versions.py`` repeats it for what is installed); what is not
here has not been tried and is let through. This module knows no Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tdsim.errors import UsageError

TRITON_VERSIONS = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""The whole library of kernels compiles under each, for one node, also to debug and traced.

Only 3.6.0 has run on a GPU, and only its code is read by the tests of what orders what.
"""

LINKS: Mapping[str, Mapping[str, bool]] = MappingProxyType(
    {
        "3.6.0": {"3.4.5": True, "3.6.5": True, "3.7.2": True, "3.8.0": False},
        "3.7.1": {"3.4.5": True, "3.6.5": True, "3.7.2": True, "3.8.0": True},
        "3.8.0": {"3.4.5": True, "3.6.5": True, "3.7.2": True, "3.8.0": True},
        "3.9.0": {"3.4.5": True, "3.6.5": True, "3.7.2": True, "3.8.0": True},
    }
)
"""Whether a Triton (outer key) links the device library of an NVSHMEM into a kernel of sm_90.

A False is bitcode newer than the reader. Linking all of NVSHMEM's calls into one kernel takes
7 s with 3.4.5 and 25 s or more with the later ones, which are larger (on two CPU cores).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """One torch and what it asks for; *nvshmem4py* is the flavour that its CUDA needs."""

    torch: str
    triton: str
    nvshmem: str
    nvshmem4py: str


SETS = (
    ToolSet(torch="2.10", triton="3.6.0", nvshmem="3.4.5", nvshmem4py="cu12"),
    ToolSet(torch="2.11", triton="3.6.0", nvshmem="3.4.5", nvshmem4py="cu13"),
    ToolSet(torch="2.14", triton="3.8.0", nvshmem="3.4.5", nvshmem4py="cu13"),
)
"""Sets as torch's own packages require them. nvshmem4py-cu12 takes cuda-python up to 12.9, so
it goes with torch 2.10; later ones bring cuda-bindings 13, which nvshmem4py-cu13 takes."""


def check_links(triton: str, nvshmem: str) -> None:
    """Raise `UsageError` if this Triton is known not to read this NVSHMEM's device library.

    A patch release counts as the tried one of the same minor release.
    """
    if _links(triton, nvshmem) is not False:
        return
    libraries = [v for v in _tried_libraries() if _links(triton, v)]
    readers = [t for t in TRITON_VERSIONS if _links(t, nvshmem)]
    raise UsageError(
        what=f"Triton {triton} cannot read the device library of NVSHMEM {nvshmem}",
        where="a kernel for several nodes",
        expected=f"NVSHMEM {' or '.join(libraries)}, or Triton {' or '.join(readers)}",
        cure=f"pip install nvidia-nvshmem-cu12=={libraries[0]}, cu13 from torch 2.11 on",
    )


def _links(triton: str, nvshmem: str) -> bool | None:
    """What was seen of the pair's minor releases; None if it has not been tried."""
    for reader, libraries in LINKS.items():
        for library, seen in libraries.items():
            if _minor(reader) == _minor(triton) and _minor(library) == _minor(nvshmem):
                return seen
    return None


def _tried_libraries() -> tuple[str, ...]:
    return tuple(dict.fromkeys(v for libraries in LINKS.values() for v in libraries))


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
