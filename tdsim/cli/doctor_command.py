"""``tdsim doctor``: what runs on GPUs need, what is missing, and the command that mends it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tdsim.backends import load_backend
from tdsim.cli.output import table, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="gpu", help="an installed backend (default gpu)")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    findings = load_backend(args.backend).doctor()
    missing = [finding for finding in findings if finding.state == "missing"]
    if args.json:
        write_json([asdict(finding) for finding in findings])
    else:
        verdict = f"{len(missing)} missing" if missing else "everything needed is there"
        rows = [(f.name, f.state, f.found, f.cure) for f in findings]
        table(f"backend {args.backend}: {verdict}", ("part", "state", "found", "cure"), rows)
    return 1 if missing else 0
