"""Predictions: what one simulated run says, beside its baseline and its bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tdsim.engine.timeline import Segment, critical_path
from tdsim.errors import UsageError
from tdsim.lang import Gemm, Program, dtype
from tdsim.predict.baseline import baseline_ps, step_ps
from tdsim.predict.bound import bound
from tdsim.programs import load_program
from tdsim.sim import Job, Run, simulate
from tdsim.topology import Machine, machine
from tdsim.units import PS_PER_S, to_us


@dataclass(frozen=True, slots=True)
class PathStep:
    """A stretch of the critical path: what it waited on, on which rank, for how long."""

    resource: str
    rank: int
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One predicted call. Times in microseconds unless a name says otherwise.

    *exposed_us* is what overlap did not hide: the time minus the busiest SM's computing on the
    rank that ends last. *overlap_efficiency* is FLUX's (arXiv 2406.06858): 1 - (time - GEMM) /
    (baseline - GEMM), with the baseline's GEMM; None without a GEMM. *gemm_inefficiency_us* is
    the busiest SM's computing minus the baseline's GEMM. *waiting_us* is the mean wait of a
    computing CTA on that rank. The *critical_path* sums to *time_us*.
    """

    kernel: str
    topology: str
    world_size: int
    shape: dict[str, int]
    tunables: dict[str, Any]
    dtype: str
    seed: int
    time_us: float
    baseline_us: float
    speedup: float | None
    bound_us: float
    bound_by: str
    overlap_efficiency: float | None
    exposed_us: float
    waiting_us: float
    compute_us: float
    gemm_us: float
    gemm_inefficiency_us: float
    critical_path: tuple[PathStep, ...]
    slowest_rank: int
    busiest_link: str
    busiest_link_utilisation: float
    tiles: int
    events: int
    wall_s: float
    tiles_per_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_job(
    kernel: str | Program,
    topology: str | Machine,
    shape: Mapping[str, int],
    tunables: Mapping[str, Any] | None = None,
    dtype_name: str = "bf16",
    seed: int = 0,
    gemm_slowdown: float = 1.0,
    delays: Mapping[int, int] | None = None,
) -> Job:
    """Check a user's request and turn it into a timing job."""
    program = load_program(kernel)
    if not 0 < gemm_slowdown < 1000:
        raise UsageError(
            f"a GEMM slowdown of {gemm_slowdown}",
            "--gemm-slowdown",
            "a positive factor, 1.0 for none",
            "1.2 means 1.2 times slower",
        )
    target = topology if isinstance(topology, Machine) else machine(topology)
    sizes = program.sizes(shape, target.world_size, target.num_nodes)
    late = [rank for rank in delays or {} if not 0 <= rank < target.world_size]
    if late:
        raise UsageError(
            f"rank {late[0]} is late, but {target.name} has no such rank",
            "--straggler",
            f"ranks 0 to {target.world_size - 1}",
            "check the rank",
        )
    early = [late for late in (delays or {}).values() if late < 0]
    if early:
        raise UsageError(f"{early[0]} ps", "delays", "a delay of at least 0", "drop the -")
    return Job(
        program=program,
        machine=target,
        sizes=sizes,
        tunables=program.tuned(tunables or {}),
        dtype=dtype(dtype_name),
        seed=seed,
        slowdown=gemm_slowdown,
        delays=delays or {},
    )


def predict(
    kernel: str | Program,
    *,
    topology: str | Machine = "h800x8",
    shape: Mapping[str, int],
    tunables: Mapping[str, Any] | None = None,
    dtype: str = "bf16",
    seed: int = 0,
    gemm_slowdown: float = 1.0,
    delays: Mapping[int, int] | None = None,
) -> Prediction:
    """Predict one call of *kernel*.

    *shape* holds problem sizes in elements, in total over ranks. *gemm_slowdown* multiplies the
    kernel's own tensor-core time (1.2: its main loop is 1.2 times slower than the model's).
    *delays* start ranks late, in picoseconds.
    """
    job = make_job(kernel, topology, shape, tunables, dtype, seed, gemm_slowdown, delays)
    return summarise(job, simulate(job))


