"""Costs that a machine knows from measurements of its own, and what it costs not to know them."""

from __future__ import annotations

import dataclasses

import pytest
from helpers import frictionless, run, time_of, with_host
from tdsim.kernels.gemm import main_loop

from tdsim import lang as td
from tdsim.topology import TileSpec
from tdsim.units import PS_PER_S, Bandwidth, us

TILE = (128, 128, 64)
KNOWN = TileSpec(efficiency=0.5, drain_ps=us(7))


@td.kernel
def one_tile(a, b, K, BLOCK_M: td.constexpr, BLOCK_N: td.constexpr, BLOCK_K: td.constexpr):
    """The main loop of one output tile."""
    main_loop(a, b, 0, 0, K, BLOCK_M, BLOCK_N, BLOCK_K)


def tile_ps(target, dtype=td.bfloat16, tile=TILE, depth=4096):
    m, n, k = tile
    views = (((m, depth), dtype), ((depth, n), dtype))
    return time_of(one_tile, *views, depth, m, n, k, functional=False, on=target)


def flops_ps(target, tile=TILE, depth=4096):
    per_sm = target.gpu.flops["bf16"] / target.gpu.num_sms
    return 2 * tile[0] * tile[1] * depth * PS_PER_S / per_sm


def test_a_measured_tile_runs_at_its_own_efficiency_and_drain():
    target = frictionless(tiles={TILE: KNOWN})
    assert tile_ps(target) == pytest.approx(flops_ps(target) / 0.5 + us(7), rel=1e-4)


def test_other_tiles_and_other_types_keep_the_general_efficiency():
    measured, plain = frictionless(tiles={TILE: KNOWN}), frictionless()
    for other in ({"tile": (128, 256, 64)}, {"dtype": td.float32}):
        assert tile_ps(measured, **other) == tile_ps(plain, **other)


def test_a_measured_tile_has_its_loads_from_l2_in_its_efficiency():
    slow = {"l2": Bandwidth.gb_per_s(100)}
    assert tile_ps(frictionless(tiles={TILE: KNOWN}, **slow)) == tile_ps(
        frictionless(tiles={TILE: KNOWN})
    )
    assert tile_ps(frictionless(**slow)) > 2 * tile_ps(frictionless())


@td.kernel
def read_rows(x, out, count):
    """Sum *count* tiles, one load per turn."""
    acc = td.zeros((32, 64), td.float32)
    for i in range(count):
        acc = acc + td.load(x, (i * 32, 0), (32, 64))
    td.store(out, (0, 0), acc)


@pytest.mark.parametrize("functional", [False, True])
def test_each_turn_of_a_loop_without_a_product_waits_for_its_loads(functional):
    def with_wait(wait):
        target = with_host(frictionless(), loop_load_ps=wait)
        views = (((32 * 20, 64), td.float32), ((32, 64), td.float32))
        return time_of(read_rows, *views, 20, functional=functional, on=target)

    assert with_wait(us(1)) - with_wait(0) == 20 * us(1)


def test_a_loop_of_products_hides_its_loads():
    waits = with_host(frictionless(), loop_load_ps=us(1))
    assert tile_ps(waits) == tile_ps(frictionless())


@td.kernel
def put_beside(box, x, a, b):
    """CTA 0 puts once the others are multiplying; they multiply for long."""
    if td.program_id(0) == 0:
        main_loop(a, b, 0, 0, 64, 64, 64, 64)
        td.putmem(box, x, (td.my_pe() + 1) % td.n_pes())
    else:
        main_loop(a, b, 0, 0, 65536, 64, 64, 64)


def put_ps(busy_copy, ctas):
    """How long the put of PE 0's first CTA takes in a launch of *ctas*."""
    copy = Bandwidth.gb_per_s(10)
    target = frictionless("h800x2", sm_copy=copy, busy_copy=busy_copy)
    seen = []

    class Puts:
        def segment(self, segment):
            if segment.kind == "comm" and segment.rank == 0:
                seen.append(segment.end - segment.begin)

        def signal(self, *_):
            pass

        def rate(self, *_):
            pass

    def host(ctx):
        box = ctx.symmetric((1000, 500), td.bfloat16)
        x = ctx.local((1000, 500), td.bfloat16)
        a, b = (ctx.local(s, td.bfloat16) for s in ((64, 65536), (65536, 64)))
        ctx.launch(put_beside, ctas, (box, x, a, b))

    run(host, target, functional=False, listeners=(Puts(),))
    (found,) = seen
    return found


def test_a_put_slows_down_with_the_share_of_sms_that_multiply():
    alone = us(100)  # a million bytes at 10 GB/s
    assert put_ps(1.0, 132) == pytest.approx(alone, rel=1e-3)
    assert put_ps(0.5, 132) == pytest.approx(2 * alone, rel=1e-3)
    assert put_ps(0.5, 66) == pytest.approx(alone / 0.75, rel=1e-3)


def one_signal(op, **host):
    def program(ctx):
        sig = ctx.signals(1)
        ctx.signal_op(sig, 0, 1, op, ctx.my_pe)

    return run(program, with_host(frictionless("h800x1"), **host), functional=False).time_ps


@pytest.mark.parametrize(("op", "other"), [("add", "set"), ("set", "add")])
def test_signals_on_a_stream_have_host_and_device_times_by_operation(op, other):
    prefix = "add_" if op == "add" else ""
    device = "stream_add_ps" if op == "add" else "stream_op_ps"
    times = {f"{prefix}issue_ps": us(3), device: us(4)}
    assert one_signal(op, **times) == us(7)
    assert one_signal(other, **times) == 0


@td.kernel
def empty(n):
    """End at once."""


def test_only_the_first_kernel_of_a_stream_shows_its_latency_and_each_later_one_a_gap():
    def host(ctx):
        for _ in range(3):
            ctx.launch(empty, 1, (1,))

    target = with_host(frictionless("h800x1"), launch_latency_ps=us(4), kernel_gap_ps=us(1))
    assert run(host, target, functional=False).time_ps == us(4 + 1 + 1)


def test_the_end_of_a_call_takes_its_time_on_the_main_stream():
    target = with_host(frictionless("h800x1"), call_end_ps=us(5))
    assert run(lambda ctx: None, target, functional=False, calls=2).time_ps == us(10)


def test_copies_by_engines_share_their_link_also_with_copies_inside_a_pe():
    shared = frictionless("h200-shared-2")
    graph = shared.graph.copy()
    edge = graph.edges["copy_engines", "l2"]
    edge["link"] = dataclasses.replace(edge["link"], bandwidth=Bandwidth.gb_per_s(100))
    target = dataclasses.replace(shared, graph=graph)

    def host(ctx):
        box = ctx.symmetric((1000, 500), td.bfloat16)
        x = ctx.local((1000, 500), td.bfloat16)
        ctx.copy(box.at(1 - ctx.my_pe) if ctx.my_pe else box, x)

    assert run(host, target, functional=False).time_ps == pytest.approx(us(20), rel=1e-3)
