"""The symmetric heap: NVSHMEM through nvshmem4py, and where each PE's part lies here."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from tdsim.errors import UsageError
from tdsim.units import format_bytes


class Heap:
    """NVSHMEM of one PE, brought up over a gloo group; :meth:`close` takes it down."""

    def __init__(self, device: int, rank: int, world: int, limit: int | None = None) -> None:
        import nvshmem.core as nv
        from cuda.core import Device
        from nvshmem import bindings

        self._nv, self._bindings, self._limit = nv, bindings, limit
        self.rank, self.world = rank, world
        gpu = Device(device)
        gpu.set_current()
        uid = _shared_id(nv, rank)
        nv.init(device=gpu, uid=uid, rank=rank, nranks=world, initializer_method="uid")
        self._blocks: list[torch.Tensor] = []
        self._modules: list[int] = []
        self.in_use = 0
        """Bytes that :meth:`allocate` has given out since the last :meth:`release`."""
        self.base = self.allocate(64)
        """A symmetric address; its places on all PEs are in :attr:`peers`."""
        self.places = [bindings.ptr(self.base, pe) for pe in range(world)]
        self.peers = torch.tensor(self.places, dtype=torch.int64, device="cuda")
        self._blocks, self._base, self.in_use = [], self._blocks, 0

    def allocate(self, count: int) -> int:
        """*count* bytes at the same place on every PE, zeroed. Collective.

        Raises UsageError beyond the limit: NVSHMEM's own heap grows past the size it is told.
        """
        if self._limit is not None and self.in_use + count > self._limit:
            raise UsageError(
                what=f"{format_bytes(self.in_use + count)} in {format_bytes(self._limit)}",
                where="symmetric heap",
                expected="room for all that the program allocates, on every PE",
                cure="give a larger --heap-size, or a smaller problem",
            )
        block = self._nv.tensor((max(count, 64),), dtype=torch.uint8)
        block.zero_()
        self._blocks.append(block)
        self.in_use += block.numel()
        return int(block.data_ptr())

    def on(self, address: int, pe: int) -> int:
        """The address here of the symmetric *address* on *pe*."""
        there: int = address + self.places[pe] - self.places[self.rank]
        return there

    def adopt(self, module: Any) -> None:
        """Initialise NVSHMEM's state in a module that calls it."""
        self._bindings.cumodule_init(int(module))
        self._modules.append(int(module))

    def release(self) -> None:
        """Free what has been allocated and let adopted modules go. Collective.

        No PE may still run anything that uses them.
        """
        torch.cuda.synchronize()
        dist.barrier()
        for module in self._modules:
            self._bindings.cumodule_finalize(module)
        for block in self._blocks:
            self._nv.free_tensor(block)
        self._modules, self._blocks, self.in_use = [], [], 0

    def close(self) -> None:
        """Free and finalise, in the order that leaves no message behind. Collective."""
        self._blocks += self._base
        self.release()
        self._nv.finalize()


def _shared_id(nv: Any, rank: int) -> Any:
    """NVSHMEM's unique id, made by PE 0 and known to all."""
    uid = nv.get_unique_id(empty=rank != 0)
    held: list[Any] = [uid._data.tobytes() if rank == 0 else None]
    dist.broadcast_object_list(held, src=0)
    if rank != 0:
        uid._data.view(np.uint8)[...] = np.frombuffer(held[0], np.uint8).reshape(
            uid._data.view(np.uint8).shape
        )
    return uid
