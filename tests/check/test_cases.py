"""Public bug reports as programs: each gets the verdict that is right for it."""

from __future__ import annotations

import pytest
from cases import all_cases

from tdsim.check import check

CASES = tuple(all_cases())


def test_every_case_has_a_name_of_its_own():
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_report_gets_its_verdict(case):
    result = check(
        case.program(),
        topology=case.topology,
        dtype=case.dtype,
        seeds=case.seeds,
        calls=case.calls,
    )
    assert result.verdict == case.verdict, result.text()
    told = "\n".join(finding.message for finding in result.findings)
    assert [words for words in case.says if words not in told] == [], told
    assert result.exit_code == (0 if case.verdict == "CLEAN" else 1)
