"""The documents are true: commands run and print what is printed here, code is the examples'."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from tdsim.check import check
from tdsim.lang import OPS

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module", autouse=True)
def importable():
    """The examples and the scripts, importable by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.syspath_prepend(ROOT / "scripts")
        yield
    for name in ("docs", "overlap", "tutorial", "tutorial_broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_prints_what_the_document_shows(document):
    docs = importlib.import_module("docs")
    text = document.read_text()
    assert docs.stable(docs.filled(text)) == docs.stable(text), "run python scripts/docs.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_python_block_is_text_of_an_example(document):
    sources = [file.read_text() for file in EXAMPLES.glob("*.py")]
    for block in re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.M | re.S):
        assert any(block in source for source in sources), block


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert target.startswith("https:") or (document.parent / target).exists(), target


def test_the_readme_begins_with_the_two_commands():
    assert re.findall(r"make \w+", (ROOT / "README.md").read_text())[:2] == [
        "make demo",
        "make test",
    ]


def table_of_operations():
    """Names and parameters in the language page's table."""
    text = (ROOT / "docs/language.md").read_text()
    table = text.split("## Operations")[1].split("##")[0]
    return dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", table, re.M))


def test_the_language_page_has_every_operation_and_no_other():
    assert sorted(table_of_operations()) == sorted(OPS)


def test_the_language_page_shows_each_operation_with_its_parameters():
    shown = table_of_operations()
    for name, op in OPS.items():
        code = op.call.__code__
        assert shown[name] == ", ".join(code.co_varnames[: code.co_argcount])


def test_deviations_are_numbered_in_order():
    text = (ROOT / "docs/deviations.md").read_text()
    numbers = [int(n) for n in re.findall(r"^\| (\d+) \|", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("topology", ["h800x2", "h800x5", "h800x2x2", "h800x3x2"])
@pytest.mark.parametrize("program", ["overlap.py:overlap", "tutorial.py:ring_scale"])
def test_an_example_is_clean(program, topology):
    assert check(f"{EXAMPLES}/{program}", topology=topology).verdict == "CLEAN"


@pytest.mark.parametrize(
    ("program", "verdict"),
    [("no_signal", "HANG!"), ("early", "RACE"), ("no_barrier", "RACE")],
)
def test_a_broken_example_gets_the_verdict_that_the_tutorial_reads(program, verdict):
    result = check(f"{EXAMPLES}/tutorial_broken.py:{program}")
    assert (result.verdict, result.exit_code) == (verdict, 1)


def test_the_examples_compile_for_a_gpu(monkeypatch, tmp_path):
    pytest.importorskip("triton", reason="the compile suite needs triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from tdsim.backend_gpu.lowering.compile import compile_kernel
    from tdsim.backend_gpu.lowering.specs import ScalarSpec, SignalSpec, ViewSpec
    from tdsim.backend_gpu.lowering.world import World

    from tdsim import lang as td

    view, heap = ViewSpec(dtype=td.bfloat16), ViewSpec(dtype=td.bfloat16, symmetric=True)
    number = ScalarSpec(td.int32)
    overlap, tutorial = map(importlib.import_module, ("overlap", "tutorial"))
    kernels = [
        (
            overlap.push_and_multiply,
            {"gathered": heap, "b": view, "c": view, "ready": SignalSpec(), "num_comm": number},
            {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64},
        ),
        (
            tutorial.push_and_scale,
            {"x": view, "inbox": heap, "y": view, "arrived": SignalSpec(), "num_push": number},
            {"BLOCK_M": 32, "BLOCK_N": 64},
        ),
    ]
    for kernel, args, constants in kernels:
        compiled = compile_kernel(kernel, args, constants, world=World(1, 4, 4))
        assert compiled.cubin.startswith(b"\x7fELF")
