"""``tdsim trace``: the timeline of a predicted call, as a Perfetto trace or an SVG picture."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tdsim.cli import options
from tdsim.cli.output import say, write_json
from tdsim.predict import make_job
from tdsim.predict.timeline import record
from tdsim.topology import machine


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)
    parser.add_argument(
        "--straggler", metavar="RANK=US,...", help="start ranks late; random:US draws by seed"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        required=True,
        action="append",
        help="FILE.json, FILE.json.gz (Perfetto) or FILE.svg; may be given again",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = make_job(
        args.kernel,
        args.topology,
        options.shape(args) or {},
        options.tunables(args),
        args.dtype,
        args.seed,
        delays=options.delays(args.straggler, machine(args.topology).world_size, args.seed),
    )
    prediction, written = record(job, args.output, "--output")
    if args.json:
        write_json({"files": [asdict(w) for w in written], "prediction": prediction.to_json()})
        return 0
    for summary in written:
        say(f"wrote {summary.text()}")
    return 0
