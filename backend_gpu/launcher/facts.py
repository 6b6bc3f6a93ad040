"""What ``tdsim doctor`` looks at. Everything heavy is asked of short-lived processes.

An answer is what such a process printed as JSON, or ``{"error": why there is none}``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .gpus import Gpus, probe

Answer = Mapping[str, Any]

_LIMIT_S = 120
_TORCH = """
import json, torch, torch.distributed as d
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda,
                  "gloo": d.is_available() and d.is_gloo_available()}))
"""
_TRITON = "import json, triton; print(json.dumps({'version': triton.__version__}))"
_NVSHMEM = """
import json, nvshmem.core as nv
v = nv.get_version()
print(json.dumps({"host": v.libnvshmem_version, "version": v.nvshmem4py_version}))
"""
_FAR = "from tdsim.backend_gpu.launcher.far_kernel import main; main()"
_PACKAGES = ("nvshmem4py", "nvidia-nvshmem", "nvidia-cuda-runtime")
_PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The machine as it is. *packages* are versions by name, those with a CUDA flavour under
    its number too (``nvshmem4py-cu12``); *hidden* is CUDA_VISIBLE_DEVICES if it is set."""

    gpus: Gpus = field(default_factory=Gpus)
    torch: Answer = field(default_factory=dict)
    triton: Answer = field(default_factory=dict)
    nvshmem: Answer = field(default_factory=dict)
    far_kernel: Answer = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
    shared_memory_bytes: int = 0
    hidden: str | None = None

    def flavours(self, package: str) -> dict[int, str]:
        """Installed versions of *package* by the CUDA release they are built for."""
        found = {cuda: self.packages.get(f"{package}-cu{cuda}") for cuda in (12, 13)}
        return {cuda: version for cuda, version in found.items() if version}


def gather() -> Facts:
    """Look; never raises because something is missing, and takes no longer than its limits."""
    return Facts(
        gpus=probe(),
        torch=ask("torch", _TORCH),
        triton=ask("triton", _TRITON),
        nvshmem=ask("nvshmem", _NVSHMEM),
        far_kernel=ask("triton", _FAR),
        packages=_versions([f"{name}-cu{cuda}" for name in _PACKAGES for cuda in (12, 13)]),
        programs=frozenset(name for name in _PROGRAMS if shutil.which(name)),
        shared_memory_bytes=_size_of("/dev/shm"),
        hidden=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def ask(module: str, code: str) -> Answer:
    """What *code*, which needs *module*, prints as JSON; its last word if it fails."""
    if importlib.util.find_spec(module) is None:
        return {"error": "not installed"}
    with tempfile.TemporaryDirectory() as cache:  # a cached kernel would prove nothing
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", code],
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
                env={**os.environ, "TRITON_CACHE_DIR": cache},
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no answer for {_LIMIT_S} s"}
    try:
        answer: Answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"error": last[0]}
    return answer


def _versions(names: Sequence[str]) -> dict[str, str]:
    result = {}
    for name in names:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            continue
    return result


def _size_of(folder: str) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_frsize * status.f_blocks
