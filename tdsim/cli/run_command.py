"""``tdsim run``: one program on real GPUs, its data compared and its calls timed."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from tdsim.backends import load_backend
from tdsim.cli import options, run_trace
from tdsim.cli.output import progress, say, table, write_json
from tdsim.errors import UsageError
from tdsim.programs import load_program
from tdsim.records import Case, Job, Measurement, Placement, Record
from tdsim.units import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser, topology="")
    parser.add_argument("--backend", default="gpu", help="an installed backend (default gpu)")
    parser.add_argument("--nproc", type=int, metavar="N", help="PEs, a process each")
    parser.add_argument("--share-gpu", action="store_true", help="all PEs on one GPU, by MPS")
    parser.add_argument("--pes-per-node", type=int, metavar="P", help="PEs of a logical node")
    parser.add_argument("--runs", type=int, default=0, help="runs with data (default 0)")
    parser.add_argument("--calls", type=int, default=3, help="calls of such a run (default 3)")
    parser.add_argument("--repeats", type=int, default=20, help="timed calls (default 20)")
    parser.add_argument("--warmup", type=int, default=3, help="calls before them (default 3)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds it may take (60)")
    parser.add_argument("--debug", action="store_true", help="limit and report every wait")
    parser.add_argument("--heap-size", type=options.size, metavar="2G", help="symmetric heap")
    run_trace.add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = make_job(args)
    predicted = run_trace.predicted_job(args, job)
    backend = load_backend(args.backend)
    start = backend.join if _under_torchrun(args) else backend.run
    with progress("run", len(job.cases)) as advance:
        record = start(job, lambda _, found: advance(found.case.program))
    if record is None:  # another rank prints
        return 0
    (found,) = record.measurements
    if not args.json:
        show(record, found)
    timeline = run_trace.write(args, record, found, predicted)
    if args.json:
        write_json({**report(record, found), **run_trace.report(timeline)})
    else:
        run_trace.show(timeline)
    return 1 if found.error or found.wrong_runs else 0


def make_job(args: argparse.Namespace) -> Job:
    """The job that the options ask for; without ``--shape`` with the program's small sizes."""
    placement = _placement(args)
    least = {"runs": 0, "calls": 1, "repeats": 0, "warmup": 0}
    numbers = {name: options.count(args, name, value) for name, value in least.items()}
    if not args.timeout > 0:
        raise UsageError(f"{args.timeout:g}", "--timeout", "seconds, more than 0", "give 60")
    program = load_program(args.kernel)
    nodes = placement.n_pes // placement.pes_per_node
    case = Case(
        program=args.kernel,
        shape=options.shape(args, False) or program.default_shape(placement.n_pes, nodes),
        tunables=options.tunables(args),
        dtype=args.dtype,
        seed=args.seed,
        **numbers,
    )
    return Job(
        cases=(case,),
        placement=placement,
        timeout_s=args.timeout,
        debug=args.debug,
        heap_bytes=args.heap_size,
        trace=args.trace is not None,
    )


def _placement(args: argparse.Namespace) -> Placement:
    if args.nproc is None:
        if not _under_torchrun(args):
            raise UsageError("not given", "--nproc", "how many PEs to start", "add --nproc 4")
        if args.share_gpu:
            raise UsageError(
                "under torchrun", "--share-gpu", "PEs that tdsim starts", "use --nproc instead"
            )
        n_pes = int(os.environ["WORLD_SIZE"])
    else:
        n_pes = options.count(args, "nproc", 1)
    per_node = n_pes if args.pes_per_node is None else options.count(args, "pes-per-node", 1)
    if n_pes % per_node:
        raise UsageError(
            what=f"{per_node} does not divide {n_pes} PEs",
            where="--pes-per-node",
            expected="nodes of equal size",
            cure="give a divisor of --nproc",
        )
    return Placement(n_pes=n_pes, pes_per_node=per_node, share_gpu=args.share_gpu)


def _under_torchrun(args: argparse.Namespace) -> bool:
    """Whether this process already is one of the ranks; --nproc asks for processes anyway."""
    return args.nproc is None and {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= os.environ.keys()


def report(record: Record, found: Measurement) -> dict[str, Any]:
    """The result as plain data: the figures of people first, then all that is known."""
    return {
        "kernel": found.case.program,
        "time_us": [statistics.median(times) for times in found.time_us],
        "median_us": found.median_us,
        "error": found.error,
        "wrong_runs": found.wrong_runs,
        "max_error": found.max_error,
        "environment": dict(record.environment),
        "placement": asdict(record.placement),
        "date": record.date,
        "command": record.command,
        "measurement": replace(found, timeline=None).to_json(),
    }


def show(record: Record, found: Measurement) -> None:
    """The result as people read it."""
    case, place = found.case, record.placement
    sizes = " ".join(f"{key} {size}" for key, size in case.shape.items())
    device = record.environment.get("device", "an unnamed GPU")
    where = f"{place.n_pes} PEs on {'one ' if place.share_gpu else ''}{device}"
    head = f"{case.program} on {where}, {sizes}, {case.dtype}"
    if found.error:
        say(f"{head}: no result: {found.error}")
        return
    verdict = "" if found.median_us is None else f": {found.median_us:,.1f} us"
    table(head + verdict, ("figure", "value", "meaning"), _figures(found))


def _figures(found: Measurement) -> Iterator[tuple[str, str, str]]:
    medians = [statistics.median(times) for times in found.time_us if times]
    for rank, median in enumerate(medians):
        slowest = ", the slowest" if median == max(medians) and len(medians) > 1 else ""
        meaning = f"median of {len(found.time_us[rank])} calls{slowest}"
        yield f"rank {rank}", f"{median:,.1f} us", meaning
    if found.noise is not None:
        yield "spread", f"{found.noise:.1%}", "half the quartile distance of the slowest rank"
    if found.skew_us is not None:
        yield "skew", f"{found.skew_us:,.1f} us", "between the ranks' starts, median"
    if found.wrong_runs is not None:
        yield "wrong runs", f"{found.wrong_runs} of {found.case.runs}", "against the reference"
    if found.max_error is not None:
        yield "data error", f"{found.max_error:.2e}", "relative norm, worst output"
    yield "heap", format_bytes(found.heap_bytes), "symmetric memory in use per PE"
