"""Laws of every machine that the rail-optimised builder makes, whatever its size."""

import dataclasses
import pickle
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsim.errors import TopologyError
from tdsim.topology import cluster, machine
from tdsim.units import Bandwidth

clusters = st.builds(
    cluster,
    st.sampled_from(["h100", "h800", "h200", "h20"]),
    st.integers(1, 4),
    st.integers(1, 8),
)


def pairs(built):
    ranks = range(built.world_size)
    return [(a, b) for a in ranks for b in ranks]


def kind_of(endpoint):
    return endpoint.rstrip("0123456789")


def expected_length(built, src, dst):
    if src == dst:
        return 0
    if built.node_of(src) == built.node_of(dst):
        return 2  # through the NVSwitch
    same_rail = built.local_rank(src) == built.local_rank(dst)
    return (
        6 if same_rail else 8
    )  # a PCIe switch and a NIC at each end; one leaf, or two and a spine


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_a_route_is_a_chain_of_links_from_one_gpu_to_the_other_through_no_third(built):
    for src, dst in pairs(built):
        links = built.route(src, dst).links
        ends = [f"gpu{src}", *(end for _, end in links)]
        assert list(links) == list(pairwise(ends))
        assert ends[-1] == f"gpu{dst}"
        assert not any(kind_of(end) == "gpu" for end in ends[1:-1])


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_path_length_is_2_in_a_node_6_on_a_rail_and_8_across_rails(built):
    for src, dst in pairs(built):
        assert len(built.route(src, dst).links) == expected_length(built, src, dst)


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_routes_are_symmetric_in_length_latency_and_bandwidth(built):
    for src, dst in pairs(built):
        there, back = built.route(src, dst), built.route(dst, src)
        assert [link[::-1] for link in reversed(there.links)] == list(back.links)
        assert (there.latency_ps, there.bandwidth) == (back.latency_ps, back.bandwidth)


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_a_route_sums_latency_takes_the_least_bandwidth_and_is_ordered_if_all_links_are(built):
    for src, dst in pairs(built):
        route = built.route(src, dst)
        links = [built.link(link) for link in route.links]
        if src != dst:
            assert route.latency_ps == sum(link.latency_ps for link in links)
            assert route.bandwidth == min(link.bandwidth for link in links)
            assert route.ordered == all(link.ordered for link in links)
            assert route.line_bytes == min(link.line_bytes for link in links)


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_a_node_is_what_a_rank_can_load_from_and_store_to(built):
    for src, dst in pairs(built):
        kind = (
            "local" if src == dst else "scale_up" if built.reachable(src, dst) else "scale_out"
        )
        assert built.route(src, dst).kind == kind
        assert built.reachable(src, dst) == (dst in built.ranks_of(built.node_of(src)))


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_a_route_between_nodes_uses_the_nics_of_both_ends_and_no_other(built):
    for src, dst in pairs(built):
        route = built.route(src, dst)
        if route.kind == "scale_out":
            nics = [end for _, end in route.links if kind_of(end) == "nic"]
            assert nics == [f"nic{src}", f"nic{dst}"]


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_degrees_follow_from_the_numbers_of_nodes_and_gpus(built):
    nodes, gpus = built.num_nodes, built.gpus_per_node
    degrees = {"gpu": 1, "nvswitch": gpus}
    if nodes > 1:
        degrees = {
            "gpu": 2,
            "nvswitch": gpus,
            "pcie": 2,
            "nic": 2,
            "leaf": nodes + 1,
            "spine": gpus,
        }
    for endpoint in built.graph:
        assert built.graph.out_degree(endpoint) == degrees[kind_of(endpoint)]
        assert built.graph.in_degree(endpoint) == degrees[kind_of(endpoint)]


@settings(deadline=None, max_examples=30)
@given(clusters)
def test_rail_i_joins_nic_i_of_every_node(built):
    if built.num_nodes > 1:
        for rail in range(built.gpus_per_node):
            nics = {end for end in built.graph[f"leaf{rail}"] if kind_of(end) == "nic"}
            assert nics == {
                f"nic{node * built.gpus_per_node + rail}" for node in range(built.num_nodes)
            }


@settings(deadline=None, max_examples=20)
@given(clusters)
def test_the_bisection_carries_what_the_nics_of_half_the_nodes_can_send(built):
    half = built.num_nodes // 2
    if half:
        graph = nx.DiGraph()
        for (a, b), capacity in built.capacities().items():
            graph.add_edge(a, b, capacity=capacity)
        for rank in range(built.world_size):
            left = built.node_of(rank) < half
            graph.add_edge(*(("left", f"gpu{rank}") if left else (f"gpu{rank}", "right")))
        nic = built.link(("nic0", "leaf0")).bandwidth.bytes_per_s
        flow = nx.maximum_flow_value(graph, "left", "right")
        assert flow == half * built.gpus_per_node * nic


def test_a_signal_between_nodes_takes_2_8_us_on_a_rail_and_3_7_across_rails():
    built = machine("h800x16")
    assert built.route(0, 8).latency_ps == 2_800_000
    assert built.route(0, 9).latency_ps == 3_700_000


def test_in_node_routes_are_ordered_and_infiniband_routes_are_not():
    built = machine("h800x16")
    assert built.route(0, 7).ordered
    assert not built.route(0, 8).ordered


def test_a_local_route_has_no_links_and_the_speed_of_memory():
    built = machine("h800x8")
    assert built.route(3, 3).links == ()
    assert built.route(3, 3).bandwidth == built.gpu.hbm


def test_a_route_is_found_once_and_kept():
    built = machine("h800x16")
    assert built.route(0, 9) is built.route(0, 9)


def test_a_machine_cannot_be_changed():
    built = machine("h800x8")
    with pytest.raises(nx.NetworkXError, match="Frozen graph"):
        built.graph.remove_node("gpu0")
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.num_nodes = 2


def test_a_pickled_machine_has_the_same_routes():
    built = machine("h800x2x3")
    assert pickle.loads(pickle.dumps(built)).route(0, 5) == built.route(0, 5)


def test_capacities_list_every_link_in_the_order_it_was_built():
    built = machine("h800x2x2")
    assert list(built.capacities()) == list(machine("h800x2x2").capacities())
    assert (
        built.capacities()["gpu0", "nvswitch0"]
        == built.link(("gpu0", "nvswitch0")).bandwidth.bytes_per_s
    )


def test_two_gpus_without_a_path_are_both_named():
    built = machine("h800x3")
    cut = nx.DiGraph(built.graph)
    cut.remove_edge("nvswitch0", "gpu2")
    with pytest.raises(TopologyError) as error:
        dataclasses.replace(built, graph=cut).route(0, 2)
    assert str(error.value) == (
        "machine 'h800x3': no route from gpu0 to gpu2; expected a path of links that passes "
        "through no third GPU; add the missing link"
    )


def test_between_equally_long_ways_the_one_with_less_latency_is_taken():
    built = machine("h800x2")
    slow = built.link(("gpu0", "nvswitch0"))
    fast = dataclasses.replace(slow, latency_ps=1, bandwidth=Bandwidth.gb_per_s(1))
    graph = nx.DiGraph(built.graph)
    graph.add_edge("gpu0", "zswitch0", link=fast)
    graph.add_edge("zswitch0", "gpu1", link=fast)
    assert dataclasses.replace(built, graph=graph).route(0, 1).latency_ps == 2
