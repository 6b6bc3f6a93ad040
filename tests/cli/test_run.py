"""``tdsim run``: what it asks of a backend, how it shows what came back, and its one-line errors."""

from __future__ import annotations

import json

import pytest

from tdsim.cli import main, run_command
from tdsim.errors import HangError
from tdsim.records import Measurement, Record

ASK = ("run", "ag_gemm", "--nproc", "4")
TIMES = ((10.0, 11.0, 12.0, 13.0), (20.0, 21.0, 22.0, 23.0), (1.0,) * 4, (2.0,) * 4)
GOOD = {
    "time_us": TIMES, "skew_us": 1.5, "wrong_runs": 0, "max_error": 2.5e-3,
    "heap_bytes": 3 * 2**20, "kernels": {"k": {"registers": 128}},
}  # fmt: skip


class Backend:
    """Answers every case with *answer*, and remembers what it was asked."""

    def __init__(self, **answer):
        self.answer, self.asked, self.joined = answer, [], False

    def run(self, job, on_result):
        self.asked.append(job)
        found = Measurement(case=job.cases[0], **self.answer)
        on_result(0, found)
        return Record(
            date="2026-01-02", command="tdsim run", environment={"device": "H200"},
            placement=job.placement, measurements=(found,),
        )  # fmt: skip

    def join(self, job, on_result):
        self.joined = True
        return self.run(job, on_result)


