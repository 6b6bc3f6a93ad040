"""Part ``gemm`` of ``gpu_speed.py``: the GEMM with signals beside cuBLAS, call by call."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gpu_local
import gpu_programs as programs
import torch
from tdsim.backend_gpu.runtime.memory import View

from tdsim import lang as td

SHAPES = (
    (1024, 4096, 4096),
    (2048, 4096, 4096),
    (4096, 4096, 4096),
    (4096, 14336, 4096),
    (8192, 4096, 14336),
    (4096, 8192, 8192),
    (8192, 8192, 8192),
    (8192, 8192, 28672),
)
"""M, N, K; from the third on at least 4096 in each. Most are layers of Llama 3 8B and 70B."""
LARGE = 4096
_BUILD = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_WARPS", "NUM_STAGES", "CTAS_PER_SM", "SPLIT")
TILES = (
    (128, 256, 64, 8, 3, 1, 1),
    (128, 256, 64, 8, 3, 1, 2),
    (128, 256, 64, 8, 4, 1, 2),
    (128, 256, 128, 8, 2, 1, 2),
    (64, 256, 64, 4, 2, 2, 2),
    (256, 128, 64, 8, 4, 1, 2),
    (128, 128, 64, 4, 3, 2, 2),
    (128, 128, 64, 8, 5, 1, 1),
)
GROUPS = (8, 16)
ANNOUNCE = ("at_once", "before_next", "after_next")
_SETS_BYTES, _MOST_SETS = 256 << 20, 4
"""Calls rotate through inputs of several times the L2."""
_FINALISTS = 2
Call = Callable[[int], None]


def configurations() -> Iterator[dict[str, Any]]:
    """All that is tried for every shape."""
    for tile, group, when in itertools.product(TILES, GROUPS, ANNOUNCE):
        yield {**dict(zip(_BUILD, tile, strict=True)), "GROUP_M": group, "ANNOUNCE": when}


class Operands:
    """Rotating sets of a, b and c as torch's and as the backend's."""

    def __init__(self, m: int, n: int, k: int) -> None:
        size = 2 * (m * k + k * n)
        count = max(2, min(_MOST_SETS, _SETS_BYTES // size))
        draw = torch.Generator(device="cuda").manual_seed(m + n + k)
        shapes = ((m, k), (k, n), (m, n))
        self.tensors = [
            tuple(
                torch.randn(s, generator=draw, dtype=torch.bfloat16, device="cuda")
                for s in shapes
            )
            for _ in range(count)
        ]
        self.views = [
            tuple(View(t.data_ptr(), tuple(t.shape), td.bfloat16, t.shape[1]) for t in each)
            for each in self.tensors
        ]

    def blas(self, number: int) -> None:
        a, b, c = self.tensors[number % len(self.tensors)]
        torch.matmul(a, b, out=c)


class Bench:
    """One PE with all SMs and every configuration compiled."""

    def __init__(self) -> None:
        (self.ctx,) = gpu_local.contexts(1, 1 << 20)
        operands = Operands(256, 256, 256)
        for tunables in configurations():
            self._call(operands.views[0], tunables, None)
        self.ctx.ready()

    def _call(
        self, views: Sequence[View], tunables: dict[str, Any], events: Any
    ) -> tuple[Any, int]:
        """One call of the program; *events* stand around the GEMM, behind the signal for it."""
        ctx = self.ctx
        ctx.begin_call()
        ready = programs.announce_rows(ctx)
        done = ctx.signals(programs.MAX_TILES)
        if events:
            events[0].record(ctx.main)
        programs.launch_gemm(ctx, *views, ready, done, **tunables)
        if events:
            events[1].record(ctx.main)
        word = ctx.call + 1
        ctx.end_call()
        return done, word

    def errors(self, operands: Operands, tunables: dict[str, Any]) -> tuple[float, int]:
        """Relative norm of the difference from cuBLAS, and tiles that were not announced."""
        a, b, c = operands.tensors[0]
        c.fill_(float("nan"))
        torch.cuda.synchronize()
        done, word = self._call(operands.views[0], tunables, None)
        torch.cuda.synchronize()
        wanted = torch.matmul(a, b).float()
        error = float((c.float() - wanted).norm() / wanted.norm())
        words = _words(done.address, programs.MAX_TILES)
        rows, columns = c.shape
        tiles = -(-rows // tunables["BLOCK_M"]) * -(-columns // tunables["BLOCK_N"])
        return error, int((words[:tiles] != word).sum())

    def timed(
        self, operands: Operands, candidates: Sequence[dict[str, Any] | None], rounds: int
    ) -> list[list[float]]:
        """Microseconds of *rounds* calls of each candidate, in turns; None is cuBLAS."""
        ctx, number, pairs = self.ctx, itertools.count(), [[] for _ in candidates]
        torch.cuda.synchronize()
        with torch.cuda.stream(ctx.main):
            torch.cuda._sleep(20_000_000)  # the host queues all calls meanwhile
            for _ in range(rounds):
                for tunables, found in zip(candidates, pairs, strict=True):
                    events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
                    turn = next(number)
                    if tunables is None:
                        events[0].record(ctx.main)
                        operands.blas(turn)
                        events[1].record(ctx.main)
                    else:
                        views = operands.views[turn % len(operands.views)]
                        self._call(views, tunables, events)
                    found.append(events)
        torch.cuda.synchronize()
        return [[begin.elapsed_time(end) * 1e3 for begin, end in each] for each in pairs]

    def medians(
        self, operands: Operands, candidates: Sequence[dict[str, Any] | None], rounds: int
    ) -> list[float]:
        return [statistics.median(t) for t in self.timed(operands, candidates, rounds)]


def _words(address: int, count: int) -> torch.Tensor:
    """The int64 words at *address*, copied."""
    found = torch.empty(count, dtype=torch.int64, device="cuda")
    gpu_local.driver.copy(0, found.data_ptr(), address, 8 * count)
    torch.cuda.synchronize()
    return found


def _best(medians: Sequence[float], among: Sequence[dict[str, Any]], when: str) -> list[int]:
    """Places of the fastest candidates that announce so."""
    places = [i for i, tunables in enumerate(among) if tunables["ANNOUNCE"] == when]
    return sorted(places, key=lambda i: medians[i])[:_FINALISTS]


def measure(bench: Bench, shape: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """One shape: all configurations once over, then the best of each kind beside cuBLAS."""
    m, n, k = shape
    operands, tried = Operands(m, n, k), list(configurations())
    bench.medians(operands, [None, *tried], 1)  # warm: cuBLAS allocates its workspace
    screened = bench.medians(operands, tried, 5)
    chosen = [tried[i] for when in ANNOUNCE for i in _best(screened, tried, when)]
    checks = [bench.errors(operands, tunables) for tunables in chosen]
    blas_us, *found = bench.medians(operands, [None, *chosen], rounds)
    tflop = 2 * m * n * k / 1e12
    return {
        "shape": {"M": m, "N": n, "K": k},
        "cublas_us": blas_us,
        "cublas_tflops": tflop / blas_us * 1e6,
        "candidates": [
            {
                "tunables": tunables, "us": us, "tflops": tflop / us * 1e6,
                "ratio": blas_us / us, "error": error, "not_announced": missing,
            }
            for tunables, us, (error, missing) in zip(chosen, found, checks, strict=True)
        ],
        "screened_us": [
            {"tunables": tunables, "us": us}
            for tunables, us in zip(tried, screened, strict=True)
        ],
    }  # fmt: skip


def best_ratio(result: dict[str, Any], when: Sequence[str] = ANNOUNCE) -> float:
    """cuBLAS's time over that of the fastest candidate that announces so."""
    found = [c for c in result["candidates"] if c["tunables"]["ANNOUNCE"] in when]
    return max(c["ratio"] for c in found)


