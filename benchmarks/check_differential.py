"""The checker against the oracle on many random programs; writes a dated record.

Run: ``python benchmarks/check_differential.py [--programs 5000] [--write]``. Exit status 1 if
they disagree.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
RECORD = TESTS / "check" / "records" / "differential.json"
MOST_SEEDS = 200
"""Seeds that a default check is given to find what the oracle calls wrong."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--write", action="store_true", help="update the record")
    args = parser.parse_args()
    sys.path[:0] = [str(TESTS), str(TESTS / "check")]
    from differential import summary

    begin = time.monotonic()
    rows = [_told(seed) for seed in range(args.first, args.first + args.programs)]
    found = {
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - begin),
        "most_seeds": MOST_SEEDS,
        **summary(rows),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if args.write:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(text + "\n")
    return 1 if found["exhaustive_disagrees"] or found["default_false_alarms"] else 0


def _told(seed: int) -> Any:
    """The comparison of one program; of a wrong one, with the seeds that it takes."""
    from differential import compare

    row = compare(seed, most_seeds=1)
    if row.is_wrong and not row.found_at:
        row = compare(seed, most_seeds=MOST_SEEDS)
    if not row.agrees:
        print(
            f"seed {seed}: {sorted(row.ends)}, explored {sorted(row.explored)}", file=sys.stderr
        )
    return row


if __name__ == "__main__":
    sys.exit(main())
