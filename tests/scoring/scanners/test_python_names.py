"""Python with names filled in: what is fixed in the source is worked out, rows stay, and no text makes it fail."""

import pytest
from ast_grep_py import SgRoot
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.change import Line
from scoring.scanners._python_folding import TEXT_LENGTH, folded
from scoring.scanners._python_names import FILLED_CHARACTERS, GROWTH, VALUE_CHARACTERS, Expanded, expand_python
from scoring.scanners.whole_files import NewSide
from tests.conftest import count
from tests.growth import in_linear_time


def expanded(text: str, added: set[int] | None = None) -> Expanded:
    """Fill names in where these rows are added, by default all."""
    rows = text.split("\n")
    marks = ["+" if added is None or row in added else " " for row in range(len(rows))]
    lines = [Line("+" if mark == "+" else " ", None, row, rows[row]) for row, mark in enumerate(marks, 0)]
    return expand_python(NewSide(text, tuple(lines)), SgRoot(text, "python").root())


FOLDED = {
    'getattr(import_module("so"[::-1]), "sys" + "tem")(line)': "os.system(line)",
    'getattr(__builtins__, "ev" + "al")(x)': "eval(x)",
    'globals()["e" "val"](x)': "eval(x)",
    'vars(os)["system"](x)': "os.system(x)",
    'sys.modules["os"].system(x)': "os.system(x)",
    'run(x, **{"shell": True})': "run(x, shell=True)",
    'functools.partial(os.system, "id")()': "os.system('id')",
    'operator.methodcaller("system", x)(os)': "os.system(x)",
    '"".join(map(chr, [111, 115]))': "'os'",
    '" ".join(["rm", path])': "f'rm {path}'",
    'base64.b64decode("b3M=").decode()': "'os'",
    '"{}.{}".format("a", "b")': "'a.b'",
    'setattr(context, "verify_mode", 0)': "context.verify_mode = 0",
    '{"now": os.system}["now"](x)': "os.system(x)",
}
STAY = [
    "x + y",
    "'%99999999s' % 'a'",
    "'a' * 10**9",
    "f(",
    "lambda x: x",
    "getattr(a, b)",
    "('a' * 9)[::-1]",
    "{}['a']",
]


@pytest.mark.parametrize(("code", "plain"), FOLDED.items())
def test_what_is_fixed_in_the_source_is_worked_out(code: str, plain: str) -> None:
    assert folded(code, lambda _: None) == plain


@pytest.mark.parametrize("code", STAY)
def test_what_is_not_fixed_or_would_grow_stays(code: str) -> None:
    assert folded(code, lambda _: None) is None


def test_nothing_is_put_together_beyond_a_bound() -> None:
    long = "'" + "a" * TEXT_LENGTH + "'"
    assert folded(f"{long} + {long}", lambda _: None) is None
    assert folded(f"{long}.replace('a', {long})", lambda _: None) is None


def last_row(text: str) -> str:
    return expanded(text).text.rstrip("\n").split("\n")[-1].strip()


FILLED = {
    "from os import system as run\nrun(x)": "os.system(x)",
    "import subprocess as sp\nsp.run(x)": "subprocess.run(x)",
    "from django.shortcuts import redirect as go\ngo(x)": "redirect(x)",
    "cmd = 'a ' + b\nrun = os.system\nrun(cmd)": "os.system('a ' + b)",
    "cmd = 'a '\ncmd += b\nf(cmd)": "f('a ' + b)",
    "a, b = 'so', 'x'\nf(a[::-1])": "f('os')",
    "class A:\n  def __init__(self):\n    self.run = os.system\n  def f(self):\n    self.run(x)": "os.system(x)",
    "def f(a, run=eval):\n    run(a)": "eval(a)",
    "(x := 'a')\nf(x)": "f(x)",
    "x = 'a'\ndef f(x):\n    g(x)": "g(x)",
    "def f():\n    x = 'a'\ndef g():\n    h(x)": "h(x)",
    "x = True\nif y:\n    x = False\nf(x)": "f(x)",
    "x = 'a'\nx = g()\nf(x)": "f(g())",
    "x = x + 'a'\nf(x)": "f(x + 'a')",
    "password = g()\nf(password)": "f(password)",
    "x = 'a'\nf(lambda x: x)": "f(lambda x: x)",
    "x = 'a'\nf(x for x in y)": "f(x for x in y)",
}


@pytest.mark.parametrize(("code", "plain"), FILLED.items())
def test_a_name_stands_for_what_it_was_given_last_in_its_own_function(code: str, plain: str) -> None:
    assert last_row(code) == plain


def test_a_row_names_the_rows_that_its_text_was_taken_from() -> None:
    made = expanded("from os import system as run\ncmd = 'a ' + b\nrun(\n    cmd,\n)\n", {1})
    assert made.text.split("\n")[2:] == ["os.system('a ' + b)", "", "", ""]
    assert made.sources == {2: {0, 1, 3, 4}}