def summary(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Geometric means of the ratios over all shapes and over the large ones."""
    large = [r for r in results if min(r["shape"].values()) >= LARGE]
    return {
        f"{name}, {which}": statistics.geometric_mean(best_ratio(r, when) for r in group)
        for name, group in (("all shapes", results), (f"from {LARGE} cubed", large))
        for which, when in (("at once", ANNOUNCE[:1]), ("best", ANNOUNCE))
        if group
    }


def run(quick: bool) -> dict[str, Any]:
    """Measure and print part ``gemm``."""
    bench = Bench()
    print(f"{'M':>6}{'N':>7}{'K':>7}{'cuBLAS us':>11}{'TFLOP/s':>9}", end="")
    print(f"{'at once':>9}{'best':>7}  best configuration")
    results = []
    for shape in SHAPES[:3] if quick else SHAPES:
        result = measure(bench, shape, 10 if quick else 30)
        results.append(result)
        best = max(result["candidates"], key=lambda c: c["ratio"])
        m, n, k = shape
        print(
            f"{m:6}{n:7}{k:7}{result['cublas_us']:11.1f}{result['cublas_tflops']:9.0f}"
            f"{best_ratio(result, ANNOUNCE[:1]):9.3f}{best['ratio']:7.3f}  "
            + "x".join(str(best["tunables"][name]) for name in _BUILD[:3])
            + "".join(
                f" {name}={best['tunables'][name]}"
                for name in (*_BUILD[3:], "GROUP_M", "ANNOUNCE")
            ),
            flush=True,
        )
        wrong = [c for c in result["candidates"] if not c["error"] < 1e-2 or c["not_announced"]]
        for candidate in wrong:
            print(f"  WRONG: {candidate}")
    means = summary(results)
    for name, value in means.items():
        print(f"geometric mean over {name}: {value:.3f}")
    return {"shapes": results, "geometric_means": means}
