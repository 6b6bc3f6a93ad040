"""The lists that ``tdsim validate`` reads, from the text of their cases.

``python tests/validation/case_lists.py`` writes ``lists/*.json``; a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h200_shared

from tdsim.predict.caselist import CaseList, label
from tdsim.programs import load_program
from tdsim.records import Case, Placement

LISTS = Path(__file__).with_name("lists")
RECORDS = Path(__file__).with_name("records")
NUM_SMS = {2: 64, 4: 32}
TILES = ((128, 256), (128, 128), (64, 128), (256, 128))
DEPTHS = (1024, 4096, 8192)
DATA_PLACEMENTS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4))
"""Nodes, and PEs of each: logical ones, all on one GPU."""
DATA_COMM = {
    "allgather": ("pull", "push", "sm"),
    "reduce_scatter": ("ce", "sm"),
    "ag_gemm": ("pull", "push", "sm"),
    "gemm_rs": ("ce", "sm"),
}
ROWS_32_MIB = {"M": 4096, "K": 4096}
ROWS_8_MIB = {"M": 1024, "K": 4096}
ROWS_2_KIB = {"M": 16, "K": 64}


def _micro(name: str, shape: Mapping[str, int] | None = None, **tunables: Any) -> Case:
    return Case(program=f"../micro.py:{name}", shape=shape or {"n": 1}, tunables=tunables)


def _frames() -> Iterator[Case]:
    for count in (0, 1, 8, 64):
        yield _micro("launches", count=count)
    for name in ("wide_launches", "barriers", "kernel_ping_pong"):
        for count in (8, 64):
            yield _micro(name, count=count)
    for op in ("set", "add"):
        for count in (8, 64):
            yield _micro("stream_signals", count=count, op=op)
            yield _micro("stream_ping_pong", count=count, op=op)


def _copies(n_pes: int) -> Iterator[Case]:
    for count in (8, 64):
        yield _micro("engine_copies", ROWS_2_KIB, count=count)
    for active in (0, 1):
        for shape in (ROWS_8_MIB, ROWS_32_MIB):
            for count in (1, 4):
                yield _micro("engine_copies", shape, count=count, active=active)
        for ctas in (1, 2, 4, 8, 16, 32, 64):
            if ctas <= NUM_SMS[n_pes]:
                shape = ROWS_8_MIB if ctas < 4 else ROWS_32_MIB
                yield _micro("puts", shape, ctas=ctas, active=active)
    for ctas in (8, NUM_SMS[n_pes], 2 * NUM_SMS[n_pes]):
        for shape in (ROWS_8_MIB, ROWS_32_MIB):
            yield _micro("local_copies", shape, ctas=ctas)
        for slots in (2, 4):
            for rows in (256, 1024):
                yield _micro("sums", {"M": rows, "N": 8192}, ctas=ctas, slots=slots)


def _gemms(n_pes: int) -> Iterator[Case]:
    """Whole waves of every tile, so that a tile's time is the time over the waves."""
    shape = {"M": 128 * NUM_SMS[n_pes], "N": 2048}
    for m, n in TILES:
        for depth in DEPTHS:
            yield _micro("gemm", {**shape, "K": depth}, BLOCK_M=m, BLOCK_N=n)
    yield _micro("gemm", {**shape, "K": 4096}, GROUP_M=4)
    yield _micro("gemm", {**shape, "K": 4096}, BLOCK_M=128, BLOCK_N=128, GROUP_M=16)
    yield _micro("gemm", {**shape, "K": 4096}, active=1)


def micro_list(n_pes: int) -> CaseList:
    """Cases that show one constant at a time; all may be used for fitting."""
    return CaseList(
        topology=f"h200-shared-{n_pes}",
        placement=Placement(n_pes=n_pes, pes_per_node=n_pes, share_gpu=True),
        cases=(*_frames(), *_copies(n_pes), *_gemms(n_pes)),
    )


def kernel_list(n_pes: int) -> CaseList:
    """The library's kernels, with the frozen split."""
    cases = h200_shared.cases(n_pes)
    return CaseList(
        topology=f"h200-shared-{n_pes}",
        placement=Placement(n_pes=n_pes, pes_per_node=n_pes, share_gpu=True),
        cases=cases,
        held_back=frozenset(label(case) for case in cases if h200_shared.is_held_back(case)),
    )


def data_list(n_nodes: int, per_node: int) -> CaseList:
    """The library's kernels in every way to communicate, 50 runs of three calls with data."""
    n_pes, one = n_nodes * per_node, n_nodes == 1
    return CaseList(
        topology=f"h200x{per_node}" if one else f"h200x{n_nodes}x{per_node}",
        placement=Placement(n_pes=n_pes, pes_per_node=per_node, share_gpu=n_pes > 1),
        cases=tuple(_data_cases(n_pes, n_nodes)),
    )


def _data_cases(n_pes: int, n_nodes: int) -> Iterator[Case]:
    """Ragged shapes of the programs' own, and whole tiles: several for each CTA."""
    whole = {
        "allgather": {"M": 128 * n_pes, "K": 512},
        "reduce_scatter": {"M": 128 * n_pes, "N": 512},
        "ag_gemm": {"M": 128 * n_pes, "N": 128 * n_pes, "K": 256},
        "gemm_rs": {"M": 128 * n_pes, "N": 512, "K": 64 * n_pes},
    }
    for program, ways in DATA_COMM.items():
        for shape in (load_program(program).default_shape(n_pes, n_nodes), whole[program]):
            for comm in ways:
                tunables = {
                    **({"comm": comm, "num_comm_sms": 2} if comm == "sm" else {"comm": comm}),
                    **({"BLOCK_M": 64, "BLOCK_N": 128} if "gemm" in program else {}),
                }
                yield Case(
                    program=program, shape=shape, tunables=tunables,
                    runs=50, calls=3, warmup=0, repeats=0,
                )  # fmt: skip


ALL: Mapping[str, Callable[[], CaseList]] = {
    **{
        f"{kind}-{n_pes}": lambda make=make, n_pes=n_pes: make(n_pes)
        for kind, make in (("h200-shared", kernel_list), ("micro", micro_list))
        for n_pes in h200_shared.PLACEMENTS
    },
    **{
        f"data-{nodes}x{per_node}": lambda nodes=nodes, per_node=per_node: data_list(
            nodes, per_node
        )
        for nodes, per_node in DATA_PLACEMENTS
    },
}
"""By file name without its ending: a list and, once it is measured, the record of it."""


def text_of(listed: CaseList) -> str:
    """The file's text: one case on a line."""
    data = listed.to_json()
    rows = ",\n  ".join(json.dumps(case) for case in data.pop("cases"))
    return f'{json.dumps(data)[:-1]},\n "cases": [\n  {rows}\n]}}\n'


if __name__ == "__main__":
    LISTS.mkdir(exist_ok=True)
    for name, make in ALL.items():
        (LISTS / f"{name}.json").write_text(text_of(make()))
