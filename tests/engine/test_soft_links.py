"""Soft links: how much they carry, alone and shared, from little demand to far too much."""

from __future__ import annotations

import math

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tdsim.engine.network import Network

HUB, PORT = ("a", "b"), ("x", "a")
GB = 10**9
rates = st.integers(GB, 100 * GB)


def carried(*flows, capacity=100 * GB, soft=(HUB,)):
    """Bytes per second on the hub with *flows*, each a cap, on one route."""
    env = simpy.Environment()
    net = Network(env, {HUB: capacity, PORT: 10**15}, soft=soft)
    for cap in flows:
        net.start(10**12, (PORT, HUB), 0, cap)
    env.run(1)
    return net.in_flight(HUB)


@given(st.lists(rates, min_size=1, max_size=12))
def test_a_soft_link_carries_what_the_hypotenuse_of_demand_and_bandwidth_leaves(caps):
    demand = sum(caps)
    expected = demand * 100 * GB / math.hypot(demand, 100 * GB)
    assert carried(*caps) == pytest.approx(expected, rel=1e-6)


@given(st.lists(rates, min_size=1, max_size=12))
def test_a_soft_link_carries_less_than_its_bandwidth_and_less_than_is_asked(caps):
    assert carried(*caps) < min(100 * GB, sum(caps))


@given(st.lists(rates, min_size=1, max_size=12), rates)
def test_more_demand_never_carries_less(caps, more):
    assert carried(*caps, more) >= carried(*caps) - len(caps)


@given(st.lists(rates, min_size=1, max_size=12))
def test_a_link_that_is_not_soft_carries_all_it_can(caps):
    assert carried(*caps, soft=()) == pytest.approx(min(sum(caps), 100 * GB), rel=1e-6)


def test_equal_flows_of_two_routes_share_a_soft_link_equally_and_end_together():
    env = simpy.Environment()
    other = ("y", "a")
    net = Network(env, {HUB: 30 * GB, PORT: 10**15, other: 10**15}, soft={HUB})
    ends = [net.start(10**6, (port, HUB), 0, 40 * GB) for port in (PORT, other)]
    env.run(simpy.AllOf(env, ends))
    rate = 80 * 30 / math.hypot(80, 30) / 2  # GB/s of each
    assert env.now == pytest.approx(10**6 / rate * 1000, rel=1e-6)
