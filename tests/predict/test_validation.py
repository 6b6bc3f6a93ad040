"""Predicted beside measured: the statistics against SciPy and NumPy, and their laws."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tdsim.errors import UsageError
from tdsim.predict import predict
from tdsim.predict.validation import (
    Pair,
    choices,
    kendall_tau,
    pairs_of,
    predictions,
    quantile,
    summarise_pairs,
    validate,
    worst,
)
from tdsim.records import Case, Measurement, Placement, Record

CASE = Case(program="allgather", shape={"M": 1024, "K": 512})
times = st.integers(1, 10**6).map(float)


def pair(measured, predicted, *, noise=0.0, used=True, case=CASE):
    return Pair(case=case, measured_us=measured, noise=noise, predicted_us=predicted, used=used)


def pairs(measured, predicted, noise=0.0):
    return [pair(m, p, noise=noise) for m, p in zip(measured, predicted, strict=True)]


distinct = st.lists(times, min_size=2, max_size=20, unique=True)
both_distinct = distinct.flatmap(lambda m: st.tuples(st.just(m), st.permutations(m)))
some_pairs = st.lists(
    st.builds(pair, times, times, noise=st.floats(0, 0.2), used=st.booleans()),
    min_size=2,
    max_size=20,
)


@given(both_distinct)
def test_tau_without_noise_and_ties_is_that_of_scipy(both):
    expected = scipy.stats.kendalltau(*both).statistic
    assert kendall_tau(pairs(*both)) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_is_that_of_numpy(values, share):
    expected = float(np.percentile(values, 100 * share))
    assert quantile(values, share) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(some_pairs)
def test_errors_and_bias_are_those_of_numpy(found):
    ratios = np.array([p.predicted_us for p in found]) / [p.measured_us for p in found]
    summary = summarise_pairs(found)
    assert summary.median_error == pytest.approx(np.median(np.abs(ratios - 1)))
    assert summary.p90_error == pytest.approx(np.percentile(np.abs(ratios - 1), 90))
    assert summary.bias == pytest.approx(np.median(ratios))


@given(some_pairs, st.integers(-10, 10))
def test_scaling_all_predictions_changes_neither_tau_nor_a_choice(found, power):
    """By a power of two, which rounds nothing and so makes no tie."""
    scaled = [dataclasses.replace(p, predicted_us=p.predicted_us * 2.0**power) for p in found]
    before, after = summarise_pairs(found), summarise_pairs(scaled)
    assert (before.tau, before.tau_in_problem) == (after.tau, after.tau_in_problem)
    assert [c.loss for c in before.choices] == [c.loss for c in after.choices]


@given(distinct)
def test_perfect_predictions_have_no_error_and_tau_1_and_choose_the_best(measured):
    summary = summarise_pairs(pairs(measured, measured))
    assert (summary.median_error, summary.p90_error, summary.bias) == (0, 0, 1)
    assert (summary.tau, summary.tau_in_problem, summary.worst_loss) == (1, 1, 0)


@given(distinct)
def test_the_reversed_order_has_tau_minus_1_and_chooses_the_slowest(measured):
    summary = summarise_pairs(pairs(measured, [1 / m for m in measured]))
    assert (summary.tau, summary.tau_in_problem) == (-1, -1)
    assert summary.worst_loss == max(measured) / min(measured) - 1


@given(some_pairs, st.randoms())
def test_the_order_of_cases_changes_no_figure(found, random):
    shuffled = random.sample(found, len(found))
    before, after = validate(found), validate(shuffled)
    for a, b in [(before.whole, after.whole), (before.used, after.used)]:
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.tau, a.worst_loss, a.p90_error) == (b.tau, b.worst_loss, b.p90_error)


def test_times_within_the_noise_of_both_are_not_ordered():
    near = [pair(100, 2, noise=0.02), pair(104, 1, noise=0.02)]
    assert kendall_tau(near) is None
    apart = [pair(100, 2, noise=0.02), pair(104.2, 1, noise=0.02)]
    assert kendall_tau(apart) == -1
    one_sided = [pair(100, 2, noise=0.05), pair(104, 1)]
    assert kendall_tau(one_sided) is None


def test_equal_predictions_of_unequal_times_gain_nothing():
    assert kendall_tau(pairs([1, 2, 3], [5, 5, 5])) == 0
    assert kendall_tau(pairs([1, 2, 3], [4, 4, 5])) == pytest.approx(2 / 3)


def test_equal_measurements_are_not_ordered_even_without_noise():
    assert kendall_tau(pairs([7, 7], [1, 2])) is None


def test_the_order_inside_problems_does_not_profit_from_their_sizes():
    big = dataclasses.replace(CASE, shape={"M": 8192, "K": 512})
    found = [pair(1, 2), pair(2, 1), pair(100, 200, case=big), pair(200, 100, case=big)]
    summary = summarise_pairs(found)
    assert summary.tau == pytest.approx((4 - 2) / 6)
    assert summary.tau_in_problem == -1


def test_a_choice_is_made_among_cases_of_equal_program_shape_and_dtype():
    turned = dataclasses.replace(CASE, shape={"K": 512, "M": 1024}, tunables={"comm": "sm"})
    other = dataclasses.replace(CASE, dtype="fp16")
    found = [pair(10, 9), pair(8, 10, case=turned), pair(1, 1, case=other)]
    (choice,) = choices(found)
    assert (choice.chosen, choice.best) == (found[0], found[1])
    assert choice.loss == pytest.approx(0.25)


def test_of_equal_predictions_the_slowest_counts_as_chosen():
    (choice,) = choices(pairs([10, 8, 9], [5, 5, 6]))
    assert (choice.chosen.measured_us, choice.best.measured_us) == (10, 8)


def test_choices_are_listed_with_the_costliest_first():
    big = dataclasses.replace(CASE, shape={"M": 8192, "K": 512})
    found = [pair(1, 1), pair(2, 2), pair(100, 2, case=big), pair(50, 3, case=big)]
    assert [choice.loss for choice in choices(found)] == [1, 0]


def test_the_worst_are_listed_by_error_in_either_direction():
    found = pairs([100, 100, 100, 100], [101, 50, 140, 100])
    assert [p.predicted_us for p in worst(found, 2)] == [50, 140]


def test_used_and_held_back_are_summarised_apart():
    found = [pair(100, 110), pair(200, 220), pair(100, 150, used=False)]
    result = validate(found)
    assert (result.whole.count, result.used.count, result.held_back.count) == (3, 2, 1)
    assert result.used.median_error == pytest.approx(0.1)
    assert result.held_back.median_error == pytest.approx(0.5)
    assert (result.held_back.tau, result.held_back.worst_loss) == (None, None)


def test_a_part_without_cases_has_no_summary_and_no_cases_at_all_are_refused():
    assert validate([pair(1, 1)]).held_back is None
    with pytest.raises(
        UsageError, match="validation: nothing to compare; expected a timed case"
    ):
        validate([])


def record(*measurements, n_pes=2, pes_per_node=2):
    return Record(
        date="2025-01-01",
        command="tdsim validate",
        environment={},
        placement=Placement(n_pes=n_pes, pes_per_node=pes_per_node, share_gpu=True),
        measurements=measurements,
    )


SM = dataclasses.replace(CASE, tunables={"comm": "sm", "num_comm_sms": 4})
TIMED = Measurement(case=CASE, time_us=((10.0, 11.0, 12.0, 13.0), (20.0, 21.0, 22.0, 23.0)))
SHORT = Measurement(case=SM, time_us=((30.0, 32.0), (31.0, 31.0)))
FAILED = Measurement(case=SM, error="no result")


def test_each_timed_case_is_predicted_with_its_own_tunables():
    found = predictions(record(TIMED, FAILED, SHORT), "h200-shared-2")
    expected = [
        predict("allgather", topology="h200-shared-2", shape=c.shape, tunables=c.tunables)
        for c in (CASE, SM)
    ]
    assert found == (expected[0].time_us, None, expected[1].time_us)
    assert found[0] != found[2]


def test_pairs_hold_what_was_measured_on_the_slowest_rank_and_leave_failures_out():
    first, second = pairs_of(
        record(TIMED, FAILED, SHORT), "h200-shared-2", lambda case: case == SM
    )
    assert (first.case, first.measured_us, first.used) == (CASE, 21.5, True)
    assert first.noise == TIMED.noise
    assert (second.case, second.measured_us, second.noise, second.used) == (SM, 31, 0, False)


def test_a_record_read_from_json_gives_the_same_pairs(tmp_path):
    written = record(TIMED, SHORT)
    written.write(tmp_path / "record.json")
    read = Record.read(tmp_path / "record.json")
    assert pairs_of(read, "h200-shared-2", lambda case: False) == pairs_of(
        written, "h200-shared-2", lambda case: False
    )


@pytest.mark.parametrize(("n_pes", "pes_per_node"), [(4, 4), (2, 1)])
def test_a_record_of_another_placement_is_refused(n_pes, pes_per_node):
    wrong = record(TIMED, n_pes=n_pes, pes_per_node=pes_per_node)
    with pytest.raises(UsageError, match=f"the record's {n_pes} PEs, {pes_per_node} to a node"):
        predictions(wrong, "h200-shared-2")
