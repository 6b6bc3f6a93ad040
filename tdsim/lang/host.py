"""Host programs: what ``ctx`` offers. One text for the simulator and for CUDA streams.

Host code is plain Python that runs once per rank and per call. It allocates, launches and
orders work on streams; it never waits for the device. Every backend's context has exactly
this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tdsim.lang.definition import Kernel
from tdsim.lang.dtypes import DType


class HostView(Protocol):
    """Memory as host programs see it: 1-D or 2-D, row-major."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""

    @property
    def dtype(self) -> DType:
        """Element type."""

    def rows(self, start: int, count: int) -> HostView:
        """The sub-view of *count* rows from *start*."""

    def at(self, pe: int) -> HostView:
        """The same symmetric memory on *pe* (only for symmetric views)."""

    def tiled(self, *shape: int) -> HostView:
        """The same view, declared to be loaded and stored in tiles of *shape*.

        A promise to the GPU backend, which then passes a tensor descriptor (TMA).
        """


class Team(Protocol):
    """A subgroup of PEs, which own signals and barriers of their own. Simulator only."""

    my_pe: int
    """This PE's number in the team."""
    n_pes: int

    def pe(self, i: int) -> int:
        """The number in the whole job of member *i*: what kernels are told."""

    def signals(self, count: int, per_call: int = 1) -> Any:
        """As ``ctx.signals``, collective over the team; no other signal can stand in."""

    def barrier_all(self, stream: Any = None) -> None:
        """As ``ctx.barrier_all``, for the members of the team."""


class Context(Protocol):
    """One rank's handle to its GPU, the symmetric heap and the other ranks."""

    my_pe: int
    n_pes: int
    my_node: int
    n_nodes: int
    local_pe: int
    n_local_pes: int
    num_sms: int
    """Streaming multiprocessors that this PE may use."""

    def symmetric(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Symmetric memory, kept across calls. Collective: same order and shapes on all."""

    def local(self, shape: tuple[int, ...], dtype: DType, zero: bool = False) -> Any:
        """Private device memory, kept across calls; zeroed once if *zero*."""

    def signals(self, count: int, per_call: int = 1) -> Any:
        """A symmetric array of *count* 64-bit signals, kept across calls. Collective.

        Values are relative to the call. The words count on for ever: in call *e* a signal of
        value v is the word ``e * per_call + v``, and *e* lives in device memory, advanced on
        the main stream after each call. So nothing is reset, and a fast rank's signal of the
        next call can satisfy no wait of this one. ``"set"`` may use values 1 to *per_call*;
        a word that is ``"add"``ed to must receive exactly *per_call* in each call.

        With *per_call* 0 the words are NVSHMEM's plain ones: they start at 0, keep their values
        from call to call, and whoever owns the protocol resets them or counts on.
        """

    def team(self, pes: Sequence[int]) -> Team:
        """The team of *pes*, made by each of its members. Simulator only."""

    def stream(self, name: str) -> Any:
        """The CUDA stream called *name*; ``"main"`` is the one the call runs on."""

    def launch(
        self,
        kernel: Kernel,
        grid: int | tuple[int, ...],
        args: Sequence[Any],
        stream: Any = None,
        num_warps: int = 8,
        num_stages: int = 3,
        ctas_per_sm: int = 1,
        role: str = "compute",
        cluster: int = 1,
    ) -> None:
        """Launch *grid* program instances of *kernel*; *role* names them in traces.

        A *cluster* of more than one CTA is not modelled: the verdict of a check is UNKNOWN.
        """

    def replay(self, name: str, capture: Callable[[], None]) -> None:
        """Launch the graph *name*: what *capture* puts on streams. Simulator only.

        *capture* is called once, in the first call, and nothing runs while it is recorded
        (``cudaStreamBeginCapture``). Every replay has the arguments of that time: what the
        host counts stands still, what device memory counts goes on. Allocate outside it.
        """

    def copy(self, dst: Any, src: Any, stream: Any = None) -> None:
        """Copy-engine copy (``cudaMemcpyAsync``); either side may be a reachable peer's."""

    def signal_op(
        self, sig: Any, i: int, value: int, op: str, pe: int, stream: Any = None
    ) -> None:
        """Stream-ordered signal write, after all earlier work of the stream is visible.

        Except non-blocking puts of kernels: those need :func:`tdsim.lang.quiet` there.
        """

    def signal_wait_until(
        self, sig: Any, i: int, cmp: str, value: int, stream: Any = None
    ) -> None:
        """Hold the stream until this PE's signal compares true (``cuStreamWaitValue64``)."""

    def fork(self, stream: Any, of: Any = None) -> None:
        """Let *stream* start only after what *of* (default main) holds now (an event)."""

    def join(self, stream: Any, into: Any = None) -> None:
        """Let *into* (default main) continue only after what *stream* holds now."""

    def barrier_all(self, stream: Any = None) -> None:
        """Complete this PE's puts, then wait for all PEs, in stream order.

        As ``nvshmemx_barrier_all_on_stream``.
        """
