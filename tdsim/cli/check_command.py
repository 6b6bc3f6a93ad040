"""``tdsim check``: run with data and report what is wrong."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from tdsim.check import CheckResult, check
from tdsim.check.checker import functional_job
from tdsim.check.exhaustive import MAX_SCHEDULES, random_schedule
from tdsim.check.minimize import Removal, minimize_sync, sites_of
from tdsim.check.story_picture import story_picture
from tdsim.check.verdicts import CLEAN
from tdsim.cli import options
from tdsim.cli.output import progress, say, table, write_json
from tdsim.errors import UsageError
from tdsim.files import write_whole
from tdsim.sim import Job
from tdsim.topology import machine


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser, topology="h800x4")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds from --seed on")
    parser.add_argument("--calls", type=int, default=3, help="calls back to back (default 3)")
    parser.add_argument(
        "--straggler", metavar="RANK=US,...", help="start ranks late; random:US draws by seed"
    )
    parser.add_argument(
        "--delay", action="append", default=[], metavar="rank=2,op=put,50us",
        help="hold up each such operation of a rank (put, signal, wait, launch or copy)",
    )  # fmt: skip
    parser.add_argument(
        "--delay-seed", type=options.seed("--delay-seed"),
        help="draw one such delay for each rank by this seed",
    )  # fmt: skip
    parser.add_argument(
        "--minimize-sync",
        action="store_true",
        help="leave out each wait, signal, fence and barrier in turn: which are needed?",
    )
    parser.add_argument(
        "--picture", metavar="FILE.svg", help="draw what led to the first finding there"
    )
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="run every schedule of a small program; says whether all were covered",
    )
    parser.add_argument(
        "--schedules",
        type=int,
        default=MAX_SCHEDULES,
        help=f"most runs of --exhaustive (default {MAX_SCHEDULES:,})",
    )
    parser.add_argument(
        "--replay",
        type=options.seed("--replay"),
        metavar="SEED",
        help="show one random schedule step by step: the same for the same SEED",
    )
    parser.add_argument("--output", metavar="FILE", help="write the JSON report there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options.check_output(args.output)
    options.check_output(args.picture, "--picture")
    for name in ("seeds", "calls", "schedules"):
        options.count(args, name, 1)
    if args.replay is not None:
        return _replay(args)
    with progress("checking", args.schedules if args.exhaustive else args.seeds) as advance:
        result = check(
            args.kernel,
            topology=args.topology,
            shape=options.shape(args, required=False),
            tunables=options.tunables(args),
            dtype=args.dtype,
            seed=args.seed,
            seeds=args.seeds,
            calls=args.calls,
            exhaustive=args.exhaustive,
            schedules=args.schedules,
            delays=options.delays(args.straggler, machine(args.topology).world_size, args.seed),
            advance=advance,
            injected=options.injected(args, machine(args.topology).world_size),
        )
    report = result.to_json()
    removals: tuple[Removal, ...] = ()
    if args.minimize_sync and result.exit_code == 0:
        removals = _removals(args)
        report["removals"] = [removal.to_json() for removal in removals]
    if args.picture:
        _draw(args.picture, result)
    if args.output:
        write_json(report, args.output)
    if args.json:
        write_json(report)
        return result.exit_code
    say(result.text())
    if removals:
        _show(removals, args.seeds)
    return result.exit_code


def _draw(path: str, result: CheckResult) -> None:
    """The space-time picture of the first finding that has a story."""
    told = next((finding for finding in result.findings if finding.story), None)
    if told is None:
        raise UsageError(
            f"{result.kernel} is {result.verdict}: nothing to draw", "--picture",
            "a finding with a story", "tdsim trace KERNEL --output FILE.svg draws a whole run",
        )  # fmt: skip
    title = f"{result.kernel} on {result.topology}, seed {told.seed}: {told.verdict}"
    write_whole(path, story_picture(title, told.story).encode(), "--picture")


def _replay(args: argparse.Namespace) -> int:
    shown = random_schedule(_job(args), args.replay)
    report = {"seed": args.replay, **asdict(shown)}
    if args.output:
        write_json(report, args.output)
    if args.json:
        write_json(report)
    else:
        say("\n".join([*shown.steps, f"{shown.verdict}: {shown.message}".rstrip(": ")]))
    return 0 if shown.verdict == CLEAN else 1


def _job(args: argparse.Namespace) -> Job:
    return functional_job(
        args.kernel, args.topology, options.shape(args, required=False),
        options.tunables(args), args.dtype, args.calls, args.seed,
    )  # fmt: skip


def _removals(args: argparse.Namespace) -> tuple[Removal, ...]:
    job = _job(args)
    with progress("leaving out", len(sites_of(job))) as advance:
        return minimize_sync(job, args.seeds, advance)


def _show(removals: tuple[Removal, ...], seeds: int) -> None:
    table(
        f"left out one at a time, {seeds} seed(s) each; CLEAN: nothing showed a need for it",
        ("operation", "reached", "without it", "saved us", "where"),
        [_row(removal) for removal in removals],
    )


def _row(removal: Removal) -> tuple[str, ...]:
    saved: Any = "" if removal.saved_ps is None else f"{removal.saved_ps / 1e6:.2f}"
    site = removal.site
    return (site.operation, str(removal.times), removal.verdict, saved, site.place)
