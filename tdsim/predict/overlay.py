"""A measured timeline as a file, and the predicted one of the same call beside it."""

from __future__ import annotations

from dataclasses import dataclass

from tdsim.errors import UsageError
from tdsim.files import require_folder
from tdsim.records import Timeline
from tdsim.sim import Job, simulate
from tdsim.sim.measured import Predicted, segments_of, totals, write_measured
from tdsim.sim.recorder import Recorder
from tdsim.sim.trace import TraceSummary
from tdsim.units import to_us

SUFFIXES = (".json", ".json.gz")
CALL = "the call"


@dataclass(frozen=True, slots=True)
class Total:
    """What time went to, in microseconds summed over all lanes of all ranks.

    The last one is the call itself, from its start to its end. *predicted_us* is None without
    a prediction.
    """

    kind: str
    predicted_us: float | None
    measured_us: float


@dataclass(frozen=True, slots=True)
class Overlay:
    """The file that was written, and what its two timelines add up to."""

    summary: TraceSummary
    totals: tuple[Total, ...]


def check_path(path: str, where: str) -> None:
    """Refuse a *path* that no timeline can be written to; *where* names the option."""
    if not path.endswith(SUFFIXES):
        raise UsageError(path, where, "a name in .json or .json.gz", "rename it")
    require_folder(path, where)


def write_overlay(path: str, timeline: Timeline, title: str, job: Job | None) -> Overlay:
    """Write *timeline* to *path*, beside that which is predicted for *job*, if given."""
    measured = totals(segments_of(timeline))
    measured[CALL] = max((span.end for span in timeline.spans), default=0) * 1_000
    if job is None:
        summary = write_measured(path, timeline, title)
        return Overlay(summary, tuple(Total(k, None, to_us(ps)) for k, ps in measured.items()))
    recorder = Recorder()
    run = simulate(job, (recorder,))
    predicted = {**totals(recorder.segments), CALL: run.time_ps}
    summary = write_measured(path, timeline, title, Predicted(run, recorder))
    both = ((k, to_us(predicted[k]), to_us(ps)) for k, ps in measured.items())
    return Overlay(summary, tuple(Total(*row) for row in both))
