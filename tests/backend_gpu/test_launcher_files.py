"""Files of a job: its folder, and what PEs leave outside it."""

from __future__ import annotations

import mmap
import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from tdsim.backend_gpu.launcher import leftovers, processes, ranks
from tdsim.backend_gpu.launcher.job import JobFolder, tail

from tdsim.records import Case, Job, Placement


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A job folder beside a /dev/shm and a /tmp of its own."""
    made = JobFolder(tmp_path / "job")
    for path in (made.path, tmp_path / "shm", tmp_path / "tmp"):
        path.mkdir()
    monkeypatch.setattr(leftovers, "_SHARED_MEMORY", tmp_path / "shm")
    monkeypatch.setattr(leftovers, "_SOCKETS", tmp_path / "tmp")
    return made


def left(folder, name):
    return sorted(path.name for path in (folder.path.parent / name).iterdir())


def make(folder, *names):
    for name in names:
        (folder.path.parent / name).write_bytes(bytes(4096))


def test_shared_memory_that_the_job_made_is_removed_and_what_others_made_stays(folder):
    make(folder, "shm/mps_shm_0", "shm/nvshmem-older")
    leftovers.note(folder)
    folder.add_pid(77)
    make(folder, "shm/mps_shm_3", "shm/nvshmem-younger", "shm/torch_77_x", "shm/sem.other")
    leftovers.remove(folder)
    assert left(folder, "shm") == ["mps_shm_0", "nvshmem-older", "sem.other"]


def test_shared_memory_that_a_living_process_has_mapped_is_another_jobs(folder):
    leftovers.note(folder)
    make(folder, "shm/mps_shm_0", "shm/mps_shm_1")
    with (
        (folder.path.parent / "shm/mps_shm_0").open("r+b") as file,
        mmap.mmap(file.fileno(), 0),
    ):
        leftovers.remove(folder)
    assert left(folder, "shm") == ["mps_shm_0"]


def test_sockets_between_the_jobs_own_pes_are_removed(folder):
    leftovers.note(folder)
    for pid in (77, 78):
        folder.add_pid(pid)
    make(folder, "tmp/nvshmem-socket-77-78", "tmp/nvshmem-socket-777-778", "tmp/mine-77")
    leftovers.remove(folder)
    assert left(folder, "tmp") == ["mine-77", "nvshmem-socket-777-778"]


def test_a_job_that_never_started_removes_nothing(folder):
    make(folder, "shm/mps_shm_0")
    leftovers.remove(folder)
    assert left(folder, "shm") == ["mps_shm_0"]


def test_a_socket_of_the_daemon_fits_even_below_a_long_temporary_folder(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = JobFolder.temporary()
    try:
        folder.mps.mkdir()
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(folder.mps / "control_privileged_socket"))
        assert folder.path.stat().st_mode & 0o777 == 0o700
    finally:
        for path in sorted(folder.path.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.path.rmdir()


def test_reports_come_in_the_order_in_which_they_were_written(folder):
    for at, rank in enumerate((2, 0, 1)):
        path = folder.path / f"error-{rank}.json"
        path.write_text(f'{{"rank": {rank}, "kind": "hang", "what": "w", "more": 1}}')
        os.utime(path, ns=(at, at))
    assert [report.rank for report in folder.reports()] == [2, 0, 1]


def test_a_job_is_read_as_it_was_written(folder):
    case = Case(program="allgather", shape={"M": 8})
    job = Job(cases=(case,), placement=Placement(n_pes=2, pes_per_node=1), heap_bytes=7)
    folder.write_job(job)
    assert Job.from_json(folder._read("job.json")) == job


def test_the_tail_of_a_log_skips_blank_lines_and_takes_any_bytes(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"one\n\n  two  \n\xff\n\n")
    assert tail(log, 2) == ["  two", "\N{REPLACEMENT CHARACTER}"]
    assert tail(Path("nowhere")) == []


@pytest.mark.parametrize("shared", [False, True])
def test_only_pes_that_share_a_gpu_are_told_of_mps(folder, shared):
    case = Case(program="allgather", shape={"M": 8})
    place = Placement(n_pes=2, pes_per_node=2, share_gpu=shared)
    told = ranks.environment(folder, Job(cases=(case,), placement=place), 1)
    assert told["LOCAL_RANK"] == ("0" if shared else "1")
    assert ("CUDA_MPS_LOG_DIRECTORY" in told) == shared
    assert ("NVSHMEM_IGNORE_CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in told) == shared
    assert "NVSHMEM_SYMMETRIC_SIZE" not in told


def test_a_percentage_of_the_users_own_does_not_reach_pes_that_share_a_gpu(folder, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "7")
    case = Case(program="allgather", shape={"M": 8})
    place = Placement(n_pes=1, pes_per_node=1, share_gpu=True)
    told = ranks.environment(folder, Job(cases=(case,), placement=place), 0)
    show = "import os, sys; sys.stdout.write(str(os.environ.get('CUDA_MPS_ACTIVE_THREAD_PERCENTAGE')))"
    processes.start([sys.executable, "-c", show], folder.log(0), told).wait()
    assert folder.log(0).read_text() == "None"


def test_the_numpy_threads_of_all_pes_share_the_processors_unless_the_user_says(
    folder, monkeypatch
):
    job = Job(
        cases=(Case(program="allgather", shape={"M": 8}),),
        placement=Placement(n_pes=4, pes_per_node=4, share_gpu=True),
    )
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for processors, threads in ((16, "4"), (2, "1")):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, n=processors: set(range(n)))
        assert ranks.environment(folder, job, 0)["OMP_NUM_THREADS"] == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert ranks.environment(folder, job, 0)["OMP_NUM_THREADS"] == "7"
