"""What the NVIDIA driver says of this machine's GPUs, asked in a process of its own.

``python -m tdsim.backend_gpu.launcher.gpus`` prints it as JSON. The launcher itself must not
start the driver: a process that has cannot become a client of a private MPS daemon.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

_LIMIT_S = 60
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_MAJOR, _MINOR, _SMS = (
    75,
    76,
    16,
)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*, MULTIPROCESSOR_COUNT
_ACCESS, _NATIVE_ATOMICS = 2, 3  # CU_DEVICE_P2P_ATTRIBUTE_*


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One visible GPU."""

    name: str
    capability: tuple[int, int]
    sms: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The driver's answer. *error* says why there is no driver; *cuda* is the newest it takes.

    *pairs_apart* are pairs of GPUs that cannot reach each other's memory; *pairs_slow* are
    those that can, but not with native atomics, as NVLink has them.
    """

    error: str | None = None
    cuda: tuple[int, int] = (0, 0)
    devices: tuple[Gpu, ...] = ()
    pairs_apart: tuple[tuple[int, int], ...] = ()
    pairs_slow: tuple[tuple[int, int], ...] = ()


def probe() -> Gpus:
    """Ask the driver; whatever happens to the asking process becomes the *error*."""
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
        return _from_json(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return Gpus(error=f"the driver gave no answer for {_LIMIT_S} s")
    except (subprocess.CalledProcessError, ValueError) as error:
        return Gpus(error=f"asking the driver failed: {error}")


def _from_json(data: dict[str, Any]) -> Gpus:
    if "error" in data:
        return Gpus(error=data["error"])
    devices = (Gpu(**{**d, "capability": tuple(d["capability"])}) for d in data["devices"])
    return Gpus(
        cuda=(data["cuda"] // 1000, data["cuda"] % 1000 // 10),
        devices=tuple(devices),
        pairs_apart=tuple((a, b) for a, b in data["pairs_apart"]),
        pairs_slow=tuple((a, b) for a, b in data["pairs_slow"]),
    )


def _ask() -> dict[str, Any]:
    """The driver's answer as plain data."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"error": "libcuda.so.1 is not found"}
    code = driver.cuInit(0)
    if code not in (0, _NO_DEVICE):
        return {"error": f"cuInit: {_error_text(driver, code)}"}
    count = 0 if code == _NO_DEVICE else _number(driver.cuDeviceGetCount)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    apart = [p for p in pairs if not _number(driver.cuDeviceGetP2PAttribute, _ACCESS, *p)]
    slow = [
        p
        for p in pairs
        if p not in apart and not _number(driver.cuDeviceGetP2PAttribute, _NATIVE_ATOMICS, *p)
    ]
    return {
        "cuda": _number(driver.cuDriverGetVersion),
        "devices": [_device(driver, index) for index in range(count)],
        "pairs_apart": apart,
        "pairs_slow": slow,
    }


def _device(driver: ctypes.CDLL, index: int) -> dict[str, Any]:
    name, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGetName(name, len(name), index)
    driver.cuDeviceTotalMem_v2(ctypes.byref(size), index)
    major, minor, sms = (
        _number(driver.cuDeviceGetAttribute, attribute, index)
        for attribute in (_MAJOR, _MINOR, _SMS)
    )
    return {
        "name": name.value.decode(errors="replace"),
        "capability": (major, minor),
        "sms": sms,
        "memory_bytes": size.value,
    }


def _number(call: Any, *args: int) -> int:
    """The integer that a driver call writes through its first argument; 0 if it fails."""
    result = ctypes.c_int()
    return result.value if call(ctypes.byref(result), *args) == 0 else 0


def _error_text(driver: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"error {code}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_ask()))
