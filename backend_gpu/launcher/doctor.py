"""``tdsim doctor``: from facts to findings, each with the one command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tdsim.backends import Finding

from .facts import Facts, gather
from .preflight import INSTALL

_DRIVER = "sudo ubuntu-drivers install --gpgpu"
_MPS = "sudo apt-get install nvidia-compute-utils-$(cut -d. -f1 /sys/module/nvidia/version)"
_TRY = "tdsim run allgather --nproc 1 --runs 1"
_SHARED_MEMORY = "sudo mount -o remount,size=1G /dev/shm"
_SHARED_MEMORY_BYTES = 128 * 2**20
"""Twice what containers get by default, where NVSHMEM and gloo of 8 PEs just fit."""
_FOR_SEVERAL = "needed only for jobs on several GPUs"


def examine(look: Callable[[], Facts] = gather) -> list[Finding]:
    """Everything that the GPU backend needs, in the order in which it is to be mended."""
    facts = look()
    checks = (_driver, _gpus, _peers, _torch, _runtime, _triton, _nvshmem, _mps, _memory)
    return [finding for check in checks for finding in check(facts)]


def _driver(facts: Facts) -> Iterator[Finding]:
    if facts.gpus.error:
        yield _missing("driver", facts.gpus.error, _DRIVER)
        return
    major, minor = facts.gpus.cuda
    needs = _major(facts.torch.get("cuda"))
    if needs and needs > major:
        found = f"takes CUDA {major}.{minor}, torch is built for {facts.torch['cuda']}"
        yield _missing("driver", found, _DRIVER)
    else:
        yield _ok("driver", f"takes CUDA {major}.{minor}")


def _gpus(facts: Facts) -> Iterator[Finding]:
    devices = facts.gpus.devices
    if facts.gpus.error:
        yield _missing("GPUs", "none without a driver", _DRIVER)
    elif not devices:
        hidden = facts.hidden is not None
        found = f"none, CUDA_VISIBLE_DEVICES is {facts.hidden!r}" if hidden else "none"
        yield _missing(
            "GPUs", found, "unset CUDA_VISIBLE_DEVICES" if hidden else "nvidia-smi -L"
        )
    for index, gpu in enumerate(devices):
        major, minor = gpu.capability
        found = (
            f"{gpu.name}, sm_{major}{minor}, {gpu.sms} SMs, {gpu.memory_bytes / 2**30:.0f} GiB"
        )
        if major < 9:
            yield _warning(f"GPU {index}", f"{found}: tested from sm_90 on", _TRY)
        else:
            yield _ok(f"GPU {index}", found)


def _peers(facts: Facts) -> Iterator[Finding]:
    """P2P and NVLink, where there are several GPUs."""
    if len(facts.gpus.devices) < 2:
        yield _ok("P2P", _FOR_SEVERAL)
        yield _ok("NVLink", _FOR_SEVERAL)
        return
    links = "nvidia-smi topo -p2p n"
    for name, pairs, cure in (
        ("P2P", facts.gpus.pairs_apart, "nvidia-smi topo -p2p r"),
        ("NVLink", (*facts.gpus.pairs_apart, *facts.gpus.pairs_slow), links),
    ):
        if pairs:
            yield _warning(name, "not between GPUs " + _pairs(pairs), cure)
        else:
            yield _ok(name, "between all GPUs")


def _torch(facts: Facts) -> Iterator[Finding]:
    error, cuda = facts.torch.get("error"), facts.torch.get("cuda")
    if error:
        yield _missing("torch", error, INSTALL)
        yield _missing("gloo", "comes with torch", INSTALL)
        return
    found = f"{facts.torch['version']}, built for CUDA {cuda}"
    if cuda is None:
        again = "pip install --force-reinstall 'torch==2.10.*'"
        yield _missing("torch", f"{facts.torch['version']}, built without CUDA", again)
    else:
        yield _ok("torch", found)
    if facts.torch["gloo"]:
        yield _ok("gloo", "comes with torch")
    else:
        yield _missing("gloo", "torch is built without it", INSTALL)


def _runtime(facts: Facts) -> Iterator[Finding]:
    flavours = facts.flavours("nvidia-cuda-runtime")
    if flavours:
        yield _ok("CUDA runtime", ", ".join(flavours.values()))
    elif "error" in facts.torch:
        yield _missing("CUDA runtime", "comes with torch", INSTALL)
    else:
        yield _ok("CUDA runtime", "torch's own")


def _triton(facts: Facts) -> Iterator[Finding]:
    if error := facts.triton.get("error"):
        yield _missing("triton", error, INSTALL)
    else:
        yield _ok("triton", facts.triton["version"])


def _nvshmem(facts: Facts) -> Iterator[Finding]:
    """The Python package, the host library it opens, and the device library beside it."""
    flavours, cuda = facts.flavours("nvshmem4py"), _major(facts.torch.get("cuda"))
    right = INSTALL if cuda in (None, 12) else "pip install 'tdsim[gpu-cu13]'"
    if error := facts.nvshmem.get("error"):
        yield _missing("nvshmem4py", error, right)
    elif flavours and cuda and cuda not in flavours:
        found = f"for CUDA {', '.join(map(str, flavours))}, torch is built for CUDA {cuda}"
        yield _missing("nvshmem4py", found, right)
    else:
        built = "".join(f" for CUDA {number}" for number in flavours)
        yield _ok("nvshmem4py", f"{facts.nvshmem['version']}{built}")
    yield _device_library(facts, right)
    yield _same_version(facts, right)


def _device_library(facts: Facts, cure: str) -> Finding:
    name, installed = "NVSHMEM device library", facts.flavours("nvidia-nvshmem")
    if not installed:
        return _missing(name, "not installed", cure)
    found = ", ".join(installed.values())
    if "error" in facts.triton:
        return _missing(name, f"{found}, not tried: it takes triton", INSTALL)
    if error := facts.far_kernel.get("error"):
        return _missing(name, f"{found}, does not compile: {error}", cure)
    return _ok(name, f"{found}, a kernel compiles with it")


def _same_version(facts: Facts, cure: str) -> Finding:
    """Host and device library keep state in one layout only if their versions agree."""
    name, device = "NVSHMEM versions", facts.flavours("nvidia-nvshmem")
    host = facts.nvshmem.get("host")
    if not device or host is None:
        return _missing(name, "host or device library is missing", cure)
    if host not in device.values():
        found = f"host library {host}, device library {', '.join(device.values())}"
        wanted = next(iter(device))
        return _missing(name, found, f"pip install nvidia-nvshmem-cu{wanted}=={host}")
    return _ok(name, f"host and device library {host}")


def _mps(facts: Facts) -> Iterator[Finding]:
    absent = sorted({"nvidia-cuda-mps-control", "nvidia-cuda-mps-server"} - facts.programs)
    if absent:
        found = f"no {' and no '.join(absent)} on PATH; --share-gpu needs it"
        yield _warning("MPS", found, _MPS)
    else:
        yield _ok("MPS", "control and server programs on PATH")


def _memory(facts: Facts) -> Iterator[Finding]:
    size = facts.shared_memory_bytes
    found = f"/dev/shm holds {size / 2**20:,.0f} MiB"
    if size < _SHARED_MEMORY_BYTES:
        yield _warning("shared memory", found, _SHARED_MEMORY)
    else:
        yield _ok("shared memory", found)


def _ok(name: str, found: str) -> Finding:
    return Finding(name=name, state="ok", found=found)


def _missing(name: str, found: str, cure: str) -> Finding:
    return Finding(name=name, state="missing", found=found, cure=cure)


def _warning(name: str, found: str, cure: str) -> Finding:
    return Finding(name=name, state="warning", found=found, cure=cure)


def _major(cuda: Any) -> int | None:
    """The release in ``"12.8"``; None if there is none."""
    return int(cuda.split(".")[0]) if cuda else None


def _pairs(pairs: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(sorted({f"{min(pair)} and {max(pair)}" for pair in pairs}))
