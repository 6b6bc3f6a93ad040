"""How fast the simulator is: wall time of predictions, tiles per second, and how it scales.

Run: ``python benchmarks/speed.py [--full]``. One process; import is excluded. The scaling part
fits ``time = a * tiles + b * flows`` at each world size from two shapes that differ in tiles.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

from tdsim.predict import Prediction, make_job, predict
from tdsim.sim import simulate
from tdsim.sim.recorder import Recorder

HEADLINES = (
    ("h800x8", {"M": 8192, "N": 49152, "K": 12288}, 1.0),
    ("h800x64", {"M": 65536, "N": 49152, "K": 12288}, 10.0),
)


RUNS = {"off": lambda: (), "on": lambda: (Recorder(),)}


def timed(topology: str, shape: dict[str, int], repeats: int = 1) -> tuple[float, Prediction]:
    """Best wall time of *repeats* predictions, in seconds, and the last prediction."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        prediction = predict("ag_gemm", topology=topology, shape=shape)
        best = min(best, time.perf_counter() - begin)
    return best, prediction


def headlines() -> None:
    for topology, shape, limit in HEADLINES:
        seconds, prediction = timed(topology, shape, 3)
        rate = prediction.tiles / seconds
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"predict ag_gemm {topology} {shape}: {seconds:.2f} s (limit {limit:g} s), "
            f"{prediction.tiles} tiles, {rate:,.0f} tiles/s, peak memory {peak:.2f} GiB"
        )


def scaling(worlds: tuple[int, ...]) -> None:
    """Per world: a from two shapes 65,536 tiles apart, b from what is left of the smaller.

    Flows are the copies between ranks; a few hundred of them weigh too little to tell b. At
    the end one a and one b are fitted to all points, in relative terms.
    """
    points = []
    for world in worlds:
        small = {"M": 32768, "N": 256 * world, "K": 4096}
        large = {**small, "N": (256 + 65536 // world) * world}
        topology = f"h800x{world}"
        t0, p0 = timed(topology, small, 2)
        t1, p1 = timed(topology, large, 2)
        a = (t1 - t0) / (p1.tiles - p0.tiles)
        flows = world * (world - 1)
        b = (t0 - a * p0.tiles) / flows
        points += [(p0.tiles, flows, t0), (p1.tiles, flows, t1)]
        said = f"b = {b * 1e6:6.1f} us/flow" if flows > 500 else "too few flows for b"
        print(
            f"{topology:9} {p0.tiles:7} and {p1.tiles:7} tiles, {flows:6} flows: "
            f"{t0:6.2f} s and {t1:6.2f} s; a = {a * 1e6:5.1f} us/tile, {said}"
        )
    work = np.array([(tiles / t, flows / t) for tiles, flows, t in points])
    (a, b), *_ = np.linalg.lstsq(work, np.ones(len(points)), rcond=None)
    off = [(a * tiles + b * flows) / t for tiles, flows, t in points]
    print(
        f"all points: a = {a * 1e6:.1f} us/tile, b = {b * 1e6:.1f} us/flow; "
        f"fitted over measured {min(off):.2f} to {max(off):.2f}"
    )


def tracing() -> None:
    """A run with a recorder beside one without: what tracing costs when it is on."""
    job = make_job("ag_gemm", "h800x8", {"M": 8192, "N": 49152, "K": 12288})
    walls = {name: min(simulate(job, f()).wall_s for _ in range(3)) for name, f in RUNS.items()}
    on, off = walls["on"], walls["off"]
    print(f"tracing off {off:.2f} s, on {on:.2f} s ({on / off:.2f}x); off makes no call")


def main() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="scale to 256 devices")
    args = parser.parse_args()
    headlines()
    tracing()
    scaling((8, 16, 32, 64, 128, 256) if args.full else (8, 16, 32))


if __name__ == "__main__":
    main()
