"""features.sql is cut at one place, and nobody adds an expression to it without saying what it reads."""

import pytest

from scoring.cluster.cut import cut, expressions
from scoring.dataset.dataset import NAMES, QUERY

# What the rows of each expression rest on. One that reads a repository whole and is not `project` breaks the cut: move
# it to the first pass in scoring/cluster/cut.py.
RESTS_ON = {
    "its own pull request": "asked dated known shared stream weighed",
    "everybody in the repository": "project_so_far project",
    "one author": """
        here_so_far here person_stream person_so_far person usual rare rarely noted signalled told signals_then asking
        trusted
    """,
}


def test_every_expression_is_known_by_what_it_rests_on() -> None:
    told = [name for names in RESTS_ON.values() for name in names.split()]
    assert len(set(told)) == len(told)
    assert {*expressions(QUERY)[0]} == {*told}


def test_what_reads_a_repository_whole_is_in_the_first_part_alone() -> None:
    first, second = cut(QUERY)
    whole = RESTS_ON["everybody in the repository"].split()
    assert [name for name in whole if f"{name} as (" in first] == whole
    assert not [name for name in whole if f"{name} as (" in second]
    assert not [name for name in RESTS_ON["one author"].split() if f" {name} as (" in first]


def test_the_second_part_has_all_the_columns() -> None:
    assert all(name in cut(QUERY).by_author for name in NAMES)


def test_comments_are_not_taken_for_expressions() -> None:
    named, selected = expressions("with a as (  -- ), b as (\n  select 1\n), c as (\n  from a -- c\n)\nselect 2\n")
    assert {name: body.split() for name, body in named.items()} == {"a": ["select", "1"], "c": ["from", "a"]}
    assert selected.strip() == "select 2"


@pytest.mark.parametrize("query", ["select 1", "with a as (\n  select 1)\nselect * from a"])
def test_a_query_of_another_shape_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match="another shape"):
        expressions(query)


def test_an_expression_that_nothing_reads_is_refused() -> None:
    query = "with project as (\n  select 1\n), alone as (\n  select 2\n)\nselect * from project\n"
    with pytest.raises(ValueError, match=r"no part of features\.sql reads alone"):
        cut(query)
