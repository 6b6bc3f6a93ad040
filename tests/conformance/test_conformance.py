"""The conformance suite on the simulator: every contract, world and call, bit for bit.

Three calls back to back, ranks up to 0.3 ms apart, memory full of NaN, deliveries shuffled.
"""

import ast
import importlib
import types

import numpy as np
import pytest
from catalogue import ANY, ENTRIES, FOLDER, ROOT, cases, tolerance
from helpers import library

from tdsim import lang as td
from tdsim.programs import load_program
from tdsim.sim import simulate
from tdsim.sim.loops import called

FILES = sorted(path.stem for path in FOLDER.glob("programs_*.py"))
MACHINES = {1: "h800x1", 2: "h800x2", 4: "h800x4"}


def runs():
    """Each entry in its worlds of up to 4 PEs; those of any world on two nodes of 2 as well."""
    for entry in ENTRIES:
        on = [MACHINES[n] for n in entry.worlds if n in MACHINES]
        if entry.worlds == ANY:
            on.append("h800x2x2")
        yield from (pytest.param(entry, name, id=f"{entry}-{name}") for name in on)


def program_of(entry):
    return getattr(importlib.import_module(entry.file), entry.name)


@pytest.mark.parametrize(("entry", "on"), list(runs()))
def test_every_call_returns_what_the_contract_says(entry, on):
    job = library(
        program_of(entry), on, entry.shape, entry.tunables,
        dtype=td.dtype(entry.dtype), functional=True, skewed=True, calls=3,
    )  # fmt: skip
    done = simulate(job)
    assert len(done.outputs) == 3
    for call, inputs in enumerate(done.inputs):
        (want,), (got,) = job.program.reference(inputs).values(), done.outputs[call].values()
        for rank, (found, right) in enumerate(zip(got, want, strict=True)):
            assert_equal(found, right, entry.tolerance, (call, rank))


def assert_equal(found, right, tolerance, place):
    assert (found.shape, found.dtype) == (right.shape, right.dtype)
    found, right = found.astype(np.float64), right.astype(np.float64)
    if tolerance == 0.0:
        np.testing.assert_array_equal(found, right, str(place))
    error = np.linalg.norm(found - right)
    assert error <= tolerance * np.linalg.norm(right), place


def kernels_of(host, seen):
    """The kernels that a host function names, through the helpers it names."""
    for name in host.__code__.co_names:
        value = host.__globals__.get(name)
        if isinstance(value, td.Kernel):
            yield value
        elif isinstance(value, types.FunctionType) and value not in seen:
            seen.add(value)
            yield from kernels_of(value, seen)


def operations(function):
    """The language's operations that *function* calls, through its helpers."""
    for node in ast.walk(function.source.tree):
        if isinstance(node, ast.Call):
            target = called(node, function)
            if isinstance(target, td.Function):
                yield from operations(target)
            else:
                yield from (name for name, op in td.OPS.items() if op.call is target)


def test_the_contracts_use_every_operation():
    hosts = {program_of(entry).host for entry in ENTRIES}
    kernels = {kernel for host in hosts for kernel in kernels_of(host, set())}
    assert {name for kernel in kernels for name in operations(kernel)} == set(td.OPS)


def test_every_program_has_an_entry():
    programs = {
        (file, name)
        for file in FILES
        for name, value in vars(importlib.import_module(file)).items()
        if isinstance(value, td.Program)
    }
    assert {(entry.file, entry.name) for entry in ENTRIES} == programs


def test_no_two_entries_are_the_same():
    keys = [(e.path, str(e.shape), str(e.tunables), e.dtype) for e in ENTRIES]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("n_pes", "pes_per_node"), [(1, 1), (2, 2), (4, 2), (8, 8)])
def test_gpu_cases_fit_their_programs(n_pes, pes_per_node):
    found = cases(n_pes, pes_per_node)
    assert found
    for case in found:
        program = program_of(next(e for e in ENTRIES if e.path == case.program))
        assert program.sizes(case.shape, n_pes, n_pes // pes_per_node)
        assert program.tuned(case.tunables) is not None
        assert tolerance(case) < 0.01


def test_commands_find_the_programs_of_each_file(monkeypatch):
    monkeypatch.chdir(ROOT)
    for path in {entry.file: entry.path for entry in ENTRIES}.values():
        assert load_program(path).name == path.rpartition(":")[2]


def test_contracts_of_one_pe_run_where_there_is_one_node():
    names = {case.program for case in cases(4, 2)}
    assert names == {entry.path for entry in ENTRIES if entry.worlds == ANY}
