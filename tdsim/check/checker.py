"""``check``: run a program with data under hostile conditions and say what went wrong.

Three calls back to back on one context, ranks that start up to 0.3 ms apart, fresh memory full
of NaN, deliveries shuffled on unordered paths; outputs are compared with the NumPy reference.
Under odd seeds time decides nothing: a random choice does, wherever the order is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tdsim.check.compare import first_difference
from tdsim.check.exhaustive import MAX_SCHEDULES, Explored, explore_job
from tdsim.check.findings import Finding, findings_of
from tdsim.check.hanging import tell_hangs_apart
from tdsim.check.happens_before import HappensBefore
from tdsim.check.story import lines_of
from tdsim.check.verdicts import CLEAN, WRONG_RESULT
from tdsim.errors import DeadlockError, ProgramError, ShapeError, UsageError
from tdsim.lang import Program
from tdsim.predict import make_job
from tdsim.programs import load_program
from tdsim.sim import Job, simulate
from tdsim.sim.choices import RandomChooser
from tdsim.sim.delays import Delay, Delays
from tdsim.sim.sites import Sites
from tdsim.topology import Machine, machine
from tdsim.units import to_us

MAX_SHOWN = 5
"""Findings that the text report prints."""
SMALL_RUN, MORE_SCHEDULES = 2000, 4
"""Events of a run that is repeated so often with a random chooser: it costs next to nothing."""
LAST_EVENTS = 8
"""Events shown before the end of a run that did not finish."""
MAX_BYTES = 2 * 2**30
"""Most tensor data, over all ranks and calls, that a functional run may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict over all seeds; CLEAN means that these runs showed nothing wrong."""

    kernel: str
    topology: str
    shape: dict[str, int]
    tunables: dict[str, Any]
    dtype: str
    calls: int
    seeds: tuple[int, ...]
    verdict: str
    findings: tuple[Finding, ...]
    explored: Explored | None = None
    """For an exhaustive check, how much it covered."""
    late_us: dict[int, float] = field(default_factory=dict)
    """PEs that were asked to start each call late, and by how much."""
    delays: dict[str, int] = field(default_factory=dict)
    """Delays of operations that were asked for, and how often each was applied."""

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict == CLEAN else 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """The report as people read it."""
        sizes = " ".join(f"{k} {v}" for k, v in self.shape.items())
        how = f"{len(self.seeds)} seed(s), skewed ranks"
        if self.explored is not None:
            how = self.explored.text()
        lines = [
            f"{self.kernel} on {self.topology}, {sizes}, {self.dtype}: {self.verdict} "
            f"({self.calls} calls back to back, {how}, NaN-filled memory)"
        ]
        for rank, late in self.late_us.items():
            lines.append(f"PE {rank} starts each call {late} us late: a straggler")
        lines += [f"delay {delay}: applied {n} times" for delay, n in self.delays.items()]
        shown = self.findings[:MAX_SHOWN]
        lines += [f"seed {f.seed}: {f.verdict}: {f.message}" for f in shown]
        if shown and shown[0].story:
            lines.append(f"what led to the first, of seed {shown[0].seed}:")
            lines += [f"  {line}" for line in lines_of(shown[0].story)]
        if len(self.findings) > len(shown):
            lines.append(f"... and {len(self.findings) - len(shown)} more; --json has them")
        if shown and self.explored is None:
            lines.append(f"see it again with --seed {shown[0].seed}")
        return "\n".join(lines)


def check(
    kernel: str | Program,
    *,
    topology: str | Machine = "h800x4",
    shape: Mapping[str, int] | None = None,
    tunables: Mapping[str, Any] | None = None,
    dtype: str = "bf16",
    seed: int = 0,
    seeds: int = 1,
    calls: int = 3,
    exhaustive: bool = False,
    schedules: int = MAX_SCHEDULES,
    delays: Mapping[int, int] | None = None,
    injected: Sequence[Delay] = (),
    advance: Callable[[str], Any] = lambda _: None,
) -> CheckResult:
    """Run *kernel* with data under *seeds* seeds from *seed* on; stop at the first finding.

    An *exhaustive* check runs every schedule of a small program instead, at most *schedules*,
    with the inputs of *seed*, and judges by the results alone. *delays* let PEs start each
    call late, in picoseconds by PE: however late, that is no hang. *injected* delays hold up
    single operations, and the result says how often each really did. *advance* is called after
    each seed or schedule.

    Without *shape* the program's own small shape is used. Raises UsageError for input that is
    not legal; whatever the program itself does wrong is a verdict.
    """
    for name, number in (("seeds", seeds), ("calls", calls), ("schedules", schedules)):
        if number < 1:
            raise UsageError(f"{name} = {number}", "check", "at least 1", "give 1 or more")
    job = functional_job(kernel, topology, shape, tunables, dtype, calls, seed, delays)
    applied = _injected(injected, job.machine)
    job = replace(job, injected=applied)
    tried: list[int] = []
    findings: list[Finding] = []
    explored: Explored | None = None
    if exhaustive:
        tried.append(seed)
        findings, explored = explore_job(job, schedules, advance)
    else:
        for number in range(seed, seed + seeds):
            tried.append(number)
            findings = check_seed(replace(job, seed=number))
            advance(f"seed {number}")
            if findings:
                findings = tell_hangs_apart(replace(job, seed=number), findings)
                break
    return CheckResult(
        kernel=job.program.name,
        topology=job.machine.name,
        shape={key: job.sizes[key] for key in job.program.shape},
        tunables=dict(job.tunables),
        dtype=job.dtype.short,
        calls=calls,
        seeds=tuple(tried),
        verdict=findings[0].verdict if findings else CLEAN,
        findings=tuple(findings),
        explored=explored,
        late_us={rank: to_us(late) for rank, late in job.delays.items() if late},
        delays={str(delay): n for delay, n in applied.applied.items()} if applied else {},
    )


def _injected(delays: Sequence[Delay], target: Machine) -> Delays | None:
    """The counters of *delays*, all of which must name a PE of *target*."""
    for delay in delays:
        if not 0 <= delay.rank < target.world_size:
            raise UsageError(
                f"{delay}, but {target.name} has no such rank", "--delay",
                f"ranks 0 to {target.world_size - 1}", "check the rank",
            )  # fmt: skip
    return Delays(delays) if delays else None


def functional_job(
    kernel: str | Program,
    topology: str | Machine,
    shape: Mapping[str, int] | None,
    tunables: Mapping[str, Any] | None,
    dtype: str,
    calls: int,
    seed: int,
    delays: Mapping[int, int] | None = None,
) -> Job:
    """A run with data and skewed ranks, of the program's own small shape if none is given.

    Raises UsageError for input that is not legal, or too large to be held.
    """
    program = load_program(kernel)
    target = topology if isinstance(topology, Machine) else machine(topology)
    chosen = shape
    if chosen is None:
        chosen = program.default_shape(target.world_size, target.num_nodes)
    job = make_job(program, target, chosen, tunables, dtype, seed, delays=delays)
    _refuse_large(job, target.world_size * calls)
    return replace(job, calls=calls, functional=True, skewed=True)


def _refuse_large(job: Job, copies: int) -> None:
    program, total = job.program, 0
    for name, tensor in program.tensors.items():
        shape = tensor.shape(job.sizes, f"{program.name} tensor {name}")
        total += math.prod(shape) * job.dtype.itemsize * copies
    if total > MAX_BYTES:
        raise ShapeError(
            f"a check would hold {total / 2**30:.1f} GiB of tensors",
            program.name,
            f"at most {MAX_BYTES // 2**30} GiB over all ranks and calls",
            "check a smaller shape (leave --shape out for the program's own)",
        )


def check_seed(job: Job, sites: Sites | None = None) -> list[Finding]:
    """What *job* shows under its seed, the worst first: its end, its order, then its data.

    Even seeds keep to time with random delays; odd ones let a random chooser decide. A run
    without a finding that was a small one is followed by some random schedules. Delays that
    a user asks for need time, which a chooser does not keep to: with them every seed does.
    """
    timed = job.injected is not None or any(job.delays.values())
    chooser = RandomChooser(job.seed) if job.seed % 2 and not timed else None
    findings, events = _one_run(job, sites, chooser)
    for number in range(MORE_SCHEDULES if events <= SMALL_RUN and not timed else 0):
        if not findings:
            findings, _ = _one_run(job, sites, RandomChooser(number))
    return findings


def _one_run(
    job: Job, sites: Sites | None, chooser: RandomChooser | None
) -> tuple[list[Finding], int]:
    """The findings of one run, and how many events it took, if it came to its end."""
    seen = HappensBefore()
    ended: list[Finding] = []
    data: list[Finding] = []
    events = 0
    try:
        done = simulate(job, order=seen, sites=sites, chooser=chooser)
        events = done.events
        message = first_difference(job, done)
        if message:
            data = [Finding(verdict=WRONG_RESULT, seed=job.seed, message=message)]
    except ProgramError as error:
        stuck = isinstance(error, DeadlockError)
        ended = [
            Finding(
                verdict=error.verdict, seed=job.seed, message=str(error), stuck=stuck,
                story=seen.story.last(LAST_EVENTS),
            )
        ]  # fmt: skip
    return [*ended, *findings_of(seen, job.seed), *data], events
