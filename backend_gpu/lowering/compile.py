"""Compile a kernel to a cubin: Triton alone, no GPU and no torch."""

from __future__ import annotations

import functools
import inspect
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tdsim.errors import UnknownNameError, UsageError
from tdsim.lang import Kernel

from .device import Facts
from .device_library import device_library
from .rebind import Binder, libraries
from .specs import ArgSpec
from .versions import check_links
from .words import LIBRARY, SYMBOL
from .world import World

SM90 = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one thread (registers, stack) and one CTA (shared memory) of a kernel take.

    Triton keeps tiles in registers, so a stack in a kernel without externs means spills.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """How TMA moves tiles of one descriptor argument: what ``cuTensorMapEncodeTiled`` needs.

    *block* is the box in elements, outermost axis first; it may be narrower than the tile of
    the text. *element_type* is Triton's number, which is PTX's: the driver's
    ``CUtensorMapDataType`` has 10, 8 and 9 where this has 8, 9 and 10. *fp4_padded*: the last
    size of the tensor must be doubled. Elements beyond the tensor read as zero, interleave is
    none, L2 promotion 128 bytes, element strides 1.
    """

    block: tuple[int, ...]
    element_bytes: int
    element_type: int
    swizzle: int
    fp4_padded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel as machine code, with the texts it went through and what a launch needs.

    *externs*: the NVSHMEM calls; if there are any, NVSHMEM must initialise the module.
    *tensor_maps*: one for each descriptor argument, in their order; empty if the chip has no
    TMA, where Triton takes such an argument as a pointer with sizes. *module_words*: the module
    has the global of ``words.py``, which the host must set.
    """

    name: str
    ttgir: str
    ptx: str
    cubin: bytes
    externs: tuple[str, ...]
    resources: Resources
    num_warps: int
    tensor_maps: tuple[TensorMap, ...]
    module_words: bool


def compile_kernel(
    kernel: Kernel,
    args: Mapping[str, ArgSpec],
    constexprs: Mapping[str, Any] | None = None,
    *,
    world: World,
    num_warps: int = 8,
    num_stages: int = 3,
    target: GPUTarget = SM90,
    debug: bool = False,
    traced: bool = False,
) -> Compiled:
    """Compile *kernel* for *world*, with *args* and *constexprs* by parameter name.

    NVSHMEM's bitcode is linked only in a world of several nodes, and only if the text can call
    it. *debug*: waits end after a time and report (``Report`` of ``words.py``). *traced*:
    operations leave time stamps (``Trace``). Both cost time; without them none of it is there.
    """
    facts = Facts(world, async_proxy=target.arch >= 90, debug=debug, traced=traced)
    binder = _binder(facts)
    lowered = binder.lower(kernel)
    values = {**_defaults(kernel, args), **(constexprs or {})}
    _check_names(kernel, args, values)
    constants = {name: binder.constant(value, kernel, name) for name, value in values.items()}
    source = ASTSource(
        lowered,
        {p: args[p].signature() if p in args else "constexpr" for p in kernel.params},
        constants,
        _attributes(kernel, args),
    )
    linked = {"tdsim": str(LIBRARY)}
    if not world.single_node and "nvshmem" in libraries((lowered, *constants.values())):
        linked["nvshmem"] = _bitcode(target)
    options = {"num_warps": num_warps, "num_stages": num_stages, "extern_libs": linked}
    return _compiled(triton.compile(source, target=target, options=options))


def _bitcode(target: GPUTarget) -> str:
    """NVSHMEM's device library, once it is clear that this Triton can read it."""
    library = device_library(target.arch)
    check_links(triton.__version__, library.version)
    return str(library.path)


@functools.cache
def _binder(facts: Facts) -> Binder:
    """One binder per world and chip, so that device functions are re-bound once."""
    return Binder(facts)


def _defaults(kernel: Kernel, args: Mapping[str, ArgSpec]) -> dict[str, Any]:
    """The kernel's own values for parameters that are not in *args*."""
    parameters = inspect.signature(kernel.fn).parameters.values()
    return {
        p.name: p.default for p in parameters if p.default is not p.empty and p.name not in args
    }


def _check_names(
    kernel: Kernel, args: Mapping[str, ArgSpec], constants: Mapping[str, Any]
) -> None:
    """Every parameter is an argument or a constant, and every constexpr a constant."""
    where = f"kernel {kernel.name}"
    for name in {**args, **constants}:
        if name not in kernel.params:
            raise UnknownNameError("parameter", name, kernel.params, where)
        if name in args and name in constants:
            raise UsageError(
                what=f"{name} is given as an argument and as a constant",
                where=where,
                expected="one of the two",
                cure="take it out of the other",
            )
    for name in kernel.params:
        if name in constants or (name in args and name not in kernel.constexprs):
            continue
        raise UsageError(
            what=f"nothing is known of parameter {name}",
            where=where,
            expected="a value" if name in kernel.constexprs else "a spec or a value",
            cure=f"add {name} to {'constexprs' if name in kernel.constexprs else 'args'}",
        )


def _attributes(kernel: Kernel, args: Mapping[str, ArgSpec]) -> dict[tuple[int, ...], Any]:
    """Triton's alignment attributes, by the place of the leaf they hold for."""
    return {
        (kernel.params.index(name), *leaf): [["tt.divisibility", 16]]
        for name, spec in args.items()
        for leaf in spec.aligned_leaves()
    }


def _compiled(binary: Any) -> Compiled:
    ttgir, cubin, meta = binary.asm["ttgir"], binary.asm["cubin"], binary.metadata
    _check_launchable(meta)
    registers, stack = _usage(cubin)
    return Compiled(
        name=meta.name,
        ttgir=ttgir,
        ptx=binary.asm["ptx"],
        cubin=cubin,
        externs=tuple(sorted(set(re.findall(r'symbol = "(nvshmem\w+)"', ttgir)))),
        resources=Resources(registers=registers, stack_bytes=stack, shared_bytes=meta.shared),
        num_warps=meta.num_warps,
        tensor_maps=tuple(_tensor_map(entry) for entry in meta.tensordesc_meta or ()),
        module_words=f" {SYMBOL}[" in binary.asm["ptx"],
    )


def _check_launchable(meta: Any) -> None:
    """Refuse what only Triton's own launcher could launch; the language asks for none of it."""
    wanted: dict[str, Any] = {
        "global_scratch_size": 0, "profile_scratch_size": 0, "num_ctas": 1,
        "cluster_dims": (1, 1, 1), "launch_cooperative_grid": False, "launch_pdl": False,
    }  # fmt: skip
    for name, value in wanted.items():
        found = getattr(meta, name, value)
        if (tuple(found) if isinstance(value, tuple) else found) != value:
            raise UsageError(
                what=f"Triton compiled it with {name}={found}",
                where=f"kernel {meta.name}",
                expected=f"{value}",
                cure="compile with another version of Triton, see lowering/versions.py",
            )


def _tensor_map(entry: Mapping[str, Any]) -> TensorMap:
    return TensorMap(
        block=tuple(entry["block_size"]),
        element_bytes=entry["elem_size"],
        element_type=entry["elem_type"],
        swizzle=entry["swizzle"],
        fp4_padded=entry["fp4_padded"],
    )


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes per thread, as NVIDIA's tool reads them from *cubin*."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2])
