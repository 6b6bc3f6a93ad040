"""``tdsim doctor``: what it finds on any machine, and the one command that mends each lack."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from tdsim.backend_gpu.launcher import backend, doctor, facts, gpus
from tdsim.backend_gpu.launcher.facts import Facts
from tdsim.backend_gpu.launcher.gpus import Gpu, Gpus

from tdsim.cli import main

H200 = Gpu(name="NVIDIA H200", capability=(9, 0), sms=132, memory_bytes=140 * 2**30)
GOOD = Facts(
    gpus=Gpus(cuda=(13, 0), devices=(H200, H200)),
    torch={"version": "2.10.0", "cuda": "12.8", "gloo": True},
    triton={"version": "3.6.0"},
    nvshmem={"version": "0.4.1", "host": "3.4.5"},
    far_kernel={"externs": ["nvshmemx_signal_op"]},
    packages={
        "nvshmem4py-cu12": "0.4.1",
        "nvidia-nvshmem-cu12": "3.4.5",
        "nvidia-cuda-runtime-cu12": "12.8.90",
    },
    programs=frozenset({"nvidia-cuda-mps-control", "nvidia-cuda-mps-server"}),
    shared_memory_bytes=2**34,
)
NOTHING = {"error": "not installed"}
GPU, GPU13 = "pip install 'tdsim[gpu]'", "pip install 'tdsim[gpu-cu13]'"
DRIVER = "sudo ubuntu-drivers install --gpgpu"


def found(machine):
    """Findings by name."""
    findings = doctor.examine(lambda: machine)
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


def test_nothing_is_wrong_with_a_complete_machine():
    findings = found(GOOD)
    assert {finding.state for finding in findings.values()} == {"ok"}
    assert {finding.cure for finding in findings.values()} == {""}
    assert findings["GPU 1"].found == "NVIDIA H200, sm_90, 132 SMs, 140 GiB"
    assert findings["NVLink"].found == "between all GPUs"
    assert findings["NVSHMEM versions"].found == "host and device library 3.4.5"


@pytest.mark.parametrize(
    ("changed", "name", "state", "said", "cure"),
    [
        ({"gpus": Gpus(error="no libcuda")}, "driver", "missing", "no libcuda", DRIVER),
        ({"gpus": Gpus(error="no libcuda")}, "GPUs", "missing", "without a driver", DRIVER),
        ({"gpus": Gpus(cuda=(11, 8))}, "driver", "missing", "takes CUDA 11.8, torch", DRIVER),
        ({"gpus": Gpus(cuda=(13, 0))}, "GPUs", "missing", "none", "nvidia-smi -L"),
        (
            {"gpus": Gpus(cuda=(13, 0)), "hidden": ""},
            "GPUs", "missing", "CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES",
        ),
        (
            {"gpus": Gpus(cuda=(13, 0), devices=(replace(H200, capability=(8, 0)),))},
            "GPU 0", "warning", "tested from sm_90 on", "tdsim run allgather --nproc 1 --runs 1",
        ),
        (
            {"gpus": replace(GOOD.gpus, pairs_apart=((0, 1), (1, 0)))},
            "P2P", "warning", "not between GPUs 0 and 1", "nvidia-smi topo -p2p r",
        ),
        (
            {"gpus": replace(GOOD.gpus, pairs_slow=((0, 1), (1, 0)))},
            "NVLink", "warning", "not between GPUs 0 and 1", "nvidia-smi topo -p2p n",
        ),
        ({"torch": NOTHING}, "torch", "missing", "not installed", GPU),
        ({"torch": NOTHING}, "gloo", "missing", "comes with torch", GPU),
        ({"torch": NOTHING, "packages": {}}, "CUDA runtime", "missing", "with torch", GPU),
        (
            {"torch": {**GOOD.torch, "cuda": None}}, "torch", "missing", "built without CUDA",
            "pip install --force-reinstall 'torch==2.10.*'",
        ),
        ({"torch": {**GOOD.torch, "gloo": False}}, "gloo", "missing", "built without it", GPU),
        ({"triton": NOTHING}, "triton", "missing", "not installed", GPU),
        ({"triton": NOTHING}, "NVSHMEM device library", "missing", "takes triton", GPU),
        ({"nvshmem": NOTHING}, "nvshmem4py", "missing", "not installed", GPU),
        (
            {"torch": {**GOOD.torch, "cuda": "13.0"}},
            "nvshmem4py", "missing", "for CUDA 12, torch is built for CUDA 13", GPU13,
        ),
        ({"packages": {}}, "NVSHMEM device library", "missing", "not installed", GPU),
        (
            {"far_kernel": {"error": "Invalid bitcode"}},
            "NVSHMEM device library", "missing", "does not compile: Invalid bitcode", GPU,
        ),
        ({"packages": {}}, "NVSHMEM versions", "missing", "library is missing", GPU),
        (
            {"nvshmem": {**GOOD.nvshmem, "host": "3.3.9"}},
            "NVSHMEM versions", "missing", "host library 3.3.9, device library 3.4.5",
            "pip install nvidia-nvshmem-cu12==3.3.9",
        ),
        (
            {"programs": frozenset({"nvidia-cuda-mps-control"})},
            "MPS", "warning", "no nvidia-cuda-mps-server on PATH",
            "sudo apt-get install nvidia-compute-utils-$(cut -d. -f1 /sys/module/nvidia/version)",
        ),
        (
            {"shared_memory_bytes": 2**26}, "shared memory", "warning", "holds 64 MiB",
            "sudo mount -o remount,size=1G /dev/shm",
        ),
    ],
)  # fmt: skip
def test_each_lack_comes_with_the_command_that_mends_it(changed, name, state, said, cure):
    finding = found(replace(GOOD, **changed))[name]
    assert (finding.state, finding.cure) == (state, cure)
    assert said in finding.found


def test_one_gpu_needs_no_peers():
    findings = found(replace(GOOD, gpus=replace(GOOD.gpus, devices=(H200,))))
    assert findings["P2P"].state == findings["NVLink"].state == "ok"


def test_on_a_base_install_every_line_says_what_is_missing_and_exits_1(capsys, monkeypatch):
    monkeypatch.setattr(facts.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(facts, "probe", lambda: Gpus(error="libcuda.so.1 is not found"))
    monkeypatch.setattr(facts, "_versions", lambda names: {})
    monkeypatch.setattr(facts.shutil, "which", lambda name: None)
    assert main(["doctor", "--json"]) == 1
    findings = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    for name in ("driver", "GPUs", "torch", "gloo", "CUDA runtime", "triton", "nvshmem4py",
                 "NVSHMEM device library", "NVSHMEM versions"):  # fmt: skip
        assert findings[name]["state"] == "missing"
        assert findings[name]["cure"]
    assert findings["MPS"]["state"] == "warning"


def test_a_machine_that_only_cannot_share_its_gpu_is_good_enough(capsys, monkeypatch):
    alone = replace(GOOD, programs=frozenset())
    monkeypatch.setattr(backend, "examine", lambda: doctor.examine(lambda: alone))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("backend gpu: everything needed is there\n")
    assert "warning" in out


def test_looking_on_this_machine_asks_the_real_programs():
    assert facts.ask("json", "print('{\"a\": 1}')") == {"a": 1}
    assert facts._size_of("/dev/shm") > 0
    assert facts._versions(["numpy", "no-such-package"]).keys() == {"numpy"}


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("no_such_module", "", "not installed"),
        ("json", "import no_such_module", "No module named 'no_such_module'"),
        ("json", "import os; os.abort()", "exit code -6"),
        ("json", "print('no json')", "exit code 0"),
    ],
)
def test_a_look_that_fails_says_why(module, code, said):
    assert said in facts.ask(module, code)["error"]


def test_a_look_that_hangs_ends(monkeypatch):
    monkeypatch.setattr(facts, "_LIMIT_S", 0.2)
    assert facts.ask("json", "import time; time.sleep(60)") == {"error": "no answer for 0.2 s"}


DRIVER_TEXT = """
import ctypes, json, sys
from tdsim.backend_gpu.launcher import gpus

