"""Times that can be worked out on paper: waves, tile order, stragglers, launches, puts."""

from dataclasses import replace

import networkx as nx
import pytest
from helpers import frictionless, run, with_host

from tdsim import lang as td
from tdsim.engine.timeline import critical_path
from tdsim.sim.cost import TILE_DRAIN_PS, VECTOR_ELEMENTS_PER_S
from tdsim.topology import machine
from tdsim.units import Bandwidth, us

US = us(1)
TILE = (128, 1700)
"""Elements of which one SM computes one function in exactly 1 us."""


def test_the_tile_of_these_tests_takes_a_microsecond():
    assert TILE[0] * TILE[1] * 10**12 == VECTOR_ELEMENTS_PER_S * US


# waves ------------------------------------------------------------------------------------


@td.kernel
def one_tile_each(ROWS: td.constexpr, COLS: td.constexpr):
    acc = td.zeros((ROWS, COLS), td.float32)
    acc = td.exp(acc)


@td.kernel
def tiles_in_turn(num_tiles, ROWS: td.constexpr, COLS: td.constexpr):
    for _ in range(td.program_id(0), num_tiles, td.num_programs(0)):
        acc = td.zeros((ROWS, COLS), td.float32)
        acc = td.exp(acc)


@pytest.mark.parametrize(
    ("num_sms", "waves"), [(132, 4), (112, 5), (512, 1), (511, 2), (1, 512)]
)
def test_512_equal_tiles_take_as_many_waves_as_fill_the_sms(num_sms, waves):
    on = frictionless("h800x1", num_sms=num_sms)

    def ordinary(ctx):
        ctx.launch(one_tile_each, 512, TILE)

    def persistent(ctx):
        ctx.launch(tiles_in_turn, ctx.num_sms, (512, *TILE))

    assert run(ordinary, on, functional=False).time_ps == waves * US
    assert run(persistent, on, functional=False).time_ps == waves * US


def test_two_ctas_on_one_sm_fit_into_half_as_many_waves_of_slots():
    def host(ctx):
        ctx.launch(one_tile_each, 12, TILE, ctas_per_sm=2)

    assert run(host, frictionless("h800x1", num_sms=3), functional=False).time_ps == 2 * US


# case C13: the order of tiles -------------------------------------------------------------


@td.kernel
def multiply_shards(x, w, ready, first, direction, SIZE: td.constexpr):
    """One tile product for each shard, in the order first, first + direction ..."""
    for step in range(td.n_pes()):
        shard = (td.my_pe() + first + step * direction + td.n_pes()) % td.n_pes()
        token = td.signal_wait_until(ready, shard, "ge", 1)
        a = td.load(td.after(token, x), (shard * SIZE, 0), (SIZE, SIZE))
        td.dot(a, td.load(w, (0, 0), (SIZE, SIZE)), td.zeros((SIZE, SIZE), td.float32))


def gather_then_multiply(order):
    """Copy engines pull shards in ring order while one CTA multiplies them in *order*."""

    def host(ctx):
        x = ctx.symmetric((64 * ctx.n_pes, 64), td.bfloat16)
        w = ctx.local((64, 64), td.bfloat16)
        ready = ctx.signals(ctx.n_pes)
        ctx.signal_op(ready, ctx.my_pe, 1, "set", ctx.my_pe)
        comm = ctx.stream("comm")
        ctx.fork(comm)
        for step in range(1, ctx.n_pes):
            pe = (ctx.my_pe + step) % ctx.n_pes
            shard = x.rows(64 * pe, 64)
            ctx.copy(shard, shard.at(pe), stream=comm)
            ctx.signal_op(ready, pe, 1, "set", ctx.my_pe, stream=comm)
        first, direction = {"own first": (0, 1), "farthest first": (-1, -1)}[order]
        ctx.launch(multiply_shards, 1, (x, w, ready, first, direction, 64))
        ctx.join(comm)

    return host


