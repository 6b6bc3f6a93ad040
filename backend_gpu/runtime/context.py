"""``ctx`` on a real GPU: host programs on CUDA streams (see ``tdsim.lang.Context``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.distributed as dist

from tdsim import lang as td
from tdsim.errors import HangError, UnknownNameError, UsageError
from tdsim.lang import DType, Kernel

from ..lowering.compile import Compiled, compile_kernel
from ..lowering.words import Word
from ..lowering.world import World
from . import driver
from .hangs import WaitReport
from .heap import Heap
from .memory import Signals, View, packed, scalar_spec
from .simulator_only import SimulatorOnly, refuse_clusters
from .sms import SmSet


@td.kernel
def add_to_signal(sig, i, value, pe):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """A stream-ordered ADD: the driver's stream operations can only set."""
    td.signal_op(sig, i, value, "add", pe)


@td.kernel
def meet():  # type: ignore[no-untyped-def] # noqa: ANN201
    """A stream-ordered barrier of all PEs."""
    td.barrier_all()


@td.kernel
def next_call(epoch):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Advance the number of the call, in stream order."""
    td.atomic_add(epoch, 0, 1)


HOUSEKEEPING = (add_to_signal, meet, next_call)
"""Kernels that stand for operations of the host."""


class Context(SimulatorOnly):
    """One PE's host side. Until :meth:`ready`, calls allocate and compile and run nothing.

    So every module is loaded before the first launch (loading waits for running kernels, which
    may wait for a PE that is still loading). *sms*: this PE's part of a shared GPU. *report*:
    kernels limit their waits and report there.
    """

    traced = False
    """Whether kernels are compiled to leave time stamps."""

    def __init__(
        self, heap: Heap, world: World, sms: SmSet | None, report: WaitReport | None = None
    ) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.heap, self.world, self._sms, self._report = heap, world, sms, report
        self.my_pe, self.n_pes = world.pe, world.n_pes
        self.n_local_pes, self.n_nodes = world.pes_per_node, world.n_pes // world.pes_per_node
        self.my_node, self.local_pe = divmod(world.pe, world.pes_per_node)
        self.num_sms = sms.num_sms if sms else properties.multi_processor_count
        self.preparing = True
        self.kernels: dict[Any, driver.Loaded] = {}
        self._launches: dict[Any, tuple[Any, ...]] = {}
        self._streams: dict[str, torch.cuda.Stream] = {}
        self._allocations: dict[str, list[Any]] = {"symmetric": [], "local": [], "signals": []}
        self._kept: list[torch.Tensor] = []
        self._epoch = self._new_local((1,), td.int32, zero=True, width=8)
        self.call = 0
        self._sync = self._sync_area()
        self._words = {Word.SYNC_AREA: self._sync, **(report.words if report else {})}
        self.main = self.stream("main")
        self.begin_call()
        self.barrier_all()

    @property
    def shares_gpu(self) -> bool:
        """Whether all PEs are on this GPU."""
        return self._sms is not None

    def ready(self) -> None:
        """From now on calls run: all that they need is allocated and loaded, on every PE."""
        torch.cuda.synchronize()
        dist.barrier()
        self.preparing = False

    def synchronize(self) -> None:
        """Wait for the GPU. Raises HangError if a debug kernel gave up a wait."""
        torch.cuda.synchronize()
        if lines := self.hang_lines():
            raise HangError("a wait did not come true", f"PE {self.my_pe}", lines)

    def hang_lines(self) -> list[str]:
        """The waits that debug kernels of this PE have given up, one sentence each."""
        if self._report is None:
            return []
        return [f"PE {self.my_pe}: {line}" for line in self._report.lines(self._described)]

    def _described(self, address: int) -> tuple[str, int]:
        """The name of a word that kernels wait for, and how far one call moves it."""
        for number, (_, sig) in enumerate(self._allocations["signals"]):
            if 0 <= (at := (address - sig.address) // 8) < sig.count:
                return f"signals#{number}[{at}]", sig.per_call
        return f"arrival of PE {(address - self._sync) // 8}", 0

    def _sync_area(self) -> int:
        address = self.heap.allocate(8 * (2 * self.n_pes + 1))
        places = [self.heap.on(address, pe) for pe in range(self.n_pes)]
        table = torch.tensor(places, dtype=torch.int64, device="cuda")
        driver.copy(0, address + 8 * (self.n_pes + 1), table.data_ptr(), 8 * self.n_pes)
        torch.cuda.synchronize()
        return address

    def begin_call(self) -> None:
        """Allocations of a call are matched to those of the call before, by order."""
        self._next = dict.fromkeys(self._allocations, 0)

    def end_call(self) -> None:
        """Advance the epoch of all signal arrays on the main stream."""
        self.launch(next_call, 1, (self._epoch,), num_warps=1)
        if not self.preparing:
            self.call += 1

    def _kept_from_call(self, kind: str, asked: Any, make: Any) -> Any:
        known, index = self._allocations[kind], self._next[kind]
        self._next[kind] += 1
        if index == len(known):
            known.append((asked, make()))
        if known[index][0] != asked:
            raise UsageError(
                what=f"allocation {index} of {kind} is {asked} and was {known[index][0]}",
                where=f"ctx.{kind} on PE {self.my_pe}",
                expected="the same allocations in the same order in every call",
                cure="allocate before anything that depends on the call",
            )
        return known[index][1]

    def symmetric(self, shape: tuple[int, ...], dtype: DType) -> View:
        def make() -> View:
            count = dtype.itemsize * prod(shape)
            return View(self.heap.allocate(count), tuple(shape), dtype, _step(shape), self.heap)

        view: View = self._kept_from_call("symmetric", (tuple(shape), dtype), make)
        return view

    def local(self, shape: tuple[int, ...], dtype: DType, zero: bool = False) -> View:
        def make() -> View:
            return self._new_local(tuple(shape), dtype, zero)

        view: View = self._kept_from_call("local", (tuple(shape), dtype, zero), make)
        return view

    def _new_local(
        self, shape: tuple[int, ...], dtype: DType, zero: bool, width: int = 0
    ) -> View:
        count = prod(shape) * (width or dtype.itemsize)
        block = torch.full((count,), 0 if zero else 255, dtype=torch.uint8, device="cuda")
        self._kept.append(block)
        return View(block.data_ptr(), shape, dtype, _step(shape))

    def signals(self, count: int, per_call: int = 1) -> Signals:
        def make() -> Signals:
            address = self.heap.allocate(8 * count)
            return Signals(address, count, per_call, self._epoch.address, self.heap)

        found: Signals = self._kept_from_call("signals", (count, per_call), make)
        return found

    def memory(self, kind: str) -> list[View]:
        """All memory of *kind* that the program holds, but what it wants zeroed."""
        return [view for asked, view in self._allocations[kind] if asked[-1] is not True]

    def stream(self, name: str) -> torch.cuda.Stream:
        if name not in self._streams:
            self._streams[name] = (
                torch.cuda.ExternalStream(self._sms.stream())
                if self._sms
                else torch.cuda.Stream()
            )
        return self._streams[name]

    def _handle(self, stream: torch.cuda.Stream | None) -> int:
        return int((stream or self.main).cuda_stream)

    def launch(
        self,
        kernel: Kernel,
        grid: int | tuple[int, ...],
        args: Sequence[Any],
        stream: torch.cuda.Stream | None = None,
        num_warps: int = 8,
        num_stages: int = 3,
        ctas_per_sm: int = 1,
        role: str = "compute",
        cluster: int = 1,
    ) -> None:
        refuse_clusters(cluster)
        del ctas_per_sm, role  # what fits on an SM follows from the compiled kernel
        key = (kernel, tuple(args), num_warps, num_stages)
        if key not in self._launches:
            self._launches[key] = self._prepared(kernel, args, num_warps, num_stages)
        if not self.preparing:
            loaded, arguments = self._launches[key]
            shape = grid if isinstance(grid, tuple) else (grid,)
            driver.launch(loaded, shape, arguments, self._handle(stream))

    def _prepared(
        self, kernel: Kernel, args: Sequence[Any], num_warps: int, num_stages: int
    ) -> tuple[Any, ...]:
        given = dict(zip(kernel.params, args, strict=True))
        constants = {n: v for n, v in given.items() if n in kernel.constexprs}
        passed = {n: v for n, v in given.items() if n not in constants}
        specs = {
            n: v.spec() if isinstance(v, View | Signals) else scalar_spec(v)
            for n, v in passed.items()
        }
        key = (kernel, tuple(specs.items()), tuple(constants.items()), num_warps, num_stages)
        if key not in self.kernels:
            assert self.preparing, f"{kernel.name} was not launched so when preparing"
            compiled = compile_kernel(
                kernel, specs, constants, world=self.world,
                num_warps=num_warps, num_stages=num_stages, debug=self._report is not None,
                traced=self.traced,
            )  # fmt: skip
            self.kernels[key] = self._load(compiled)
        loaded = self.kernels[key]
        return loaded, packed(list(passed.values()), loaded.compiled.tensor_maps)

    def _load(self, compiled: Compiled) -> driver.Loaded:
        loaded = driver.load(compiled, self._words)
        if compiled.externs:
            self.heap.adopt(loaded.module)
        return loaded

    def copy(self, dst: View, src: View, stream: torch.cuda.Stream | None = None) -> None:
        if not self.preparing:
            driver.copy(self._handle(stream), dst.address, src.address, src.nbytes)

    def signal_op(
        self, sig: Signals, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        if op == "add":
            self.launch(add_to_signal, 1, (sig, i, value, pe), stream, num_warps=1)
        elif op != "set":
            raise UnknownNameError("signal operation", op, ("set", "add"), "ctx.signal_op")
        elif not self.preparing:
            word = self.heap.on(sig.address + 8 * i, pe)
            driver.write_word(self._handle(stream), word, self.call * sig.per_call + value)

    def signal_wait_until(
        self, sig: Signals, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        if not self.preparing:
            target = self.call * sig.per_call + value
            driver.wait_word(self._handle(stream), sig.address + 8 * i, cmp, target)

    def fork(self, stream: torch.cuda.Stream, of: torch.cuda.Stream | None = None) -> None:
        self._order(of or self.main, stream)

    def join(self, stream: torch.cuda.Stream, into: torch.cuda.Stream | None = None) -> None:
        self._order(stream, into or self.main)

    def _order(self, first: torch.cuda.Stream, then: torch.cuda.Stream) -> None:
        if not self.preparing:
            then.wait_event(first.record_event())

    def barrier_all(self, stream: torch.cuda.Stream | None = None) -> None:
        self.launch(meet, 1, (), stream, num_warps=1)


def _step(shape: tuple[int, ...]) -> int:
    """Elements from one index of axis 0 to the next."""
    return prod(shape[1:])
