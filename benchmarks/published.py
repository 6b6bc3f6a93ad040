"""Predicted against published speed-ups of the reference system, row by row.

Run: ``python benchmarks/published.py [--json]``. AG+GEMM on 8 H800 is what tuning may look at;
AG+GEMM on 16 and GEMM+RS on 8 H800 are judged only. GEMM+RS runs with the published schedule:
its own segment goes through a slot, 15 CTAs make the last sum.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from tdsim.predict import predict

DATA = Path(__file__).with_name("published.json")
AS_PUBLISHED = {"gemm_rs": {"copy_own": 1, "final_reduce_sms": 15}, "ag_gemm": {}}
TUNED = ("ag_gemm", "h800x8")


def compare(row: dict[str, Any]) -> dict[str, Any]:
    """One published row beside its prediction; *error* is relative."""
    prediction = predict(
        row["kernel"],
        topology=row["topology"],
        shape={key: row[key] for key in ("M", "N", "K")},
        tunables=AS_PUBLISHED[row["kernel"]],
    )
    error = prediction.speedup / row["speedup"] - 1
    return {
        **row,
        "predicted": prediction.speedup,
        "error": error,
        "time_us": prediction.time_us,
        "baseline_us": prediction.baseline_us,
    }


def median_errors(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Median absolute relative error of each (kernel, topology)."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], row["topology"]), []).append(abs(row["error"]))
    return {key: statistics.median(errors) for key, errors in groups.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    data = json.loads(DATA.read_text())
    rows = [compare(row) for row in data["rows"]]
    losses = [compare(row) for row in data["losses"]]
    medians = median_errors(rows)
    if args.json:
        named = {f"{k} {t}": v for (k, t), v in medians.items()}
        print(json.dumps({"rows": rows, "losses": losses, "median_error": named}, indent=1))
        return
    print(
        f"{'kernel':10}{'machine':9}{'M':>6}{'N':>7}{'K':>7}{'published':>11}{'predicted':>11}{'error':>8}"
    )
    for row in rows + losses:
        print(
            f"{row['kernel']:10}{row['topology']:9}{row['M']:6}{row['N']:7}{row['K']:7}"
            f"{row['speedup']:11.3f}{row['predicted']:11.3f}{row['error']:+8.1%}"
        )
    for (kernel, topology), error in medians.items():
        use = "tuned" if (kernel, topology) == TUNED else "judged"
        print(f"{kernel} on {topology} ({use}): median error {error:.1%}")


if __name__ == "__main__":
    main()
