"""``tdsim validate``: measured beside predicted, for a list of cases or a record of them."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import shlex
import sys

from tdsim.backends import load_backend
from tdsim.check.agreement import agreements
from tdsim.cli import options
from tdsim.cli.output import progress, say, write_json
from tdsim.cli.validation_report import as_json, short, show_data, show_times
from tdsim.errors import UsageError
from tdsim.predict.caselist import KEY, CaseList, label, note_of, read_list
from tdsim.predict.report import make_job
from tdsim.predict.validation import pairs_of
from tdsim.records import Job, Measurement, Placement, Record
from tdsim.topology import machine


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("list", nargs="?", help="a JSON file of cases; a record needs none")
    parser.add_argument(
        "--record", metavar="FILE", help="what --backend measures goes there, else it is read"
    )
    parser.add_argument("--backend", help="measure on this backend (gpu)")
    parser.add_argument("--nproc", type=int, metavar="N", help="PEs (default: the list's)")
    parser.add_argument("--share-gpu", action="store_true", help="all PEs on one GPU, by MPS")
    parser.add_argument("--pes-per-node", type=int, metavar="P", help="PEs of a logical node")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one case (60)")
    parser.add_argument("--heap-size", type=options.size, metavar="2G", help="symmetric heap")
    parser.add_argument("--topology", help="preset or YAML file (default: the list's)")
    parser.add_argument("--worst", type=int, default=5, help="largest errors to show (5)")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    listed = read_list(args.list) if args.list else None
    if args.backend:
        listed, record = _measure(args, listed)
    else:
        listed, record = _recorded(args, listed)
    target = machine(args.topology or listed.topology)
    pairs = pairs_of(record, target, lambda case: label(case) in listed.held_back)
    data = agreements(record, target)
    failed = [found for found in record.measurements if found.error is not None]
    if not pairs and not data and not failed:
        raise UsageError(
            "no timed case and no data", args.record or args.list, "repeats or runs above 0"
        )
    if args.json:
        write_json(as_json(record, target, pairs, data, args.worst))
    else:
        if pairs:
            show_times(record, target, pairs, args.worst)
        if data:
            show_data(data)
        for found in failed:
            say(f"FAILED {short(found.case)}: {found.error}")
    return 1 if failed or not all(case.right for case in data) else 0


def _recorded(args: argparse.Namespace, listed: CaseList | None) -> tuple[CaseList, Record]:
    """A record from disk, and the list of *args* or that which the record remembers."""
    if not args.record:
        raise UsageError(
            "nothing to compare with",
            "validate",
            "--backend NAME to measure or --record FILE to read",
            "tdsim validate LIST --backend gpu --share-gpu",
        )
    record = Record.read(args.record)
    known = listed or note_of(record)
    if known is None:
        if not args.topology:
            raise UsageError(
                "the record names no topology", args.record, "--topology or its LIST", "add one"
            )
        known = CaseList(topology=args.topology, placement=record.placement, cases=())
    return known, record


def _measure(args: argparse.Namespace, listed: CaseList | None) -> tuple[CaseList, Record]:
    """Run the list on hardware; what has been measured is on disk after each case."""
    if listed is None:
        raise UsageError("no list", "validate", "LIST to measure", "name a JSON file of cases")
    options.check_output(args.record, "--record")
    listed = dataclasses.replace(
        listed,
        placement=_placement(args, listed.placement),
        topology=args.topology or listed.topology,
    )
    _check_cases(listed)
    job = Job(
        cases=listed.cases,
        placement=listed.placement,
        timeout_s=args.timeout,
        heap_bytes=args.heap_size,
    )
    keeper = _Keeper(args.record, listed)
    with progress("measuring", len(job.cases)) as advance:

        def on_result(_: int, found: Measurement) -> None:
            keeper.add(found)
            advance(short(found.case))

        record = load_backend(args.backend).run(job, on_result)
    return listed, keeper.finish(record)


def _placement(args: argparse.Namespace, listed: Placement) -> Placement:
    """The list's placement with what the command line changes."""
    n_pes = listed.n_pes if args.nproc is None else options.count(args, "nproc", 1)
    per_node = listed.pes_per_node if n_pes == listed.n_pes else n_pes
    if args.pes_per_node is not None:
        per_node = options.count(args, "pes-per-node", 1)
    return Placement(
        n_pes=n_pes,
        pes_per_node=per_node,
        share_gpu=args.share_gpu or listed.share_gpu,
    )


def _check_cases(listed: CaseList) -> None:
    """Refuse what cannot be predicted before hardware is touched."""
    target, place = machine(listed.topology), listed.placement
    if (place.n_pes, place.pes_per_node) != (target.world_size, target.gpus_per_node):
        raise UsageError(
            f"{place.n_pes} PEs, {place.pes_per_node} to a node, and {target.name}",
            "validate",
            f"{target.world_size} PEs, {target.gpus_per_node} to a node",
            "give --topology and --nproc that agree",
        )
    for case in listed.cases:
        job = make_job(case.program, target, case.shape, case.tunables, case.dtype, case.seed)
        for name, tensor in job.program.tensors.items():
            tensor.shape(job.sizes, f"{job.program.name} tensor {name}")


class _Keeper:
    """The record on disk: rewritten whole after each result, so nothing measured is lost."""

    def __init__(self, path: str | None, listed: CaseList) -> None:
        self.path, self.listed = path, listed
        self.found: list[Measurement] = []
        self.date = datetime.datetime.now(datetime.UTC).date().isoformat()
        self.command = shlex.join(["tdsim", *sys.argv[1:]])

    def add(self, found: Measurement) -> None:
        self.found.append(found)
        partial = Record(
            date=self.date,
            command=self.command,
            environment={"partial": f"{len(self.found)} of {len(self.listed.cases)} cases"},
            placement=self.listed.placement,
            measurements=tuple(self.found),
        )
        self.finish(partial)

    def finish(self, record: Record) -> Record:
        """*record* with what the list says, also on disk."""
        environment = {**record.environment, KEY: self.listed.note()}
        whole = dataclasses.replace(record, environment=environment)
        if self.path:
            whole.write(self.path)
        return whole
