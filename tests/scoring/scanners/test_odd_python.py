"""No Python makes an examination raise or a scanner fail: stars, patterns, type parameters, and code cut anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.parser import read_change
from scoring.scanners.run import FAULTS, examine
from scoring.scanners.submission import Submission
from tests.conftest import count

NAMES = st.sampled_from(["a", "b", "self.a", "os", "chr", "cls", "é"])
ATOMS = st.one_of(
    NAMES,
    st.sampled_from(["1", "-1", "True", "None", "''", "'so'", "b'x'", "f'{a!r:>{b}}'", "'\\ud800'", "...", "9" * 390])
    | st.sampled_from(
        ["[]", "()", "{}", "chr()", "''.join()", "bytes()", "partial()()", "map(chr)", "'{0.x}'.format()"]
    ),
)
SHAPES = [
    *(
        "[*{0}, {1}]",
        "[*{0}][0]",
        "(*{0}, {1})",
        "{{**{0}, 'k': {1}}}",
        "{{*{0}}}",
        "(a := {0})",
        "lambda *x, y={0}: {1}",
    ),
    *(
        "(lambda: {0})()",
        "(lambda *, a: a)({0})",
        "{0} if {1} else b",
        "(yield {0})",
        "(await {0})",
        "(yield from {0})",
    ),
    *("[{0} for a in {1}]", "''.join(chr({0}) for a in [1, 2])", "''.join([{0}, {1}])", "''.join({0})", "{0} + {1}"),
    *("{0} % {1}", "{0}[{1}]", "{0}[::{1}]", "{0}.x", "f(*{0}, **{1})", "f(**{{'a b': {0}}})", "getattr({0}, {1})"),
    *("getattr(*{0}, 'x')", "vars(*{0})['x']", "globals()[{0}]", "partial({0})({1})", "methodcaller('x', {0})(*{1})"),
    *("attrgetter({0})({1})", "__import__({0})", "chr({0})", "bytes([{0}])", "map(chr, [{0}])", "{0}.join({1})"),
    *(
        "{0}.format({1})",
        "{0}.replace({1}, 'a')",
        "b64decode({0})",
        "codecs.decode({0}, 'rot13')",
        "not -{0}",
        "{0} < {1}",
    ),
    *(
        "f'{{{0}}}'",
        "setattr({0}, 'class', {1})",
        "reversed({0})",
        "dict(**{0})",
        "f(**dict(a={0}))",
        "{0}.decode({1})",
    ),
]
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.builds(lambda shape, one, two: shape.format(one, two), st.sampled_from(SHAPES), inner, inner),
    max_leaves=5,
)
STATEMENTS = [
    *(
        "a = {0}",
        "a, b = *{0}, {1}",
        "a, *b = {0}",
        "*a, = {0}",
        "a = b = {0}",
        "a += {0}",
        "self.a = {0}",
        "a: {0} = {1}",
    ),
    *("os.system({0})", "eval({0})", "import os as a", "from os import system as b", "from . import a", "del a"),
    *(
        "def f(a={0}, *b, c: x[y] = 1, **d):\n    a = {1}\n    os.system(a)",
        "class A[T]:\n    a = {0}",
        "type A[*T] = {0}",
    ),
    *("async def f():\n    async with {0} as a:\n        b = await {1}\n    os.system(a)", "@{0}\ndef f(): return {1}"),
    *(
        "match {0}:\n    case [a, *b] if {1}:\n        os.system(a)",
        "with {0} as (a, *b): os.system(a)",
        "raise {0} from {1}",
    ),
    *(
        "def f[T: {0}](a: T) -> {1}: os.system(a)",
        "for a, *b in {0}: eval(a)",
        "while (a := {0}): exec(a)",
        "assert {0}, {1}",
    ),
    *(
        "try:\n    a = {0}\nexcept* {1}:\n    pass",
        "if {0}: pass\nelif {1}: eval(a)",
        "global a",
        "return {0}",
        "a.b[{0}] = {1}",
    ),
]
LINES = st.builds(lambda shape, one, two: shape.format(one, two), st.sampled_from(STATEMENTS), EXPRESSIONS, EXPRESSIONS)
PROGRAMS = st.lists(LINES, min_size=1, max_size=6).map(lambda lines: "\n".join([*lines, "os.system(a)", "eval(b)"]))
CUTS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["", "(", ")", "*", "'", "\\", "\n", "[", ",", ":", "\t"]))
)


def failed(code: str) -> list[str]:
    """Examine a change that adds this file; the ids of scanners that came to no end, and findings on that."""
    rows = code.split("\n")
    head = "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n"
    change = read_change(f"{head}@@ -0,0 +1,{len(rows)} @@\n" + "".join(f"+{row}\n" for row in rows))
    told = examine(Submission(change))
    return [*told.unfinished, *(one.rule for one in told.findings if one.rule == "scan_failed")]


@settings(max_examples=count(50, 5000))
@given(PROGRAMS)
def test_no_program_makes_a_scanner_fail(code: str) -> None:
    assert failed(code) == []


@settings(max_examples=count(30, 5000))
@given(PROGRAMS, CUTS)
def test_no_program_that_is_cut_or_patched_makes_a_scanner_fail(code: str, cuts: list[tuple[int, str]]) -> None:
    for place, text in cuts[:5]:
        code = code[:place] + text + code[place + 1 :]
    assert failed(code) == []


@pytest.mark.parametrize(
    "code",
    ["a, b = *x, y\nos.system(a)", "def f(x, y):\n    a, b = *x, y\n    os.system(a)", "''.join(chr() for c in [1])"],
)
def test_a_star_or_a_call_without_arguments_switches_no_scanner_off(code: str) -> None:
    assert failed(code) == []


def test_a_text_that_does_not_parse_is_a_fault_like_others() -> None:
    assert issubclass(SyntaxError, FAULTS)
