"""Statements are read whole, over however many lines, with the functions around them."""

import pytest

from scoring.scanners._statements import put_together, statements
from tests.growth import in_linear_time


def read(text: str) -> list[str]:
    """The statements of a text of which every row is wanted."""
    return [one.text for one in statements(text, set(range(text.count("\n") + 1)))]


def test_a_call_over_lines_is_one_statement_and_an_object_does_not_end_it() -> None:
    text = "fetch(\n  address,\n  {\n    body: data,\n  },\n);\nnext();"
    assert read(text) == ["fetch( address, { body: data, }, );", "next();"]


def test_a_condition_is_read_with_what_depends_on_it_across_blank_lines_and_comments() -> None:
    text = "if a == b {\n\n\t// fine\n\treturn true\n}\nrun()"
    assert read(text)[0] == "if a == b { return true"


def test_a_brace_on_a_line_of_its_own_opens_the_same_block() -> None:
    assert read("if (a)\n{\n    *uid = 0;\n}")[0] == "if (a) { *uid = 0;"


def test_a_statement_knows_the_functions_around_it() -> None:
    text = "class Door:\n    def opens(self, word):\n        for one in words:\n            check(one)"
    (last,) = statements(text, {3})
    assert last.heads.split("\n") == ["class Door:", "def opens(self, word):"]


def test_texts_that_are_added_are_one_and_a_text_of_a_sign_stays() -> None:
    assert put_together('run("a" + "b" + name)') == 'run("ab" + name)'
    assert put_together("split('.')[1] + '=='") == "split('.')[1] + '=='"


@pytest.mark.parametrize("row", ["f(\n", "if a:\n  b\n", "a +  " * 300 + "\n", "{ => " * 300 + "\n", "  a\n"])
def test_statements_take_linear_time(row: str) -> None:
    in_linear_time(read, lambda size: row * size, 4_000, 1)
