"""The timeline of one predicted call, written as a Perfetto trace or an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tdsim.errors import UsageError
from tdsim.files import require_folder
from tdsim.lang import Program
from tdsim.predict.report import Prediction, make_job, summarise
from tdsim.sim import Job, simulate
from tdsim.sim.picture import PictureSummary, write_picture
from tdsim.sim.recorder import Recorder
from tdsim.sim.trace import TraceSummary, write_trace
from tdsim.topology import Machine

SUFFIXES = (".json", ".json.gz", ".svg")


def trace(
    kernel: str | Program,
    *,
    topology: str | Machine = "h800x8",
    shape: Mapping[str, int],
    tunables: Mapping[str, Any] | None = None,
    dtype: str = "bf16",
    seed: int = 0,
    path: str,
) -> TraceSummary | PictureSummary:
    """Predict one call of *kernel* and write its timeline to *path*.

    A ``.json`` or ``.json.gz`` file opens at ui.perfetto.dev, an ``.svg`` file in a browser.
    """
    job = make_job(kernel, topology, shape, tunables, dtype, seed)
    return record(job, (path,))[1][0]


def record(
    job: Job, paths: Sequence[str], where: str = "path"
) -> tuple[Prediction, list[TraceSummary | PictureSummary]]:
    """Simulate *job* once and write a timeline to each of *paths*, which *where* names.

    Paths that cannot be written are refused before anything runs.
    """
    for path in paths:
        if not path.endswith(SUFFIXES):
            raise UsageError(path, where, "a name in .json, .json.gz or .svg", "rename it")
        require_folder(path, where)
    recorder = Recorder()
    run = simulate(job, (recorder,))
    prediction = summarise(job, run)
    title = title_of(prediction)
    written: list[TraceSummary | PictureSummary] = []
    for path in paths:
        write = write_picture if path.endswith(".svg") else write_trace
        written.append(write(path, run, recorder, title))
    return prediction, written


def title_of(p: Prediction) -> str:
    """Two lines that say what the timeline shows: the problem, then the prediction."""
    sizes = ", ".join(f"{k} {v}" for k, v in p.shape.items())
    title = f"{p.kernel} on {p.topology}: {sizes}, {p.dtype}\n{p.time_us:,.1f} us predicted"
    if p.speedup is None:  # the program declares no work
        return title
    return (
        f"{title}, {p.speedup:.2f}x the unfused baseline ({p.baseline_us:,.1f} us), "
        f"bound by {p.bound_by} ({p.bound_us:,.1f} us)"
    )
