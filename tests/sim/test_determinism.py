"""The same seed gives the same run: across repeats, processes and Python hash seeds."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import library
from tdsim.kernels.ag_gemm import ag_gemm
from tdsim.kernels.gemm_rs import gemm_rs

from tdsim.sim import simulate
from tdsim.sim.recorder import Recorder

PROGRAM = """
from test_determinism import digest
from tdsim.kernels.ag_gemm import ag_gemm
from tdsim.kernels.gemm_rs import gemm_rs
for prog in (ag_gemm, gemm_rs):
    for functional in (False, True):
        print(digest(prog, functional))
"""


def digest(prog, functional, seed=5):
    """A hash of every segment, signal and rate of a run, and of its outputs."""
    recorder = Recorder()
    done = simulate(
        library(
            prog, "h800x2x2", functional=functional, skewed=True, calls=2, seed=seed,
            tunables={"BLOCK_M": 32, "BLOCK_N": 32},
        ),
        (recorder,),
    )  # fmt: skip
    seen = hashlib.sha256()
    for s in recorder.segments:
        seen.update(repr((s.kind, s.rank, s.lane, s.begin, s.end, s.detail)).encode())
    seen.update(repr(recorder.signals).encode())
    seen.update(repr(recorder.rates).encode())
    seen.update(repr((done.time_ps, done.events, done.ends)).encode())
    for call in done.outputs:
        for arrays in call.values():
            for array in arrays:
                seen.update(b"" if array is None else array.tobytes())
    return seen.hexdigest()


@pytest.fixture(scope="module")
def here():
    return [
        digest(prog, functional) for prog in (ag_gemm, gemm_rs) for functional in (False, True)
    ]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_a_run_does_not_depend_on_the_process_or_its_hash_seed(hash_seed, here):
    paths = os.pathsep.join(str(Path(__file__).parents[i]) for i in (0, 1))
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    other = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    assert other.stdout.split() == here


@pytest.mark.parametrize("prog", [ag_gemm, gemm_rs], ids=lambda p: p.name)
def test_another_seed_is_another_run(prog):
    assert digest(prog, True, seed=5) != digest(prog, True, seed=6)


@pytest.mark.parametrize("prog", [ag_gemm, gemm_rs], ids=lambda p: p.name)
@pytest.mark.parametrize("functional", [True, False])
def test_listening_changes_nothing(prog, functional):
    job = library(prog, "h800x2x2", functional=functional, seed=2)
    silent, heard = simulate(job), simulate(job, (Recorder(),))
    assert silent.time_ps == heard.time_ps
    assert silent.ends == heard.ends
    assert silent.world.net.link_bytes == heard.world.net.link_bytes
