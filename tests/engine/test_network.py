"""The fluid network: exact times, fairness against linear programs, laws, order, the hook."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tdsim.engine.network import Network

S, MS, GB = 10**12, 10**9, 10**9  # picoseconds and bytes; S bytes per second are 1 byte per ps
AB, BC, CD = ("a", "b"), ("b", "c"), ("c", "d")


@dataclass(frozen=True)
class Send:
    """A flow to start at *at* picoseconds."""

    nbytes: int
    links: tuple
    latency_ps: int = 0
    cap: int | None = None
    at: int = 0


def launch(network, sends):
    """Have *sends* start; the list returned gets (index, time) of each as it arrives."""
    log = []

    def send(i, s):
        yield network.env.timeout(s.at)
        yield network.start(s.nbytes, s.links, s.latency_ps, s.cap)
        log.append((i, network.env.now))

    for i, s in enumerate(sends):
        network.env.process(send(i, s))
    return log


def arrivals(sends, capacity, on_rates=None):
    network = Network(simpy.Environment(), capacity, on_rates)
    log = launch(network, sends)
    network.env.run()
    assert len(log) == len(sends)
    return log


def arrival_times(sends, capacity):
    return [time for _, time in sorted(arrivals(sends, capacity))]


@settings(deadline=None)
@given(
    nbytes=st.integers(1, 2**40),
    bandwidths=st.lists(st.integers(1, 2 * S), min_size=1, max_size=8),
    latency=st.integers(0, MS),
    cap=st.none() | st.integers(1, 2 * S),
    at=st.integers(0, MS),
)
def test_one_flow_takes_bytes_over_bandwidth_and_latency_rounded_up(
    nbytes, bandwidths, latency, cap, at
):
    links = tuple((str(i), str(i + 1)) for i in range(len(bandwidths)))
    capacity = dict(zip(links, bandwidths, strict=True))
    rate = min(bandwidths if cap is None else [*bandwidths, cap])
    moved = (nbytes * S + rate - 1) // rate
    times = arrival_times([Send(nbytes, links, latency, cap, at)], capacity)
    assert times == [at + moved + latency]
    assert type(times[0]) is int


def test_a_flow_without_bytes_takes_the_latency_alone_and_disturbs_nothing():
    log = []
    sends = [Send(0, (AB,), 7), Send(0, (AB,)), Send(0, ())]
    assert arrivals(sends, {AB: 1}, lambda *change: log.append(change)) == [
        (1, 0),
        (2, 0),
        (0, 7),
    ]
    assert log == []


def test_a_flow_without_links_takes_its_cap_and_the_latency():
    assert arrival_times([Send(GB, (), 7, cap=GB), Send(GB, (), 7)], {}) == [S + 7, 7]


def test_numpy_sizes_do_not_overflow():
    sends = [Send(np.int64(GB), (AB,)), Send(np.int64(GB), (), cap=GB)]
    assert arrival_times(sends, {AB: GB}) == [S, S]


def test_two_flows_on_one_link_take_twice_as_long():
    sends = [Send(GB, (AB, BC)), Send(GB, (AB, CD))]
    assert arrival_times(sends, {AB: GB, BC: GB, CD: GB}) == [2 * S, 2 * S]


def test_a_late_starter_slows_the_first_flow_only_from_then_on():
    sends = [Send(1000, (AB, BC)), Send(1000, (AB,), at=500)]
    # 500 ps alone, 1000 ps at half rate, and the late one has 500 bytes left.
    assert arrival_times(sends, {AB: S, BC: S}) == [1500, 2000]


def test_a_flow_that_ends_leaves_its_share_to_the_others():
    sends = [Send(900, (AB,)), Send(300, (AB, BC)), Send(300, (AB, CD))]
    assert arrival_times(sends, {AB: 3 * S, BC: 3 * S, CD: 3 * S}) == [500, 300, 300]


def test_flows_on_one_route_that_start_apart_share_it_equally():
    sends = [Send(600, (AB,)), Send(600, (AB,), at=50), Send(60, (AB,), at=100)]
    # 300 bytes alone, 150 each until 100 ps, 60 each until 130, 90 each until 160, 300 alone.
    assert arrival_times(sends, {AB: 6 * S}) == [160, 210, 130]


def test_a_cap_or_a_narrow_link_elsewhere_leaves_the_rest_to_others():
    assert arrival_times([Send(100, (AB,), cap=S // 4), Send(300, (AB,))], {AB: S}) == [
        400,
        400,
    ]
    sends = [Send(100, (AB, BC)), Send(300, (AB,))]
    assert arrival_times(sends, {AB: S, BC: S // 4}) == [400, 400]


def test_the_latency_does_not_hold_the_link():
    sends = [Send(100, (AB,), 1000), Send(100, (AB,), 1000, at=100)]
    assert arrival_times(sends, {AB: S}) == [1100, 1200]


def test_a_start_that_speeds_up_another_flow_makes_its_alarm_obsolete():
    # The third halves the second on BC, so the first gains on AB and ends before its alarm.
    sends = [Send(200, (AB,)), Send(900, (AB, BC)), Send(900, (BC, CD), at=100)]
    times = arrival_times(sends, {AB: S, BC: S * 6 // 10, CD: S})
    assert times[0] == 100 + -(-150 * 10 // 7)


def test_flows_on_links_that_tie_get_equal_rates_in_spite_of_rounding():
    sends = [Send(6, (AB, BC)), Send(6, (AB,)), Send(6, (BC,))]
    assert arrival_times(sends, {AB: 3, BC: 3}) == [6 * S, 6 * S, 6 * S]


def test_every_flow_ends_even_with_more_flows_than_bytes_per_second():
    assert arrival_times([Send(2, (AB,))] * 3, {AB: 2}) == [2 * S] * 3
    sends = [Send(2, (AB,), cap=cap) for cap in (None, 1, 2, 3, 4)]
    assert arrival_times(sends, {AB: 2}) == [2 * S] * 5


def random_case(seed):
    """Flows over the shortest paths of a random directed graph, and the graph's capacities."""
    rng = random.Random(seed)
    graph = nx.gnm_random_graph(rng.randint(4, 8), 8, seed=seed, directed=True)
    nx.add_cycle(graph, sorted(graph))  # so that there is a path between any two
    unit = rng.choice([1, 2 * GB])  # with the larger one, links tie
    capacity = {
        (str(a), str(b)): rng.randint(GB, 10 * GB) // unit * unit + unit for a, b in graph.edges
    }
    pairs = [rng.sample(sorted(graph), 2) for _ in range(10)]
    starts = [0, *rng.sample(range(5 * MS), 3)]

    def flow():
        links = tuple(pairwise(map(str, nx.shortest_path(graph, *rng.choice(pairs)))))
        cap = rng.choice([None, None, rng.randint(GB // 2, 3 * GB)])
        nbytes = rng.choice([rng.randint(1, 20_000_000), 4_000_000])
        return Send(nbytes, links, rng.randrange(MS), cap, rng.choice(starts))

    return [flow() for _ in range(rng.randint(4, 24))], capacity


def lp_rates(sends, capacity):
    """Lexicographic max-min rates in GB/s, by one linear program for each level.

    A program has the rates and the lowest of those not yet fixed as variables, and raises the
    lowest. A rate whose lower bound has a price cannot be more in any optimum: it is fixed.
    """
    n = len(sends)
    users = [([link in s.links for s in sends], rate) for link, rate in capacity.items()]
    users += [(np.eye(n)[i], s.cap) for i, s in enumerate(sends) if s.cap is not None]
    upper = np.hstack([[row for row, _ in users], np.zeros((len(users), 1))])
    lower = np.hstack([-np.eye(n), np.ones((n, 1))])  # lowest - rate <= 0
    bounds, unfixed = [(0, None)] * (n + 1), list(range(n))
    while unfixed:
        best = linprog(
            [0] * n + [-1],
            A_ub=np.vstack([upper, lower[unfixed]]),
            b_ub=[rate / GB for _, rate in users] + [0] * len(unfixed),
            bounds=bounds,
        )
        assert best.success, best.message
        for flow, marginal in zip(unfixed, best.ineqlin.marginals[len(users) :], strict=True):
            if marginal < -1e-9:
                bounds[flow] = (best.x[n], best.x[n])
        unfixed = [flow for flow in unfixed if bounds[flow][1] is None]
    return [low for low, _ in bounds[:n]]


def lp_arrival_times(sends, capacity):
    """Arrival times in seconds of a simulation in floats: constant rates between two events."""
    now, times, left = 0.0, [0.0] * len(sends), {}
    waiting = sorted(range(len(sends)), key=lambda i: sends[i].at)
    while waiting or left:
        rates = (
            dict(zip(left, lp_rates([sends[i] for i in left], capacity), strict=True))
            if left
            else {}
        )
        starts = [sends[i].at / S for i in waiting[:1]]
        then = min(starts + [now + left[i] / GB / rates[i] for i in left])
        left = {i: nbytes - rates[i] * GB * (then - now) for i, nbytes in left.items()}
        for i in [i for i in left if left[i] < 1e-3]:  # bytes
            del left[i]
            times[i] = then + sends[i].latency_ps / S
        while waiting and sends[waiting[0]].at / S <= then:
            i = waiting.pop(0)
            left[i] = sends[i].nbytes
        now = then
    return times


@pytest.mark.parametrize("block", range(10))
def test_random_flows_on_random_graphs_agree_with_linear_programs(block):
    for seed in range(20 * block, 20 * block + 20):
        sends, capacity = random_case(seed)
        times = [time / S for time in arrival_times(sends, capacity)]
        # 1 % is promised; what is left is the tolerance of the linear programs.
        assert times == pytest.approx(lp_arrival_times(sends, capacity), rel=1e-6), seed


def instants(env):
    """Run *env*, stopping after every instant."""
    while env.peek() < float("inf"):
        env.step()
        if env.peek() > env.now:
            yield env.now


@pytest.mark.parametrize("seed", range(40))
def test_no_link_is_overfull_and_every_flow_has_a_reason_for_its_rate(seed):
    sends, capacity = random_case(seed)
    # A wide link of its own shows the rate of each flow.
    meters = [("meter", str(i)) for i in range(len(sends))]
    sends = [replace(s, links=(m, *s.links)) for s, m in zip(sends, meters, strict=True)]
    network = Network(simpy.Environment(), capacity | dict.fromkeys(meters, 10**15))
    launch(network, sends)
    for _ in instants(network.env):
        rates = {
            s: rate
            for s, m in zip(sends, meters, strict=True)
            if (rate := network.in_flight(m))
        }
        users = {link: [rates[s] for s in rates if link in s.links] for link in capacity}
        for link, shares in users.items():
            assert network.in_flight(link) == sum(shares) <= capacity[link]
        for s, rate in rates.items():
            # Rounding down may leave less than 1 B/s for each flow.
            full = [k for k in s.links[1:] if capacity[k] - sum(users[k]) < len(users[k])]
            assert rate == s.cap or any(rate == max(users[link]) for link in full)


@pytest.mark.parametrize("seed", range(40))
def test_every_byte_crosses_each_link_of_its_route_once_and_the_hook_hears_it(seed):
    sends, capacity = random_case(seed)
    heard, carried = dict.fromkeys(capacity, 0), dict.fromkeys(capacity, 0)
    network = Network(
        simpy.Environment(), capacity, lambda link, _, rate: heard.update({link: rate})
    )
    launch(network, sends)
    for _ in instants(network.env):
        before, carried = carried, network.link_bytes
        assert all(before[link] <= carried[link] for link in capacity)
        assert heard == {link: network.in_flight(link) for link in capacity}
    total = Counter(dict.fromkeys(capacity, 0))
    for s in sends:
        total.update(dict.fromkeys(s.links, s.nbytes))
    assert carried == total
    assert not any(heard.values())


def test_link_bytes_count_unfinished_flows_up_to_now():
    network = Network(simpy.Environment(), {AB: S, BC: 10 * S})
    network.start(100, (AB,), 0)
    network.start(100, (AB, BC), 1000)
    network.env.run(until=51)
    assert network.link_bytes == {AB: 50, BC: 25}
    network.env.run(until=200)
    assert network.link_bytes == {AB: 200, BC: 100}
    network.start(15, (BC,), 0)
    network.env.run(until=202)  # it ends within the last picosecond
    assert network.link_bytes == {AB: 200, BC: 115}


def test_flows_that_start_count_once_their_instant_is_settled():
    network = Network(simpy.Environment(), {AB: S})
    network.env.run(network.start(100, (AB,), 0))
    network.start(100, (AB,), 0)
    network.start(100, (AB,), 0)
    assert network.in_flight(AB) == 0
    network.env.run(until=101)
    assert network.in_flight(AB) == S


@pytest.mark.parametrize("seed", range(20))
def test_the_same_flows_arrive_in_the_same_order_heard_or_not(seed):
    sends, capacity = random_case(seed)
    first = arrivals(sends, capacity)
    assert first == arrivals(sends, capacity) == arrivals(sends, capacity, lambda *_: None)


def test_flows_that_end_together_arrive_in_the_order_of_their_starts():
    sends = [Send(100, (("x", str(i % 3)), AB), 5) for i in range(9)]
    capacity = {AB: 9 * S} | {("x", str(i)): 9 * S for i in range(3)}
    assert arrivals(sends, capacity) == [(i, 105) for i in range(9)]


def test_the_hook_hears_each_change_of_a_rate_once_an_instant():
    log = []
    late = [Send(100, (AB,), at=400), Send(100, (BC,), at=400)]
    sends = [Send(200, (AB, BC)), Send(200, (AB,)), *late]
    arrivals(sends, {AB: S, BC: S}, lambda *change: log.append(change))
    # At 400 ps the rate of AB stays as it is.
    assert log == [(AB, 0, S), (BC, 0, S // 2), (BC, 400, S), (AB, 500, 0), (BC, 500, 0)]


def test_a_flow_that_follows_another_at_once_changes_no_rate():
    env, log = simpy.Environment(), []
    network = Network(env, {AB: S}, lambda *change: log.append(change))
    env.run(network.start(100, (AB,), 0))
    env.run(network.start(100, (AB,), 0))
    env.run()
    assert log == [(AB, 0, S), (AB, 200, 0)]


def test_a_hook_may_be_set_while_flows_are_on_their_way():
    log = []
    network = Network(simpy.Environment(), {AB: S})
    network.start(100, (AB,), 0)
    network.env.run(until=50)
    network.on_rates = lambda *change: log.append(change)
    network.start(100, (AB,), 0, cap=S // 4)
    network.env.run()
    assert log == [(AB, 50, S), (AB, 117, S // 4), (AB, 450, 0)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1, (AB,), 0), "a flow carries 0 bytes or more, got -1"),
        ((1, (AB,), -5), "a latency is 0 ps or more, got -5"),
        ((1, (AB,), 0, 0), "a cap is 1 B/s or more, got 0"),
        ((1, (AB, BC), 0), "unknown link ('b', 'c'): not among the 1 known"),
        ((1, (AB, AB), 0), "a route takes each link once, got (('a', 'b'), ('a', 'b'))"),
        ((1.5, (AB,), 0), "'float' object cannot be interpreted as an integer"),
    ],
)
def test_an_impossible_flow_is_refused(arguments, sentence):
    network = Network(simpy.Environment(), {AB: 1})
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(sentence)}$"):
        network.start(*arguments)


def test_an_unknown_link_and_a_link_without_bandwidth_are_refused():
    with pytest.raises(ValueError, match=r"unknown link \('b', 'c'\): not among the 1 known"):
        Network(simpy.Environment(), {AB: 1}).in_flight(BC)
    with pytest.raises(ValueError, match=r"link \('a', 'b'\) must carry 1 B/s or more, got 0"):
        Network(simpy.Environment(), {AB: 0})