class Call:
    def __init__(self, answer, code=0):
        self.answer, self.code = answer, code
    def __call__(self, *args):
        if callable(self.answer):
            return self.answer(*args)
        if self.answer is not None:
            args[0]._obj.value = self.answer
        return self.code

def attribute(result, which, index):
    result._obj.value = {75: 9, 76: 0, 16: 132}[which]
    return 0

def name(buffer, size, index):
    buffer.value = b"NVIDIA H200"
    return 0

def peer(result, which, a, b):
    result._obj.value = which == 2
    return 0

class Driver:
    cuInit = Call(None, int(sys.argv[1]))
    cuDriverGetVersion = Call(13000)
    cuDeviceGetCount = Call(2)
    cuDeviceGetName = Call(name)
    cuDeviceTotalMem_v2 = Call(None)
    cuDeviceGetAttribute = Call(attribute)
    cuDeviceGetP2PAttribute = Call(peer)
    cuGetErrorString = Call(None)

ctypes.CDLL = lambda path: Driver
print(json.dumps(gpus._ask()))
"""


def ask_driver(code):
    done = facts.subprocess.run(
        [sys.executable, "-c", DRIVER_TEXT, str(code)],
        capture_output=True,
        text=True,
        check=True,
    )
    return gpus._from_json(json.loads(done.stdout))


def test_the_driver_is_asked_for_its_gpus_and_their_links():
    answer = ask_driver(0)
    assert (answer.error, answer.cuda) == (None, (13, 0))
    assert answer.devices == (replace(H200, memory_bytes=0),) * 2
    assert answer.pairs_apart == ()
    assert answer.pairs_slow == ((0, 1), (1, 0))


def test_a_driver_without_a_gpu_is_no_error():
    answer = ask_driver(100)
    assert (answer.error, answer.devices) == (None, ())


def test_a_driver_that_does_not_start_says_so():
    assert ask_driver(999).error == "cuInit: error 999"


def test_a_probe_that_dies_or_hangs_is_an_error_and_no_exception(monkeypatch):
    monkeypatch.setattr(gpus.sys, "executable", "/bin/false")
    assert "asking the driver failed" in gpus.probe().error
    monkeypatch.undo()
    monkeypatch.setattr(gpus, "_LIMIT_S", 0.001)
    assert gpus.probe().error == "the driver gave no answer for 0.001 s"


def test_the_smallest_far_kernel_compiles_with_the_installed_device_library():
    pytest.importorskip("triton", reason="the compile suite needs triton")
    assert facts.ask("triton", facts._FAR) == {"externs": ["nvshmemx_signal_op"]}
