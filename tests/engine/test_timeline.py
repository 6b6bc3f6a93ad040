"""Segments and the critical path."""

from tdsim.engine.timeline import Segment, critical_path


def segment(kind, begin, end, cause=None):
    return Segment(kind, 0, "SM 000 compute", begin, end, cause)


def shape(path):
    return [(s.kind, s.begin, s.end) for s in path]


def test_the_path_of_nothing_is_empty():
    assert critical_path(None, 0) == []


def test_the_path_follows_causes_in_time_order():
    last = segment("compute", 30, 50, segment("link", 10, 30, segment("host", 0, 10)))
    assert shape(critical_path(last, 0)) == [
        ("host", 0, 10),
        ("link", 10, 30),
        ("compute", 30, 50),
    ]


def test_waiting_is_replaced_by_what_was_waited_for():
    copy = segment("copy", 0, 40)
    last = segment("compute", 40, 50, segment("wait", 5, 40, copy))
    assert shape(critical_path(last, 0)) == [("copy", 0, 40), ("compute", 40, 50)]


def test_overlapping_causes_are_cut_so_that_no_instant_counts_twice():
    last = segment("compute", 20, 50, segment("copy", 0, 45))
    path = critical_path(last, 0)
    assert shape(path) == [("copy", 0, 20), ("compute", 20, 50)]
    assert sum(s.end - s.begin for s in path) == 50


def test_the_path_begins_no_earlier_than_asked():
    last = segment("compute", 30, 50, segment("host", 0, 30))
    assert shape(critical_path(last, 20)) == [("host", 20, 30), ("compute", 30, 50)]


def test_a_segment_prints_who_and_when():
    assert repr(segment("copy", 3, 9)) == "<copy rank 0 SM 000 compute 3..9>"
