"""The conformance suite on a GPU: every contract, and each trap with and without its cure.

Run from the project's folder:
``python benchmarks/gpu_conformance.py [--pes N] [--pes-per-node P] [--traps] [--record FILE]``.
Several PEs share one GPU. Exit code 1 if a contract is broken; programs without their cure are
expected to go wrong, and are listed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tdsim.backends import load_backend
from tdsim.errors import TdsimError
from tdsim.records import Case, Job, Measurement, Placement, Record

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/conformance"))

import catalogue  # noqa: E402

CONTRACT_LIMIT_S, TRAP_LIMIT_S = 60.0, 8.0
RUNS = 20
"""Data runs of a trap, of three calls each."""


def measured(cases: Sequence[Case], placement: Placement, limit_s: float) -> Record:
    """The record of one job."""
    job = Job(cases=tuple(cases), placement=placement, timeout_s=limit_s)
    return load_backend("gpu").run(job, lambda number, found: None)


def is_right(found: Measurement) -> bool:
    """Whether every run kept the contract, within the entry's own tolerance."""
    if found.error is not None or found.wrong_runs is None or found.max_error is None:
        return False
    return found.wrong_runs == 0 and found.max_error <= catalogue.tolerance(found.case)


def shown(case: Case) -> str:
    """Program, choices and element type."""
    return "-".join(
        [case.program.rpartition(":")[2], *map(str, case.tunables.values()), case.dtype]
    )


def contracts(placement: Placement, runs: int) -> Record:
    """All contracts of *placement*, the broken ones named."""
    cases = catalogue.cases(placement.n_pes, placement.pes_per_node, runs=runs)
    record = measured(cases, placement, CONTRACT_LIMIT_S)
    broken = [found for found in record.measurements if not is_right(found)]
    for found in broken:
        print(
            f"BROKEN {shown(found.case)}: {found.wrong_runs} of {found.case.runs} runs wrong, "
            f"error {found.max_error}, {found.error}"
        )
    print(f"{len(cases) - len(broken)} of {len(cases)} contracts kept", flush=True)
    return record


def without_cure(case: Case, placement: Placement) -> Measurement:
    """One program without its cure, in a job of its own: it may hang."""
    try:
        return measured([case], placement, TRAP_LIMIT_S).measurements[0]
    except TdsimError as error:
        return Measurement(case=case, error=f"{type(error).__name__}: {error}")


def traps(placement: Placement) -> list[dict[str, Any]]:
    """Every trap's runs with its cure and without."""
    pairs = catalogue.trap_pairs(runs=RUNS)
    good = measured([right for right, _ in pairs], placement, CONTRACT_LIMIT_S).measurements
    results = []
    for found, (_, wrong) in zip(good, pairs, strict=True):
        bad = without_cure(wrong, placement)
        seen = "hangs" if bad.error else f"wrong in {bad.wrong_runs} of {RUNS} runs"
        cured = (
            "right" if is_right(found) else f"BROKEN ({found.error}, {found.wrong_runs} wrong)"
        )
        print(f"{shown(found.case)}: {cured}; as {shown(bad.case)} {seen}", flush=True)
        results.append({"with_cure": found.to_json(), "without": bad.to_json()})
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pes", type=int, default=1, help="PEs, on one GPU (default 1)")
    parser.add_argument("--pes-per-node", type=int, help="PEs of a logical node (default all)")
    parser.add_argument(
        "--runs", type=int, default=3, help="data runs of three calls (default 3)"
    )
    parser.add_argument(
        "--traps", action="store_true", help="traps with and without their cure"
    )
    parser.add_argument("--record", type=Path, help="write what was seen here")
    args = parser.parse_args()
    placement = Placement(
        n_pes=args.pes, pes_per_node=args.pes_per_node or args.pes, share_gpu=args.pes > 1
    )
    record = contracts(placement, args.runs)
    if args.traps:
        pairs = traps(Placement(n_pes=1, pes_per_node=1))
        record = dataclasses.replace(record, environment={**record.environment, "traps": pairs})
    if args.record:
        record.write(args.record)
    return 0 if all(map(is_right, record.measurements)) else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except TdsimError as error:
        raise SystemExit(f"gpu_conformance: {error}") from None