def summarise(job: Job, run: Run) -> Prediction:
    """The report of a finished timing run."""
    program, target, sizes = job.program, job.machine, job.sizes
    base = baseline_ps(program, sizes, target, job.dtype)
    gemms = [s for s in program.work if isinstance(s, Gemm)]
    gemm = sum(step_ps(step, sizes, target, job.dtype) for step in gemms)
    limit = bound(program, sizes, target, job.dtype)
    slowest = max(range(len(run.ends)), key=lambda rank: run.ends[rank])
    compute, waiting = _compute_and_waiting(run, slowest)
    link, use = _busiest_link(run)
    efficiency = None if not gemms or base <= gemm else 1 - (run.time_ps - gemm) / (base - gemm)
    return Prediction(
        kernel=program.name,
        topology=target.name,
        world_size=target.world_size,
        shape={key: sizes[key] for key in program.shape},
        tunables=dict(job.tunables),
        dtype=job.dtype.short,
        seed=job.seed,
        time_us=to_us(run.time_ps),
        baseline_us=to_us(base),
        speedup=base / run.time_ps if program.work else None,
        bound_us=to_us(limit.ps),
        bound_by=limit.resource,
        overlap_efficiency=efficiency,
        exposed_us=to_us(run.time_ps - compute),
        waiting_us=to_us(waiting),
        compute_us=to_us(compute),
        gemm_us=to_us(gemm),
        gemm_inefficiency_us=to_us(compute - gemm) if gemms else 0.0,
        critical_path=path_steps(run),
        slowest_rank=slowest,
        busiest_link=link,
        busiest_link_utilisation=use,
        tiles=run.world.tiles,
        events=run.events,
        wall_s=run.wall_s,
        tiles_per_s=run.world.tiles / run.wall_s,
    )


def _compute_and_waiting(run: Run, rank: int) -> tuple[int, int]:
    """Busiest SM's computing on *rank*, and the mean wait of its computing CTAs."""
    launches = [x for x in run.world.launches if x.rank == rank and x.role == "compute"]
    busy: dict[int, int] = {}
    for launch in launches:
        for sm, ps in launch.own_role.items():
            busy[sm] = busy.get(sm, 0) + ps
    ctas = sum(launch.count for launch in launches)
    waited = sum(launch.waited for launch in launches)
    return max(busy.values(), default=0), waited // max(ctas, 1)


def _busiest_link(run: Run) -> tuple[str, float]:
    """The link with the highest share of its capacity over the run, and that share."""
    capacities = run.world.machine.capacities()
    best, share = "none", 0.0
    for link, nbytes in run.world.net.link_bytes.items():
        if link in capacities and run.time_ps:
            used = nbytes * PS_PER_S / (capacities[link] * run.time_ps)
            if used > share:
                best, share = f"{link[0]} to {link[1]}", used
    return best, share


_RESOURCES = {
    "compute": "SMs, computing",
    "reduce": "SMs, reducing",
    "comm": "SMs, communicating",
    "copy": "copy",
    "link": "network",
    "host": "host",
    "launch": "launch",
    "signal": "signal",
    "barrier": "barrier",
}


def path_steps(run: Run) -> tuple[PathStep, ...]:
    """The critical path with equal neighbours merged; gaps count as signal latency."""
    steps: list[PathStep] = []
    clock = 0
    for segment in [*critical_path(run.last, 0), None]:
        begin = segment.begin if segment else run.time_ps
        if begin > clock:
            rank = segment.rank if segment else steps[-1].rank if steps else 0
            _add(steps, "signal and latency", rank, begin - clock)
        if segment:
            _add(steps, _resource(segment), segment.rank, segment.end - segment.begin)
            clock = segment.end
    return tuple(steps)


def _resource(segment: Segment) -> str:
    return _RESOURCES.get(segment.kind, segment.kind)


def _add(steps: list[PathStep], resource: str, rank: int, ps: int) -> None:
    if steps and (steps[-1].resource, steps[-1].rank) == (resource, rank):
        last = steps.pop()
        steps.append(PathStep(resource, rank, last.us + to_us(ps)))
    else:
        steps.append(PathStep(resource, rank, to_us(ps)))


def scale(
    kernel: str | Program,
    *,
    topologies: Sequence[str],
    shape: Mapping[str, int],
    tunables: Mapping[str, Any] | None = None,
    dtype: str = "bf16",
    seed: int = 0,
    progress: Callable[[Prediction], None] | None = None,
) -> list[Prediction]:
    """The same problem on several machines; *progress* is called after each."""
    rows = []
    for name in topologies:
        row = predict(
            kernel, topology=name, shape=shape, tunables=tunables, dtype=dtype, seed=seed
        )
        rows.append(row)
        if progress:
            progress(row)
    return rows
