"""The long check of the library, as recorded: ``benchmarks/check_library.py`` makes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tdsim.programs import load_program

RECORD = json.loads((Path(__file__).parent / "records" / "library.json").read_text())
KERNELS = ("allgather", "reduce_scatter", "ag_gemm", "gemm_rs")
ONE_NODE = tuple(f"h800x{world}" for world in range(2, 9))
TWO_NODES = tuple(f"h800x2x{per_node}" for per_node in range(1, 5))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_record_has_every_world_from_2_to_8_on_one_node_and_on_two(kernel):
    default = load_program(kernel).tunables["comm"].choices[0]
    rows = [
        r["topology"] for r in RECORD["rows"] if (r["kernel"], r["comm"]) == (kernel, default)
    ]
    assert sorted(rows) == sorted(ONE_NODE + TWO_NODES)


def test_each_row_of_the_record_is_clean_under_a_hundred_seeds_of_three_calls():
    assert RECORD["calls"] == 3
    assert {(row["verdict"], row["seeds"]) for row in RECORD["rows"]} == {("CLEAN", 100)}
