"""What the events of a traced call and the marks of its streams are told as."""

from __future__ import annotations

import pytest
from tdsim.backend_gpu.lowering.words import END, SM, EventKind, Trace
from tdsim.backend_gpu.runtime.offsets import Offsets, offsets, skew_us
from tdsim.backend_gpu.runtime.spans import (
    Launched,
    Mark,
    Part,
    event_clock,
    of_events,
    of_marks,
    shared_out,
    timeline,
)

from tdsim.records import Span


def begin(kind, time, payload=0, program=0, sm=3):
    return [time, kind + sm * SM, program, payload]


def end(kind, time, payload=0, program=0, sm=3):
    return begin(kind + END, time, payload, program, sm)


def start(time, program=0, sm=3):
    return begin(EventKind.START, time, 0, program, sm)


def buffer(*events, offered=None, room=None):
    words = [len(events) if offered is None else offered, 0]
    for event in events:
        words += event
    empty = 0 if room is None else room - len(events)
    return [*words, *[0] * (empty * Trace.EVENT_WORDS)]


def gemm(*events, **how):
    return Launched(buffer(*events, **how), "gemm", "compute")


def told(*launched):
    return of_events(1, launched)


def test_an_instance_waits_computes_a_tile_and_signals_it():
    found = told(
        gemm(
            start(100),
            begin(EventKind.WAIT, 110, 7),
            end(EventKind.WAIT, 250, 7),
            end(EventKind.STORE, 900),
            begin(EventKind.SIGNAL_OP, 905, 2),
            end(EventKind.SIGNAL_OP, 930, 2),
        )
    )
    lane = "SM 003 compute"
    assert found.spans == [
        Span("compute", 1, lane, 100, 110, "gemm"),
        Span("wait", 1, lane, 110, 250, "signal 7"),
        Span("compute", 1, lane, 250, 900, "gemm, tile"),
        Span("compute", 1, lane, 900, 905, "gemm"),
        Span("signal", 1, lane, 905, 930, "signal 2"),
    ]
    assert found.starts == {"gemm": [100]}
    assert (found.dropped, found.unpaired) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "payload", "span"),
    [
        (EventKind.PUT, 2, ("comm", "put to PE 2")),
        (EventKind.GET, 3, ("comm", "get from PE 3")),
        (EventKind.BARRIER_ALL, 0, ("barrier", "barrier_all")),
        (EventKind.GRID_BARRIER, 4, ("wait", "grid barrier 4")),
    ],
)
def test_each_operation_has_the_simulators_kind(kind, payload, span):
    (told_as,) = told(gemm(begin(kind, 10, payload), end(kind, 20, payload))).spans
    assert (told_as.kind, told_as.detail) == span


def test_instances_and_kernels_that_are_mixed_are_paired_each_by_itself():
    wait = EventKind.WAIT
    found = told(
        gemm(
            begin(wait, 1, 0, program=0, sm=0),
            begin(wait, 2, 1, program=1, sm=1),
            begin(wait, 3, 2, program=1 << 32, sm=0),
            end(wait, 4, 1, program=1, sm=1),
            end(wait, 5, 2, program=1 << 32, sm=0),
            end(wait, 6, 0, program=0, sm=0),
        ),
        Launched(buffer(begin(wait, 7, 5, sm=0), end(wait, 9, 5, sm=0)), "push", "comm"),
    )
    assert {(s.lane, s.begin, s.end, s.detail) for s in found.spans} == {
        ("SM 000 compute", 1, 6, "signal 0"),
        ("SM 001 compute", 2, 4, "signal 1"),
        ("SM 000 compute", 3, 5, "signal 2"),
        ("SM 000 comm", 7, 9, "signal 5"),
    }
    assert found.unpaired == 0


def test_events_at_one_tick_of_a_coarse_timer_keep_the_order_of_the_instance():
    wait, signal = EventKind.WAIT, EventKind.SIGNAL_OP
    found = told(
        gemm(begin(wait, 1000), end(wait, 2000), begin(signal, 2000), end(signal, 2000))
    )
    assert [(s.kind, s.begin, s.end) for s in found.spans] == [("wait", 1000, 2000)]
    assert found.unpaired == 0


def test_the_next_launch_of_a_kernel_begins_anew():
    found = told(
        gemm(start(10), end(EventKind.STORE, 20), start(500), end(EventKind.STORE, 530))
    )
    assert [(s.begin, s.end) for s in found.spans] == [(10, 20), (500, 530)]
    assert found.starts == {"gemm": [10, 500]}


def test_events_without_room_are_counted_and_leave_their_partners_untold():
    events = [start(0), begin(EventKind.WAIT, 5)]
    found = told(gemm(*events, offered=6))
    assert (found.dropped, found.unpaired) == (4, 1)
    assert [(s.kind, s.begin, s.end) for s in found.spans] == [("compute", 0, 5)]


