"""What checking costs: accesses against seconds, and a library kernel on eight ranks.

Run from the project's folder: ``python benchmarks/check_cost.py [--accesses N] [--json]``.
Each row doubles the accesses of one program: the CTAs of two ranks exchange tiles, signal by
signal. Times are of whole checks: simulation, data and analysis.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from tdsim import lang as td
from tdsim.check import check
from tdsim.check.checker import functional_job
from tdsim.check.happens_before import HappensBefore
from tdsim.sim import simulate

CTAS, TILES, ROWS, COLS = 64, 16, 8, 64
"""CTAs of a rank, tiles of a CTA in each round, and a tile's size."""


@td.kernel
def exchange(  # type: ignore[no-untyped-def]  # noqa: ANN201
    inbox, x, y, sent, rounds,  # noqa: ANN001
    tiles: td.constexpr, m: td.constexpr, n: td.constexpr,
):  # fmt: skip
    """Each round: read own tiles, write them to the next rank, read what has come."""
    me = td.my_pe()
    cta = td.program_id(0)
    following = td.symm_at(inbox, (me + 1) % td.n_pes())
    base = cta * tiles * m
    for turn in range(rounds):
        half = turn % 2 * (td.num_programs(0) * tiles * m)
        for tile in range(tiles):
            row = base + tile * m
            td.store(following, (half + row, 0), td.load(x, (row, 0), (m, n)))
        td.signal_op(sent, cta, 1, "add", (me + 1) % td.n_pes())
        # On two ranks the other is at most one round ahead: its wait needs this rank's signal.
        token = td.signal_wait_until(sent, cta, "ge", turn + 1)
        for tile in range(tiles):
            row = td.after(token, base + tile * m)
            td.store(y, (row, 0), td.load(inbox, (half + row, 0), (m, n)))


def program(rounds: int) -> td.Program:
    """The exchange, *rounds* times."""
    rows = CTAS * TILES * ROWS

    def shifted(inputs: dict[str, list[Any]]) -> dict[str, list[Any]]:
        x = inputs["x"]
        return {"y": [x[rank - 1] for rank in range(len(x))]}

    @td.program(
        shape=("n",),
        tensors={"x": td.Input(str(rows), str(COLS)), "y": td.Output(str(rows), str(COLS))},
        work=(),
        reference=shifted,
        small_shape="n=1",
    )
    def swap(ctx: Any, x: Any, y: Any) -> None:
        """Swap x between two ranks, again and again."""
        inbox = ctx.symmetric((2 * rows, COLS), x.dtype)
        sent = ctx.signals(CTAS, per_call=rounds)
        ctx.barrier_all()
        ctx.launch(exchange, CTAS, (inbox, x, y, sent, rounds, TILES, ROWS, COLS))

    return swap


def row(rounds: int) -> dict[str, float]:
    """Accesses, and seconds of a run without and with the analysis."""
    job = functional_job(program(rounds), "h800x2", None, None, "bf16", 1, 0)
    begin = time.perf_counter()
    simulate(job)
    without = time.perf_counter() - begin
    seen = HappensBefore()
    begin = time.perf_counter()
    simulate(job, order=seen)
    seconds = time.perf_counter() - begin
    assert not seen.conflicts, "the exchange is right"
    return {"accesses": seen.count, "seconds_without": without, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--accesses", type=int, default=1_000_000, help="stop there (1000000)")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    args = parser.parse_args()
    row(1)  # warm up
    rows, rounds = [], 4
    while not rows or rows[-1]["accesses"] < args.accesses:
        rows.append(row(rounds))
        rounds *= 2
        last = rows[-1]
        if not args.json:
            growth = last["seconds"] / rows[-2]["seconds"] if len(rows) > 1 else 0
            print(
                f"{last['accesses']:>9} accesses  {last['seconds']:7.2f} s  "
                f"{last['seconds_without']:7.2f} s without  growth {growth:4.2f}",
                flush=True,
            )
    begin = time.perf_counter()
    shape = {"M": 256, "N": 256, "K": 128}
    verdict = check("ag_gemm", topology="h800x8", shape=shape, calls=3, seeds=1).verdict
    library = {"kernel": "ag_gemm", "verdict": verdict, "seconds": time.perf_counter() - begin}
    if args.json:
        json.dump({"rows": rows, "library": library}, sys.stdout)
    else:
        print(
            f"ag_gemm on 8 ranks, 256x256x128, 3 calls: {verdict}, {library['seconds']:.2f} s"
        )


if __name__ == "__main__":
    main()
