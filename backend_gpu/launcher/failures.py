"""What went wrong in a job, from what its ranks left: one error with one cause."""

from __future__ import annotations

from collections.abc import Sequence

from tdsim.errors import BackendFailure, HangError, TdsimError, UsageError
from tdsim.records import Job

from .job import JobFolder, Report
from .processes import ending

_LINES = 12
"""Of a traceback, as many as a reader wants to see below one line."""


def explain(
    folder: JobFolder, job: Job, codes: Sequence[int | None], seen: Sequence[Report]
) -> TdsimError:
    """The error to raise, from the ranks' exit codes and reports when trouble was first seen.

    What came first is the cause: later reports are mostly consequences, such as lost
    connections. So is a report of failure beside a rank that a signal killed without a word.
    """
    reports = folder.reports()
    reported = {report.rank for report in reports}
    silent = [rank for rank, code in enumerate(codes) if code and rank not in reported]
    killed = [rank for rank in silent if (codes[rank] or 0) < 0]
    if seen and not (killed and seen[0].kind == "failure"):
        return of_reports(folder, job, reports)
    rank = (killed or silent)[0]
    where = f"rank {rank} of {job.placement.n_pes}"
    return BackendFailure(ending(codes[rank] or 0), where, folder.log_tail(rank))


def of_reports(folder: JobFolder, job: Job, reports: Sequence[Report]) -> TdsimError:
    """The error that the first of *reports* tells of; hangs of all ranks are told together."""
    first = reports[0]
    if first.kind == "usage":
        return UsageError(first.what, first.where, first.expected, first.cure)
    if first.kind == "hang":
        hung = sorted((r for r in reports if r.kind == "hang"), key=lambda r: r.rank)
        ranks = ", ".join(str(report.rank) for report in hung)
        lines = [line for report in hung for line in report.report]
        return HangError(first.what, f"{_case(job, first.case)}on rank {ranks}", lines)
    where = f"{_case(job, first.case)}rank {first.rank} of {job.placement.n_pes}"
    told = first.where and first.where != f"PE {first.rank}"
    what = f"{first.where}: {first.what}" if told else first.what
    lines = list(first.report[-_LINES:]) or folder.log_tail(first.rank)
    return BackendFailure(what, where, lines)


def too_slow(folder: JobFolder, job: Job, case: int, seconds: float) -> HangError:
    """Nothing came from any rank, not even a report: what their logs last said."""
    lines = [
        f"rank {rank}: {line}"
        for rank in range(job.placement.n_pes)
        for line in folder.log_tail(rank, 3)
    ]
    case = min(case, len(job.cases) - 1)
    return HangError(f"no word from any rank for {seconds:.0f} s", _case(job, case)[:-2], lines)


def _case(job: Job, index: int | None) -> str:
    return "" if index is None else f"case {index} ({job.cases[index].program}), "
