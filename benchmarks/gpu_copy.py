"""Part ``copy`` of ``gpu_speed.py``: puts and all-gathers beside the fastest plain copy kernel.

1, 2 and 4 PEs on disjoint SMs of one GPU copy at the same time, each to the next PE. One time
is that of several launches in a row, so it holds the frame of a launch for every kernel alike;
``net`` ratios are of times without it, an empty kernel's time on as many CTAs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gpu_local
import gpu_plain
import gpu_programs as programs
import torch
from gpu_plain import VARIANTS
from tdsim.backend_gpu.runtime.context import Context
from tdsim.backend_gpu.runtime.measure import as_tensor
from tdsim.backend_gpu.runtime.memory import View
from tdsim.kernels.allgather import push_kernel

from tdsim import lang as td

WORLDS = (1, 2, 4)
CTAS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES_MIB = (1, 4, 16, 64)
WARPS = (8, 16, 32)
"""Of a CTA of put and all-gather kernels."""
WIDTH = 1024
"""bf16 elements of a row; parts are whole rows."""
_BYTES, _MOST_LAUNCHES = 64 << 20, 16
_ROW_BYTES = 2 * WIDTH
Queue = Callable[[Context, int], None]


@dataclass(frozen=True)
class Way:
    """One way to copy; *queue* launches it for one message, *moved* are its bytes."""

    kind: str
    name: str
    queue: Queue
    moved: int


class Bench:
    """*n_pes* PEs and what they copy: 64 MiB of each to the next one, in messages."""

    def __init__(self, n_pes: int) -> None:
        self.pes = gpu_local.contexts(n_pes, (2 * _BYTES) + (n_pes + 1) * _BYTES + (1 << 20))
        self.rows = _BYTES // _ROW_BYTES
        shape = (self.rows, WIDTH)
        self.sources = [pe.heap.tensor(shape, td.bfloat16) for pe in self.pes]
        self.boxes = [pe.heap.tensor(shape, td.bfloat16) for pe in self.pes]
        wide = (self.rows * n_pes, WIDTH)
        self.gathered = [pe.heap.tensor(wide, td.bfloat16) for pe in self.pes]
        for pe in self.pes:
            self._signals(pe)
            for way in self.ways(SIZES_MIB[0] << 20, 1):
                way.queue(pe, 0)
        for pe in self.pes:
            pe.ready()
        self.gate = gpu_local.Gate(self.pes)

    def _signals(self, pe: Context) -> Any:
        """Arrivals that nobody waits for."""
        pe.begin_call()
        return pe.signals(pe.n_pes)

    def message(self, view: View, number: int, rows: int) -> View:
        """*rows* rows, other ones for each *number* until all have had their turn."""
        return view.rows(number % max(self.rows // rows, 1) * rows, rows)

    def ways(self, size: int, ctas: int) -> list[Way]:
        """All kernels for messages of *size* bytes; the frame comes first."""
        n_pes, rows = len(self.pes), size // _ROW_BYTES

        def frame(pe: Context, number: int) -> None:
            pe.launch(gpu_plain.nothing, ctas, (16,))

        def plain(variant: gpu_plain.Plain) -> Queue:
            def queue(pe: Context, number: int) -> None:
                box = self.boxes[(pe.my_pe + 1) % n_pes]
                src = words_of(self.message(self.sources[pe.my_pe], number, rows))
                gpu_plain.launch(
                    pe, variant, words_of(self.message(box, number, rows)), src, ctas
                )

            return queue

        def put(warps: int) -> Queue:
            def queue(pe: Context, number: int) -> None:
                box = self.message(self.boxes[pe.my_pe], number, rows)
                src = self.message(self.sources[pe.my_pe], number, rows)
                args = (box, src, (pe.my_pe + 1) % n_pes)
                pe.launch(programs.put_rows, ctas, args, num_warps=warps)

            return queue

        shard = rows // max(n_pes - 1, 1)

        def gather(warps: int) -> Queue:
            def queue(pe: Context, number: int) -> None:
                place = number % (self.rows // shard) * shard * n_pes
                gathered = self.gathered[pe.my_pe].rows(place, shard * n_pes)
                args = (gathered, self._signals(pe))
                pe.launch(push_kernel, ctas, args, num_warps=warps)

            return queue

        return [
            Way("frame", "nothing", frame, 0),
            *(Way("plain", str(v), plain(v), size) for v in VARIANTS),
            *(Way("put", f"{w} warps", put(w), size) for w in WARPS),
            *(
                Way("allgather", f"{w} warps", gather(w), shard * _ROW_BYTES * (n_pes - 1))
                for w in WARPS
                if n_pes > 1
            ),
        ]  # fmt: skip

    def check(self) -> list[str]:
        """Ways that do not copy what they should; memory is filled with random values first."""
        wrong = []
        size = SIZES_MIB[-1] << 20
        n_pes, rows = len(self.pes), size // _ROW_BYTES
        shard = rows // max(n_pes - 1, 1)
        for way in self.ways(size, 8):
            for view in (*self.sources, *self.boxes, *self.gathered):
                as_tensor(view).normal_()
            torch.cuda.synchronize()
            for pe in self.pes:
                way.queue(pe, 0)
            torch.cuda.synchronize()
            for pe in self.pes:
                me, to = pe.my_pe, (pe.my_pe + 1) % n_pes
                if way.kind == "allgather":
                    there, here = as_tensor(self.gathered[to]), as_tensor(self.gathered[me])
                    part = slice(me * shard, (me + 1) * shard)
                    there, here = there[part], here[part]
                else:
                    there, here = as_tensor(self.boxes[to]), as_tensor(self.sources[me])
                if way.kind != "frame" and not torch.equal(there, here):
                    wrong.append(f"{way.kind} {way.name}, PE {me}")
        return wrong

    def times_us(self, ways: Sequence[Way], launches: int, samples: int) -> list[float]:
        """Median microseconds of one launch of each way, all PEs at once, taken in turns."""
        found: list[list[float]] = [[] for _ in ways]
        turn = 0
        for sample in range(samples + 1):
            for way, times in zip(ways, found, strict=True):
                first, turn = turn, turn + launches

                def queue(pe: Context, way: Way = way, first: int = first) -> None:
                    for number in range(first, first + launches):
                        way.queue(pe, number)

                time = gpu_local.together_us(self.pes, self.gate, queue)
                if sample:  # the first round warms up
                    times.append(time / launches)
        return [statistics.median(times) for times in found]


def words_of(view: View) -> View:
    """The same memory of this GPU as int32 words."""
    rows, width = view.shape
    return View(view.address, (rows, width // 2), td.int32, view.step // 2)


def measure(bench: Bench, size_mib: int, ctas: int, samples: int) -> dict[str, Any]:
    """One size on one number of CTAs: GB/s per PE of every way, and the ratios."""
    size = size_mib << 20
    launches = max(1, min(_MOST_LAUNCHES, _BYTES // size))
    ways = bench.ways(size, ctas)
    frame_us, *times = bench.times_us(ways, launches, samples)
    rates = [
        {
            "kind": way.kind, "name": way.name, "us": us, "gb_per_s": way.moved / us / 1e3,
            "net_gb_per_s": way.moved / max(us - frame_us, 0.1) / 1e3,
        }
        for way, us in zip(ways[1:], times, strict=True)
    ]  # fmt: skip

    def best(kind: str, key: str) -> dict[str, Any] | None:
        return max((r for r in rates if r["kind"] == kind), key=lambda r: r[key], default=None)

    result: dict[str, Any] = {
        "n_pes": len(bench.pes), "ctas": ctas, "mib": size_mib, "frame_us": frame_us,
        "rates": rates,
    }  # fmt: skip
    for kind in ("plain", "put", "allgather"):
        if found := best(kind, "gb_per_s"):
            result[kind] = found
            fastest, net = best("plain", "gb_per_s"), best("plain", "net_gb_per_s")
            result[f"{kind}_ratio"] = found["gb_per_s"] / fastest["gb_per_s"]
            result[f"{kind}_net_ratio"] = (
                best(kind, "net_gb_per_s")["net_gb_per_s"] / net["net_gb_per_s"]
            )
    return result


def line(result: dict[str, Any]) -> str:
    """One row of the table."""
    text = f"{result['n_pes']:4}{result['ctas']:6}{result['mib']:6}"
    for kind in ("plain", "put", "allgather"):
        if kind not in result:
            text += f"{'-':>21}"
            continue
        text += f"{result[kind]['gb_per_s']:9.1f}"
        if kind != "plain":
            text += f"{result[f'{kind}_ratio']:6.3f}{result[f'{kind}_net_ratio']:6.3f}"
    names = [f"{k}: {result[k]['name']}" for k in ("plain", "put", "allgather") if k in result]
    return f"{text}   {'; '.join(names)}"


def run(quick: bool) -> dict[str, Any]:
    """Measure and print part ``copy``."""
    results: list[dict[str, Any]] = []
    wrong: list[str] = []
    print(
        f"{'PEs':>4}{'CTAs':>6}{'MiB':>6}{'plain':>9}{'put':>9}{'ratio':>6}{'net':>6}", end=""
    )
    print(f"{'gather':>9}{'ratio':>6}{'net':>6}   GB/s of each PE")
    for n_pes in WORLDS[:2] if quick else WORLDS:
        bench = Bench(n_pes)
        found = bench.check()
        wrong += [f"{n_pes} PEs: {name}" for name in found]
        for ctas in (c for c in CTAS if c <= bench.pes[0].num_sms):
            for size in SIZES_MIB[::3] if quick else SIZES_MIB:
                results.append(measure(bench, size, ctas, 2 if quick else 4))
                print(line(results[-1]), flush=True)
        del bench
        torch.cuda.empty_cache()
    for name in wrong:
        print(f"WRONG: {name}")
    least = {
        kind: min(r[f"{kind}_ratio"] for r in results if f"{kind}_ratio" in r)
        for kind in ("put", "allgather")
    }
    print("least ratio: " + ", ".join(f"{kind} {value:.3f}" for kind, value in least.items()))
    return {"points": results, "least_ratios": least, "wrong": wrong}
