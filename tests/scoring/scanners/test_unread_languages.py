"""Code in a language that no rule reads has no content verdict, and the row says which language it is."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.change import FileChange
from scoring.diff.parser import read_change
from scoring.explain.reasons import CONTENT_SENTENCES, missing_words
from scoring.gate.decide import ORDINARY, decide_change
from scoring.pipeline.decisions import read_content
from scoring.review.deterministic import review_without_model
from scoring.review.store import review_columns
from scoring.scanners._rules import rules
from scoring.scanners._text import NAMES
from scoring.scanners._unread_languages import languages_without_rules
from scoring.types import Lane
from tests.conftest import Count
from tests.scoring.gate.test_gate import KNOWN, OPEN, estimate
from tests.scoring.scanners.written import added_lines, change_of

READ = [
    "a.md",
    "LICENSE",
    "AUTHORS",
    "docs/a.rst",
    "a.json",
    "a.css",
    "page.html",
    "a.po",
    ".gitignore",
    "a.svg",
    "a.py",
]
UNREAD = {
    "lib/a.hs": "Haskell",
    "README.hs": "Haskell",
    "docs.md/a.hs": "Haskell",
    "a.hs.in": "Haskell",
    "analysis.ipynb": "notebooks",
    "a.vhdl": "files that end in .vhdl",
    "bin/tool": "files without an ending",
    "a.\u202egpj": "files of an unknown kind",
}


@pytest.mark.parametrize("path", READ)
def test_prose_data_styles_markup_and_languages_with_rules_are_read(path: str) -> None:
    assert languages_without_rules(change_of(added_lines("x", path))) == ()


@pytest.mark.parametrize(("path", "language"), UNREAD.items())
def test_everything_else_is_code_that_nobody_read(path: str, language: str) -> None:
    change = change_of(added_lines("x", path))
    assert languages_without_rules(change) == (language,)
    review = review_without_model(change, [])
    assert (review.state, review.assessment.review_recommended) == ("no content verdict", False)
    assert missing_words(review.reason) == f"no scanner has rules for {language}"


def lane_of(*files: FileChange) -> tuple[Lane, list[str]]:
    """Return the lane of a change by somebody well known, and the sentences on the row."""
    content = read_content(review_columns(review_without_model(change_of(*files), []), []))
    lane, reasons = decide_change(KNOWN, estimate(0.95), content, ORDINARY, OPEN)
    return lane, [
        CONTENT_SENTENCES[reason.code](reason.params) for reason in reasons if reason.code in CONTENT_SENTENCES
    ]


def test_it_is_never_fast_laned_and_the_row_says_why() -> None:
    assert lane_of(added_lines("x", "a.md")) == (Lane.FAST_LANE, [])
    lane, sentences = lane_of(added_lines("x", "a.md"), added_lines("x", "a.hs"))
    assert lane is Lane.NORMAL_QUEUE
    assert sentences == ["There is no verdict on the content: no scanner has rules for Haskell."]


@pytest.mark.parametrize("first", ["#!/usr/bin/env tclsh", "#!/usr/local/bin/tclsh8.6 -x", "#!/bin/env -S A=b tclsh"])
def test_a_program_is_in_the_language_of_its_interpreter_whatever_its_name_says(first: str) -> None:
    assert languages_without_rules(change_of(added_lines(f"{first}\nputs x", "LICENSE"))) == ("Tcl",)


def test_what_is_unread_keeps_a_change_out_of_the_verdict_in_any_company() -> None:
    change = change_of(added_lines("x = 1", "a.py"), added_lines("main = x", "a.hs"), added_lines("x", "a.zig"))
    assert review_without_model(change, []).reason == "no_rules:Haskell, Zig"


def test_a_file_whose_lines_are_not_shown_is_not_counted_here() -> None:
    change = change_of(replace(added_lines("x", "a.hs"), hunks=()))
    assert languages_without_rules(change) == ()


@given(st.text(max_size=40))
def test_no_path_reaches_the_words_but_its_letters_and_digits(path: str) -> None:
    for language in languages_without_rules(change_of(added_lines("x", path))):
        assert all(character.isascii() and (character.isalnum() or character in " .+-#_") for character in language)


def test_every_language_by_name_has_rules_of_its_own() -> None:
    shared = {rule.id for rule in rules() if {"python", "shell", "go"} <= set(rule.languages)}
    own = {language for rule in rules() if rule.id not in shared for language in rule.languages}
    assert set(NAMES) <= own


def test_of_real_diffs_at_most_a_tenth_end_without_a_verdict_for_this(shared: Path, count: Count) -> None:
    table = pq.read_table(shared / "data" / "pr_diffs.parquet", columns=["diff"])
    places = random.Random(18).sample(range(table.num_rows), count(300, 2000))
    changes = [read_change(text) for text in table.take(places)["diff"].to_pylist()]
    assert sum(bool(languages_without_rules(one)) for one in changes) <= len(changes) / 10
