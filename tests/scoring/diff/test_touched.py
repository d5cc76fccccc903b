"""The files that a change touches, and those of them that keep it out of the fast lane."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.store.long_texts import COLUMN_BYTES
from scoring.diff.change import Change, FileChange
from scoring.diff.paths import Touched, never_fast_kinds, touched_files


def change(*paths: str, coverage: float = 1.0) -> Change:
    return Change(tuple(FileChange(path, path, "modified") for path in paths), (), (), coverage)


def test_kinds_and_both_names_are_told_in_order() -> None:
    moved = FileChange("src/new.py", ".github/workflows/old.yml", "renamed")
    found = touched_files(Change((moved, FileChange("go.sum", "go.sum", "modified")), (), (), 1.0))
    assert found.kinds == ("ci", "dependencies")
    assert found.paths == (".github/workflows/old.yml", "go.sum", "src/new.py")
    assert found.whole


def test_a_change_that_was_not_read_whole_or_names_too_many_files_is_not_known_to_be_harmless() -> None:
    assert never_fast_kinds(touched_files(change("a.py", coverage=0.99)), ()) is None
    few = touched_files(change(*(f"docs/{number}.md" for number in range(1_000))))
    assert (few.whole, never_fast_kinds(few, ())) == (True, ())
    longest = touched_files(change(*(f"{'é' * 2_000}{number}" for number in range(1_000))))
    assert (len(longest.paths), never_fast_kinds(longest, ())) == (7, None)
    assert len(str(list(longest.paths)).encode()) <= COLUMN_BYTES


def test_a_repositorys_own_patterns_come_after_the_kinds_that_hold_everywhere() -> None:
    found = touched_files(change("Makefile", "docs/a.md", "src/keys.py"))
    assert never_fast_kinds(found, ()) == ("build",)
    assert never_fast_kinds(found, ("src/keys*", "*.md", "!docs/a.md")) == ("build", "path:src/keys*")


@given(st.lists(st.text(st.characters(exclude_categories=()), min_size=1), max_size=5))
def test_whatever_a_path_is_it_is_told_whole_and_can_be_stored(paths: list[str]) -> None:
    found = touched_files(change(*paths))
    assert all(path.encode() for path in found.paths)
    assert never_fast_kinds(found, ("*",)) is not None
    assert isinstance(found, Touched)
