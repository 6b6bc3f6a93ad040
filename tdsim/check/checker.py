"""``check``: run a program with data under hostile conditions and say what went wrong.

Three calls back to back on one context, ranks that start up to 0.3 ms apart, fresh memory full
of NaN, deliveries shuffled on unordered paths; outputs are compared with the NumPy reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tdsim.errors import ProgramError, ShapeError
from tdsim.lang import DType, Gemm, Program, ReduceScatter, dtype
from tdsim.sim import Job, Run, simulate
from tdsim.sim.programs import load_program
from tdsim.topology import Machine, machine

CLEAN, WRONG_RESULT = "CLEAN", "WRONG-RESULT"
MAX_BYTES = 2 * 2**30
"""Most tensor data, over all ranks and calls, that a functional run may hold."""
TOLERANCE = {"bf16": 2e-2, "fp16": 4e-3, "fp32": 2e-3}
"""Largest error over the largest reference value: a few roundings; TF32 for fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: what kind of verdict, at which seed, and the explanation."""

    verdict: str
    seed: int
    message: str


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

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict == CLEAN else 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """The report as people read it."""
        sizes = " ".join(f"{k} {v}" for k, v in self.shape.items())
        lines = [
            f"{self.kernel} on {self.topology}, {sizes}, {self.dtype}: {self.verdict} "
            f"({self.calls} calls back to back, {len(self.seeds)} seed(s), skewed ranks, "
            "NaN-filled memory)"
        ]
        for finding in self.findings:
            lines.append(f"seed {finding.seed}: {finding.verdict}: {finding.message}")
            lines.append(f"see it again with --seed {finding.seed}")
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
) -> CheckResult:
    """Run *kernel* with data under *seeds* seeds from *seed* on; stop at the first finding.

    Without *shape* the program's own small shape is used.
    """
    job = _job(kernel, topology, shape, tunables, dtype, calls)
    tried: list[int] = []
    findings: list[Finding] = []
    for number in range(seed, seed + seeds):
        tried.append(number)
        found = _try_seed(replace(job, seed=number))
        if found:
            findings.append(found)
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
    )


def _job(
    kernel: str | Program,
    topology: str | Machine,
    shape: Mapping[str, int] | None,
    tunables: Mapping[str, Any] | None,
    dtype_name: str,
    calls: int,
) -> Job:
    program = load_program(kernel)
    target = topology if isinstance(topology, Machine) else machine(topology)
    world, nodes = target.world_size, target.num_nodes
    chosen = shape if shape is not None else program.default_shape(world, nodes)
    sizes = program.sizes(chosen, world, nodes)
    kind = dtype(dtype_name)
    _refuse_large(program, sizes, kind, world * calls)
    return Job(
        program=program,
        machine=target,
        sizes=sizes,
        tunables=program.tuned(tunables or {}),
        dtype=kind,
        calls=calls,
        functional=True,
        skewed=True,
    )


def _refuse_large(program: Program, sizes: Mapping[str, int], kind: DType, copies: int) -> None:
    total = 0
    for name, tensor in program.tensors.items():
        count = 1
        for n in tensor.shape(sizes, f"{program.name} tensor {name}"):
            count *= n
        total += count * kind.itemsize * copies
    if total > MAX_BYTES:
        raise ShapeError(
            f"a check would hold {total / 2**30:.1f} GiB of tensors",
            program.name,
            f"at most {MAX_BYTES / 2**30:.0f} GiB over all ranks and calls",
            "check a smaller shape (leave --shape out for the program's own)",
        )


def _try_seed(job: Job) -> Finding | None:
    try:
        run = simulate(job)
    except ProgramError as error:
        return Finding(verdict=error.verdict, seed=job.seed, message=str(error))
    message = _first_difference(job, run)
    if message:
        return Finding(verdict=WRONG_RESULT, seed=job.seed, message=message)
    return None


def _first_difference(job: Job, run: Run) -> str | None:
    """The first wrong element, call by call and rank by rank; None if all is right."""
    exact = not any(isinstance(step, (Gemm, ReduceScatter)) for step in job.program.work)
    tolerance = 0.0 if exact else TOLERANCE.get(job.dtype.short, 0.0)
    for call, inputs in enumerate(run.inputs):
        reference = job.program.reference(inputs)
        for name, expected in reference.items():
            for rank, want in enumerate(expected):
                got = run.outputs[call][name][rank]
                wrong = _wrong_elements(got, want, tolerance)
                if wrong.any():
                    return _describe(name, call, rank, got, want, wrong)
    return None


def _wrong_elements(got: Any, want: Any, tolerance: float) -> Any:
    got, want = got.astype(np.float64), np.asarray(want).astype(np.float64)
    limit = tolerance * np.abs(want).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return ~(np.abs(got - want) <= limit)


def _describe(name: str, call: int, rank: int, got: Any, want: Any, wrong: Any) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    value = float(got[index])
    seen = "NaN, so never written or computed from unwritten memory"
    count = f"{int(wrong.sum()):,} of {wrong.size:,}"
    return (
        f"{name} on rank {rank} in call {call}: {count} elements are wrong, first at "
        f"{list(index)}: {seen if np.isnan(value) else f'{value:.6g}'}, "
        f"expected {float(want[index]):.6g}"
    )
