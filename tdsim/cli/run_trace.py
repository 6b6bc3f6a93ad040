"""``tdsim run --trace``: the measured timeline of a call, alone or over the predicted one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tdsim.cli.output import say, table
from tdsim.errors import BackendFailure, UsageError
from tdsim.predict import make_job
from tdsim.predict.overlay import Overlay, check_path, write_overlay
from tdsim.records import Job, Measurement, Record, Timeline
from tdsim.sim import Job as PredictedJob
from tdsim.topology import machine


@dataclass(frozen=True, slots=True)
class Written:
    """The timeline that was measured, and the file it went to."""

    timeline: Timeline
    overlay: Overlay


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--trace`` and ``--topology``."""
    parser.add_argument(
        "--trace", metavar="FILE", help="timeline of one more call, FILE.json or FILE.json.gz"
    )
    parser.add_argument(
        "--topology", metavar="NAME", help="predict the traced call too, on this machine"
    )


def predicted_job(args: argparse.Namespace, job: Job) -> PredictedJob | None:
    """The call on ``--topology``, if given; what cannot be traced is refused before it runs."""
    if args.trace is not None:
        check_path(args.trace, "--trace")
    if args.topology is None:
        return None
    if args.trace is None:
        raise UsageError(
            f"{args.topology} without --trace", "--topology",
            "a timeline to lay the predicted one beside", "add --trace FILE",
        )  # fmt: skip
    (case,), place, target = job.cases, job.placement, machine(args.topology)
    asked = (place.n_pes, place.n_pes // place.pes_per_node)
    if (target.world_size, target.num_nodes) != asked:
        raise UsageError(
            what=f"{args.topology} has {_size(target.world_size, target.num_nodes)}",
            where="--topology",
            expected=f"{_size(*asked)}, as the job has",
            cure="name a machine of the job's size",
        )
    return make_job(case.program, target, case.shape, case.tunables, case.dtype, case.seed)


def _size(gpus: int, nodes: int) -> str:
    return f"{gpus} GPUs in {nodes} node{'s' if nodes > 1 else ''}"


def write(
    args: argparse.Namespace, record: Record, found: Measurement, predicted: PredictedJob | None
) -> Written | None:
    """Write the file that was asked for; there is none if the case has no result."""
    if args.trace is None or found.error:
        return None
    if found.timeline is None:
        raise BackendFailure("gave no timeline", f"backend {args.backend}")
    title = _title(record, found, args.topology)
    return Written(found.timeline, write_overlay(args.trace, found.timeline, title, predicted))


def _title(record: Record, found: Measurement, topology: str | None) -> str:
    case = found.case
    sizes = ", ".join(f"{key} {size}" for key, size in case.shape.items())
    device = record.environment.get("device", "an unnamed GPU")
    beside = f", predicted on {topology}" if topology else ""
    head = f"{case.program} on {record.placement.n_pes} PEs of {device}{beside}"
    untraced = "" if found.median_us is None else f"\n{found.median_us:,.1f} us without trace"
    return f"{head}: {sizes}, {case.dtype}{untraced}"


def report(written: Written | None) -> dict[str, Any]:
    """The file and its totals as plain data."""
    if written is None:
        return {}
    return {
        "trace": {
            "file": asdict(written.overlay.summary),
            "totals": [asdict(total) for total in written.overlay.totals],
        }
    }


def show(written: Written | None) -> None:
    """The totals as people read them, and which file was written."""
    if written is None:
        return
    totals, found = written.overlay.totals, written.timeline
    if totals[0].predicted_us is None:
        rows = [(t.kind, _us(t.measured_us)) for t in totals]
        table("Traced call, summed over all lanes", ("time", "measured"), rows)
    else:
        both = [(t.kind, _us(t.predicted_us or 0), _us(t.measured_us)) for t in totals]
        columns = ("time", "predicted", "measured")
        table("Traced call, summed over all lanes", columns, both)
    for line in _remarks(found):
        say(line)
    say(f"wrote {written.overlay.summary.text()}")


def _remarks(found: Timeline) -> Iterator[str]:
    """How far the timeline can be trusted."""
    line = f"the timer's step is {found.step_ns:,} ns, streams are within"
    line += f" {found.stream_uncertainty_ns:,} ns"
    if found.uncertainty_ns:
        line += f", ranks within {found.uncertainty_ns:,} ns of each other"
    yield line
    if found.dropped:
        yield f"{found.dropped:,} events found no room and are missing"
    if found.unpaired:
        yield f"{found.unpaired:,} events are missing, for their other end is"


def _us(value: float) -> str:
    return f"{value:,.1f} us"
