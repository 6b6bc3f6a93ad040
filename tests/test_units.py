"""Time and bandwidth are whole numbers, and bytes become time in one place, rounded up."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsim import units
from tdsim.units import PS_PER_S, Bandwidth, format_bytes, format_time

rates = st.integers(1, 10**13).map(Bandwidth)
sizes = st.integers(0, 2**50)


def test_nano_micro_and_milliseconds_are_whole_picoseconds():
    assert (units.ns(1), units.us(1), units.ms(1)) == (10**3, 10**6, 10**9)
    assert units.us(0.94) == 940_000
    assert isinstance(units.ns(0.25), int)
    assert units.to_us(2_500_000) == 2.5


@given(rates, sizes)
def test_a_transfer_takes_bytes_over_bandwidth_rounded_up_to_a_picosecond(rate, nbytes):
    exact = Fraction(nbytes * PS_PER_S, rate.bytes_per_s)
    assert 0 <= rate.transfer_ps(nbytes) - exact < 1


@given(rates, sizes, sizes)
def test_two_transfers_take_no_less_than_one_of_their_sum(rate, a, b):
    apart = rate.transfer_ps(a) + rate.transfer_ps(b)
    assert 0 <= apart - rate.transfer_ps(a + b) <= 1


def test_a_network_data_sheet_counts_bits_and_nvlink_counts_bytes():
    assert Bandwidth.gbit_per_s(400) == Bandwidth.gb_per_s(50)
    assert Bandwidth.gb_per_s(450).bytes_per_s == 450 * 10**9


@given(rates, st.integers(1, 1000), st.integers(1, 1000))
def test_a_scaled_rate_is_its_part_rounded_down(rate, numerator, denominator):
    exact = Fraction(rate.bytes_per_s * numerator, denominator)
    if exact >= 1:
        assert 0 <= exact - rate.scaled(numerator, denominator).bytes_per_s < 1


def test_bandwidths_compare_by_rate_and_print_with_their_unit():
    assert min(Bandwidth.gb_per_s(50), Bandwidth.gb_per_s(48.6)) == Bandwidth.gb_per_s(48.6)
    assert str(Bandwidth.gb_per_s(48.6)) == "48.6 GB/s"


@pytest.mark.parametrize("rate", [0, -1])
def test_a_bandwidth_that_is_not_positive_is_refused(rate):
    with pytest.raises(ValueError, match=f"a bandwidth must be positive, got {rate} B/s"):
        Bandwidth(rate)


@pytest.mark.parametrize(
    ("ps", "text"),
    [
        (0, "0 ps"),
        (999, "999 ps"),
        (1000, "1.00 ns"),
        (12_345_678, "12.3 us"),
        (9_996_000, "10.0 us"),
        (99_960_000, "100 us"),
        (999_499_999, "999 us"),
        (999_500_000, "1.00 ms"),
        (5 * 10**15, "5000 s"),
        (-2_500_000, "-2.50 us"),
    ],
)
def test_a_time_prints_three_digits_in_a_fitting_unit(ps, text):
    assert format_time(ps) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (64 * 2**20, "64.0 MiB")],
)
def test_a_size_prints_in_binary_units(nbytes, text):
    assert format_bytes(nbytes) == text


@given(st.integers(1000, 10**18))
def test_a_printed_time_is_within_half_a_percent(ps):
    number, unit = format_time(ps).split()
    scale = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}[unit]
    assert abs(float(number) * scale - ps) <= 0.00501 * ps
