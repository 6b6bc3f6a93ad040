"""``tdsim scale``: the same problem on more and more devices."""

from __future__ import annotations

import argparse

from tdsim.cli import options
from tdsim.cli.output import progress, table, write_json
from tdsim.predict import Prediction, scale


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser, topology="")
    parser.add_argument("--family", default="h800", help="preset GPU (default h800)")
    parser.add_argument("--worlds", default="8,16,32,64", help="numbers of devices")
    parser.add_argument("--output", metavar="FILE", help="write the JSON rows there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options.check_output(args.output)
    names = [f"{args.family}x{world}" for world in options.worlds(args.worlds)]
    with progress(f"{args.kernel}", len(names)) as advance:
        rows = scale(
            args.kernel,
            topologies=names,
            shape=options.shape(args) or {},
            tunables=options.tunables(args),
            dtype=args.dtype,
            seed=args.seed,
            progress=lambda row: advance(row.topology),
        )
    if args.output:
        write_json([row.to_json() for row in rows], args.output)
    if args.json:
        write_json([row.to_json() for row in rows])
    else:
        show(rows)
    return 0


def show(rows: list[Prediction]) -> None:
    first = rows[0]
    sizes = " ".join(f"{k} {v}" for k, v in first.shape.items())
    table(
        f"{first.kernel}, {sizes}, {first.dtype}",
        (
            "machine",
            "time us",
            "baseline us",
            "speedup",
            "bound us",
            "bound by",
            "exposed us",
            "scaling",
        ),
        (
            (
                row.topology,
                f"{row.time_us:,.1f}",
                f"{row.baseline_us:,.1f}",
                "-" if row.speedup is None else f"{row.speedup:.2f}x",
                f"{row.bound_us:,.1f}",
                row.bound_by,
                f"{row.exposed_us:,.1f}",
                f"{_scaling(first, row):.0%}",
            )
            for row in rows
        ),
    )


def _scaling(first: Prediction, row: Prediction) -> float:
    """Strong-scaling efficiency against the smallest machine."""
    return first.time_us * first.world_size / (row.time_us * row.world_size)
