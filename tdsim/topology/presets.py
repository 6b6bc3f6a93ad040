"""The Hopper family: H100, H800, H200 and H20 SXM platforms, every number with its source.

A link's bandwidth is the payload rate that has been reached; its source also names the data
sheet's figure. "measured" means: on one H200 SXM, with Triton 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tdsim.topology.builders import Platform
from tdsim.topology.shared import SharedHub
from tdsim.topology.specs import CollectiveSpec, GpuSpec, HostSpec, LinkSpec
from tdsim.units import Bandwidth, ns, us

_TERA = 10**12
_MB = 10**6
_GB = 10**9

_H100_SHEET = "NVIDIA H100 SXM5 data sheet"
_H200_SHEET = "NVIDIA H200 SXM data sheet"
_H20_SHEET = "H20 specification as quoted by ml-engineering and SimAI"
_H20_LISTINGS = "H20 specification as quoted in vendors' listings"
_L2_ASSUMED = (
    "assumed: the least that lets a 128x256 bf16 tile loop reach the measured 741 TFLOP/s"
)
_PK_ON_H20 = "ParallelKittens' bandwidth sweep repeated on two H20"

H100 = GpuSpec(
    name="h100",
    num_sms=132,
    flops={
        "bf16": 989 * _TERA,
        "fp16": 989 * _TERA,
        "fp32": 4947 * _TERA // 10,
        "fp8": 19789 * _TERA // 10,
    },
    mma_efficiency=0.77,
    hbm=Bandwidth.gb_per_s(3350),
    hbm_bytes=80 * _GB,
    l2=Bandwidth.gb_per_s(9000),
    l2_bytes=50 * _MB,
    sm_copy=Bandwidth.gb_per_s(47),
    copy_engines=4,
    copy_engine=Bandwidth.gb_per_s(400),
    local_copy=Bandwidth(87 * 2**30),
    sources={
        "num_sms": _H100_SHEET,
        "flops": f"{_H100_SHEET}: dense rates; fp32 is computed as TF32",
        "mma_efficiency": "measured: 741 of 989 TFLOP/s, bf16, 8192 cubed; plus pipeline fill",
        "hbm": _H100_SHEET,
        "hbm_bytes": _H100_SHEET,
        "l2": _L2_ASSUMED,
        "l2_bytes": _H100_SHEET,
        "sm_copy": "measured: one CTA of 16 warps",
        "copy_engines": "assumed",
        "copy_engine": "Syncopate (OSDI 2026): saturates NVLink at 400 GB/s on H100",
        "local_copy": "NCCL issue 2177: 87 GiB/s for 32 MB inside one GPU",
        "busy_copy": "assumed",
        "tiles": "none measured one by one",
    },
)

H800 = replace(
    H100,
    name="h800",
    sources={**H100.sources, "num_sms": f"{_H100_SHEET}: H800 differs in NVLink and fp64 only"},
)

H200 = replace(
    H100,
    name="h200",
    hbm=Bandwidth.gb_per_s(4800),
    hbm_bytes=141 * _GB,
    sources={**H100.sources, "hbm": _H200_SHEET, "hbm_bytes": _H200_SHEET},
)

H20 = replace(
    H100,
    name="h20",
    num_sms=78,
    flops={
        "bf16": 148 * _TERA,
        "fp16": 148 * _TERA,
        "fp32": 74 * _TERA,
        "fp8": 296 * _TERA,
    },
    mma_efficiency=0.93,
    hbm=Bandwidth.gb_per_s(4000),
    hbm_bytes=96 * _GB,
    l2=Bandwidth.gb_per_s(9000).scaled(78, 132),
    l2_bytes=60 * _MB,
    sm_copy=Bandwidth.gb_per_s(37.2),
    sources={
        **H100.sources,
        "num_sms": _H20_SHEET,
        "flops": f"{_H20_SHEET}: dense rates; fp32 is computed as TF32",
        "mma_efficiency": "assumed: the tensor cores stay far below the power limit",
        "hbm": _H20_SHEET,
        "hbm_bytes": _H20_LISTINGS,
        "l2": f"{_L2_ASSUMED}; scaled by the number of SMs",
        "l2_bytes": _H20_LISTINGS,
        "sm_copy": f"{_PK_ON_H20}: one CTA of loads and stores",
    },
)

HOST = HostSpec(
    launch_ps=us(2.5),
    launch_latency_ps=us(3),
    issue_ps=us(1),
    add_issue_ps=us(1),
    copy_issue_ps=us(1.5),
    stream_op_ps=us(1),
    kernel_gap_ps=us(1),
    stream_add_ps=us(1),
    stream_wait_ps=us(1),
    signal_ps=us(0.5),
    nic_issue_ps=us(1),
    connections=8,
    load_latency_ps=us(1.2),
    loop_load_ps=0,
    barrier_ps=us(2),
    call_end_ps=0,
    sources={
        "launch_ps": "gpu-benches, gpu-small-kernels on H200: a kernel each 2.52 us",
        "launch_latency_ps": "assumed",
        "issue_ps": "assumed",
        "add_issue_ps": "assumed",
        "copy_issue_ps": f"assumed: with two links near the 2.1 us of {_PK_ON_H20}, 128 bytes",
        "stream_op_ps": "assumed",
        "kernel_gap_ps": "assumed",
        "stream_add_ps": "assumed",
        "stream_wait_ps": "assumed",
        "signal_ps": "measured: 0.94 us one way between two CTAs, less the links' part",
        "nic_issue_ps": (
            "'GPU-Initiated Communication: Dissecting Down to the Bone' (2026), table 3: "
            "0.7 to 1.6 us"
        ),
        "connections": "CUDA programming guide: CUDA_DEVICE_MAX_CONNECTIONS is 8 unless set",
        "load_latency_ps": "assumed: three stages of loads in flight at 0.4 us each from HBM",
        "loop_load_ps": "assumed: hidden by other warps",
        "barrier_ps": "assumed: twice the 1.06 us of a grid barrier in gpu-benches on H200",
        "call_end_ps": "assumed: hidden by the next call",
    },
)

_NVLINK = LinkSpec(
    bandwidth=Bandwidth.gb_per_s(370),
    latency_ps=ns(250),
    kind="nvlink",
    ordered=True,
    source=(
        "370 of the data sheet's 450 GB/s: nccl-tests issue 212, and 369 in ParallelKittens "
        "(arXiv 2511.13940) table 1; latency assumed"
    ),
)
_H800_NVLINK = replace(
    _NVLINK,
    bandwidth=Bandwidth.gb_per_s(164.8),
    source=(
        "164.8 of the data sheet's 200 GB/s: SimAI calbusbw.h (8 links of 20.6 GB/s), "
        "DeepEP documents about 160; latency assumed"
    ),
)
_H20_NVLINK = replace(
    _NVLINK,
    bandwidth=Bandwidth.gb_per_s(371),
    source=(f"371 of the data sheet's 450 GB/s: {_PK_ON_H20}, all SMs; latency assumed"),
)
_PCIE = LinkSpec(
    bandwidth=Bandwidth.gb_per_s(55),
    latency_ps=ns(250),
    kind="pcie",
    ordered=True,
    source="55 of PCIe 5.0 x16's 63 GB/s: nvbandwidth, in ml-engineering; latency assumed",
)
_IB_LATENCY = (
    "'Insights into DeepSeek-V3' (arXiv 2505.09343) table 5: end to end 2.8 us under one leaf, "
    "3.7 us over a spine; its split over the hops is assumed"
)
_NIC = LinkSpec(
    bandwidth=Bandwidth.gb_per_s(48),
    latency_ps=ns(900),
    kind="ib",
    ordered=False,
    source=(
        "48 of ConnectX-7's 50 GB/s (400 Gb/s): 'Demystifying NVSHMEM' (arXiv 2606.05951), "
        f"IBGDA put; latency: {_IB_LATENCY}"
    ),
)
_SPINE = replace(
    _NIC, latency_ps=ns(450), source=f"assumed non-blocking; latency: {_IB_LATENCY}"
)


def _collective(scale_up: float, source: str) -> CollectiveSpec:
    """*scale_up* GB/s of busbw in a node, nine tenths of it over nodes."""
    return CollectiveSpec(
        launch_ps=us(20),
        scale_up=Bandwidth.gb_per_s(scale_up),
        scale_out=Bandwidth.gb_per_s(scale_up * 0.9),
        hop_ps=us(1.5),
        sources={
            "launch_ps": "assumed: 24 to 46 us are published for 1 MiB on 8 Hopper GPUs",
            "scale_up": source,
            "scale_out": f"assumed: 0.9 of scale_up, which is {source}",
            "hop_ps": "assumed: 1.9 us in ASTRA-sim's HGX-H100 validation, 0.6 to 3.4 in NCCL",
        },
    )


_OF_NVLINK = "assumed: 0.92 of the reachable NVLink rate"

PLATFORMS: Mapping[str, Platform] = {
    gpu.name: Platform(
        gpu=gpu,
        host=HOST,
        collective=_collective(busbw, _OF_NVLINK),
        nvlink=nvlink,
        pcie=_PCIE,
        nic=_NIC,
        spine=_SPINE,
    )
    for gpu, nvlink, busbw in (
        (H100, _NVLINK, 340),
        (H800, _H800_NVLINK, 150),
        (H200, _NVLINK, 340),
        (H20, _H20_NVLINK, 340),
    )
}

_AHEAD = "none: calls are measured behind earlier work, so that the host is ahead of the GPU"

H200_SHARED = replace(
    PLATFORMS["h200"],
    gpu=replace(H200, tiles={}, busy_copy=1.0),
    host=replace(
        HOST,
        **dict.fromkeys(("launch_ps", "issue_ps", "add_issue_ps"), 0),
        sources={
            **HOST.sources,
            **dict.fromkeys(("launch_ps", "issue_ps", "add_issue_ps"), _AHEAD),
        },
    ),
)
"""One H200 as its PEs see it, with what was measured on a shared one."""

_MEASURED_COPIES = (
    "measured: 16 CTAs copy 702 GB/s of payload, 132 copy 2003, which a soft link of 2116 gives"
)

H200_HUB = SharedHub(
    port=LinkSpec(
        bandwidth=Bandwidth.gb_per_s(4232),
        latency_ps=ns(220),
        kind="shared",
        ordered=True,
        source="assumed: twice the hub, so no limit; a signal takes 0.94 us one way (measured)",
    ),
    hub=LinkSpec(
        bandwidth=Bandwidth.gb_per_s(2116),
        latency_ps=0,
        kind="shared",
        ordered=True,
        source=f"{_MEASURED_COPIES}; the ports carry the latency",
        soft=True,
    ),
    engines=LinkSpec(
        bandwidth=H200.local_copy.scaled(4),
        latency_ps=0,
        kind="shared",
        ordered=True,
        source="assumed: four engines at once, each as fast as alone",
    ),
    copy_engine=H200.local_copy,
    copy_engine_source=H200.sources["local_copy"],
    connections=64,
    connections_source="what the runtime asks for: more of them an H200 refused",
    sm_step=8,
    sm_step_source="in steps of 8, in which the driver divides a GPU into green contexts",
)
"""How PEs on one H200 reach each other: through its L2 cache and memory."""
