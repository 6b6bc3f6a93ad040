"""How commands end and what they leave: interrupts, files, full disks, pipes, terminals."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tdsim.cli import main
from tdsim.cli.predict_command import _longest_steps
from tdsim.predict import PathStep

SHAPE = "M=1024,N=2048,K=1024"
SIZES = ("predict", "ag_gemm", "--shape", SHAPE)


def run(capsys, *arguments):
    try:
        code = main(arguments)
    except SystemExit as exit:  # how argparse ends
        code = exit.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_an_interrupt_leaves_no_file_and_exits_130(capsys, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    path = str(tmp_path / "x.json")
    code, _, err = run(capsys, "trace", "ag_gemm", "--shape", SHAPE, "--output", path)
    assert code == 130
    assert err == "tdsim trace: interrupted; no half-written file is left\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_modules_load_is_one_line(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tdsim.cli.import_module", interrupted)
    assert run(capsys, *SIZES) == (
        130,
        "",
        "tdsim predict: interrupted; no half-written file is left\n",
    )


@pytest.mark.parametrize("command", ["predict", "scale", "check"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    capsys, monkeypatch, command
):
    def worked(*_, **__):
        raise AssertionError("the work came first")

    monkeypatch.setattr(f"tdsim.cli.{command}_command.{command}", worked)
    code, _, err = run(capsys, command, "ag_gemm", "--shape", SHAPE, "--output", "no/x.json")
    assert code == 2
    assert err == (
        f"tdsim {command}: --output: no folder 'no'; expected an existing folder; "
        "create it first\n"
    )


def test_an_unknown_command_is_one_line_and_exit_code_2(capsys):
    code, _, err = run(capsys, "predictt")
    assert code == 2
    assert err.startswith("tdsim: argument COMMAND: invalid choice: 'predictt' (choose from ")
    assert err.count("\n") == 1


def test_the_critical_path_in_the_report_is_short_and_sums_to_the_time():
    path = tuple(PathStep("copy", i % 2, 10.0) for i in range(40))
    rows = _longest_steps(SimpleNamespace(critical_path=path))
    assert len(rows) == 13
    assert rows[-1] == ("28 shorter steps", "", "280.0")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_exit_code_1():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tdsim.cli", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "tdsim list: [Errno 28] No space left on device\n",
    )


def test_a_reader_that_stops_early_is_no_error():
    code = f"{sys.executable} -m tdsim.cli list | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_gets_a_drawn_table_and_a_pipe_plain_text(capsys, monkeypatch):
    plain = run(capsys, *SIZES)[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    drawn = run(capsys, *SIZES)[1]
    assert "\N{BOX DRAWINGS LIGHT VERTICAL}" in drawn
    assert plain.isascii()
