"""The frozen list of cases by which one shared H200 is predicted and measured.

The same cases run on 2 PEs (64 SMs each) and on 4 (32 SMs each), and the same half of them is
held back on both, so that fitting on one placement never sees what the other is judged by.
A change to a case or to the seed makes old records and their split meaningless: add a new
list instead.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tdsim.records import Case

PLACEMENTS = (2, 4)
SEED = "h200-shared 11"
"""Ends in the first number that gives both halves of each kernel every tile and every way to
communicate; chosen before anything was measured."""

# Activations and weights of Llama: 3 8B (hidden 4096, inner 14336), 2 13B (hidden 5120) and
# 3 70B (hidden 8192, inner 28672). No two shapes of a collective move the same bytes.
SHAPES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "allgather": ({"M": 8192, "K": 5120}, {"M": 8192, "K": 8192}, {"M": 16384, "K": 8192}),
    "reduce_scatter": (
        {"M": 8192, "N": 5120},
        {"M": 8192, "N": 8192},
        {"M": 16384, "N": 8192},
    ),
    "ag_gemm": (
        {"M": 4096, "N": 6144, "K": 4096},  # 8B, queries, keys and values
        {"M": 8192, "N": 14336, "K": 4096},  # 8B, up
        {"M": 2048, "N": 28672, "K": 8192},  # 70B, up
    ),
    "gemm_rs": (
        {"M": 4096, "N": 4096, "K": 4096},  # 8B, attention output
        {"M": 8192, "N": 4096, "K": 14336},  # 8B, down
        {"M": 2048, "N": 8192, "K": 28672},  # 70B, down
    ),
}


def _sm(count: int) -> dict[str, Any]:
    return {"comm": "sm", "num_comm_sms": count}


# num_reduce_sms matters on several nodes only; on one, final_reduce_sms bounds the sum's CTAs.
COMM: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "allgather": ({"comm": "pull"}, {"comm": "push"}, _sm(2), _sm(4), _sm(8), _sm(16)),
    "reduce_scatter": (
        {"comm": "ce", "final_reduce_sms": 0},
        {"comm": "ce", "final_reduce_sms": 8},
        {"final_reduce_sms": 0, **_sm(2)},
        {"final_reduce_sms": 0, **_sm(4)},
        {"final_reduce_sms": 16, **_sm(8)},
        {"final_reduce_sms": 0, **_sm(16)},
    ),
    "ag_gemm": ({"comm": "pull"}, {"comm": "push"}, _sm(1), _sm(4), _sm(8), _sm(16)),
    "gemm_rs": (
        {"comm": "ce", "final_reduce_sms": 0},
        {"comm": "ce", "final_reduce_sms": 16},
        {"final_reduce_sms": 0, **_sm(1)},
        {"final_reduce_sms": 0, **_sm(4)},
        {"final_reduce_sms": 8, **_sm(8)},
        {"final_reduce_sms": 0, **_sm(16)},
    ),
}


def _tile(block_m: int, block_n: int, group_m: int) -> dict[str, Any]:
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": 64, "GROUP_M": group_m}


TILES = (
    _tile(128, 256, 8),
    _tile(128, 128, 8),
    _tile(64, 128, 8),
    _tile(256, 128, 4),
    _tile(128, 128, 16),
    _tile(128, 256, 4),
)
# A tile meets another way of communicating at each shape, so that no fit confuses the two.
ROTATIONS = (3, 4, 0)


def _tunables(program: str, shape_number: int) -> list[dict[str, Any]]:
    comm = COMM[program]
    if "gemm" not in program:
        return [dict(choice) for choice in comm]
    first = ROTATIONS[shape_number]
    return [{**comm[(first + i) % len(comm)], **tile} for i, tile in enumerate(TILES)]


def cases(n_pes: int) -> tuple[Case, ...]:
    """All cases for *n_pes* PEs on one GPU, in the order in which they run."""
    if n_pes not in PLACEMENTS:
        raise ValueError(f"no cases for {n_pes} PEs, only for {PLACEMENTS}")
    return _all_cases()


@functools.cache
def _all_cases() -> tuple[Case, ...]:
    return tuple(
        Case(program=program, shape=shape, tunables=tunables)
        for program, shapes in SHAPES.items()
        for number, shape in enumerate(shapes)
        for tunables in _tunables(program, number)
    )


def label(case: Case) -> str:
    """What makes the case this one: program, shape, tunables and dtype, not how often it runs."""
    parts = [case.program, dict(case.shape), dict(case.tunables), case.dtype]
    return json.dumps(parts, sort_keys=True)


def is_held_back(case: Case) -> bool:
    """Whether no fit may look at *case*. Raises `ValueError` for one not in the list."""
    split = _split()
    if label(case) not in split:
        raise ValueError(f"not in the list: {label(case)}")
    return split[label(case)]


@functools.cache
def _split() -> dict[str, bool]:
    """By label: every second one of each program and shape, in the order of a seeded hash."""
    groups: dict[str, list[str]] = {}
    for case in _all_cases():
        groups.setdefault(f"{case.program} {dict(case.shape)}", []).append(label(case))
    return {
        name: place % 2 == 1
        for group in groups.values()
        for place, name in enumerate(sorted(group, key=_seeded))
    }


def _seeded(name: str) -> str:
    return hashlib.sha256(f"{SEED} {name}".encode()).hexdigest()
