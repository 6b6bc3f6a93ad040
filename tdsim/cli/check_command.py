"""``tdsim check``: run with data and report what is wrong."""

from __future__ import annotations

import argparse

from tdsim.check import check
from tdsim.cli import options
from tdsim.cli.output import say, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser, topology="h800x4")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds from --seed on")
    parser.add_argument("--calls", type=int, default=3, help="calls back to back (default 3)")
    parser.add_argument("--output", metavar="FILE", help="write the JSON report there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options.check_output(args.output)
    for name in ("seeds", "calls"):
        options.count(args, name, 1)
    result = check(
        args.kernel,
        topology=args.topology,
        shape=options.shape(args, required=False),
        tunables=options.tunables(args),
        dtype=args.dtype,
        seed=args.seed,
        seeds=args.seeds,
        calls=args.calls,
    )
    if args.output:
        write_json(result.to_json(), args.output)
    if args.json:
        write_json(result.to_json())
    else:
        say(result.text())
    return result.exit_code
