"""Quantities in machine files: exact, with a unit, and refused in one sentence otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsim.errors import TdsimError
from tdsim.topology.quantity import BANDWIDTH, COMPUTE, SIZE, TIME, parse


@pytest.mark.parametrize(
    ("text", "dimension", "amount"),
    [
        ("450 GB/s", BANDWIDTH, 450 * 10**9),
        ("400 Gb/s", BANDWIDTH, 50 * 10**9),
        ("48.6GB/s", BANDWIDTH, 48_600_000_000),
        ("87 GiB/s", BANDWIDTH, 87 * 2**30),
        ("1 Mb/s", BANDWIDTH, 125_000),
        ("1 KB/s", BANDWIDTH, 1000),
        ("600 ns", TIME, 600_000),
        ("2.5 us", TIME, 2_500_000),
        ("0 ps", TIME, 0),
        ("1e-3 s", TIME, 10**9),
        ("50 MB", SIZE, 50 * 10**6),
        ("80 GiB", SIZE, 80 * 2**30),
        ("1 KiB", SIZE, 1024),
        ("989 TFLOP/s", COMPUTE, 989 * 10**12),
        ("1.9789 PFLOP/s", COMPUTE, 19789 * 10**11),
    ],
)
def test_a_quantity_is_its_number_times_its_unit_exactly(text, dimension, amount):
    assert parse(text, dimension, "own.yaml") == amount


@given(
    st.integers(1, 10**12),
    st.sampled_from(
        [(dim, unit) for dim in (BANDWIDTH, TIME, SIZE, COMPUTE) for unit in dim.units]
    ),
)
def test_whole_numbers_of_every_unit_are_read_without_rounding(number, of):
    dimension, unit = of
    exact = number * dimension.units[unit]
    assert abs(parse(f"{number} {unit}", dimension, "own.yaml") - exact) <= 0.5
    if exact.denominator == 1:
        assert parse(f"{number} {unit}", dimension, "own.yaml") == exact


@pytest.mark.parametrize(
    ("value", "dimension", "sentence"),
    [
        (
            450,
            BANDWIDTH,
            "450 has no unit; expected a bandwidth such as '450 GB/s' or '400 Gb/s'; "
            "write the unit behind it",
        ),
        (
            "600",
            TIME,
            "'600' has no unit; expected a time such as '600 ns'; write the unit behind it",
        ),
        ("fast", SIZE, "'fast' is no size; expected a size such as '50 MB' or '80 GiB'"),
        (True, TIME, "True is no time; expected a time such as '600 ns'"),
        (None, TIME, "None is no time; expected a time such as '600 ns'"),
        (
            "400 Gbps",
            BANDWIDTH,
            "unknown unit of bandwidth 'Gbps'; expected one of B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, "
            "MiB/s, GiB/s, TiB/s, Mb/s, Gb/s, Tb/s; did you mean 'Gb/s'?",
        ),
        (
            "5 minutes",
            TIME,
            "unknown unit of time 'minutes'; expected one of ps, ns, us, ms, s",
        ),
        ("0 GB/s", BANDWIDTH, "'0 GB/s' is too small; expected a bandwidth above zero"),
        ("0.1 B/s", BANDWIDTH, "'0.1 B/s' is too small; expected a bandwidth above zero"),
        ("-5 ns", TIME, "'-5 ns' is too small; expected a time of zero or more"),
    ],
)
def test_what_is_no_quantity_is_told_what_one_looks_like(value, dimension, sentence):
    with pytest.raises(TdsimError) as error:
        parse(value, dimension, "own.yaml, gpu, hbm")
    assert str(error.value) == f"own.yaml, gpu, hbm: {sentence}"


@pytest.mark.parametrize("text", ["9" * 5000 + " ns", "1e999999999 ns", "\n", "ns", "1.2.3 ns"])
def test_a_malformed_number_is_refused_at_once_and_on_one_line(text):
    with pytest.raises(TdsimError) as error:
        parse(text, TIME, "own.yaml")
    assert "\n" not in str(error.value)
