"""Kernels know the language only, and live beside any other distribution called `kernels`."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tdsim import kernels, lang

FILES = sorted(Path(next(iter(kernels.__path__))).glob("*.py"))


def imported(file):
    """Modules that *file* imports, relative ones with their dots."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (
                ([base] if node.module else (base + alias.name for alias in node.names))
                if base != "tdsim"
                else (f"tdsim.{alias.name}" for alias in node.names)
            )


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_kernel_file_imports_the_language_its_neighbours_and_numpy_only(file):
    allowed = {"tdsim.lang", "numpy", *(f".{f.stem}" for f in FILES)}
    assert set(imported(file)) <= allowed


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_kernel_names_no_backend_no_clock_and_yields_nothing(file):
    words = {
        getattr(node, "id", getattr(node, "attr", ""))
        for node in ast.walk(ast.parse(file.read_text()))
    }
    assert not words & {"env", "timeout", "simpy", "greenlet", "triton", "torch"}
    assert not any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(ast.parse(file.read_text()))
    )


def test_importing_the_library_loads_the_language_and_no_other_part_of_tdsim():
    text = (
        "import sys\n"
        "import tdsim.lang, tdsim.kernels.ag_gemm, tdsim.kernels.gemm_rs\n"
        "print(sorted(m for m in sys.modules if m.startswith('tdsim.')))"
    )
    names = ast.literal_eval(python("-c", text))
    assert {name.split(".")[1] for name in names} == {"errors", "kernels", "lang"}


def python(*args, **env):
    done = subprocess.run(
        [sys.executable, "-W", "error", *args],
        env={**os.environ, **env},
        cwd=env.get("PYTHONPATH"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_library_is_not_importable_under_the_bare_name_kernels_when_installed(tmp_path):
    text = "import importlib.util\nprint(importlib.util.find_spec('kernels'))"
    assert python("-c", text, PYTHONPATH=str(tmp_path)) == "None"
    assert importlib.util.find_spec("tdsim.kernels") is not None


def test_every_library_program_documents_its_knobs():
    for file in FILES:
        found = importlib.import_module(f"tdsim.kernels.{file.stem}")
        assert found.__doc__
        own = [p for p in vars(found).values() if isinstance(p, lang.Program)]
        for program in own:
            assert program.doc
            for name, knob in program.tunables.items():
                assert knob.default in knob.choices, name
                assert knob.doc, name