def test_words_beyond_the_last_event_are_no_events():
    found = told(gemm(start(7), end(EventKind.STORE, 9), room=5))
    assert len(found.spans) == 1
    assert (found.dropped, found.unpaired) == (0, 0)


def test_an_end_without_its_begin_is_told_as_nothing():
    found = told(gemm(end(EventKind.PUT, 9), end(EventKind.WAIT, 12)))
    assert (found.spans, found.unpaired) == ([], 2)


def test_room_is_what_was_counted_and_some_more():
    assert all(got >= n for got, n in zip(shared_out([800, 0], 10_000), [800, 0], strict=True))


def test_more_events_than_there_is_memory_for_share_it_in_proportion():
    large, small = shared_out([9_000_000, 900_000], 1_000_000)
    assert large + small <= 1_000_000
    assert large / small == pytest.approx(10, rel=0.01)


def test_a_launch_lasts_until_its_first_instance_starts():
    marks = [
        Mark("launch", "stream main", "gemm", 100, 900, "gemm"),
        Mark("launch", "stream main", "gemm", 1000, 1900, "gemm"),
        Mark("copy", "stream comm", "64 bytes", 50, 80),
    ]
    spans = list(of_marks(2, marks, {"gemm": [130, 140, 1025]}, 10))
    assert spans == [
        Span("launch", 2, "stream main", 100, 130, "gemm"),
        Span("launch", 2, "stream main", 1000, 1025, "gemm"),
        Span("copy", 2, "stream comm", 50, 80, "64 bytes"),
    ]


def test_a_start_just_before_its_launch_by_another_clock_is_the_launches():
    mark = Mark("launch", "stream main", "gemm", 100, 900, "gemm")
    assert list(of_marks(0, [mark], {"gemm": [95, 400]}, 10)) == []


def test_a_launch_whose_start_is_unknown_lasts_until_its_end():
    mark = Mark("launch", "stream main", "gemm", 100, 900, "gemm")
    (span,) = of_marks(0, [mark], {}, 10)
    assert (span.begin, span.end) == (100, 900)


def test_readings_between_events_bound_how_far_the_clocks_are_apart():
    ahead = 1_796_300_000_000_000_001  # what no float holds; each reading is between its events
    rounds = [
        (0.0, ahead + 300, 1000.0), (2000.0, ahead + 2900, 3000.0), (4000.0, ahead + 4100, 4200.0),
    ]  # fmt: skip
    bound = event_clock(rounds, step=0)
    assert abs(bound.value - ahead) <= bound.uncertainty
    assert bound.uncertainty == 100


def test_a_coarse_timer_widens_the_bound_by_its_step():
    rounds = [(0.0, 5000, 100.0)]
    assert event_clock(rounds, 1000).uncertainty == event_clock(rounds, 0).uncertainty + 500


def part(spans=(), left=1000, meetings=(0,), **more):
    facts = {"step": 32, "stream_uncertainty": 10, "dropped": 0, "unpaired": 0, **more}
    return Part(spans=spans, left=left, meetings=meetings, **facts)


def test_the_timeline_begins_when_the_first_rank_leaves_the_barrier():
    spans = [Span("wait", 0, "SM 000 compute", 1500, 1700)]
    late = [Span("copy", 1, "stream comm", 990, 1400), Span("copy", 1, "stream comm", 10, 900)]
    found = timeline([part(spans, left=1010), part(late, left=1000)], one_timer=True)
    assert found.spans == (
        Span("wait", 0, "SM 000 compute", 500, 700),
        Span("copy", 1, "stream comm", 0, 400),
    )
    assert (found.offsets_ns, found.uncertainty_ns) == ((0, 0), 0)


def test_other_gpus_times_are_taken_back_to_rank_0s():
    parts = [
        part([Span("wait", 0, "SM 000 compute", 1100, 1200)], 1000, (5000, 6000, 7000)),
        part(
            [Span("wait", 1, "SM 000 compute", 91_100, 91_200)],
            91_000,
            (95_000, 96_030, 96_990),
            step=64,
            dropped=2,
            unpaired=3,
            stream_uncertainty=70,
        ),
    ]
    found = timeline(parts, one_timer=False)
    assert found.offsets_ns == (0, 90_000)
    assert [(s.begin, s.end) for s in found.spans] == [(100, 200), (100, 200)]
    assert (found.step_ns, found.stream_uncertainty_ns) == (64, 70)
    assert (found.dropped, found.unpaired, found.uncertainty_ns) == (2, 3, 30)


def test_the_skew_is_the_median_distance_between_the_first_and_the_last():
    left = [(100, 1000, 5000), (160, 1500, 5000), (130, 900, 9000)]
    assert skew_us(left, (0, 0, 0)) == 0.6


def test_offsets_are_medians_and_what_strays_from_them_is_the_uncertainty():
    found = offsets([(0, 100, 200), (7, 110, 205)])
    assert found == Offsets((0, 7), 3)
    assert skew_us([(0, 100, 200), (7, 110, 205)], found.of) == 0.002