def test_names_behind_names_end_and_values_are_bounded() -> None:
    doubling = "a0 = b + 'x'\n" + "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(40)) + "f(a40)\n"
    assert len(expanded(doubling).text) < 50 * VALUE_CHARACTERS
    assert last_row("a = b\nb = a\nf(a)") in ("f(a)", "f(b)")


@settings(max_examples=count(100, 5000))
@given(
    st.lists(
        st.sampled_from([*FOLDED, *FILLED, *STAY, "if x:", "  y", "'''", "(", "#", "\u2028", "def f(a=1):"]), max_size=8
    )
)
def test_every_row_stays_where_it_is(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    made = expanded(text)
    rows = text.count("\n")
    assert made.text.count("\n") == rows
    assert all(0 <= row <= rows and max(taken) <= rows for row, taken in made.sources.items())


def test_many_names_take_linear_time() -> None:
    def code(size: int) -> str:
        return "from os import system as run\n" + "".join(f"x{n} = 'a' + x{n - 1}\nrun(x{n})\n" for n in range(size))

    in_linear_time(expanded, code, count(200, 2000), 4)


def test_one_name_given_many_values_takes_linear_time() -> None:
    def code(size: int) -> str:
        return "".join(f"a = b{n}\nos.system(a)\n" for n in range(size))

    made = in_linear_time(expanded, code, count(1000, 6000))
    assert made.text.split("\n")[1::2][:2] == ["os.system(b0)", "os.system(b1)"]


def test_names_beside_many_functions_take_linear_time() -> None:
    def code(size: int) -> str:
        functions = "".join(f"def f{n}():\n    pass\n" for n in range(size))
        return functions + "".join(f"a{n} = b\nos.system(a{n})\n" for n in range(size))

    in_linear_time(expanded, code, count(1000, 6000))


LONG = "a = [" + "1, " * 130 + "1]\n"


@pytest.mark.parametrize("statement", ["os.system([" + "a," * 980 + "a])\n", "f(a)\n", "f(" + "a, " * 9 + "b)\n"])
def test_what_is_filled_in_stays_in_line_with_the_source(statement: str) -> None:
    text = LONG + statement * 400
    made = expanded(text).text
    assert len(made) <= (GROWTH + 1) * len(text) + FILLED_CHARACTERS
    in_linear_time(expanded, lambda size: LONG + statement * size, count(40, 400))


def test_a_statement_that_would_grow_too_long_stays_and_the_next_does_not() -> None:
    rows = expanded(LONG + "os.system([" + "a," * 980 + "a])\nos.system(a[0])\n").text.split("\n")
    assert rows[1] == "os.system([" + "a," * 980 + "a])"
    assert rows[2] == "os.system(1)"


def test_a_short_alias_is_filled_in_however_much_the_source_has_grown() -> None:
    text = "from os import system as run\n" + LONG + "f(a)\n" * 4000 + "run(x)\n"
    made = expanded(text).text
    assert "f(a)" in made
    assert made.endswith("os.system(x)\n")


def test_a_value_over_many_rows_stays() -> None:
    far = "a = (" + "\n" * 100 + "os.system)\n"
    assert last_row(far + "a(x)") == "a(x)"


NO_EXPRESSIONS = {
    "a, b = *x, y\nos.system(a)": "os.system(a)",
    "''.join(chr() for c in [1, 2])": "''.join(chr() for c in [1, 2])",
    "''.join(chr(*c) for c in [1, 2])": "''.join(chr(*c) for c in [1, 2])",
    "''.join(map(chr))": "''.join(map(chr))",
    "f([*a, b][0])": "f([*a, b][0])",
    "getattr(*a, 'system')": "getattr(*a, 'system')",
    "vars(*a)['system']": "vars(*a)['system']",
    "partial(*a)(x)": "partial(*a)(x)",
    "partial()(x)": "partial()(x)",
    "methodcaller()(x)": "methodcaller()(x)",
    "attrgetter('system')(*a)": "attrgetter('system')(*a)",
    "f(**{'a b': 1})": "f(**{'a b': 1})",
    "bytes()": "bytes()",
    "[][0]": "[][0]",
}


@pytest.mark.parametrize(("code", "plain"), NO_EXPRESSIONS.items(), ids=range(len(NO_EXPRESSIONS)))
def test_calls_with_too_few_arguments_or_with_stars_stay(code: str, plain: str) -> None:
    assert last_row(code) == plain


@pytest.mark.parametrize("value", ["-" * 390 + "1", "x" + ".b" * 190, "(" * 150 + "x" + ")" * 150])
def test_a_deep_value_makes_nothing_fail(value: str) -> None:
    assert last_row(f"a = {value}\nos.system(a)").startswith("os.system(")
