"""Fill the documents' console blocks with what their commands print today.

``python scripts/docs.py`` rewrites README.md and docs/; the tests fail while a block is stale.
A block holds ``$ COMMAND`` lines, each followed by its output; a command is ``tdsim ...`` or
``python examples/...``, and ``| head -n N`` keeps N lines. Paths inside the project are written
relative to it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tdsim.cli import main

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"[\d,]+ events in [\d.]+ s: [\d,]+ tiles/s|[\d,]+ bytes")
"""What differs from run to run (wall time), from zlib to zlib, or says nothing to a user."""


def documents() -> list[Path]:
    """Every document that a user reads."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """*text* with the output of every command made anew."""
    return BLOCK.sub(lambda match: f"```console\n{_transcript(match[1])}```", text)


def stable(text: str) -> str:
    """*text* without what no two runs share."""
    return MEASURED.sub("...", text)


def _transcript(block: str) -> str:
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n", block, re.MULTILINE)
    return "".join(f"$ {command}\n{output(command)[0]}" for command in commands)


def output(command: str) -> tuple[str, int]:
    """What *command* prints, and its exit code; it runs in a folder of its own."""
    words, _, head = command.replace("\\\n", " ").partition(" | head -n ")
    program, *arguments = shlex.split(words)
    printed = io.StringIO()
    with _folder(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(arguments) if program == "tdsim" else _run_python(arguments)
    lines = printed.getvalue().replace(f"{ROOT}/", "").splitlines(keepends=True)
    return "".join(line.rstrip() + "\n" for line in lines[: int(head) if head else None]), code


def _run_python(arguments: list[str]) -> int:
    saved, sys.argv = sys.argv, arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        sys.argv = saved
    return 0


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """A fresh working folder with ``examples`` to read and ``out`` to write into."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        Path(folder, "out").mkdir()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for document in documents():
        document.write_text(filled(document.read_text()))
