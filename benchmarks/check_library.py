"""The long check of the library: every kernel on many machines under many seeds.

Run from the project's folder: ``python benchmarks/check_library.py [--seeds 100] [--every-way]
[--record FILE]``. Machines have 2 to 8 PEs on one node and 2 to 8 on two; three calls back to
back. The record is written after each row, and a run goes on where its record ends.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tdsim.check import check
from tdsim.files import write_whole
from tdsim.programs import load_program

KERNELS = ("allgather", "reduce_scatter", "ag_gemm", "gemm_rs")
MACHINES = (
    *(f"h800x{world}" for world in range(2, 9)),
    *(f"h800x2x{per_node}" for per_node in range(1, 5)),
)
CALLS = 3


def cases(every_way: bool) -> Iterator[dict[str, str]]:
    """Machine, kernel and way to communicate: the default one first, the others if asked."""
    for number in range(3 if every_way else 1):
        for machine in MACHINES:
            for kernel in KERNELS:
                ways = load_program(kernel).tunables["comm"].choices
                if number < len(ways):
                    yield {"kernel": kernel, "comm": ways[number], "topology": machine}


def measured(case: dict[str, str], seeds: int) -> dict[str, Any]:
    """The verdict of *case*, and what the first finding says."""
    begin = time.perf_counter()
    result = check(
        case["kernel"], topology=case["topology"], tunables={"comm": case["comm"]},
        calls=CALLS, seeds=seeds,
    )  # fmt: skip
    return {
        **case, "seeds": len(result.seeds), "verdict": result.verdict,
        "message": result.findings[0].message if result.findings else "",
        "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each row (100)")
    parser.add_argument("--every-way", action="store_true", help="all ways to communicate")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the rows here")
    args = parser.parse_args()
    record: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/check_library.py --seeds {args.seeds}"
        + (" --every-way" if args.every_way else ""),
        "calls": CALLS,
        "rows": [],
    }
    if args.record and args.record.exists():
        record["rows"] = json.loads(args.record.read_text())["rows"]
    done = {(row["kernel"], row["comm"], row["topology"]) for row in record["rows"]}
    for case in cases(args.every_way):
        if tuple(case.values()) in done:
            continue
        row = measured(case, args.seeds)
        record["rows"].append(row)
        print(*row.values(), flush=True)
        if args.record:
            write_whole(args.record, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
