"""``tdsim predict``: one call on one machine."""

from __future__ import annotations

import argparse

from tdsim.cli import options
from tdsim.cli.output import say, table, write_json
from tdsim.predict import Prediction, predict
from tdsim.topology import machine


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)
    parser.add_argument(
        "--gemm-slowdown",
        type=float,
        default=1.0,
        help="how much slower the kernel's own main loop is than the model's (1.2)",
    )
    parser.add_argument(
        "--straggler", metavar="RANK=US,...", help="start ranks late; random:US draws by seed"
    )
    parser.add_argument("--output", metavar="FILE", help="write the JSON report there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options.check_output(args.output)
    prediction = predict(
        args.kernel,
        topology=args.topology,
        shape=options.shape(args) or {},
        tunables=options.tunables(args),
        dtype=args.dtype,
        seed=args.seed,
        gemm_slowdown=args.gemm_slowdown,
        delays=options.delays(args.straggler, machine(args.topology).world_size, args.seed),
    )
    if args.output:
        write_json(prediction.to_json(), args.output)
    if args.json:
        write_json(prediction.to_json())
    else:
        show(prediction)
    return 0


def show(p: Prediction) -> None:
    """The report as people read it: the verdict first, then where the time goes."""
    sizes = " ".join(f"{k} {v}" for k, v in p.shape.items())
    table(
        f"{p.kernel} on {p.topology}, {sizes}, {p.dtype}: {p.time_us:,.1f} us, "
        + _against_baseline(p),
        ("figure", "value", "meaning"),
        _figures(p),
    )
    table(
        f"critical path (ends on rank {p.slowest_rank})",
        ("resource", "rank", "us"),
        _longest_steps(p),
    )
    say(
        f"{p.tiles:,} tiles, {p.events:,} events in {p.wall_s:.2f} s: "
        f"{p.tiles_per_s:,.0f} tiles/s"
    )


def _against_baseline(p: Prediction) -> str:
    if p.speedup is None:
        return "no baseline, because the program declares no work"
    verdict = "faster than" if p.speedup > 1 else "SLOWER than"
    return f"{p.speedup:.2f}x the unfused baseline ({verdict} it)"


def _figures(p: Prediction) -> list[tuple[str, str, str]]:
    return [
        ("time", f"{p.time_us:,.1f} us", "from the first host call to the last rank's end"),
        *(_figures_of_work(p) if p.baseline_us else ()),
        ("exposed", f"{p.exposed_us:,.1f} us", "not covered by the busiest SM's computing"),
        ("waiting", f"{p.waiting_us:,.1f} us", "mean wait of a computing CTA"),
        (
            "busiest link",
            f"{p.busiest_link_utilisation:.0%}",
            f"{p.busiest_link}, of its reachable bandwidth",
        ),
    ]


def _figures_of_work(p: Prediction) -> list[tuple[str, str, str]]:
    """What follows from the unfused steps that a program declares."""
    efficiency = "-" if p.overlap_efficiency is None else f"{p.overlap_efficiency:.1%}"
    return [
        ("baseline", f"{p.baseline_us:,.1f} us", "NCCL collective, then cuBLAS GEMM"),
        ("bound", f"{p.bound_us:,.1f} us", f"{p.bound_by}: no schedule is faster"),
        ("overlap efficiency", efficiency, "share of the baseline's communication hidden"),
        (
            "GEMM inefficiency",
            f"{p.gemm_inefficiency_us:,.1f} us",
            "busiest SM's computing over the baseline's GEMM",
        ),
    ]


def _longest_steps(p: Prediction, most: int = 12) -> list[tuple[str, str, str]]:
    """The longest steps in time order; the rest in one line."""
    path = p.critical_path
    longest = sorted(range(len(path)), key=lambda i: -path[i].us)[:most]
    shown = [path[i] for i in sorted(longest)]
    rows = [(step.resource, str(step.rank), f"{step.us:,.1f}") for step in shown]
    rest = [step.us for i, step in enumerate(path) if i not in longest]
    if rest:
        rows.append((f"{len(rest)} shorter steps", "", f"{sum(rest):,.1f}"))
    return rows
