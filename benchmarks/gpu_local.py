"""PEs of one process on one GPU: the backend's own contexts, without launcher and NVSHMEM.

Each PE has its own SMs (a green context) and its part of one block of memory as its symmetric
heap, so its kernels are compiled, passed their arguments and launched as in a job. Good for
many short measurements: what they need is compiled once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # a lazy load would wait for a spinning kernel

import torch
import torch.distributed as dist
from tdsim.backend_gpu.lowering.world import World
from tdsim.backend_gpu.runtime import driver, sms
from tdsim.backend_gpu.runtime.context import Context
from tdsim.backend_gpu.runtime.memory import View

from tdsim import lang as td

_ALIGNMENT = 1024


class LocalHeap:
    """One PE's part of *block*, which holds the parts of all PEs one after another."""

    def __init__(
        self, block: torch.Tensor, places: Sequence[int], peers: Any, rank: int
    ) -> None:
        self._block, self.places, self.peers, self.rank = block, places, peers, rank
        self.in_use = 0

    def allocate(self, count: int) -> int:
        """*count* zeroed bytes at the same place of every PE's part."""
        address = self.places[self.rank] + self.in_use
        self.in_use += -(-count // _ALIGNMENT) * _ALIGNMENT
        assert self.in_use <= self._block.numel() // len(self.places), "the heap is full"
        return address

    def on(self, address: int, pe: int) -> int:
        """The address of the symmetric *address* on *pe*."""
        return address + self.places[pe] - self.places[self.rank]

    def tensor(self, shape: tuple[int, ...], dtype: td.DType) -> View:
        """A symmetric tensor."""
        rows, width = shape
        address = self.allocate(rows * width * dtype.itemsize)
        return View(address, shape, dtype, width, self)


def start() -> None:
    """The group of one that contexts meet in, and the GPU."""
    store = Path(tempfile.mkdtemp()) / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")


def contexts(n_pes: int, heap_bytes: int) -> list[Context]:
    """*n_pes* PEs, each with its part of the SMs; one alone has all of them."""
    part = -(-heap_bytes // _ALIGNMENT) * _ALIGNMENT
    block = torch.zeros(n_pes * part + _ALIGNMENT, dtype=torch.uint8, device="cuda")
    first = -(-block.data_ptr() // _ALIGNMENT) * _ALIGNMENT
    places = [first + pe * part for pe in range(n_pes)]
    peers = torch.tensor(places, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    return [
        Context(
            LocalHeap(block, places, peers, pe),
            World(pe, n_pes, n_pes),
            sms.split(0, n_pes, pe) if n_pes > 1 else None,
        )
        for pe in range(n_pes)
    ]


class Gate:
    """Holds the main streams of all PEs, so that what is queued on them begins together."""

    def __init__(self, pes: Sequence[Context]) -> None:
        self._pes, self._opener = pes, torch.cuda.Stream()
        self._word = torch.zeros(1, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        self._number = 0

    def close(self) -> None:
        """Let nothing pass that is queued from now on."""
        self._number += 1
        for pe in self._pes:
            driver.wait_word(pe.main.cuda_stream, self._word.data_ptr(), "ge", self._number)

    def open(self) -> None:
        """Let everything pass."""
        driver.write_word(self._opener.cuda_stream, self._word.data_ptr(), self._number)


def together_us(pes: Sequence[Context], gate: Gate, queue: Callable[[Context], None]) -> float:
    """Microseconds that the slowest PE takes for what *queue* queues, all from the gate on."""
    pairs = []
    gate.close()
    for pe in pes:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(pe.main)
        queue(pe)
        end.record(pe.main)
        pairs.append((begin, end))
    gate.open()
    torch.cuda.synchronize()
    return max(begin.elapsed_time(end) for begin, end in pairs) * 1e3