@pytest.fixture(autouse=True)
def no_torchrun(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def install(monkeypatch, backend):
    monkeypatch.setattr(run_command, "load_backend", lambda name: backend)
    return backend


def run(capsys, *arguments):
    try:
        code = main(arguments)
    except SystemExit as exit:  # how argparse ends
        code = exit.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_job_holds_what_the_options_say(capsys, monkeypatch):
    backend = install(monkeypatch, Backend(**GOOD))
    code, *_ = run(
        capsys, *ASK, "--share-gpu", "--pes-per-node", "2", "--shape", "M=512,N=512,K=64",
        "--set", "comm=push", "--dtype", "fp16", "--seed", "7", "--runs", "5", "--calls", "4",
        "--repeats", "9", "--warmup", "1", "--timeout", "2.5", "--debug", "--heap-size", "2G",
    )  # fmt: skip
    assert code == 0
    (job,) = backend.asked
    assert job.to_json() == {
        "cases": ({
            "program": "ag_gemm", "shape": {"M": 512, "N": 512, "K": 64},
            "tunables": {"comm": "push"}, "dtype": "fp16", "seed": 7, "runs": 5, "calls": 4,
            "repeats": 9, "warmup": 1,
        },),
        "placement": {"n_pes": 4, "pes_per_node": 2, "share_gpu": True},
        "timeout_s": 2.5, "debug": True, "heap_bytes": 2**31, "trace": False,
    }  # fmt: skip


def test_without_a_shape_the_programs_small_one_is_run(capsys, monkeypatch):
    backend = install(monkeypatch, Backend(**GOOD))
    assert run(capsys, *ASK)[0] == 0
    assert backend.asked[0].cases[0].shape.keys() == {"M", "N", "K"}


def test_the_table_shows_each_rank_the_slowest_and_the_data_error(capsys, monkeypatch):
    install(monkeypatch, Backend(**GOOD))
    code, out, err = run(capsys, *ASK, "--share-gpu", "--shape", "M=512,N=512,K=64")
    assert (code, err) == (0, "")
    assert out == (
        "ag_gemm on 4 PEs on one H200, M 512 N 512 K 64, bf16: 21.5 us\n"
        "figure      value     meaning\n"
        "rank 0      11.5 us   median of 4 calls\n"
        "rank 1      21.5 us   median of 4 calls, the slowest\n"
        "rank 2      1.0 us    median of 4 calls\n"
        "rank 3      2.0 us    median of 4 calls\n"
        "spread      5.8%      half the quartile distance of the slowest rank\n"
        "skew        1.5 us    between the ranks' starts, median\n"
        "wrong runs  0 of 0    against the reference\n"
        "data error  2.50e-03  relative norm, worst output\n"
        "heap        3.00 MiB  symmetric memory in use per PE\n"
    )


def test_json_has_a_time_for_each_rank_the_data_error_and_the_environment(capsys, monkeypatch):
    install(monkeypatch, Backend(**GOOD))
    code, out, _ = run(capsys, *ASK, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["time_us"] == [11.5, 21.5, 1.0, 2.0]
    assert (report["median_us"], report["max_error"]) == (21.5, 2.5e-3)
    assert report["environment"] == {"device": "H200"}
    assert report["placement"] == {"n_pes": 4, "pes_per_node": 4, "share_gpu": False}
    assert report["measurement"]["kernels"] == {"k": {"registers": 128}}


@pytest.mark.parametrize("bad", [{"wrong_runs": 1}, {"error": "out of memory"}])
def test_wrong_data_and_no_result_exit_1(capsys, monkeypatch, bad):
    install(monkeypatch, Backend(**{**GOOD, **bad}))
    code, out, _ = run(capsys, *ASK)
    assert code == 1
    assert ("1 of 0" in out) or out.endswith("no result: out of memory\n")


def test_a_result_without_times_is_shown_without_them(capsys, monkeypatch):
    install(monkeypatch, Backend(wrong_runs=0, max_error=0.0))
    code, out, _ = run(capsys, *ASK, "--repeats", "0", "--runs", "2")
    assert code == 0
    assert "median" not in out
    assert "0 of 2" in out


def test_under_torchrun_the_process_joins_as_one_rank(capsys, monkeypatch):
    backend = install(monkeypatch, Backend(**GOOD))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    assert run(capsys, "run", "ag_gemm")[0] == 0
    assert backend.joined
    assert backend.asked[0].placement.n_pes == 2


def test_a_rank_that_does_not_lead_prints_nothing(capsys, monkeypatch):
    backend = install(monkeypatch, Backend(**GOOD))
    monkeypatch.setattr(backend, "join", lambda job, on_result: None)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    assert run(capsys, "run", "ag_gemm") == (0, "", "")


def test_asking_for_processes_starts_them_even_under_torchrun(capsys, monkeypatch):
    backend = install(monkeypatch, Backend(**GOOD))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    assert run(capsys, *ASK)[0] == 0
    assert not backend.joined


def test_a_hang_prints_a_line_for_each_waiter_and_exits_1(capsys, monkeypatch):
    backend = install(monkeypatch, Backend())
    error = HangError("no end within 10 s", "rank 0", ["PE 0: ready[0] is 0"])

    def hang(job, on_result):
        raise error

    monkeypatch.setattr(backend, "run", hang)
    code, out, err = run(capsys, *ASK)
    assert (code, out) == (1, "")
    assert err == "tdsim run: rank 0: HANG: no end within 10 s:\n  PE 0: ready[0] is 0\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("run", "ag_gemm"),
            "--nproc: not given; expected how many PEs to start; add --nproc 4",
        ),
        (
            ("run", "ag_gemm", "--nproc", "0"),
            "--nproc: 0; expected at least 1; give 1 or more",
        ),
        (
            (*ASK, "--pes-per-node", "3"),
            "--pes-per-node: 3 does not divide 4 PEs; expected nodes of equal size; "
            "give a divisor of --nproc",
        ),
        ((*ASK, "--calls", "0"), "--calls: 0; expected at least 1; give 1 or more"),
        ((*ASK, "--runs", "-1"), "--runs: -1; expected at least 0; give 0 or more"),
        (
            (*ASK, "--timeout", "nan"),
            "--timeout: nan; expected seconds, more than 0; give 60",
        ),
        (
            (*ASK, "--heap-size", "2X"),
            "--heap-size: 2X; expected bytes, or a number with K, M or G; give 2G",
        ),
        (
            (*ASK, "--heap-size", "0"),
            "--heap-size: 0; expected bytes, or a number with K, M or G; give 2G",
        ),
        ((*ASK, "--backend", "cpu"), "unknown backend 'cpu'; expected one of gpu"),
        (
            (*ASK, "--shape", "M=81,N=8,K=8"),
            "ag_gemm tensor a: M = 81 does not divide by world = 4; "
            "expected a multiple of 4; use M = 84",
        ),
        ((*ASK, "--set", "X=1"), "unknown tunable of ag_gemm 'X'; expected one of "),
        ((*ASK, "--dtype", "bf17"), "unknown dtype 'bf17'; expected one of "),
        (("run", "ag_gem", "--nproc", "2"), "unknown kernel 'ag_gem'; expected one of "),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, arguments, line):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"tdsim run: {line}")
    assert err.count("\n") == 1


def test_sharing_a_gpu_under_torchrun_is_refused(capsys, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    assert run(capsys, "run", "ag_gemm", "--share-gpu") == (
        2,
        "",
        "tdsim run: --share-gpu: under torchrun; expected PEs that tdsim starts; "
        "use --nproc instead\n",
    )


def test_a_machine_without_a_gpu_is_one_line_and_exit_code_2(capsys, monkeypatch):
    from tdsim.backend_gpu.launcher import gpus

    backend_module = pytest.importorskip("tdsim.backend_gpu.launcher.backend")
    without = backend_module.GpuBackend(
        require=lambda placement: backend_module.check_machine(
            placement, lambda: gpus.Gpus(error="libcuda.so.1 is not found")
        )
    )
    install(monkeypatch, without)
    assert run(capsys, *ASK, "--share-gpu") == (
        2,
        "",
        "tdsim run: the GPU backend: no NVIDIA driver (libcuda.so.1 is not found); "
        "expected a machine with an NVIDIA GPU; tdsim doctor says what else is missing\n",
    )


def test_sizes_of_heaps_are_read_in_binary_units():
    from tdsim.cli.options import size

    assert [size(text) for text in ("7", "3K", "2m", "1G")] == [7, 3072, 2**21, 2**30]
