"""Ranks, a daemon and a launcher that act out one ending of a job each, without a GPU."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tdsim.backend_gpu.launcher.backend import GpuBackend

from tdsim.records import Case, Job, Placement

MARK = "TDSIM_TEST_MARK"
"""Inherited by every process of a test, also by those that the launcher lost sight of."""

RANK = '''
"""fake rank: python rank.py ACT JOBDIR"""
import json, os, signal, subprocess, sys, time
act, folder = sys.argv[1:]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
cases = json.load(open(f"{folder}/job.json"))["cases"]

def write(name, value):
    with open(f"{folder}/.{name}", "w") as file:
        json.dump(value, file)
    os.rename(f"{folder}/.{name}", f"{folder}/{name}")

def fail(kind, what, code, **more):
    write(f"error-{rank}.json", {"rank": rank, "case": 0, "kind": kind, "what": what,
          "where": f"PE {rank}", "expected": "", "cure": "", "report": [], **more})
    sys.exit(code)

def wait_for_ever():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(f"{folder}/ready-{rank}", "w").close()
    while True:
        time.sleep(1)

def wait_for(names):
    while not all(os.path.exists(f"{folder}/{name}") for name in names):
        time.sleep(0.01)

print(f"rank {rank} says hello", flush=True)
others = [f"ready-{other}" for other in range(world) if other != rank]
if act == "good":
    if rank == 0:
        write("environment.json", {"device": "fake"})
        for index in reversed(range(len(cases))):
            write(f"result-{index}.json", {"case": cases[index], "heap_bytes": index})
elif act == "tell":
    pid = os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""), "control.pid")
    write(f"told-{rank}.json", {**os.environ, "daemon answers": os.path.exists(pid)})
    wait_for([f"told-{other}.json" for other in range(world)])
    if rank == 0:
        told = [json.load(open(f"{folder}/told-{other}.json")) for other in range(world)]
        write("environment.json", {"told": told})
        write("result-0.json", {"case": cases[0]})
elif act == "no-result":
    pass
elif act == "both-hang":
    time.sleep(0.3 * rank)
    fail("hang", "no end within 1.0 s", 1, report=[f"PE {rank}: ready[0] is 0, waits for ge 1"])
elif act == "hang" or rank != 1:
    wait_for_ever()
elif act == "usage":
    wait_for(others)
    fail("usage", "the heap is too small", 2, expected="8 GiB", cure="give --heap 8GiB")
elif act == "failure":
    wait_for(others)
    fail("failure", "illegal memory access", 1)
elif act == "killed":
    wait_for(others)
    os.kill(os.getpid(), signal.SIGKILL)
elif act == "lost-child":
    wait_for(others)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    sys.exit(3)
'''

CONTROL = '''
"""fake nvidia-cuda-mps-control: the daemon with -f, else one command on standard input"""
import os, pathlib, signal, subprocess, sys, time
act = os.environ.get("FAKE_MPS", "good")
folder = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
pid = folder / "control.pid"
if "-f" in sys.argv:
    if act == "dies":
        sys.exit("cannot find a GPU")
    if act == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)  # the server
    time.sleep(0.2)  # a client that comes now gets no answer
    pid.write_text(str(os.getpid()))
    (pathlib.Path(os.environ["FAKE_MPS_SEEN"])).write_text(str(folder))
    while True:
        time.sleep(1)
if not pid.exists():
    sys.exit(1)
if "quit" in sys.stdin.read() and act != "stubborn":
    os.kill(int(pid.read_text()), signal.SIGTERM)
'''

LAUNCHER = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in background
sys.path.insert(0, sys.argv[3])
from launcher_tools import launch
launch(sys.argv[1], sys.argv[2], share_gpu=True)
"""


def job(n_pes: int = 2, n_cases: int = 1, share_gpu: bool = False, **more) -> Job:
    """A job that passes all checks made before ranks start."""
    case = Case(program="allgather", shape={"M": 24 * n_pes, "K": 80})
    placement = Placement(n_pes=n_pes, pes_per_node=n_pes, share_gpu=share_gpu)
    return Job(cases=(case,) * n_cases, placement=placement, **more)


def launch(rank_file: str | Path, act: str, asked: Job | None = None, on_result=None, **more):
    """Run a job whose ranks do *act*."""
    backend = GpuBackend(
        worker=(sys.executable, str(rank_file), act), require=lambda placement: None
    )
    return backend.run(asked or job(**more), on_result or (lambda index, found: None))


class Stage:
    """Where a test's jobs run: a folder for temporary files, and programs on PATH."""

    def __init__(self, patch) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self.temporary, programs = self.root / "tmp", self.root / "bin"
        self.temporary.mkdir()
        programs.mkdir()
        self.rank = self.root / "rank.py"
        self.rank.write_text(RANK)
        self.seen = self.root / "mps-folder"
        control = programs / "nvidia-cuda-mps-control"
        control.write_text(f"#!{sys.executable}\n{CONTROL}")
        control.chmod(0o755)
        patch.setattr(tempfile, "tempdir", str(self.temporary))
        patch.setenv("TMPDIR", str(self.temporary))
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        patch.setenv("FAKE_MPS_SEEN", str(self.seen))
        patch.setenv(MARK, str(self.root))

    def launch(self, act: str, asked: Job | None = None, on_result=None, **more):
        return launch(self.rank, act, asked, on_result, **more)

    def start_launcher(self, act: str) -> subprocess.Popen:
        """A launcher in a process of its own, once both of its ranks are up."""
        command = [sys.executable, "-c", LAUNCHER, self.rank, act, Path(__file__).parent]
        started = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        self.wait_until(lambda: len(list(self.temporary.glob("*/ready-*"))) == 2, 60)
        return started

    def processes(self) -> dict[int, str]:
        """Process ids and command lines of all living processes of this test."""
        entry = f"{MARK}={self.root}".encode()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # ended meanwhile
                if entry in (path / "environ").read_bytes().split(b"\0"):
                    line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(path.name)] = line
        return found

    def left(self) -> list[str]:
        """Everything that should be gone after a job: files and processes."""
        return [*map(str, self.temporary.iterdir()), *self.processes().values()]

    def wait_until(self, condition, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.left()
            time.sleep(0.05)

    def clear(self) -> None:
        """End what a failed test left, so that the next one starts clean."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root)
