"""A kept title is a few marks, and nothing of what may be the name of a branch."""

from collections.abc import Callable, Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.history_import.checks import MARKS, TITLE_SAYS

Says = Callable[[str | None], list[str] | None]


@pytest.fixture(scope="module", name="says")
def says_fixture() -> Iterator[Says]:
    with duckdb.connect() as connection:
        connection.execute(TITLE_SAYS)
        yield lambda title: connection.execute("select title_says(?)", [title]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("title", "marks"),
    [
        ("Update setup.py", ["default", "code"]),
        ("Create docs/readme.md", ["default", "docs", "code"]),
        ("Update the way in which readers are told", []),
        ("Fixed a typo in the README", ["fix", "docs"]),
        ("feat: add support for HTTP/3", ["new"]),
        ("Mend `url_for()`", ["code"]),
        ("Prefix every lamp", []),
        ("Newly addressed lamps", []),
    ],
)
def test_a_title_says_what_stands_in_it_as_whole_words(says: Says, title: str, marks: list[str]) -> None:
    assert says(title) == marks


@pytest.mark.parametrize("title", ["", "   ", "fix-the-lamp", " patch-1 ", None])
def test_a_title_that_may_be_the_name_of_a_branch_says_nothing(says: Says, title: str | None) -> None:
    assert says(title) is None


@given(title=st.text(max_size=300))
def test_whatever_a_title_holds_only_known_marks_are_kept(says: Says, title: str) -> None:
    found = says(title.replace("\0", ""))
    assert found is None or set(found) <= set(MARKS)
