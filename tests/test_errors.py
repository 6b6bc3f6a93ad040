"""Errors carry fields, print one sentence, and survive copying and pickling."""

import pickle

import pytest

from tdsim import errors

EXAMPLES = [
    (
        errors.UsageError("M is -1", "shape", "a positive integer", "write M=8192"),
        "shape: M is -1; expected a positive integer; write M=8192",
    ),
    (errors.ShapeError("M is missing", "shape"), "shape: M is missing"),
    (
        errors.TopologyError("no GPUs", "own.yaml", "at least one"),
        "own.yaml: no GPUs; expected at least one",
    ),
    (
        errors.KernelFileError("no program", "my.py", cure="add one"),
        "my.py: no program; add one",
    ),
    (
        errors.UnknownNameError("topology", "h80x8", ["h100x8", "h800x8"]),
        "unknown topology 'h80x8'; expected one of h100x8, h800x8; did you mean 'h800x8'?",
    ),
    (
        errors.UnknownNameError("key", "zzz", ("hbm", "l2"), "own.yaml, gpu"),
        "own.yaml, gpu: unknown key 'zzz'; expected one of hbm, l2",
    ),
    (errors.UnknownNameError("tunable", "X", ()), "unknown tunable 'X'; expected none at all"),
    (
        errors.KernelDefinitionError("k.py", 7, "break in a loop", "use a while loop"),
        "k.py:7: break in a loop; use a while loop",
    ),
    (
        errors.DeadlockError(12000, ["PE 1 program 7: ready[3] is 0, waiting for >= 1"]),
        "deadlock at 12000 ps, 1 waiting:\n  PE 1 program 7: ready[3] is 0, waiting for >= 1",
    ),
    (
        errors.DeadlockError(7, ["PE 0: 132 programs wait"], 132, ("cycle: PE 0, PE 1",)),
        "deadlock at 7 ps, 132 waiting:\n  PE 0: 132 programs wait\n  cycle: PE 0, PE 1",
    ),
    (
        errors.HangError(
            "no end within 10 s",
            "PE 0, PE 1",
            ["PE 0 program 7: ready[3] is 0, waits for ge 1"],
        ),
        "PE 0, PE 1: HANG: no end within 10 s:\n  PE 0 program 7: ready[3] is 0, waits for ge 1",
    ),
    (errors.HangError("no end within 10 s", "PE 0"), "PE 0: HANG: no end within 10 s"),
    (
        errors.BackendFailure("killed by SIGKILL", "rank 1 of 2", ["out of memory"]),
        "rank 1 of 2: killed by SIGKILL:\n  out of memory",
    ),
    (
        errors.ApiError("PE 9 of 8", "k.py:3", "use a PE from 0 to 7"),
        "k.py:3: PE 9 of 8; use a PE from 0 to 7",
    ),
]
each_error = pytest.mark.parametrize(
    ("error", "sentence"), EXAMPLES, ids=lambda value: type(value).__name__
)


@each_error
def test_an_error_says_what_where_what_was_expected_and_the_cure(error, sentence):
    assert str(error) == sentence


@each_error
def test_an_error_can_be_made_again_from_its_args(error, sentence):
    assert str(type(error)(*error.args)) == sentence


@each_error
def test_an_error_survives_pickling_with_its_fields(error, sentence):
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == sentence
    assert vars(copy) == vars(error)


def test_bad_usage_exits_with_2_and_what_goes_wrong_while_running_with_1():
    for error, _ in EXAMPLES:
        is_program = isinstance(error, errors.ProgramError | errors.BackendFailure)
        assert error.exit_code == (1 if is_program else 2)


def test_a_program_error_names_its_verdict():
    assert errors.DeadlockError.verdict == "HANG"
    assert errors.HangError.verdict == "HANG"
    assert errors.ApiError.verdict == "API-ERROR"
    assert errors.ProgramError.verdict == "UNKNOWN"


def test_a_name_with_a_line_break_still_prints_on_one_line():
    assert "\n" not in str(errors.UnknownNameError("key", "a\nb", ["ab"]))


def test_the_tree_in_the_docstring_lists_every_error():
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    for cls in classes:
        if issubclass(cls, errors.TdsimError):
            assert cls.__name__ in errors.__doc__
