"""Every ending of a job: the right answer or one error, and nothing left behind."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import signal
import sys
import time

import pytest
from launcher_tools import Stage, job
from tdsim.backend_gpu.launcher import gpus, mps, preflight, wait, watchdog
from tdsim.backend_gpu.launcher.backend import GpuBackend
from tdsim.backend_gpu.launcher.gpus import Gpu, Gpus

from tdsim import backends
from tdsim.errors import BackendFailure, HangError, UnknownNameError, UsageError
from tdsim.records import Placement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def stage(monkeypatch):
    made = Stage(monkeypatch)
    try:
        yield made
    finally:
        made.clear()


def test_results_are_handed_on_in_the_order_of_the_job_whatever_order_they_were_written(stage):
    seen = []
    asked = job(n_cases=3)
    record = stage.launch("good", asked, lambda *pair: seen.append(pair))
    assert [index for index, _ in seen] == [0, 1, 2]
    assert [found.heap_bytes for _, found in seen] == [0, 1, 2]
    assert record.measurements == tuple(found for _, found in seen)
    assert record.placement == asked.placement
    assert record.environment["device"] == "fake"
    assert stage.left() == []


def test_each_rank_is_told_who_it_is_and_how_large_its_heap_is(stage):
    record = stage.launch("tell", job(n_pes=3, heap_bytes=4096))
    told = record.environment["told"]
    assert [env["RANK"] for env in told] == ["0", "1", "2"]
    assert [env["LOCAL_RANK"] for env in told] == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in told} == {"3"}
    assert {env["NVSHMEM_SYMMETRIC_SIZE"] for env in told} == {"4096"}
    assert not any("CUDA_MPS_PIPE_DIRECTORY" in env for env in told)


def test_ranks_that_share_a_gpu_start_as_clients_of_one_private_daemon_that_answers(stage):
    told = stage.launch("tell", job(share_gpu=True)).environment["told"]
    assert [env["LOCAL_RANK"] for env in told] == ["0", "0"]
    assert {env["CUDA_MPS_PIPE_DIRECTORY"] for env in told} == {stage.seen.read_text()}
    assert all(env["daemon answers"] for env in told)
    assert stage.left() == []


BAD_RANKS = {
    "failure": (
        BackendFailure,
        "case 0 (allgather), rank 1 of 2: illegal memory access:\n  rank 1 says hello",
    ),
    "killed": (
        BackendFailure,
        "rank 1 of 2: killed by SIGKILL:\n  rank 1 says hello",
    ),
    "lost-child": (
        BackendFailure,
        "rank 1 of 2: ended with exit code 3:\n  rank 1 says hello",
    ),
    "usage": (
        UsageError,
        "PE 1: the heap is too small; expected 8 GiB; give --heap 8GiB",
    ),
}


@pytest.mark.parametrize("act", BAD_RANKS)
def test_one_bad_rank_is_told_and_ends_the_others_within_10_s_though_they_ignore_sigterm(
    stage, act
):
    kind, sentence = BAD_RANKS[act]
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        stage.launch(act, share_gpu=True)
    assert time.monotonic() - began < 10
    assert str(caught.value) == sentence
    assert stage.left() == []


def test_hangs_of_all_ranks_are_told_together(stage):
    with pytest.raises(HangError) as caught:
        stage.launch("both-hang")
    assert str(caught.value) == (
        "case 0 (allgather), on rank 0, 1: HANG: no end within 1.0 s:\n"
        "  PE 0: ready[0] is 0, waits for ge 1\n"
        "  PE 1: ready[0] is 0, waits for ge 1"
    )
    assert stage.left() == []


def test_ranks_that_say_nothing_for_too_long_are_a_hang(stage, monkeypatch):
    monkeypatch.setattr(wait, "START_S", 1.0)
    with pytest.raises(HangError, match="no word from any rank"):
        stage.launch("hang", timeout_s=0.1)
    assert stage.left() == []


def test_ranks_that_end_well_without_a_result_are_a_failure(stage):
    with pytest.raises(BackendFailure, match="without a result of case 0"):
        stage.launch("no-result")
    assert stage.left() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_of_the_caller_takes_everything_down(stage, error):
    def broken(index, found):
        raise error

    with pytest.raises(error):
        stage.launch("good", on_result=broken, share_gpu=True)
    assert stage.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_the_end_of_the_launcher_is_the_end_of_ranks_daemon_and_files(stage, number):
    launcher = stage.start_launcher("hang")
    assert len(stage.processes()) >= 6  # launcher, watchdog, two ranks, daemon, its server
    launcher.send_signal(number)
    _, told = launcher.communicate(timeout=20)
    assert launcher.returncode == -number, told.decode()
    stage.wait_until(lambda: stage.left() == [], 10)


def test_the_launcher_takes_down_what_a_killed_watchdog_cannot(stage):
    killed = []

    def kill_the_watchdog(index, found):
        for pid, command in stage.processes().items():
            if watchdog.__name__ in command:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    stage.launch("good", on_result=kill_the_watchdog, share_gpu=True)
    assert len(killed) == 1
    assert stage.left() == []


def test_a_daemon_that_ignores_quit_and_sigterm_is_killed(stage, monkeypatch):
    monkeypatch.setenv("FAKE_MPS", "stubborn")
    stage.launch("good", share_gpu=True)
    assert stage.seen.exists()
    assert stage.left() == []


def test_a_daemon_that_does_not_start_is_told_with_what_it_said(stage, monkeypatch):
    monkeypatch.setenv("FAKE_MPS", "dies")
    with pytest.raises(BackendFailure) as caught:
        stage.launch("good", share_gpu=True)
    assert str(caught.value) == "MPS daemon: ended with exit code 1:\n  cannot find a GPU"
    assert stage.left() == []


def test_a_placement_that_does_not_divide_starts_nothing(stage):
    bad = dataclasses.replace(job(), placement=Placement(n_pes=3, pes_per_node=2))
    with pytest.raises(UsageError, match="multiple of --pes-per-node"):
        stage.launch("good", bad)
    assert stage.left() == []


H200 = Gpu(name="H200", capability=(9, 0), sms=132, memory_bytes=1 << 37)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            Gpus(error="libcuda.so.1 is not found"),
            "the GPU backend: no NVIDIA driver (libcuda.so.1 is not found); "
            "expected a machine with an NVIDIA GPU; tdsim doctor says what else is missing",
        ),
        (
            Gpus(),
            "the GPU backend: no GPU; expected at least one that nvidia-smi lists",
        ),
        (
            Gpus(devices=(H200,)),
            "the GPU backend: 1 GPU for 4 PEs; expected a GPU for each PE; "
            "use --share-gpu or --nproc 1",
        ),
    ],
    ids=["no driver", "no GPU", "too few"],
)
def test_a_machine_that_cannot_take_the_job_is_refused_with_one_line(
    monkeypatch, found, sentence
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(UsageError) as caught:
        preflight.check_machine(Placement(n_pes=4, pes_per_node=4), lambda: found)
    assert str(caught.value) == sentence


def test_a_driver_that_takes_its_asker_down_is_one_line_and_no_crash(monkeypatch):
    monkeypatch.setattr(gpus.sys, "executable", "/bin/false")
    error = gpus.probe().error
    assert error.startswith("asking the driver failed: ")
    assert "\n" not in error


def test_hidden_gpus_are_named_as_the_cause(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES is '': unset it"):
        preflight.check_count(Placement(n_pes=1, pes_per_node=1), 0)


def test_one_gpu_is_enough_for_pes_that_share_it():
    preflight.check_count(Placement(n_pes=4, pes_per_node=4, share_gpu=True), 1)


def test_a_shared_gpu_without_the_mps_programs_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="nvidia-cuda-mps-control is not on PATH"):
        mps.require()


def points(monkeypatch, *values):
    made = [importlib.metadata.EntryPoint(name, at, backends.GROUP) for name, at in values]
    monkeypatch.setattr(backends, "entry_points", lambda group: made)


def test_a_backend_is_found_by_its_entry_point(monkeypatch):
    points(monkeypatch, ("gpu", "tdsim.backend_gpu.launcher.backend:GpuBackend"))
    assert isinstance(backends.load_backend("gpu"), GpuBackend)


def test_a_missing_backend_is_refused_with_what_there_is(monkeypatch):
    points(monkeypatch, ("gpu", "tdsim.backend_gpu.launcher.backend:GpuBackend"))
    with pytest.raises(UnknownNameError, match="did you mean 'gpu'"):
        backends.load_backend("gpux")


def test_no_backend_at_all_is_refused_with_the_way_to_get_one(monkeypatch):
    points(monkeypatch)
    with pytest.raises(UsageError, match="pip install 'tdsim\\[gpu\\]'"):
        backends.load_backend("gpu")
