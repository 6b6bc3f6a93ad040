"""Predicted against published speed-ups; the benchmark of the same name prints the table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "published.py"


@pytest.fixture(scope="module")
def published():
    spec = importlib.util.spec_from_file_location("published", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(published):
    return json.loads(published.DATA.read_text())


@pytest.mark.parametrize("group", [("ag_gemm", "h800x16"), ("gemm_rs", "h800x8")])
def test_the_median_error_of_judged_speedups_is_at_most_15_percent(published, data, group):
    rows = [r for r in data["rows"] if (r["kernel"], r["topology"]) == group]
    compared = [published.compare(row) for row in rows]
    assert len(compared) >= 6
    assert published.median_errors(compared)[group] <= 0.15


def test_published_losses_are_predicted_as_losses(published, data):
    for row in data["losses"]:
        assert row["speedup"] < 1
        assert published.compare(row)["predicted"] < 1
