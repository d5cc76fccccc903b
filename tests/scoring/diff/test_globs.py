"""Path patterns: what git would ignore is meant, hostile patterns and paths cost linear time, own lists are checked."""

import subprocess
from contextlib import suppress
from functools import partial
from operator import mul
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.globs import PATTERNS, PatternProblem, check_patterns, clean_path, matching_pattern
from tests.growth import in_linear_time
from tests.waiting import LONG_SECONDS


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.lock", "a/b/Cargo.lock"),
        ("auth", "src/auth/login.py"),
        ("/auth", "auth/login.py"),
        ("src/*.py", "src/a.py"),
        ("src/**/a.py", "src/a.py"),
        ("src/**/a.py", "src/x/y/a.py"),
        ("**/secrets", "a/b/secrets/key"),
        ("logs/", "x/logs/a.txt"),
        ("a?c.txt", "abc.txt"),
        ("[a-c]x", "bx"),
        ("[!a-c]x", "dx"),
        (r"\!odd", "!odd"),
        (r"a\*b", "a*b"),
        ("a/**", "a/b/c"),
    ],
)
def test_a_pattern_matches(pattern: str, path: str) -> None:
    assert matching_pattern([pattern], path) == pattern


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/auth", "src/auth/login.py"),
        ("src/*.py", "src/x/a.py"),
        ("logs/", "logs"),
        ("a?c", "a/c"),
        ("auth", "author/a.py"),
        ("*.py", "a.pyc"),
        ("# a", "# a"),
        ("", "a"),
        ("/", "a"),
        ("[!a-c]x", "/x"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert matching_pattern([pattern], path) is None


def test_the_last_pattern_that_matches_decides() -> None:
    assert matching_pattern(["*.md", "!README.md"], "README.md") is None
    assert matching_pattern(["*.md", "!README.md", "README*"], "README.md") == "README*"


def test_no_spelling_of_a_path_slips_by() -> None:
    for spelled in ("./ci/run", "ci//run", "x/../ci/run", "../ci/./run", "/ci/run"):
        assert clean_path(spelled) == "ci/run"
        assert matching_pattern(["/ci"], spelled) == "/ci"


@pytest.mark.parametrize("pattern", ["[z-a]x", "a" * 301])
def test_a_list_that_cannot_be_read_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(PatternProblem, match="path pattern"):
        check_patterns([pattern])


def test_a_list_that_is_too_long_is_refused() -> None:
    with pytest.raises(PatternProblem, match="at most 500"):
        check_patterns(["a"] * (PATTERNS + 1))


def test_a_hostile_pattern_on_a_hostile_path_takes_linear_time() -> None:
    for pattern, unit, times in (("*a" * 140 + "b", "a", 100_000), ("**/a/" * 50 + "b", "a/", 50_000)):
        assert in_linear_time(partial(matching_pattern, [pattern]), partial(mul, unit), times, 0.5) is None


@given(st.text(alphabet="ab/*?[]!\\-^#.", max_size=12), st.text(alphabet="ab/.*[]!", max_size=12))
def test_any_pattern_is_answered_or_refused(pattern: str, path: str) -> None:
    with suppress(PatternProblem):
        assert matching_pattern([pattern], path) in (pattern, None)


def test_patterns_mean_what_git_means_by_them(tmp_path: Path) -> None:
    """Every pattern of a few pieces against every path of a few names, in one call of git each."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=LONG_SECONDS)
    names = ("a", "b", "ab")
    paths = [
        *names,
        *(f"{x}/{y}" for x in names for y in names),
        *(f"{x}/{y}/{z}" for x in names for y in names for z in names),
    ]
    for pattern in ("a", "/a", "a/b", "*b", "a*", "**/b", "a/**", "a/**/b", "?", "[ab]", "[!a]", "/*/b", "a/*", "*/a/"):
        (tmp_path / ".git" / "info" / "exclude").write_text(f"{pattern}\n")
        asked = subprocess.run(
            ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"],
            input="\n".join(paths),
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG_SECONDS,
        )
        assert {path for path in paths if matching_pattern([pattern], path)} == set(asked.stdout.split()), pattern
