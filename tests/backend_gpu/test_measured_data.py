"""How a data run's outputs are judged and sampled: on tensors that a CPU holds as well."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="results on a GPU are torch tensors")

import torch
from tdsim.backend_gpu.runtime.judge import as_numpy, as_torch, judged

from tdsim import lang as td
from tdsim.samples import sample

DTYPES = [td.bfloat16, td.float16, td.float32]


def normal(dtype):
    drawn = np.random.default_rng(3).standard_normal((37, 88), np.float32)
    return drawn.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_a_tensor_comes_back_bit_by_bit_and_has_the_sample_of_its_array(dtype):
    array = normal(dtype)
    again = as_numpy(as_torch(array), dtype)
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again.view(np.uint8), array.view(np.uint8))
    here, there = (sample(a, call=1, rank=2, output="y") for a in (array, again))
    assert here == there


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_the_reference_is_not_rounded_to_the_type_of_what_was_found(dtype):
    exact = np.random.default_rng(4).standard_normal((64, 64))
    error, right = judged(as_torch(exact.astype(dtype.numpy)), exact)
    unit = {td.bfloat16: 2**-9, td.float16: 2**-12, td.float32: 2**-25}[dtype]
    assert right
    assert unit / 4 < error < unit  # of roundings alone


def test_one_missing_element_is_wrong_however_small_the_error():
    exact = np.random.default_rng(4).standard_normal((512, 512))
    found = torch.from_numpy(exact.copy())
    assert judged(found, exact) == (0.0, True)
    found[5, 7] = 0.0
    error, right = judged(found, exact)
    assert error < 1e-2
    assert not right


def test_nan_is_an_infinite_error():
    found = torch.full((4, 4), float("nan"))
    assert judged(found, np.ones((4, 4))) == (float("inf"), False)
