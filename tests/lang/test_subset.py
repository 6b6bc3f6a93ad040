"""What Triton cannot compile is refused when the kernel is defined: file, line, what, cure."""

import importlib.util
import textwrap

import pytest

from tdsim import lang as td
from tdsim.errors import KernelDefinitionError
from tdsim.lang.subset import _REFUSED

HEAD = """\
from tdsim import lang as td
from tdsim.lang import signal_wait_until as wait_for


@td.kernel
def kernel(x, ready, n):
"""
FIRST_LINE = HEAD.count("\n") + 1


@pytest.fixture
def define(tmp_path):
    """Define a kernel of the given body in a file of its own."""

    def import_file(body, head=HEAD):
        file = tmp_path / "refused_kernel.py"
        file.write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
        spec = importlib.util.spec_from_file_location("refused_kernel", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return import_file


LOOP = "for i in range(n):\n    "
TRITON = "Triton cannot compile {} in a kernel"
TOKEN_CURE = (
    "write `token = td.signal_wait_until(...)` and td.after(token, view) for what follows"
)

# body, line within it, what is wrong, cure
REFUSED = {
    "break": (LOOP + "break", 2, TRITON, "put the condition into the loop's bounds or a while test"),
    "continue": (LOOP + "continue", 2, TRITON, "put the rest of the body under an if"),
    "try": ("try:\n    n = 1\nfinally:\n    n = 2", 1, TRITON, "kernels cannot raise; check arguments in the host program"),
    "raise": ("n = 1\nraise ValueError", 2, TRITON, "check arguments in the host program"),
    "lambda": ("f = lambda v: v", 1, TRITON, "write a @td.function helper"),
    "with": ("with x:\n    n = 1", 1, TRITON, "call the operations directly"),
    "yield": ("yield n", 1, TRITON, "waiting is td.signal_wait_until; a kernel never yields"),
    "yield from": ("yield from n", 1, TRITON, "waiting is td.signal_wait_until; a kernel never yields"),
    "global": ("global g\ng = n", 1, TRITON, "pass the value as an argument"),
    "a list comprehension": ("v = [i for i in range(4)]", 1, TRITON, "write a for loop over range"),
    "a dict comprehension": ("v = {i: i for i in range(4)}", 1, TRITON, "write a for loop over range"),
    "a set comprehension": ("v = {i for i in range(4)}", 1, TRITON, "write a for loop over range"),
    "a generator expression": ("v = td.sum(i for i in range(4))", 1, TRITON, "write a for loop over range"),
    "a dict": ("v = {1: n}", 1, TRITON, "pass values as separate arguments"),
    "a set": ("v = {n}", 1, TRITON, "pass values as separate arguments"),
    "an f-string": ("v = f'{n}'", 1, TRITON, "use a literal string"),
    "a starred argument": ("v = td.zeros(*n)", 1, TRITON, "write the arguments out"),
    "import": ("import math", 1, TRITON, "import at the top of the file"),
    "import from": ("from math import exp", 1, "Triton cannot compile import in a kernel", "import at the top of the file"),
    "a class": ("class C:\n    pass", 1, TRITON, "use tuples and separate arguments"),
    "del": ("del n", 1, TRITON, "let the name go out of use"),
    "a walrus assignment": ("v = (w := n)", 1, TRITON, "assign on a line of its own"),
    "match": ("match n:\n    case 1:\n        n = 2", 1, TRITON, "use if and elif"),
    "nested function": ("def f():\n    return 1", 1, "a nested function in a kernel", "write a @td.function helper"),
    "else on a loop": (LOOP + "v = i\nelse:\n    v = 1", 1, "else on a loop in a kernel", "put it after the loop"),
    "else on a while": ("while n > 0:\n    n = n - 1\nelse:\n    v = 1", 1, "else on a loop in a kernel", "put it after the loop"),
    "return in a loop": (LOOP + "return", 2, "return inside a loop in a kernel", "set a value, return after it"),
    "for over a tuple": ("for i in (1, 2):\n    v = i", 1, "a for loop over something other than range", "loop over range"),
    "for with two targets": ("for i, j in range(n):\n    v = i", 1, "a for loop with several targets", "loop over one index"),
    "chained comparison": ("v = 0 < n < 4", 1, "a chained comparison in a kernel", "join two with &"),
    "and on ints": ("v = n and 1", 1, "and/or on values that are not comparisons", "compare with != 0"),
    "not on an int": ("v = not n", 1, "not on a value that is no comparison", "write == 0"),
    "dropped token": ("td.signal_wait_until(ready, 0, 'ge', 1)", 1, "the token of a wait is dropped", TOKEN_CURE),
    "dropped token of an alias": ("wait_for(ready, 0, 'ge', 1)", 1, "the token of a wait is dropped", TOKEN_CURE),
    "token to nothing": ("n = 1\ntoken = td.signal_wait_until(ready, 0, 'ge', 1)", 2, "the token 'token' of a wait reaches nothing", TOKEN_CURE),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_construct_that_triton_cannot_compile_is_refused_with_its_line_and_cure(name, define):
    body, line, what, cure = REFUSED[name]
    with pytest.raises(KernelDefinitionError) as refused:
        define(body)
    error = refused.value
    assert error.file.endswith("refused_kernel.py")
    assert (error.line, error.what, error.cure) == (
        FIRST_LINE + line - 1,
        what.format(name),
        cure,
    )
    assert str(error) == f"{error.file}:{error.line}: {error.what}; {cure}"


def test_every_refused_construct_has_a_case_above():
    texts = {TRITON.format(words) for words, _ in _REFUSED.values()}
    seen = {what.format(name) for name, (_, _, what, _) in REFUSED.items()}
    # these two cannot be written in a plain top-level function at all
    unreachable = {TRITON.format("await"), TRITON.format("nonlocal")}
    assert texts - seen == unreachable


def test_the_first_offence_in_the_text_is_reported(define):
    with pytest.raises(KernelDefinitionError, match="raise") as refused:
        define("n = 1\nraise ValueError\nimport math")
    assert refused.value.line == FIRST_LINE + 1


@pytest.mark.parametrize(
    ("signature", "what", "cure"),
    [
        ("*args", r"\*args and \*\*kwargs in a kernel", "name every parameter"),
        ("**options", r"\*args and \*\*kwargs in a kernel", "name every parameter"),
        ("x, *, n", "keyword-only parameters in a kernel", "drop the `\\*`"),
    ],
)
def test_parameters_that_triton_does_not_know_are_refused(define, signature, what, cure):
    head = HEAD.replace("x, ready, n", signature)
    with pytest.raises(KernelDefinitionError, match=f"{what}; {cure}") as refused:
        define("pass", head)
    assert refused.value.line == FIRST_LINE - 1


def test_a_helper_is_held_to_the_same_subset(define):
    with pytest.raises(KernelDefinitionError, match="Triton cannot compile a dict"):
        define("return {1: n}", HEAD.replace("td.kernel", "td.function"))


@pytest.mark.parametrize(
    "body",
    [
        "v = (n > 1) and (n < 4)",
        "v = not (n > 1)",
        "while n > 0:\n    n = n - 1",
        "for i in range(0, n, 2):\n    v = i\nreturn",
        "if n > 1:\n    v = 1\nelif n > 0:\n    v = 2\nelse:\n    v = 3",
        "token = td.signal_wait_until(ready, 0, 'ge', 1)\nv = td.load(td.after(token, x), 0, 1)",
        "v = td.load(td.after(wait_for(ready, 0, 'ge', 1), x), 0, 1)",
    ],
)
def test_what_triton_compiles_is_accepted(define, body):
    assert isinstance(define(body), td.Kernel)


def test_a_kernel_whose_source_cannot_be_read_is_refused():
    scope = {"td": td}
    text = "@td.kernel\ndef typed_in(x):\n    pass\n"
    with pytest.raises(
        KernelDefinitionError,
        match=r"<prompt>:1: the source of typed_in cannot be read; "
        r"define kernels in a file, not in exec\(\) or an interactive prompt",
    ):
        exec(compile(text, "<prompt>", "exec"), scope)


def test_a_lambda_is_no_kernel():
    with pytest.raises(
        KernelDefinitionError, match="a kernel is a plain function; use `def`, not lambda"
    ):
        td.kernel(lambda x: x)
