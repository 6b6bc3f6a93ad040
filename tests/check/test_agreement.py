"""Data of hardware beside the simulator's: what agrees, and that any corruption does not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tdsim.check.agreement import agreement, agreements
from tdsim.check.checker import functional_job
from tdsim.errors import UsageError
from tdsim.records import Case, Measurement, Placement, Record
from tdsim.samples import ELEMENTS, places, sample
from tdsim.sim import simulate
from tdsim.topology import machine

ALLGATHER = Case(program="allgather", shape={"M": 64, "K": 48}, runs=1, calls=2, seed=5)
GEMM = Case(
    program="ag_gemm",
    shape={"M": 64, "N": 64, "K": 48},
    tunables={"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32},
    runs=1,
    calls=2,
    seed=5,
)
TARGET = machine("h800x2")


def measured(case, change=None, on="h800x2"):
    """What hardware would report that computes as the simulator on *on*, after *change*."""
    job = functional_job(
        case.program, on, case.shape, case.tunables, case.dtype, case.calls, case.seed
    )
    outputs = simulate(job).outputs
    if change:
        change(outputs)
    return Measurement(
        case=case,
        samples=tuple(
            sample(array, call=call, rank=rank, output=name)
            for call, tensors in enumerate(outputs)
            for name, arrays in tensors.items()
            for rank, array in enumerate(arrays)
        ),
    )


def record(*found):
    place = Placement(n_pes=2, pes_per_node=2)
    return Record(date="", command="", environment={}, placement=place, measurements=found)


@pytest.mark.parametrize("case", [ALLGATHER, GEMM], ids=lambda case: case.program)
def test_equal_data_agree_in_every_output_of_every_call_and_rank(case):
    (found,) = agreements(record(measured(case)), "h800x2")
    assert (found.case, found.compared, found.equal) == (case, 4, 4)
    assert (found.worst, found.right) == (0.0, True)


def test_data_of_other_inputs_do_not_agree():
    moved = dataclasses.replace(measured(GEMM), case=dataclasses.replace(GEMM, seed=6))
    assert not agreement(moved, TARGET).right


def test_one_bit_off_is_wrong_where_data_are_only_moved():
    def flip(outputs):
        outputs[1]["y"][0].view(np.uint16)[3, 5] ^= 1

    found = agreement(measured(ALLGATHER, flip), TARGET)
    assert (found.compared, found.equal, found.right) == (4, 3, False)


def test_a_rounding_is_right_and_a_wrong_element_is_not_where_data_are_computed():
    def last_bit(outputs):
        outputs[0]["c"][1].view(np.uint16)[...] ^= 1

    def stale_tile(outputs):
        outputs[1]["c"][0][:32, :32] = 0

    rounded = agreement(measured(GEMM, last_bit), TARGET)
    assert (rounded.equal, rounded.right) == (3, True)
    assert 0 < rounded.worst < rounded.tolerance
    stale = agreement(measured(GEMM, stale_tile), TARGET)
    assert (stale.equal, stale.right) == (3, False)
    assert agreement(measured(GEMM, stale_tile), TARGET, tolerance=2.0).right


def test_nan_is_infinitely_wrong():
    def poison(outputs):
        outputs[0]["c"][0][...] = np.nan

    found = agreement(measured(GEMM, poison), TARGET)
    assert (found.worst, found.right) == (float("inf"), False)


def test_a_case_without_samples_is_not_compared():
    assert agreements(record(Measurement(case=GEMM)), "h800x2") == ()


def test_samples_of_another_job_are_refused():
    with pytest.raises(UsageError, match="the record's 2 PEs, 2 to a node"):
        agreements(record(measured(GEMM)), "h800x4")
    with pytest.raises(UsageError, match="a sample of y on rank 0 after call 0"):
        agreement(dataclasses.replace(measured(ALLGATHER), case=GEMM), TARGET)
    with pytest.raises(UsageError, match="on rank 2 after call 0"):
        agreement(measured(GEMM, on="h800x4"), TARGET)


def test_a_sample_tells_apart_what_differs_in_its_places():
    array = np.arange(4000, dtype=np.float32).reshape(40, 100)
    first = sample(array, call=0, rank=1, output="y")
    at = places(array.size, 0, 1)
    assert len(at) == ELEMENTS
    np.testing.assert_array_equal(first.values(array.dtype), at)  # element i holds i
    assert sample(array.T, call=0, rank=1, output="y") != first
    assert set(places(4000, 0, 1)) != set(places(4000, 1, 1))
