"""Colours of a diff: every character stays, a few classes, and an end to the work whatever the text is."""

from itertools import count as counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.conftest import Count
from tests.growth import in_linear_time
from tests.sources import PROJECT
from tests.triage.presenters.test_shapes import contrast, token
from tests.triage.worlds.hostile_patches import TEXTS
from triage.diff_page.highlight import BLANK, LEXERS, LINE, PIECE, Allowance, colour, language

NAMES = sorted({name or ending for ending, name in LEXERS.items()})
# Each class of token with the token of its colour, as components.css says; the rest has the ink of the page.
COLOURS = {"k": "link", "s": "fast", "n": "review", "c": "ink-2", "f": "ink", "": "ink"}
FOES = ("\\", "/*", "$ ", ' "', "'", "`", "(", "{", "a" * 40 + "!", "<", "<!--", "#{", "$(", "r#", '"""', "0" * 30)


def text_of(found: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(text for _, text in line) for line in found]


@pytest.mark.parametrize("name", NAMES)
def test_no_lexer_loses_a_character_of_a_hostile_text(name: str) -> None:
    lines = [text[:LINE].replace("\n", " ") for text in TEXTS.values()]
    assert text_of(colour(name, lines, Allowance(seconds=60))) == lines
    for line in lines:
        assert text_of(colour(name, [line], Allowance(seconds=60))) == [line]


@given(
    some.lists(some.text(some.characters(exclude_characters="\n", codec="utf-8")), max_size=5), some.sampled_from(NAMES)
)
def test_any_lines_stay_what_they_are_and_carry_known_classes(lines: list[str], name: str) -> None:
    found = colour(name, lines, Allowance(seconds=60))
    assert text_of(found) == lines
    assert {kind for line in found for kind, _ in line} <= set(COLOURS)


@pytest.mark.parametrize("name", NAMES)
def test_the_work_of_a_lexer_grows_with_the_text_or_ends_at_its_time(name: str, count: Count) -> None:
    for foe in FOES[: count(4, len(FOES))]:

        def piece(size: int, foe: str = foe) -> list[str]:
            return [(foe * LINE)[:LINE]] * (size // (LINE + 1))

        in_linear_time(lambda lines: colour(name, lines, Allowance()), piece, PIECE, seconds=1.0)


def test_what_is_too_long_stays_plain() -> None:
    for lines in (["x = 1" + "1" * LINE], ["x = 1" + " " * BLANK]):
        assert colour("python", lines, Allowance()) == [[("", line)] for line in lines]
    assert colour(None, ["x = 1"], Allowance()) == [[("", "x = 1")]]


def test_a_long_hunk_is_read_in_pieces_and_keeps_every_line() -> None:
    lines = [f"value_{number} = {number}  # why" for number in range(1_000)]
    found = colour("python", lines, Allowance(seconds=60))
    assert text_of(found) == lines
    assert all(line[-1] == ("c", "# why") for line in found)


def test_an_allowance_is_used_up_by_characters_and_by_time() -> None:
    allowance = Allowance(characters=20)
    assert colour("python", ["if x:", "    y()"], allowance)[0][0] == ("k", "if")
    assert colour("python", ["if x:", "    y()"], allowance)[0] == [("", "if x:")]
    seconds = counter()
    late = Allowance(seconds=3, clock=lambda: float(next(seconds)))
    assert colour("python", ["if x: pass"] * 100, late)[0] == [("", "if x: pass")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.py", "python"),
        ("Dockerfile", "docker"),
        ("x/Makefile", "make"),
        ("x.go", "go"),
        ("README", None),
        ("py", "python"),
        ("x.unknown", None),
        ("", None),
    ],
)
def test_a_language_is_told_by_the_name_of_the_file(path: str, name: str | None) -> None:
    assert language(path) == name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_can_be_read_on_every_line(theme: int) -> None:
    css = (PROJECT / "static/css/components.css").read_text()
    for name, ink in COLOURS.items():
        assert not name or ink == "ink" or f".{name} {{ color: var(--{ink});" in css
        for paper in ("surface", "fast-soft", "flag-soft"):
            assert contrast(token(ink, theme), token(paper, theme)) >= 4.5, (name, paper)
