"""Constructs that are not modelled: UNKNOWN with their name, never CLEAN."""

from __future__ import annotations

from cases.common import Case, program
from tdsim import lang as td


@td.kernel
def clustered(out):
    """One CTA of a cluster."""
    td.store(out, (0, 0), td.zeros((4, 8), td.float32))


def in_clusters():
    """A7: a grid of clusters of two CTAs."""

    def host(ctx):
        ctx.launch(clustered, 148, (ctx.local((4, 8), td.float32),), cluster=2)

    return program(host)


@td.kernel
def released_without_fence(stage):
    """B19: the asynchronous proxy writes a stage that generic reads have not left."""
    td.async_load(stage, 0)
    td.proxy_fence()


@td.kernel
def phases(stage):
    """B21: a barrier inside a CTA, with a phase bit."""
    td.mbarrier_wait(stage, 0)


@td.kernel
def fence_of_one_lane(flag):
    """B23: all lanes store, one lane fences, the CTA meets, the flag is set."""
    td.lane_fence()


@td.kernel
def compare_and_swap(lock):
    """E13: a spin lock by compare-and-swap."""
    td.atomic_cas(lock, 0, 0, 1)


@td.kernel
def store_to_multicast(stage):
    """B26: a store to a multicast address."""
    td.multimem_store(stage, 0)


@td.kernel
def parts_of_a_cta(stage):
    """F4: two of three warp groups meet in a barrier of the CTA."""
    td.warp_group_barrier(2)


def using(kernel: td.Kernel):
    """A program whose only kernel needs something that is not modelled."""

    def host(ctx):
        ctx.launch(kernel, 1, (ctx.local((4,), td.int32),))

    return program(host)


def _unknown(number: str, kernel: td.Kernel, name: str, construct: str) -> Case:
    return Case(
        id=f"{number} {construct}",
        program=lambda: using(kernel),
        verdict="UNKNOWN",
        says=(f"td.{name} (", construct, "is not modelled"),
    )


CASES = (
    Case(
        id="A7 clusters",
        program=in_clusters,
        verdict="UNKNOWN",
        says=("a cluster of 2 CTAs is not modelled",),
    ),
    _unknown("B19", released_without_fence, "async_load", "an asynchronous-proxy copy"),
    _unknown("B21", phases, "mbarrier_wait", "an mbarrier inside a CTA"),
    _unknown("B23", fence_of_one_lane, "lane_fence", "single threads of a CTA"),
    _unknown("E13", compare_and_swap, "atomic_cas", "a compare-and-swap"),
    _unknown("B26", store_to_multicast, "multimem_store", "a multicast address"),
    _unknown("F4", parts_of_a_cta, "warp_group_barrier", "a warp-specialised part"),
)
