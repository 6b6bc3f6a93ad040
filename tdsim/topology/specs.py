"""What a machine is made of: frozen records of rates, latencies and counts, with their sources.

Bandwidths are per direction. Times are picoseconds. `sources` names, for every other field, the
data sheet, publication or measurement it comes from, or says ``assumed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tdsim.units import Bandwidth

LinkKind = Literal["nvlink", "pcie", "ib", "shared"]
RouteKind = Literal["local", "scale_up", "scale_out"]
LinkId = tuple[str, str]
"""A directed link: the endpoint it leaves and the endpoint it enters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSpec:
    """How one GEMM tile shape runs with all SMs busy, its loads from the L2 cache included."""

    efficiency: float
    """The part of the GPU's FLOP/s that the main loop sustains, between 0 and 1."""
    drain_ps: int
    """What each output tile loses while its stores drain and the pipeline refills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU as a kernel sees it."""

    name: str
    num_sms: int
    flops: Mapping[str, int] = field(hash=False)
    """Dense tensor-core FLOP/s by dtype: "bf16", "fp16", "fp32" (computed as TF32), "fp8"."""
    mma_efficiency: float
    """The part of `flops` that a full main loop sustains, between 0 and 1."""
    hbm: Bandwidth
    hbm_bytes: int
    l2: Bandwidth
    """All SMs together, from the L2 cache."""
    l2_bytes: int
    sm_copy: Bandwidth
    """Payload rate of one CTA that copies memory with loads and stores."""
    copy_engines: int
    copy_engine: Bandwidth
    """Payload rate of one copy engine, before the links it crosses."""
    local_copy: Bandwidth
    """Payload rate of one copy engine when source and destination are on the same GPU."""
    sources: Mapping[str, str] = field(hash=False)
    busy_copy: float = 1.0
    """The part of `sm_copy` that a CTA keeps while all other SMs multiply."""
    tiles: Mapping[tuple[int, int, int], TileSpec] = field(default_factory=dict, hash=False)
    """Tile shapes (m, n, k) of 2-byte types that were measured, beside `mma_efficiency`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """One direction of one link."""

    bandwidth: Bandwidth
    """The payload rate that can be reached; the source text names the data-sheet figure."""
    latency_ps: int
    kind: LinkKind
    ordered: bool
    """Whether writes that enter in order leave in order."""
    source: str
    soft: bool = False
    """Whether it slows down before it is full (see `tdsim.engine.network`)."""
    line_bytes: int = 128
    """How many bytes of an aligned line arrive as one: 8, 64 or 128."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """Fixed costs of the host, its streams and its fabric, in picoseconds."""

    launch_ps: int
    """Host time per kernel launch or barrier."""
    issue_ps: int
    """Host time per copy, signal write or wait put on a stream."""
    launch_latency_ps: int
    """From enqueueing a kernel on an idle stream to its first CTA."""
    add_issue_ps: int
    """Host time per signal add put on a stream, which may be a kernel of its own."""
    copy_issue_ps: int
    """From a copy's turn on its stream to its first byte."""
    stream_op_ps: int
    """A stream-ordered signal write."""
    kernel_gap_ps: int
    """The least time from the end of a stream's operation to the first CTA of its next."""
    stream_add_ps: int
    """A stream-ordered signal add."""
    stream_wait_ps: int
    """From a signal that is visible to the next operation of a stream that waits for it."""
    signal_ps: int
    """One-way delay of a system-scope signal, on top of the links' latency."""
    nic_issue_ps: int
    """From a put in a kernel to its first byte on the NIC."""
    connections: int
    """In-order hardware queues that all streams of a process share."""
    load_latency_ps: int
    """From the first load of a tile pipeline to its first multiply."""
    loop_load_ps: int
    """What each turn of a loop without a product waits for its loads, beyond their bytes."""
    barrier_ps: int
    """Fixed cost of a barrier over one node, on top of its signals."""
    call_end_ps: int
    """Device time that ends a call on its main stream, such as the advance of its number."""
    sources: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSpec:
    """What a library collective (NCCL) reaches; rates are nccl-tests' busbw.

    The constants of the unfused baseline.
    """

    launch_ps: int
    """Fixed time of one collective call, whatever its size."""
    scale_up: Bandwidth
    """Within one node."""
    scale_out: Bandwidth
    """Over several nodes, per GPU."""
    hop_ps: int
    """Added for each step of the algorithm's ring."""
    sources: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The links that bytes take from one rank's memory to another's, in order."""

    links: tuple[LinkId, ...]
    latency_ps: int
    bandwidth: Bandwidth
    """The slowest link's; for a local route the GPU's HBM."""
    ordered: bool
    """True only if every link is ordered."""
    line_bytes: int = 128
    """The least of its links': what a longer line may be split into."""
    kind: RouteKind
