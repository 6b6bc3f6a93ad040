"""Public bug reports as programs: each gets the verdict that is right for it."""

from __future__ import annotations

import pytest
from cases import all_cases

from tdsim.check import check

CASES = tuple(all_cases())


def test_every_case_has_a_name_of_its_own():
    assert len({case.id for case in CASES}) == len(CASES)


KNOWN_GAPS = {
    "B26 clear the stage after it": "a schedule that time does not keep to ends in a HANG here, "
    "and whether the program or the chooser is at fault is not settled",
}
"""Cases that do not get their verdict yet; the test fails when one does."""


def _marked(case):
    reason = KNOWN_GAPS.get(case.id)
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(case, marks=marks, id=str(case))


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
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
