"""The house: what is installed where, who imports whom, and a stranger with one of our names."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAPPED = ("kernels", "backend_gpu")
"""Top-level folders that install as packages inside tdsim."""


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def imports(file):
    """Absolute module names that *file* imports, ``from a import b`` as a and a.b."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", MAPPED)
def test_a_top_level_folder_installs_inside_tdsim(folder):
    spec = importlib.util.find_spec(f"tdsim.{folder}")
    assert Path(spec.origin) == ROOT / folder / "__init__.py"


def test_every_package_on_disk_is_installed():
    folders = [
        ".".join(file.parent.relative_to(ROOT).parts)
        for top in ("tdsim", *MAPPED)
        for file in (ROOT / top).rglob("__init__.py")
    ]
    on_disk = {f if f.startswith("tdsim") else f"tdsim.{f}" for f in folders}
    assert set(project()["tool"]["setuptools"]["packages"]) == on_disk


def test_the_project_works_beside_an_unrelated_distribution_named_kernels(tmp_path):
    stranger = tmp_path / "kernels"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("OWNER = 'somebody else'\n")
    info = tmp_path / "kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1.0\n")
    script = (
        "import importlib.metadata, kernels, tdsim.kernels.ag_gemm\n"
        "from tdsim.check import check\n"
        "assert importlib.metadata.version('kernels') == '1.0'\n"
        "assert kernels.OWNER == 'somebody else'\n"
        "assert check('allgather', topology='h800x2').verdict == 'CLEAN'\n"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )


@pytest.mark.parametrize("folder", MAPPED)
def test_a_mapped_folder_imports_itself_relatively_and_of_the_core_only_what_backends_share(
    folder,
):
    allowed = ("tdsim.lang", "tdsim.units", "tdsim.errors")
    if folder == "backend_gpu":
        allowed += (
            "tdsim.programs", "tdsim.backends", "tdsim.records", "tdsim.samples", "tdsim.files",
        )  # fmt: skip
    for file in (ROOT / folder).rglob("*.py"):
        for name in imports(file):
            assert name.partition(".")[0] != folder, file
            assert name == "tdsim" or not name.startswith("tdsim") or name.startswith(allowed)


def test_the_core_never_imports_kernels_or_a_backend():
    forbidden = tuple(f"tdsim.{folder}" for folder in MAPPED)
    for file in (ROOT / "tdsim").rglob("*.py"):
        assert not [name for name in imports(file) if name.startswith(forbidden)], file


def test_import_tdsim_loads_no_numpy_and_no_simulator():
    script = (
        "import sys, tdsim; assert not {'numpy', 'simpy', 'tdsim.sim'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_light_set_holds_neither_torch_nor_triton():
    light = " ".join(project()["project"]["dependencies"])
    assert "torch" not in light
    assert "triton" not in light


def test_an_interpreter_that_is_too_old_gets_one_clear_line(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3.9.2\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts/venv", tmp_path / "venv", "."],
        env={"PYTHON": str(old), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"scripts/venv: {old} is 3.9.2; expected Python 3.11 or newer; "
        "name one: make ... PYTHON=python3.12\n"
    )
    assert not (tmp_path / "venv").exists()
