"""What the words that a debug kernel left in host memory are told as."""

from __future__ import annotations

from tdsim.backend_gpu.lowering.words import COMPARISONS, REPORT_WORDS, Report, WaitKind
from tdsim.backend_gpu.runtime.hangs import sentences


def area(*entries, offered=None):
    words = [1, len(entries) if offered is None else offered]
    for entry in entries:
        words += entry
    return [*words, *[0] * (REPORT_WORDS - len(words))]


def entry(kind, cmp, target, seen, program=2, address=4096):
    return [address, COMPARISONS.index(cmp), target, seen, program, 0, 3, kind]


def test_a_wait_is_told_in_the_values_of_its_own_call():
    words = area(entry(WaitKind.SIGNAL, "ge", target=12, seen=9))
    assert sentences(words, lambda address: (f"ready[{address}]", 4)) == [
        "program instance 2 of 3 waits at a signal in call 2: ready[4096] ge 4, seen 1"
    ]


def test_a_barrier_is_told_in_plain_values():
    words = area(entry(WaitKind.BARRIER_ALL, "ge", target=12, seen=11))
    assert sentences(words, lambda address: ("arrival of PE 1", 0)) == [
        "program instance 2 of 3 waits at a barrier all: arrival of PE 1 ge 12, seen 11"
    ]


def test_waits_are_told_in_their_order_and_only_as_far_as_there_was_room():
    many = [entry(WaitKind.SIGNAL, "eq", 1, 0, program=i) for i in range(Report.CAPACITY)]
    told = sentences(area(*many, offered=1000), lambda address: ("x", 1))
    assert len(told) == Report.CAPACITY
    assert told[5].startswith("program instance 5 of 3")


def test_an_empty_report_tells_nothing():
    assert sentences(area(), lambda address: ("x", 1)) == []
