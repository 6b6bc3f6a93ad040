"""The command line: one module per sub-command; exit code 0 good, 1 verdict, 2 bad usage."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

COMMANDS = {
    "list": "library programs with their shapes and tunables",
    "predict": "time, baseline, bound and critical path of one call",
    "check": "run with data and report races, hangs and wrong results",
    "scale": "predict the same problem on several machine sizes",
    "trace": "write a Perfetto trace or an SVG timeline of one call",
    "run": "run with data and time on real GPUs",
    "doctor": "what runs on GPUs need, what is missing, and what mends it",
    "validate": "measured beside predicted times, for a list of cases or a record",
}


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, like every other error; the usage is in ``--help``."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every expected error is one line on standard error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((a for a in arguments if not a.startswith("-")), "")
    prefix = f"tdsim {chosen}".rstrip()
    try:
        args = _parser(chosen).parse_args(arguments)
        return _run(args, prefix)
    except KeyboardInterrupt:
        sys.stderr.write(f"{prefix}: interrupted; no half-written file is left\n")
        return 130
    except Exception as error:
        from tdsim.errors import TdsimError

        if not isinstance(error, TdsimError):
            raise
        sys.stderr.write(f"{prefix}: {error}\n")
        return error.exit_code


def _parser(chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of the *chosen* one."""
    parser = _Parser(prog="tdsim", description=_first_line())
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:  # the others stay unimported: start-up is what users feel
            import_module(f"tdsim.cli.{name}_command").configure(command)
    return parser


def _run(args: argparse.Namespace, prefix: str) -> int:
    """The command's exit code, once all it printed has gone out."""
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `| head`
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"{prefix}: {error}\n")
        return 1
    return code


def _discard_output() -> None:
    """Nothing more goes to standard output, not even at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _first_line() -> str:
    return "Design, check and predict overlapped multi-GPU kernels without GPUs."


def _version() -> str:
    from importlib.metadata import version

    return f"tdsim {version('tdsim')}"


if __name__ == "__main__":
    sys.exit(main())
