"""Following a job: results as they come, and the first sign that it will not end well."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from tdsim.backends import OnResult
from tdsim.errors import BackendFailure
from tdsim.records import Job, Measurement

from .failures import explain, too_slow
from .job import JobFolder

GRACE_S = 3.0
"""How long the other ranks may still write their reports after the first one failed."""
START_S = 180.0
"""Time that a rank may take to start or compile, beyond the limit of a case."""
_POLL_S = 0.05


def follow(
    folder: JobFolder, job: Job, ranks: Sequence[subprocess.Popen[bytes]], on_result: OnResult
) -> tuple[Measurement, ...]:
    """The results of all cases, each handed on as it comes; returns once every rank has ended.

    Raises what :func:`explain` makes of the first rank that failed. Ranks end a hanging case
    themselves; that nothing at all comes for far longer is the second net.
    """
    results: list[Measurement] = []
    patience = 2 * job.timeout_s + START_S
    seen, since = -1, time.monotonic()
    while True:
        codes = [rank.poll() for rank in ranks]
        while len(results) < len(job.cases) and (found := folder.result(len(results))):
            on_result(len(results), found)
            results.append(found)
        if (reports := folder.reports()) or any(codes):
            _await_reports(folder, ranks)
            raise explain(folder, job, codes, reports)
        if all(code == 0 for code in codes):
            return _complete(folder, job, results)
        if (progress := len(results) + folder.ready()) != seen:
            seen, since = progress, time.monotonic()
        if time.monotonic() - since > patience:
            raise too_slow(folder, job, len(results), patience)
        time.sleep(_POLL_S)


def _await_reports(folder: JobFolder, ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Give every rank that still runs and has not reported a little time for it."""
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        reports = folder.reports()
        reported = {report.rank for report in reports}
        silent = [
            n for n, rank in enumerate(ranks) if rank.poll() is None and n not in reported
        ]
        if not silent or any(report.kind == "usage" for report in reports):
            return
        time.sleep(_POLL_S)


def _complete(
    folder: JobFolder, job: Job, results: Sequence[Measurement]
) -> tuple[Measurement, ...]:
    if len(results) < len(job.cases):
        what = f"all ranks ended without a result of case {len(results)}"
        raise BackendFailure(what, job.cases[len(results)].program, folder.log_tail(0))
    return tuple(results)
