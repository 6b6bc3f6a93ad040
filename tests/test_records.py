"""Jobs, measurements and records: what is written is what is read, and a bad file is one line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsim.errors import UsageError
from tdsim.records import Case, Job, Measurement, Placement, Record, Span, Timeline
from tdsim.samples import Sample

NAMES = st.text(max_size=12)
COUNTS = st.integers(0, 10**12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = COUNTS | NUMBERS | NAMES | st.booleans() | st.none()


def rows(items):
    """A tuple for each rank, all of any length."""
    return st.lists(st.lists(items, max_size=4).map(tuple), max_size=3).map(tuple)


CASES = st.builds(
    Case,
    program=NAMES,
    shape=st.dictionaries(NAMES, COUNTS, max_size=3),
    tunables=st.dictionaries(NAMES, VALUES, max_size=3),
    dtype=NAMES,
    seed=COUNTS,
    runs=COUNTS,
    calls=COUNTS,
    warmup=COUNTS,
    repeats=COUNTS,
)
PLACEMENTS = st.builds(Placement, n_pes=COUNTS, pes_per_node=COUNTS, share_gpu=st.booleans())
JOBS = st.builds(
    Job,
    cases=st.lists(CASES, max_size=3).map(tuple),
    placement=PLACEMENTS,
    timeout_s=NUMBERS,
    debug=st.booleans(),
    heap_bytes=st.none() | COUNTS,
    trace=st.booleans(),
)
TIMELINES = st.builds(
    Timeline,
    spans=st.lists(
        st.builds(Span, NAMES, COUNTS, NAMES, COUNTS, COUNTS, NAMES), max_size=3
    ).map(tuple),
    step_ns=COUNTS,
    offsets_ns=st.lists(COUNTS, max_size=3).map(tuple),
    uncertainty_ns=COUNTS,
    stream_uncertainty_ns=COUNTS,
    dropped=COUNTS,
    unpaired=COUNTS,
)
SAMPLES = st.builds(
    Sample, call=COUNTS, rank=COUNTS, output=NAMES, digest=NAMES, elements=NAMES
)
MEASUREMENTS = st.builds(
    Measurement,
    case=CASES,
    time_us=rows(NUMBERS),
    skew_us=st.none() | NUMBERS,
    wrong_runs=st.none() | COUNTS,
    max_error=st.none() | NUMBERS,
    heap_bytes=COUNTS,
    kernels=st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, max_size=3), max_size=2),
    error=st.none() | NAMES,
    timeline=st.none() | TIMELINES,
    samples=st.lists(SAMPLES, max_size=3).map(tuple),
)
RECORDS = st.builds(
    Record,
    date=NAMES,
    command=NAMES,
    environment=st.dictionaries(NAMES, VALUES, max_size=3),
    placement=PLACEMENTS,
    measurements=st.lists(MEASUREMENTS, max_size=3).map(tuple),
)
CASE = Case(program="allgather", shape={"M": 64})


@pytest.mark.parametrize(
    "kind", [JOBS, MEASUREMENTS, RECORDS], ids=["job", "measured", "record"]
)
@given(data=st.data())
def test_what_went_through_json_text_is_equal_to_what_was_written(kind, data):
    value = data.draw(kind)
    assert type(value).from_json(json.loads(json.dumps(value.to_json()))) == value


@given(record=RECORDS)
def test_a_record_read_from_a_file_is_equal_to_the_one_written(record, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "record.json"
    record.write(path)
    assert Record.read(path) == record


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "no json", '{"measurements": 3}', b"\xff"], ids=repr
)
def test_a_file_that_is_no_record_is_refused_in_one_line_that_names_it(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        Record.read(path)
    assert str(caught.value).startswith(f"{path}: not a record (")
    assert "\n" not in str(caught.value)


def test_the_median_is_that_of_the_slowest_rank():
    found = Measurement(case=CASE, time_us=((1.0, 2.0, 30.0), (4.0, 5.0, 3.0)))
    assert found.median_us == 4.0


def test_the_noise_is_half_the_quartile_distance_over_the_median_of_the_slowest_rank():
    slow = (9.0, 10.0, 10.0, 10.0, 11.0)
    found = Measurement(case=CASE, time_us=((1.0, 2.0, 3.0, 4.0, 5.0), slow))
    assert found.noise == pytest.approx(0.05)  # quartiles 9.5 and 10.5


def test_a_case_that_was_not_timed_has_neither_median_nor_noise():
    assert Measurement(case=CASE).median_us is None
    assert Measurement(case=CASE).noise is None


def test_a_case_whose_times_are_all_zero_has_no_noise():
    found = Measurement(case=CASE, time_us=((0.0, 0.0, 0.0, 0.0, 0.0),))
    assert (found.median_us, found.noise) == (0.0, None)
