"""Ranks that torchrun made: one folder, one job, and each rank's own errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tdsim.backend_gpu.launcher import torchrun

from tdsim.errors import BackendFailure, UsageError

RANK = '''
"""One rank: python rank.py ACT"""
import json, os, sys
from launcher_tools import job
from tdsim.backend_gpu.launcher.backend import GpuBackend
from tdsim.errors import TdsimError

def run_rank(folder, rank, world, local_rank):
    asked = json.loads((folder / "job.json").read_text())
    if sys.argv[1] == "usage" and rank == 1:
        report = {"rank": 1, "kind": "usage", "what": "the heap is too small"}
        (folder / "error-1.json").write_text(json.dumps(report))
        return 2
    if sys.argv[1] == "silent" and rank == 1:
        return 7
    if rank == 0:
        (folder / "environment.json").write_text(json.dumps({"folder": str(folder)}))
        for index, case in enumerate(asked["cases"]):
            (folder / f"result-{index}.json").write_text(json.dumps({"case": case}))
    return 0

backend = GpuBackend(run_rank=run_rank, require=lambda placement: None)
try:
    seen = []
    record = backend.join(job(n_pes=2, n_cases=2), lambda index, found: seen.append(index))
    print(json.dumps([seen, record and record.to_json()]))
except TdsimError as error:
    print(error)
    sys.exit(error.exit_code)
'''


def start(tmp_path, act, rank):
    """Rank *rank* of 2, with what torchrun puts into its environment."""
    told = {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "a/b", "TORCHELASTIC_RESTART_COUNT": "0",
        "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(Path(__file__).parent),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", RANK, act],
        env={**os.environ, **told},
        stdout=subprocess.PIPE,
        text=True,
    )


def together(tmp_path, act):
    """Exit codes and output of both ranks, the later one started first."""
    (tmp_path / "tmp").mkdir()
    ranks = [start(tmp_path, act, rank) for rank in (1, 0)][::-1]
    told = [rank.communicate(timeout=60)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], told


def test_rank_0_alone_gets_the_record_and_the_folder_is_gone_afterwards(tmp_path):
    codes, told = together(tmp_path, "good")
    assert codes == [0, 0]
    seen, record = json.loads(told[0])
    assert (seen, len(record["measurements"])) == ([0, 1], 2)
    folder = Path(record["environment"]["folder"])
    assert folder.parent == tmp_path / "tmp"
    assert not folder.exists()
    assert json.loads(told[1]) == [[], None]


def test_a_failing_rank_raises_what_it_reported(tmp_path):
    codes, told = together(tmp_path, "usage")
    assert codes == [0, 2]
    assert told[1] == "the heap is too small\n"


def test_a_rank_that_fails_without_a_report_raises_its_exit_code(tmp_path):
    codes, told = together(tmp_path, "silent")
    assert codes == [0, 1]
    assert told[1] == "rank 1: ended with exit code 7\n"


def test_ranks_on_several_machines_are_refused():
    told = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    with pytest.raises(UsageError) as caught:
        torchrun.agreed_folder(told)
    assert str(caught.value) == (
        "torchrun: 8 of 16 ranks here; expected all ranks on one machine; "
        "run torchrun with --nnodes 1; --pes-per-node makes logical nodes"
    )


def test_a_rank_does_not_wait_for_ever_for_the_job(tmp_path, monkeypatch):
    from launcher_tools import job
    from tdsim.backend_gpu.launcher.job import JobFolder

    monkeypatch.setattr(torchrun, "_LIMIT_S", 0.1)
    with pytest.raises(BackendFailure, match="rank 1: rank 0 wrote no job for 0 s"):
        torchrun.follow_rank_0(JobFolder(tmp_path), 1, job())
