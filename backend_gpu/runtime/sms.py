"""Which SMs of a GPU a PE may use: a fixed part of them, and the proof that it is its own."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cu

from tdsim.errors import UsageError

from .driver import check

_SHARED_BYTES = 200 << 10
"""More than half of an SM's shared memory: one CTA that takes it fills an SM."""
CONNECTIONS = 64
"""Hardware queues for all PEs of a GPU: an H200 gave 2 x 32 and 8 x 8, and refused 4 x 32."""
_LIMIT_NS = 2_000_000_000
_MEET = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry meet(.param .u64 count, .param .u32 all, .param .u64 ns)
{
    .reg .pred late, here;
    .reg .b32 seen, wanted, old;
    .reg .b64 place, limit, began, now;
    ld.param.u64 place, [count];
    ld.param.u32 wanted, [all];
    ld.param.u64 limit, [ns];
    atom.add.release.sys.u32 old, [place], 1;
    mov.u64 began, %globaltimer;
wait:
    ld.acquire.sys.u32 seen, [place];
    setp.ge.u32 here, seen, wanted;
    @here ret;
    mov.u64 now, %globaltimer;
    sub.u64 now, now, began;
    setp.gt.u64 late, now, limit;
    @!late bra wait;
    atom.add.sys.u32 old, [place+4], 1;
    ret;
}
\0"""


@dataclass(frozen=True, slots=True)
class SmSet:
    """A fixed set of a GPU's SMs (a green context), whose streams run nowhere else."""

    num_sms: int
    context: Any

    def stream(self) -> int:
        """A new stream on these SMs."""
        flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(check(cu.cuGreenCtxStreamCreate(self.context, flags, 0), "green stream"))


def split(device: int, parts: int, index: int) -> SmSet:
    """Part *index* of *parts* of the GPU's SMs: equal and disjoint.

    An MPS percentage would not do: two clients of 50 % were seen on the same 66 SMs.
    """
    handle = check(cu.cuDeviceGet(device), "cuDeviceGet")
    kind = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = check(cu.cuDeviceGetDevResource(handle, kind), "cuDeviceGetDevResource")
    share = whole.sm.smCount // parts // 8 * 8  # Hopper splits in groups of 8
    if share == 0:
        raise UsageError(
            what=f"{parts} PEs on the {whole.sm.smCount} SMs of one GPU",
            where="--share-gpu",
            expected="at least 8 SMs for each PE",
            cure=f"start at most {whole.sm.smCount // 8} PEs",
        )
    groups, _, _ = check(
        cu.cuDevSmResourceSplitByCount(parts, whole, 0, share), "cuDevSmResourceSplitByCount"
    )
    part = groups[index]
    described = check(cu.cuDevResourceGenerateDesc([part], 1), "cuDevResourceGenerateDesc")
    flags = cu.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    made = check(cu.cuGreenCtxCreate(described, handle, flags), "cuGreenCtxCreate")
    return SmSet(int(part.sm.smCount), made)


def fill_together(mine: SmSet, parts: int, counts: int) -> bool:
    """Whether the parts are disjoint: all PEs fill all their SMs at the same time.

    Each PE runs one CTA per SM of its own that leaves no room for a second; they wait for each
    other at *counts*, two zeroed int32 words in memory of one PE. SM numbers would prove
    nothing: under MPS every client counts from 0. Collective.
    """
    module = check(cu.cuModuleLoadData(_MEET), "cuModuleLoadData")
    meet = check(cu.cuModuleGetFunction(module, b"meet"), "cuModuleGetFunction")
    most = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(cu.cuFuncSetAttribute(meet, most, _SHARED_BYTES), "shared memory")
    types = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64)
    arguments = ((counts, mine.num_sms * parts, _LIMIT_NS), types)
    stream, size = mine.stream(), _SHARED_BYTES
    call = cu.cuLaunchKernel(meet, mine.num_sms, 1, 1, 1, 1, 1, size, stream, arguments, 0)
    check(call, "launch of meet")
    check(cu.cuStreamSynchronize(stream), "meet")
    late = ctypes.c_uint32()
    check(cu.cuMemcpyDtoH(ctypes.addressof(late), counts + 4, 4), "read the count")
    return late.value == 0
