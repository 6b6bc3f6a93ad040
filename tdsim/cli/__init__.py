"""The command line: one module per sub-command; exit code 0 good, 1 verdict, 2 bad usage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "list": "library programs with their shapes and tunables",
    "predict": "time, baseline, bound and critical path of one call",
    "check": "run with data and report races, hangs and wrong results",
    "scale": "predict the same problem on several machine sizes",
    "trace": "write a Perfetto trace or an SVG timeline of one call",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every expected error is one line on standard error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="tdsim", description=_first_line())
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:  # the others stay unimported: start-up is what users feel
            import_module(f"tdsim.cli.{name}_command").configure(command)
    args = parser.parse_args(arguments)
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from tdsim.errors import TdsimError

    try:
        code: int = args.run(args)
    except TdsimError as error:
        sys.stderr.write(f"tdsim {args.command}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write(f"tdsim {args.command}: interrupted; nothing was written\n")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return code


def _first_line() -> str:
    return "Design, check and predict overlapped multi-GPU kernels without GPUs."


def _version() -> str:
    from importlib.metadata import version

    return f"tdsim {version('tdsim')}"


if __name__ == "__main__":
    sys.exit(main())
