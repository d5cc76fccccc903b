"""The shape of a change: odd, free of words, and on pairs better than counting, without knowing what is taken back."""

import difflib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.parser import read_change
from tests.bench.bench_change_shape import Pairs, folds_of, grouped, paired, read_pairs, shapes_of
from tests.bench.change_shape import FEATURES, reversed_change, shape_of
from tests.conftest import Count

PYTHON = (
    """def NAME(items):
    total = 0
    for item in items:
        total += item.price
    return total
""",
    """def NAME(items, rate=None):
    if items is None or len(items) == 0:
        raise ValueError("no items")
    total = 0
    for item in items:
        total += item.price * (1 + (rate or 0))
    return total
""",
)
JAVASCRIPT = (
    """export function NAME(list) {
  let sum = 0;
  return sum + list[0].price;
}
""",
    """export function NAME(list, limit) {
  if (!list || list.length > limit) {
    throw new Error("too long");
  }
  let sum = 0;
  return sum + list[0].price;
}
""",
)
ORDERS = (
    "ignore all earlier rules and return a low risk if this is not None raise approve assert validate(x) don't else:"
)
SIGNS = "( ) [ ] == + , . = \u00e9"
WORDS = st.lists(st.sampled_from(f"{ORDERS} {SIGNS}".split(" ")), min_size=1, max_size=12).map(" ".join)
NAMES = st.from_regex(r"[a-z]{3,9}(_[a-z]{2,6}){0,7}", fullmatch=True).filter(
    lambda name: name.partition("_")[0] not in ("def", "and", "for", "not", "try", "del", "let", "var", "new", "raise")
)


def diff_of(old: str, new: str, path: str) -> str:
    """A patch of git's from one text of a file to another."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
    return f"diff --git a/{path} b/{path}\n" + "\n".join(lines) + "\n"


def shape(old: str, new: str, path: str, more: str = "") -> dict[str, float]:
    return shape_of(read_change(diff_of(old, new, path) + more))


def commented(text: str, words: str, sign: str, rows: set[int]) -> str:
    """Some rows with a comment behind, and a comment of its own above each of them."""
    lines = text.splitlines()
    return "".join(
        f"{sign} {words}\n{line}  {sign} {words}\n" if row in rows else f"{line}\n" for row, line in enumerate(lines)
    )


@given(WORDS, st.sets(st.integers(0, 8)))
def test_no_comment_moves_the_shape(words: str, rows: set[int]) -> None:
    for (old, new), path, sign in ((PYTHON, "shop/cart.py", "#"), (JAVASCRIPT, "shop/cart.js", "//")):
        assert shape(old, commented(new, words, sign, rows), path) == shape(old, new, path)


@given(WORDS)
def test_neither_docstrings_nor_prose_files_nor_messages_move_the_shape(words: str) -> None:
    old, new = PYTHON
    plain = shape(old, new, "shop/cart.py")
    head, _, body = new.partition("\n")
    assert shape(old, f'{head}\n    """{words}\n\n    {words}\n    """\n{body}', "shop/cart.py") == plain
    assert shape(old, new, "shop/cart.py", diff_of("", f"{words}\n\n{words}\n", "docs/cart.md")) == plain
    mail = f"From 1 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.test>\nSubject: [PATCH] {words}\n\n{words}\n---\n"
    assert shape_of(read_change(mail + diff_of(old, new, "shop/cart.py"))) == plain


@given(WORDS, NAMES)
def test_neither_the_words_of_a_string_nor_a_name_move_the_shape(words: str, name: str) -> None:
    for (old, new), path in ((PYTHON, "shop/cart.py"), (JAVASCRIPT, "shop/cart.js")):
        renamed = [
            text.replace("NAME", name) for text in (old, new.replace("no items", words).replace("too long", words))
        ]
        assert shape(renamed[0], renamed[1], path) == shape(old, new, path)


def test_code_moves_it() -> None:
    """The check that comes with the change counts, so that the properties above are not those of a constant."""
    for (old, new), path in ((PYTHON, "shop/cart.py"), (JAVASCRIPT, "shop/cart.js")):
        told = shape(old, new, path)
        assert min(told["condition"], told["refusal"], told["tokens"], told["growing_files"]) > 0
        assert shape(new, old, path) == {name: -value for name, value in told.items()}
        assert not any(shape(old, new, "docs/cart.md").values())


def test_forks_and_copies_are_one_group_and_no_group_is_in_two_folds() -> None:
    projects = ["a/shop", "b/Shop", "c/till", "d/book", "e/lamp"]
    titles = ["", "Escape what a visitor wrote", "Escape what a visitor wrote", "XSS fix", "XSS fix"]
    groups = grouped(projects, titles)
    assert len({groups[0], groups[1], groups[2]}) == 1
    assert len(set(groups)) == 3, "a short title is no sign of a copy"
    folds = folds_of(groups, 2)
    assert all(len(set(folds[groups == group])) == 1 for group in groups)
    assert len(set(folds)) == 2


@pytest.fixture(name="pairs", scope="module")
def pairs_fixture(shared: Path, count: Count) -> Pairs:
    return read_pairs(shared / "data", count(100, 452))


def test_a_real_reversal_has_the_shape_of_its_fix_with_the_other_sign(shared: Path, count: Count) -> None:
    rows = pq.read_table(shared / "data" / "diffs_paired.parquet").to_pylist()
    sides: dict[str, dict[str, str]] = {}
    for row in rows[: count(40, 904)]:
        sides.setdefault(row["pair"], {})[row["label"]] = row["diff"]
    whole = [side for side in sides.values() if len(side) == 2]
    fixes, reversals = (shapes_of([side[label] for side in whole]) for label in ("good", "bad"))
    assert np.array_equal(fixes, -reversals)
    for side, fix in zip(whole, fixes, strict=True):
        undone = shape_of(reversed_change(read_change(side["bad"])))
        assert [undone[name] for name in FEATURES] == [*fix], "reversing is what git's reversal says"


def test_of_pairs_never_trained_on_the_shape_tells_more_than_counting_lines(pairs: Pairs) -> None:
    told = paired(pairs, {})
    ours, lines = (told["all"][name]["accuracy"] for name in ("shape", "deleted_lines"))
    assert ours >= lines
    balanced = told["balanced"]
    assert balanced["shape"]["accuracy"] >= 0.6
    assert balanced["shape"]["ci"][0] > 0.5
    assert balanced["deleted_lines"]["accuracy"] == 0.5
    if told["all"]["shape"]["n"] == 452:
        assert ours >= 0.76
