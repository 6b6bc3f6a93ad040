"""The library under the checker: clean as it is, and caught with any needed sync left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdsim.check import check
from tdsim.check.checker import functional_job
from tdsim.check.minimize import minimize_sync

COMM = {
    "allgather": ("pull", "push", "sm"),
    "reduce_scatter": ("ce", "sm"),
    "ag_gemm": ("pull", "push", "sm"),
    "gemm_rs": ("ce", "sm"),
}
WAYS = [(name, comm) for name, ways in COMM.items() for comm in ways]
each_way = pytest.mark.parametrize(("name", "comm"), WAYS)

LAST_JOINS = {'ctx.join(ctx.stream("comm"))', "ctx.join(comm_stream)"}
"""The main stream has waited on the device for the last of that work: its own slot's signal, or
every shard. They stay in the text because a graph must join what it forked."""
UNUSED_FORKS = {'ctx.fork(ctx.stream("reduce"))', "ctx.fork(comm_stream)"}
"""On one node nothing runs on ``reduce``; with CTAs that scatter nothing runs on ``comm``."""
NEEDLESS = {
    "h800x3": {
        "allgather": {
            # The join of the pulling stream says the same: one of the two must stay.
            'token = td.signal_wait_until(ready, shard, "ge", parts)',
        },
        "reduce_scatter": UNUSED_FORKS,
        "ag_gemm": set(),
        "gemm_rs": UNUSED_FORKS,
    },
    "h800x2x2": {
        "allgather": {
            # Every peer that reads the own shard forwards another one afterwards, which
            # tells as much. On one node nobody forwards, and there it is caught.
            "ctx.barrier_all()",
            # ``comm`` follows ``between_nodes``, which was forked as well.
            "ctx.fork(comm)",
            # The twin has signalled that the shard came, so it has been read here.
            "ctx.join(between, into=comm)",
        },
        "reduce_scatter": {"ctx.join(between)"},
        "gemm_rs": {"ctx.join(between)", "ctx.fork(comm_stream)"},
    },
}
NEEDLESS["h800x2x2"]["ag_gemm"] = NEEDLESS["h800x2x2"]["allgather"]
"""Lines that a way to communicate on a machine can do without, each with the reason."""


@pytest.mark.parametrize("topology", ["h800x2", "h800x4", "h800x5", "h800x2x2"])
@each_way
def test_the_library_is_clean_however_it_communicates(name, comm, topology):
    result = check(name, topology=topology, tunables={"comm": comm}, seeds=3)
    assert (result.verdict, result.findings) == ("CLEAN", ())


@pytest.mark.parametrize("topology", list(NEEDLESS))
@each_way
def test_each_needed_sync_of_the_library_is_caught_when_it_is_left_out(name, comm, topology):
    job = functional_job(name, topology, None, {"comm": comm}, "bf16", 3, 0)
    removals = minimize_sync(job, seeds=1)
    assert len(removals) >= 5
    unnoticed = {line_of(r.site.place) for r in removals if not r.needed}
    assert unnoticed <= NEEDLESS[topology][name] | LAST_JOINS


def line_of(place):
    file, _, number = place.rpartition(":")
    return Path(file).read_text().splitlines()[int(number) - 1].strip()
