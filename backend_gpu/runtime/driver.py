"""The CUDA driver, one call each: modules, launches, tensor maps, stream-ordered words.

Streams, events and plain memory are torch's; what torch does not offer is here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from tdsim.errors import UnknownNameError

from ..lowering.compile import Compiled, TensorMap
from ..lowering.words import NUM_WORDS, SYMBOL, Word

_DATA_TYPES = {8: 10, 9: 8, 10: 9}
"""Triton's number of an element type to ``CUtensorMapDataType``, where the two differ."""
_WAITS = {"ge": cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ,
          "eq": cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ}  # fmt: skip


class CudaError(Exception):
    """A driver call failed; the text names the call and CUDA's own reason."""


def check(result: tuple[Any, ...], call: str) -> Any:
    """The value of a driver call, or :class:`CudaError`."""
    if result[0] != cu.CUresult.CUDA_SUCCESS:
        raise CudaError(f"{call}: {cu.cuGetErrorString(result[0])[1].decode()}")
    return result[1] if len(result) == 2 else result[1:]


def driver_version() -> str:
    """The driver's version; where that is hidden, the CUDA release that it takes."""
    try:
        found = re.search(r"\d+\.\d+[.\d]*", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        found = None
    number = check(cu.cuDriverGetVersion(), "cuDriverGetVersion")
    return found[0] if found else f"CUDA {number // 1000}.{number % 1000 // 10}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A compiled kernel in this process: the module and its entry."""

    compiled: Compiled
    module: Any
    function: Any


def load(compiled: Compiled, words: Mapping[Word, int]) -> Loaded:
    """Load *compiled* and tell it *words*. Waits for running kernels: load before launching."""
    module = check(cu.cuModuleLoadData(compiled.cubin), "cuModuleLoadData")
    function = check(
        cu.cuModuleGetFunction(module, compiled.name.encode()), "cuModuleGetFunction"
    )
    # Whatever is left to the first launch would wait for the kernels that run by then.
    check(cu.cuFuncLoad(function), "cuFuncLoad")
    shared = compiled.resources.shared_bytes
    of = cu.CUfunction_attribute
    for attribute, value in (
        (of.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
        # One split of L1 and shared memory for all: a kernel that prefers another split starts
        # on no SM before its running kernels have ended, and those may wait for it.
        (of.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
    ):
        call = f"{attribute.name} {value} of {compiled.name}"
        check(cu.cuFuncSetAttribute(function, attribute, value), call)
    loaded = Loaded(compiled, module, function)
    tell(loaded, words)
    return loaded


def tell(kernel: Loaded, words: Mapping[Word, int]) -> None:
    """Set the words of a kernel's module; it must not be running. Those not named become 0."""
    if kernel.compiled.module_words:
        name = SYMBOL.encode()
        address, _ = check(cu.cuModuleGetGlobal(kernel.module, name), "cuModuleGetGlobal")
        values = (ctypes.c_int64 * NUM_WORDS)()
        for word, value in words.items():
            values[word] = value
        place = ctypes.addressof(values)
        check(cu.cuMemcpyHtoD(address, place, ctypes.sizeof(values)), "set module words")


def launch(
    kernel: Loaded, grid: tuple[int, ...], arguments: tuple[Any, ...], stream: int
) -> None:
    """Launch with *arguments*, (values, ctypes types), as :func:`packed` makes them."""
    x, y, z = (*grid, 1, 1)[:3]
    threads, shared = kernel.compiled.num_warps * 32, kernel.compiled.resources.shared_bytes
    call = cu.cuLaunchKernel(
        kernel.function, x, y, z, threads, 1, 1, shared, stream, arguments, 0
    )
    check(call, f"launch of {kernel.compiled.name}")


def tensor_map(
    spec: TensorMap, address: int, shape: Sequence[int], strides: Sequence[int]
) -> Any:
    """The TMA descriptor of a row-major tensor; *strides* in elements, outermost first."""
    rank = len(shape)
    steps = [cu.cuuint64_t(n * spec.element_bytes) for n in reversed(strides[:-1])]
    steps.append(cu.cuuint64_t(shape[0] * strides[0] * spec.element_bytes))
    call = cu.cuTensorMapEncodeTiled(
        cu.CUtensorMapDataType(_DATA_TYPES.get(spec.element_type, spec.element_type)),
        rank,
        address,
        [cu.cuuint64_t(n) for n in reversed(shape)],
        steps,
        [cu.cuuint32_t(n) for n in reversed(spec.block)],
        [cu.cuuint32_t(1)] * rank,
        cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cu.CUtensorMapSwizzle(spec.swizzle),
        cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return check(call, f"tensor map of {list(shape)} in tiles of {list(spec.block)}")


def copy(stream: int, to: int, source: int, count: int) -> None:
    """Copy *count* bytes in stream order."""
    check(cu.cuMemcpyAsync(to, source, count, stream), f"copy of {count} bytes")


def write_word(stream: int, address: int, value: int) -> None:
    """Write an int64 after all earlier work of the stream is visible to every observer."""
    check(cu.cuStreamWriteValue64(stream, address, value, 0), "cuStreamWriteValue64")


def wait_word(stream: int, address: int, cmp: str, value: int) -> None:
    """Hold the stream until the int64 at *address* compares true (``ge`` or ``eq``)."""
    if cmp not in _WAITS:
        raise UnknownNameError("comparison of a stream", cmp, tuple(_WAITS), "ctx")
    check(cu.cuStreamWaitValue64(stream, address, value, _WAITS[cmp]), "cuStreamWaitValue64")
