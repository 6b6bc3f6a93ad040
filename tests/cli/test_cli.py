"""The command line: results, JSON, exit codes, and one clear line for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tdsim.cli import main

SHAPE = "M=1024,N=2048,K=1024"
SIZES = ("predict", "ag_gemm", "--shape", SHAPE)
REPORT = {
    "kernel", "topology", "world_size", "shape", "time_us", "baseline_us", "speedup", "bound_us",
    "overlap_efficiency", "exposed_us", "critical_path", "events", "wall_s",
}  # fmt: skip


def run(capsys, *arguments):
    try:
        code = main(arguments)
    except SystemExit as exit:  # how argparse ends
        code = exit.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_predict_prints_a_report_with_what_bounds_it(capsys):
    code, out, err = run(capsys, *SIZES)
    assert (code, err) == (0, "")
    for word in ("ag_gemm on h800x8", "baseline", "bound", "critical path", "tiles/s"):
        assert word in out


def test_predict_json_has_the_agreed_keys(capsys):
    code, out, _ = run(capsys, *SIZES, "--json")
    assert code == 0
    assert json.loads(out).keys() >= REPORT


def test_predict_writes_its_report_to_a_file(capsys, tmp_path):
    path = tmp_path / "report.json"
    assert run(capsys, *SIZES, "--output", str(path))[0] == 0
    assert json.loads(path.read_text())["kernel"] == "ag_gemm"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_scale_json_is_a_list_of_predictions(capsys):
    code, out, _ = run(
        capsys, "scale", "ag_gemm", "--shape", SHAPE, "--worlds", "2,4", "--json"
    )
    assert code == 0
    assert [row["world_size"] for row in json.loads(out)] == [2, 4]


def test_list_names_every_program_with_its_tunables(capsys):
    code, out, _ = run(capsys, "list", "--json")
    assert code == 0
    programs = {p["name"]: p for p in json.loads(out)}
    assert programs.keys() == {"ag_gemm", "allgather", "gemm_rs", "reduce_scatter"}
    assert programs["ag_gemm"]["tunables"]["BLOCK_M"]["default"] == 128
    assert "h800x8" in run(capsys, "list")[1]


def test_check_exits_0_when_clean_and_prints_json(capsys):
    code, out, _ = run(capsys, "check", "allgather", "--topology", "h800x2", "--json")
    assert code == 0
    assert (json.loads(out)["verdict"], json.loads(out)["findings"]) == ("CLEAN", [])


def test_check_exits_1_on_another_verdict(capsys, tmp_path):
    kernel = tmp_path / "hang.py"
    kernel.write_text(HANG)
    code, out, err = run(capsys, "check", f"{kernel}:hang", "--topology", "h800x2")
    assert (code, err) == (1, "")
    assert "HANG" in out
    assert f"{kernel}:7: waits for never[0] ge 1; it is 0, never written" in out


HANG = '''from tdsim import lang as td


@td.kernel
def wait_for_nobody(never, y):
    """Nobody answers."""
    token = td.signal_wait_until(never, 0, "ge", 1)
    td.store(td.after(token, y), (0, 0), td.zeros((1, 1), td.float32))


@td.program(shape=("M",), tensors={"y": td.Output("M", "1")}, work=(), reference=lambda t: t,
            small_shape="M=4")
def hang(ctx, y):
    """Waits for ever."""
    ctx.launch(wait_for_nobody, 1, (ctx.signals(1), y))
'''


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("predict", "ag_gem", "--shape", SHAPE),
            "unknown kernel 'ag_gem'; expected one of ag_gemm, allgather, gemm_rs, "
            "reduce_scatter, path/to/file.py:program; did you mean 'ag_gemm'?",
        ),
        (
            (*SIZES, "--topology", "h80x8"),
            "unknown topology 'h80x8'; expected one of h100x8, h800x8, h200x8, h20x8; "
            "did you mean 'h800x8'?",
        ),
        (
            (*SIZES, "--dtype", "bf17"),
            "unknown dtype 'bf17'; expected one of float32, fp32, float16, fp16, bfloat16, "
            "bf16; did you mean 'bf16'?",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=81,N=8,K=8"),
            "ag_gemm tensor a: M = 81 does not divide by world = 8; expected a multiple of 8; "
            "use M = 88",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=0,N=8,K=8"),
            "ag_gemm: M = 0; expected a size of at least 1; give a positive size",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=-8,N=8,K=8"),
            "ag_gemm: M = -8; expected a size of at least 1; give a positive size",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=8,N=8"),
            "ag_gemm: shape key K is missing; expected M=...,N=...,K=...; add K=... to --shape",
        ),
        (
            ("predict", "ag_gemm", "--shape", SHAPE + ",Q=3"),
            "unknown shape key of ag_gemm 'Q'; expected one of M, N, K",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=abc"),
            "--shape: M=abc; expected a whole number of elements; write digits only",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M"),
            "--shape: 'M'; expected NAME=VALUE,...; write each part so",
        ),
        (
            ("predict", "ag_gemm", "--shape", "M=8,M=9"),
            "--shape: M is given twice; expected each name once; drop one",
        ),
        (
            (*SIZES, "--set", "FOO=3"),
            "unknown tunable of ag_gemm 'FOO'; expected one of BLOCK_M, BLOCK_N, BLOCK_K, "
            "GROUP_M, comm, num_comm_sms",
        ),
        (
            (*SIZES, "--set", "BLOCK_M=100"),
            "ag_gemm: BLOCK_M=100; expected one of 16, 32, 64, 128, 256; pick a legal value",
        ),
        (
            (*SIZES, "--straggler", "9=100"),
            "--straggler: rank 9 is late, but h800x8 has no such rank; expected ranks 0 to 7; "
            "check the rank",
        ),
        (
            ("predict", "no/such.py:x", "--shape", SHAPE),
            "no/such.py: no such file; expected path/to/file.py:program; check the path",
        ),
        (
            (*SIZES, "--straggler", "1=inf"),
            "--straggler: 1=inf; expected RANK=MICROSECONDS; write two numbers",
        ),
        (
            (*SIZES, "--gemm-slowdown", "nan"),
            "--gemm-slowdown: a GEMM slowdown of nan; expected a positive factor, 1.0 for "
            "none; 1.2 means 1.2 times slower",
        ),
        (
            (*SIZES, "--gemm-slowdown", "much"),
            "argument --gemm-slowdown: invalid float value: 'much'; see tdsim predict --help",
        ),
        (
            (*SIZES, "--seed", "-1"),
            "--seed: -1; expected a whole number of at least 0; write digits only",
        ),
        (
            ("check", "ag_gemm", "--replay", "-1"),
            "--replay: -1; expected a whole number of at least 0; write digits only",
        ),
        (
            ("check", "ag_gemm", "--seed", "x"),
            "--seed: x; expected a whole number of at least 0; write digits only",
        ),
        (
            (*SIZES, "--output", ""),
            "--output: '' is a folder; expected a file name; add a name",
        ),
        (
            ("predict", "--shape", SHAPE),
            "the following arguments are required: kernel; see tdsim predict --help",
        ),
        (
            ("scale", "ag_gemm", "--shape", SHAPE, "--worlds", "\N{SUPERSCRIPT TWO},4"),
            "--worlds: '\N{SUPERSCRIPT TWO},4'; expected numbers of devices, at least 2; "
            "8,16,32,64",
        ),
        (
            ("scale", "ag_gemm", "--shape", SHAPE, "--worlds", "8,x"),
            "--worlds: '8,x'; expected numbers of devices, at least 2; 8,16,32,64",
        ),
        (
            ("trace", "ag_gemm", "--shape", SHAPE, "--output", "x.txt"),
            "--output: x.txt; expected a name in .json, .json.gz or .svg; rename it",
        ),
        (
            ("trace", "ag_gemm", "--shape", SHAPE, "--output", "no/folder/x.json"),
            "--output: no folder 'no/folder'; expected an existing folder; create it first",
        ),
        (
            ("check", "ag_gemm", "--seeds", "0"),
            "--seeds: 0; expected at least 1; give 1 or more",
        ),
        (
            ("check", "ag_gemm", "--shape", "M=65536,N=65536,K=65536"),
            "ag_gemm: a check would hold 72.0 GiB of tensors; expected at most 2 GiB over all "
            "ranks and calls; check a smaller shape (leave --shape out for the program's own)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_mistake_gets_one_line_and_exit_code_2(capsys, arguments, line):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err == f"tdsim {arguments[0]}: {line}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named"),
        ("x = 1\n", "no program 'p'; expected one of its programs (none: decorate"),
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("raise ValueError('a\\nb')\n", "ValueError: a b; expected a file that imports"),
        ("import sys; sys.exit(3)\n", "SystemExit: 3; expected a file that imports"),
    ],
    ids=["import", "no program", "syntax", "two lines", "exit"],
)
def test_a_kernel_file_that_cannot_be_used_is_one_line(capsys, tmp_path, text, sentence):
    file = tmp_path / "mine.py"
    file.write_text(text)
    code, out, err = run(capsys, "predict", f"{file}:p", "--shape", SHAPE)
    assert (code, out) == (2, "")
    assert err.startswith(f"tdsim predict: {file}: {sentence}")
    assert err.count("\n") == 1


def test_a_kernel_that_triton_cannot_compile_is_one_line(capsys, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        HANG.replace("    token =", "    for i in range(3):\n        break\n    token =")
    )
    code, _, err = run(capsys, "check", f"{file}:hang")
    assert code == 2
    assert err.startswith(f"tdsim check: {file}:8: Triton cannot compile break in a kernel; ")
    assert err.count("\n") == 1


def test_the_command_prints_no_traceback_for_bad_usage():
    done = subprocess.run(
        [sys.executable, "-m", "tdsim.cli", "predict", "ag_gemm", "--shape", "M=1,N=1,K=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_imports_neither_numpy_nor_the_simulator():
    code = (
        "import sys; from tdsim.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'numpy', 'simpy', 'networkx', 'triton', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_random_stragglers_are_drawn_by_the_seed(capsys):
    def time(*arguments):
        code, out, _ = run(capsys, *SIZES, "--json", *arguments)
        assert code == 0
        return json.loads(out)["time_us"]

    late = [time("--straggler", "random:200", "--seed", seed) for seed in ("1", "1", "2")]
    assert late[0] == late[1] != late[2]
    assert time() < late[0] < time() + 200
