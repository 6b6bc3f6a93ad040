"""Finding programs: library names and files, and every way in which that fails."""

import pytest
from tdsim.kernels.ag_gemm import ag_gemm

from tdsim.errors import KernelDefinitionError, KernelFileError, UnknownNameError
from tdsim.programs import library, load_program

PROGRAM = """
from tdsim import lang as td

@td.program(shape=("n",), tensors={}, work=(), reference=None, small_shape="n=1")
def NAME(ctx):
    pass
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="mine.py"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write_file


def test_the_library_is_found_by_name():
    assert list(library()) == ["ag_gemm", "allgather", "gemm_rs", "reduce_scatter"]
    assert load_program("ag_gemm") is ag_gemm


def test_a_program_is_its_own_name():
    assert load_program(ag_gemm) is ag_gemm


def test_an_unknown_name_offers_the_closest():
    with pytest.raises(
        UnknownNameError, match=r"unknown kernel 'ag_gem'.*did you mean 'ag_gemm'\?"
    ):
        load_program("ag_gem")


def test_a_file_and_a_name_find_a_program(write):
    file = write(PROGRAM.replace("NAME", "one") + PROGRAM.replace("NAME", "two"))
    assert load_program(f"{file}:two").name == "two"


def test_the_only_program_of_a_file_needs_no_name(write):
    file = write("from tdsim.kernels.ag_gemm import ag_gemm\n" + PROGRAM.replace("NAME", "one"))
    assert load_program(str(file)).name == "one"


def test_a_kernel_file_may_import_its_neighbours(write):
    write(PROGRAM.replace("NAME", "shared"), "neighbour_of_mine.py")
    file = write("from neighbour_of_mine import shared\n")
    assert load_program(f"{file}:shared").name == "shared"


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(KernelFileError) as refused:
        load_program(f"{tmp_path}/none.py:x")
    assert str(refused.value) == (
        f"{tmp_path}/none.py: no such file; expected path/to/file.py:program; check the path"
    )


def test_a_name_that_the_file_does_not_hold_lists_those_it_does(write):
    file = write(PROGRAM.replace("NAME", "one"))
    with pytest.raises(KernelFileError) as refused:
        load_program(f"{file}:other")
    assert str(refused.value) == (
        f"{file}: no program 'other'; expected one of its programs (one); write {file}:PROGRAM"
    )


def test_a_file_with_two_programs_needs_a_name(write):
    file = write(PROGRAM.replace("NAME", "one") + PROGRAM.replace("NAME", "two"))
    with pytest.raises(
        KernelFileError, match=r"no program is named; expected one of its programs \(one, two\)"
    ):
        load_program(str(file))


def test_a_file_without_a_program_says_how_to_make_one(write):
    with pytest.raises(
        KernelFileError, match=r"\(none: decorate a host function with @td\.program\)"
    ):
        load_program(str(write("x = 1\n")))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "import not_a_module_at_all\n",
            "ModuleNotFoundError: No module named 'not_a_module_at_all'",
        ),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "SyntaxError: "),
    ],
)
def test_a_file_that_does_not_import_says_why(write, text, what):
    file = write(text)
    with pytest.raises(KernelFileError) as refused:
        load_program(f"{file}:x")
    assert str(refused.value).startswith(f"{file}: {what}")
    assert str(refused.value).endswith(
        f"expected a file that imports; run python {file} to see where it fails"
    )


def test_a_refused_kernel_keeps_its_own_message(write):
    file = write("from tdsim import lang as td\n\n@td.kernel\ndef k(x):\n    del x\n")
    with pytest.raises(KernelDefinitionError, match=r"mine\.py:5: Triton cannot compile del"):
        load_program(str(file))
