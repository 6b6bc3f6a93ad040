"""``tdsim trace``: the timeline of one predicted call, for Perfetto or as an SVG picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from tdsim.cli import options
from tdsim.cli.output import say, whole_file, write_json
from tdsim.errors import UsageError
from tdsim.predict import Prediction, make_job, summarise
from tdsim.sim import Run, simulate
from tdsim.sim.picture import draw
from tdsim.sim.recorder import Recorder
from tdsim.sim.trace import encode


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)
    parser.add_argument("--straggler", metavar="RANK=US,...", help="start ranks late")
    parser.add_argument(
        "--output",
        metavar="FILE",
        required=True,
        action="append",
        help="FILE.json, FILE.json.gz (Perfetto) or FILE.svg; may be given twice",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    for path in args.output:
        if not path.endswith((".json", ".json.gz", ".svg")):
            raise UsageError(path, "--output", "a name in .json, .json.gz or .svg", "rename it")
    job = make_job(
        args.kernel,
        args.topology,
        options.shape(args) or {},
        options.tunables(args),
        args.dtype,
        args.seed,
        delays=options.delays(args.straggler),
    )
    recorder = Recorder()
    result = simulate(job, (recorder,))
    prediction = summarise(job, result)
    written = [_write(path, prediction, result, recorder) for path in args.output]
    if args.json:
        write_json({"files": written, "prediction": prediction.to_json()})
        return 0
    for entry in written:
        say(f"wrote {entry['path']} ({entry['bytes']:,} bytes{entry['note']})")
    return 0


def _write(
    path: str, prediction: Prediction, result: Run, recorder: Recorder
) -> dict[str, object]:
    title = title_of(prediction)
    note = ""
    if path.endswith(".svg"):
        data = draw(result, recorder, title).encode()
    else:
        data, summary = encode(result, recorder, title, path)
        if data[:2] == b"\x1f\x8b" and not path.endswith(".gz"):
            path += ".gz"
        note = f", {summary.spans:,} spans; open it at ui.perfetto.dev"
        if summary.left_out:
            note += f"; left out: ranks {summary.left_out[0]} to {summary.left_out[-1]}"
    with whole_file(path) as target:
        target.write_bytes(data)
    return {"path": str(Path(path)), "bytes": len(data), "note": note}


def title_of(p: Prediction) -> str:
    """One line that says what the timeline shows."""
    sizes = " ".join(f"{k} {v}" for k, v in p.shape.items())
    return (
        f"{p.kernel} on {p.topology}, {sizes}, {p.dtype}: {p.time_us:,.1f} us, "
        f"{p.speedup:.2f}x unfused, bound by {p.bound_by} ({p.bound_us:,.1f} us)"
    )
