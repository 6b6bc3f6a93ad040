"""``tdsim list``: what the library holds."""

from __future__ import annotations

import argparse

from tdsim.cli.output import say, write_json
from tdsim.lang import Program
from tdsim.programs import library, load_program
from tdsim.topology import preset_names


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    programs = [load_program(name) for name in library()]
    if args.json:
        write_json([describe(program) for program in programs])
        return 0
    for program in programs:
        say(f"{program.name:16}{program.doc.splitlines()[0]}")
        say(f"{'':16}--shape {','.join(f'{k}=...' for k in program.shape)}")
        for name, knob in program.tunables.items():
            choices = " ".join(str(c) for c in knob.choices)
            say(f"{'':16}--set {name}={knob.default}  ({choices})  {knob.doc}")
    say("machines: " + " ".join(preset_names()) + ", or a YAML file")
    return 0


def describe(program: Program) -> dict[str, object]:
    """The program's contract as plain data."""
    return {
        "name": program.name,
        "doc": program.doc,
        "shape": list(program.shape),
        "tunables": {
            name: {"default": t.default, "choices": list(t.choices), "doc": t.doc}
            for name, t in program.tunables.items()
        },
        "tensors": {
            name: {"role": t.role, "dims": list(t.dims), "symmetric": t.symmetric}
            for name, t in program.tensors.items()
        },
    }
