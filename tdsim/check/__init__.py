"""Verdicts: does a program compute what its reference says, whatever the timing?"""

from tdsim.check.checker import CheckResult, check
from tdsim.check.findings import Finding

__all__ = ["CheckResult", "Finding", "check"]
