"""Verdicts: does a program compute what its reference says, whatever the timing?"""

from tdsim.check.checker import CheckResult, Finding, check

__all__ = ["CheckResult", "Finding", "check"]