def machine_for(copy_us, gemm_us):
    """8 GPUs of one SM: a shard is copied in *copy_us* and multiplied in *gemm_us*, exactly.

    The model adds the drain of a tile to its product, so the tensor cores get the rest.
    """
    work = 2 * 64 * 64 * 64
    mma_ps = gemm_us * US - TILE_DRAIN_PS
    flops = round(work * 10**12 / mma_ps)
    return frictionless(
        "h800x8",
        num_sms=1,
        flops={"bf16": flops, "fp32": flops},
        copy_engine=Bandwidth(64 * 64 * 2 * 10**12 // (copy_us * US)),
    )


@pytest.mark.parametrize(
    ("copy_us", "gemm_us", "order", "total_us"),
    [
        (10, 20, "own first", 160),
        (10, 20, "farthest first", 230),  # serial: 70 + 160
        (20, 20, "own first", 160),
        (20, 20, "farthest first", 300),
        (40, 20, "own first", 300),  # the last shard arrives at 280
        (40, 20, "farthest first", 440),
    ],
)
def test_own_first_order_hides_what_farthest_first_exposes(copy_us, gemm_us, order, total_us):
    done = run(gather_then_multiply(order), machine_for(copy_us, gemm_us), functional=False)
    assert done.time_ps == total_us * US
    assert done.ends == [total_us * US] * 8


def test_the_critical_path_of_farthest_first_is_all_copies_then_all_products():
    done = run(gather_then_multiply("farthest first"), machine_for(10, 20), functional=False)
    path = critical_path(done.last, 0)
    spent = dict.fromkeys(("copy", "compute"), 0)
    for segment in path:
        spent[segment.kind] += segment.end - segment.begin
    assert spent == {"copy": 70 * US, "compute": 160 * US}


# stragglers -------------------------------------------------------------------------------


@td.kernel
def wait_for_all(ready):
    for pe in range(td.n_pes()):
        td.signal_op(ready, td.my_pe(), 1, "set", pe)
    for pe in range(td.n_pes()):
        token = td.signal_wait_until(ready, pe, "ge", 1)
        td.after(token, pe)


def test_a_late_rank_shows_as_waiting_time_of_the_others_and_not_of_itself():
    def host(ctx):
        ready = ctx.signals(ctx.n_pes)
        ctx.launch(wait_for_all, 1, (ready,))

    late = us(500)
    done = run(host, frictionless("h800x4"), functional=False, delays={2: late})
    waited = {launch.rank: launch.waited for launch in done.world.launches}
    assert waited == {0: late, 1: late, 2: 0, 3: late}
    assert done.time_ps == late
    assert critical_path(done.last, 0)[0].detail == "late start"


@pytest.mark.parametrize("late", [0, us(3), us(1_000_000)])
def test_a_late_rank_is_late_and_never_a_hang(late):
    def host(ctx):
        ctx.launch(wait_for_all, 1, (ctx.signals(ctx.n_pes),))

    on = machine("h800x4")
    punctual = run(host, on, functional=False)
    done = run(host, on, functional=False, delays={3: late})
    assert late <= done.time_ps <= punctual.time_ps + late


def test_a_slower_gpu_takes_longer_by_its_factor():
    def host(ctx):
        ctx.launch(dots, 1, (64,))

    on = frictionless("h800x1", num_sms=1)
    times = [run(host, on, functional=False, slowdown=s).time_ps for s in (1.0, 2.0)]
    assert times[1] == pytest.approx(2 * times[0], rel=1e-6)


@td.kernel
def dots(SIZE: td.constexpr):
    acc = td.zeros((SIZE, SIZE), td.float32)
    for _ in range(100):
        acc = td.dot(
            td.zeros((SIZE, SIZE), td.bfloat16), td.zeros((SIZE, SIZE), td.bfloat16), acc
        )


# launches, puts, barriers -----------------------------------------------------------------


@td.kernel
def nothing():
    td.zeros((1, 1), td.float32)


def test_an_empty_kernel_takes_the_hosts_time_and_the_launch_latency():
    on = with_host(frictionless("h800x1"), launch_ps=us(2), launch_latency_ps=us(5))
    assert run(lambda ctx: ctx.launch(nothing, 1, ()), on, functional=False).time_ps == us(7)


def test_launch_latency_hides_behind_the_kernel_before():
    def host(ctx):
        for _ in range(3):
            ctx.launch(one_tile_each, 1, TILE)

    on = with_host(frictionless("h800x1"), launch_latency_ps=us(0.75))
    assert run(host, on, functional=False).time_ps == us(0.75) + 3 * US


@td.kernel
def put_rows(x, ready, count):
    src = td.rows(x, 0, count)
    if td.my_pe() == 0:
        td.putmem_signal(src, src, ready, 0, 1, "set", 1)
    else:
        token = td.signal_wait_until(ready, 0, "ge", 1)
        td.after(token, x)


def test_a_put_takes_its_bytes_over_the_rate_of_one_cta_plus_latency_and_signal():
    base = frictionless("h800x2", sm_copy=Bandwidth.gb_per_s(10))
    on = with_host(with_latency(base, us(1)), signal_ps=us(0.5))

    def host(ctx):
        x, ready = ctx.symmetric((100, 1000), td.float32), ctx.signals(1)
        ctx.launch(put_rows, 1, (x, ready, 100))

    done = run(host, on, functional=False)
    # 400,000 bytes at 10 GB/s are 40 us; two links of 1 us; the signal 0.5 us
    assert done.ends == [us(40), us(42.5)]


def with_latency(base, latency):
    graph = nx.DiGraph()
    for a, b, data in base.graph.edges(data=True):
        graph.add_edge(a, b, link=replace(data["link"], latency_ps=latency))
    return replace(base, graph=nx.freeze(graph))


def test_a_signal_takes_its_issue_the_links_and_its_own_latency():
    on = with_host(with_latency(frictionless("h800x2"), us(1)), signal_ps=us(0.5))

    def host(ctx):
        ctx.launch(wait_for_all, 1, (ctx.signals(2),))

    # each PE issues two signals of 0.5 us; the second (to PE 1) leaves at 1 us and needs
    # 2 us of links and 0.5 us
    assert run(host, on, functional=False).time_ps == us(3.5)


@td.kernel
def join_all():
    td.sync_all()


def test_all_leave_a_barrier_together_after_the_last_has_arrived():
    on = with_host(frictionless("h800x4"), barrier_ps=us(3))

    def host(ctx):
        ctx.launch(join_all, 1, ())

    done = run(host, on, functional=False, delays={1: us(10)})
    assert done.ends == [us(13)] * 4
    waited = {launch.rank: launch.waited for launch in done.world.launches}
    assert waited == {0: us(13), 1: us(3), 2: us(13), 3: us(13)}


@td.kernel
def fetch(dst, src):
    td.getmem(dst, src, 1 - td.my_pe())


def test_a_get_takes_the_way_there_and_back():
    base = frictionless("h800x2", sm_copy=Bandwidth.gb_per_s(10))

    def host(ctx):
        dst, src = ctx.local((100, 1000), td.float32), ctx.symmetric((100, 1000), td.float32)
        if ctx.my_pe == 0:
            ctx.launch(fetch, 1, (dst, src))

    assert run(host, with_latency(base, us(1)), functional=False).time_ps == us(44)


def test_put_and_get_between_nodes_pay_the_adapter():
    on = with_host(frictionless("h800x2x1"), nic_issue_ps=us(4))

    def host(ctx):
        x, ready = ctx.symmetric((1, 1), td.float32), ctx.signals(1)
        ctx.launch(put_rows, 1, (x, ready, 1))

    assert run(host, on, functional=False).time_ps == us(4)


def test_remote_stores_share_the_links_of_all_ctas():
    """Two CTAs at 10 GB/s over a link of 10 GB/s take twice as long as one."""
    on = frictionless("h800x2", sm_copy=Bandwidth.gb_per_s(10))
    graph = nx.DiGraph()
    for a, b, data in on.graph.edges(data=True):
        graph.add_edge(a, b, link=replace(data["link"], bandwidth=Bandwidth.gb_per_s(10)))
    on = replace(on, graph=nx.freeze(graph))

    def storing(ctas):
        def host(ctx):
            x = ctx.symmetric((200, 1000), td.float32)
            if ctx.my_pe == 0:
                ctx.launch(store_there, ctas, (x,))

        return host

    times = [run(storing(ctas), on, functional=False).time_ps for ctas in (1, 2)]
    assert times == [us(40), us(80)]


@td.kernel
def store_there(x):
    peer = td.symm_at(x, 1)
    td.store(peer, (100 * td.program_id(0), 0), td.zeros((100, 1000), td.float32))
