"""Part ``fused`` of ``gpu_speed.py``: fused kernels beside their own parts one after another.

A job of the GPU backend on 4 PEs of one GPU; both versions are programs, timed alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tdsim.backends import load_backend
from tdsim.records import Case, Job, Measurement, Placement, Record

N_PES = 4
FOLDER = "benchmarks/gpu_programs.py"
PAIRS = {
    "ag_gemm": f"{FOLDER}:gather_then_multiply",
    "gemm_rs": f"{FOLDER}:multiply_then_scatter",
}
SHAPES: Mapping[str, Sequence[Mapping[str, int]]] = {
    "ag_gemm": (
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 8192, "K": 4096},
        {"M": 8192, "N": 8192, "K": 4096},
        {"M": 4096, "N": 14336, "K": 8192},
    ),
    "gemm_rs": (
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 4096, "K": 8192},
        {"M": 8192, "N": 4096, "K": 14336},
        {"M": 4096, "N": 8192, "K": 8192},
    ),
}
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}
ENGINES = {"ag_gemm": ("pull", "push"), "gemm_rs": ("ce",)}
FUSED_SMS, ALONE_SMS = (1, 2, 4, 8), (8, 16)
HEAP_BYTES = 2 << 30


def communications(name: str, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Ways to communicate: by copy engines, and by these numbers of CTAs."""
    yield from ({"comm": engine} for engine in ENGINES[name])
    yield from ({"comm": "sm", "num_comm_sms": count} for count in counts)


def cases(quick: bool) -> list[Case]:
    """Data runs on small shapes, then timed cases: fused and sequential in turns."""
    small: list[Case] = []
    timed: list[Case] = []
    for name, unfused in PAIRS.items():
        world = N_PES
        shape = {"M": 40 * world, "N": 72 * world, "K": 48 * world}
        small += [
            Case(program=program, shape=shape, tunables=comm, runs=2, repeats=0)
            for program in (name, unfused)
            for comm in communications(name, (2,))
        ]
        for shape in SHAPES[name][:1] if quick else SHAPES[name]:
            ways = itertools.zip_longest(
                communications(name, FUSED_SMS), communications(name, ALONE_SMS)
            )
            for pair in ways:
                timed += [
                    Case(
                        program=program, shape=shape, tunables={**TILE, **comm},
                        repeats=10 if quick else 20,
                    )
                    for program, comm in zip((name, unfused), pair, strict=True)
                    if comm is not None
                ]  # fmt: skip
    return [*small, *timed]


def job(quick: bool) -> Job:
    """The job of this part."""
    placement = Placement(n_pes=N_PES, pes_per_node=N_PES, share_gpu=True)
    return Job(cases=tuple(cases(quick)), placement=placement, heap_bytes=HEAP_BYTES)


def compared(record: Record) -> list[dict[str, Any]]:
    """Per kernel and shape: the fastest fused and the fastest sequential case."""
    timed = [m for m in record.measurements if m.median_us is not None]
    results = []
    for name, unfused in PAIRS.items():
        for shape in SHAPES[name]:
            best = [
                _fastest([m for m in timed if m.case.program == p and m.case.shape == shape])
                for p in (name, unfused)
            ]
            if None in best:
                continue
            fused, sequential = best
            results.append(
                {
                    "program": name, "shape": dict(shape),
                    "fused_us": fused.median_us, "fused": _comm(fused),
                    "sequential_us": sequential.median_us, "sequential": _comm(sequential),
                    "speed_up": sequential.median_us / fused.median_us,
                }
            )  # fmt: skip
    return results


def _fastest(group: Sequence[Measurement]) -> Any:
    return min(group, key=lambda m: m.median_us, default=None)


def _comm(found: Measurement) -> str:
    tunables = found.case.tunables
    return f"{tunables['comm']} {tunables.get('num_comm_sms', '')}".strip()


def show(number: int, found: Measurement) -> None:
    """One line for each case as it comes in."""
    name = found.case.program.rpartition(":")[2]
    size = "x".join(str(n) for n in found.case.shape.values())
    data = "" if found.wrong_runs is None else f" wrong runs {found.wrong_runs}"
    time = "" if found.median_us is None else f"{found.median_us:10.1f} us"
    print(f"{number:4} {name:22}{size:>16} {_comm(found):8}{time}{data}", flush=True)


def run(quick: bool) -> dict[str, Any]:
    """Measure and print part ``fused``."""
    record = load_backend("gpu").run(job(quick), show)
    results = compared(record)
    for r in results:
        size = "x".join(str(n) for n in r["shape"].values())
        print(
            f"{r['program']:9}{size:>16}: fused {r['fused_us']:.1f} us ({r['fused']}), "
            f"sequential {r['sequential_us']:.1f} us ({r['sequential']}), "
            f"{r['speed_up']:.3f}x"
        )
    return {"pairs": results, "record": record.to_json()}
