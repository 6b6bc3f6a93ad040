"""What is refused before anything is started: each with one line that says the cure."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

from tdsim.errors import UsageError
from tdsim.lang import dtype
from tdsim.programs import load_program
from tdsim.records import Case, Job, Placement

from . import mps
from .gpus import Gpus, probe

INSTALL = "pip install 'tdsim[gpu]'"
_WHERE = "the GPU backend"


def check_job(job: Job) -> None:
    """Every case names a program, sizes, tunables and a dtype that go together."""
    place = job.placement
    if place.n_pes < 1 or place.pes_per_node < 1 or place.n_pes % place.pes_per_node:
        raise UsageError(
            what=f"{place.n_pes} PEs with {place.pes_per_node} per node",
            where="placement",
            expected="at least 1 PE, in nodes of equal size",
            cure="give --nproc as a multiple of --pes-per-node",
        )
    for case in job.cases:
        _check_case(case, place)


def _check_case(case: Case, place: Placement) -> None:
    program = load_program(case.program)
    sizes = program.sizes(case.shape, place.n_pes, place.n_pes // place.pes_per_node)
    program.tuned(case.tunables)
    dtype(case.dtype)
    for name, tensor in program.tensors.items():
        tensor.shape(sizes, f"{program.name} tensor {name}")


def check_machine(placement: Placement, ask: Callable[[], Gpus] = probe) -> None:
    """A driver, enough GPUs, the Python packages and, for a shared GPU, the MPS programs."""
    gpus = ask()
    if gpus.error:
        raise UsageError(
            what=f"no NVIDIA driver ({gpus.error})",
            where=_WHERE,
            expected="a machine with an NVIDIA GPU",
            cure="tdsim doctor says what else is missing",
        )
    check_count(placement, len(gpus.devices))
    for module in ("torch", "triton", "nvshmem"):
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                what=f"{module} is not installed",
                where=_WHERE,
                expected="torch, triton and nvshmem4py",
                cure=INSTALL,
            )
    if placement.share_gpu:
        mps.require()


def check_count(placement: Placement, gpus: int) -> None:
    """One GPU for each PE, or one for all if it is to be shared."""
    if gpus == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise UsageError(
            what="no GPU",
            where=_WHERE,
            expected="at least one that nvidia-smi lists",
            cure=f"CUDA_VISIBLE_DEVICES is {hidden!r}: unset it" if hidden is not None else "",
        )
    if gpus < placement.n_pes and not placement.share_gpu:
        raise UsageError(
            what=f"{gpus} GPU{'s' if gpus > 1 else ''} for {placement.n_pes} PEs",
            where=_WHERE,
            expected="a GPU for each PE",
            cure=f"use --share-gpu or --nproc {gpus}",
        )
