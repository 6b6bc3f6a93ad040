"""The frozen list of cases for one shared H200: legal, varied, and split once and for all."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter

import h200_shared
import pytest

from tdsim.predict import make_job
from tdsim.records import Job, Placement
from tdsim.topology import machine

KERNELS = {"allgather", "reduce_scatter", "ag_gemm", "gemm_rs"}
placements = pytest.mark.parametrize("n_pes", h200_shared.PLACEMENTS)


def problem(case):
    return case.program, tuple(case.shape.items())


def tile(case):
    return tuple(case.tunables.get(f"BLOCK_{axis}") for axis in "MNK")


@placements
def test_every_case_is_a_legal_job_on_its_topology(n_pes):
    target = machine(f"h200-shared-{n_pes}")
    for case in h200_shared.cases(n_pes):
        job = make_job(case.program, target, case.shape, case.tunables, case.dtype)
        assert job.tunables.items() >= dict(case.tunables).items()
        for name, tensor in job.program.tensors.items():
            assert min(tensor.shape(job.sizes, name)) >= 1


@placements
def test_communication_leaves_at_least_half_of_the_sms_to_compute(n_pes):
    num_sms = machine(f"h200-shared-{n_pes}").gpu.num_sms
    for case in h200_shared.cases(n_pes):
        assert 2 * case.tunables.get("num_comm_sms", 0) <= num_sms
        assert case.tunables.get("final_reduce_sms", 0) <= num_sms // 2


@placements
def test_segments_hold_whole_tiles(n_pes):
    """What a PE owns is whole tiles, so that no case measures how edges are masked."""
    for case in h200_shared.cases(n_pes):
        blocks = (
            dict(zip("MNK", tile(case), strict=True)) if "gemm" in case.program else {"M": 32}
        )
        for axis, block in blocks.items():
            assert case.shape[axis] // n_pes % block == 0


@placements
def test_each_kernel_has_15_cases_or_more_and_none_twice(n_pes):
    found = h200_shared.cases(n_pes)
    counts = Counter(case.program for case in found)
    assert counts.keys() == KERNELS
    assert min(counts.values()) >= 15
    assert len({h200_shared.label(case) for case in found}) == len(found)


@placements
def test_both_halves_of_a_kernel_have_each_shape_tile_and_way_to_communicate(n_pes):
    """Otherwise the held-back half judges what no fit could know, or judges less than asked."""
    halves = [
        [case for case in h200_shared.cases(n_pes) if h200_shared.is_held_back(case) is held]
        for held in (False, True)
    ]
    for seen in (
        problem,
        lambda case: (case.program, tile(case)),
        lambda case: (case.program, case.tunables["comm"], case.tunables.get("num_comm_sms")),
    ):
        used, held_back = ({seen(case) for case in half} for half in halves)
        assert used == held_back


@placements
def test_half_of_the_cases_of_each_problem_are_held_back(n_pes):
    held: dict[object, list[bool]] = {}
    for case in h200_shared.cases(n_pes):
        held.setdefault(problem(case), []).append(h200_shared.is_held_back(case))
    assert all(2 * sum(flags) == len(flags) == 6 for flags in held.values())


@placements
def test_the_list_and_its_split_are_frozen(n_pes):
    """Change neither: records and fits rest on them. A new list gets a new name and seed."""
    lines = [
        f"{h200_shared.label(case)} {h200_shared.is_held_back(case)}\n"
        for case in h200_shared.cases(n_pes)
    ]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FROZEN


FROZEN = "25c2b100a77a3ef650aacade6543297b4c7552591a3f3aeb6f6e9e790c765046"


def test_how_often_a_case_runs_and_a_trip_through_json_do_not_move_it_to_the_other_half():
    found = h200_shared.cases(2)
    often = tuple(dataclasses.replace(case, repeats=99, seed=7) for case in found)
    job = Job(cases=often, placement=Placement(n_pes=2, pes_per_node=2, share_gpu=True))
    read = Job.from_json(job.to_json()).cases
    assert [h200_shared.is_held_back(case) for case in read] == [
        h200_shared.is_held_back(case) for case in found
    ]


def test_a_case_outside_the_list_and_another_placement_are_refused():
    odd = dataclasses.replace(h200_shared.cases(2)[0], dtype="fp16")
    with pytest.raises(ValueError, match="not in the list"):
        h200_shared.is_held_back(odd)
    with pytest.raises(ValueError, match="no cases for 8 PEs"):
        h200_shared.cases(8)
