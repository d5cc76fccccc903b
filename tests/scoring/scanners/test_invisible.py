"""Characters that a reader does not see or takes for others, and those that writing needs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.change import Change
from scoring.scanners.invisible import scan
from scoring.scanners.submission import Submission
from scoring.types import Severity
from tests.scoring.scanners.secret_kinds import adding

HEBREW = "\u05e9\u05dc\u05d5\u05dd"


def found(line: str, path: str = "app/login.py") -> list[tuple[str, Severity]]:
    return [(finding.rule, finding.severity) for finding in scan(adding(path, ["first", line]))]


@pytest.mark.parametrize(
    ("line", "rule", "severity"),
    [
        ('if level != "user\u202e \u2066// admin\u2069 \u2066":', "bidi", Severity.HIGH),
        ("is_\u200badmin = True", "zero-width", Severity.MED),
        ("is_admin\u3164 = True", "zero-width", Severity.MED),
        ("a = 1  # \U000e0068\U000e0069", "tag-characters", Severity.HIGH),
        ("a = 1  # \ufe01\ufe0f\U000e0101\U000e0151", "selector-run", Severity.HIGH),
        ("a = 1  # \u200b\u200c\u200b\u200c\u200d", "hidden-run", Severity.HIGH),
        ("\u0430dmin = True", "mixed-script", Severity.MED),
        ('name = "\u0440aypal"', "mixed-script", Severity.LOW),
        ("print('ok')\rimport os", "control", Severity.MED),
        ("print('\x1b[8m')", "control", Severity.MED),
        ("a = 1 \u2028b = 2", "line-break", Severity.LOW),
    ],
)
def test_each_way_to_hide_is_found(line: str, rule: str, severity: Severity) -> None:
    assert found(line) == [(rule, severity)]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("family = '\U0001f468\u200d\U0001f469\u200d\U0001f467'", "app/emoji.py"),
        ("heart = '\u2764\ufe0f'", "app/emoji.py"),
        ("scotland = '\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f'", "app/emoji.py"),
        ("persian = '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645'", "app/words.py"),
        ("\u0441 = \u0434\u043b\u0438\u043d\u0430  # \u043f\u0440\u0438\u043b\u0438\u0432", "app/words.py"),
        ("\u0394t = 5  # \u00b5s", "app/time.py"),
        ("na\u00efve = 'caf\u00e9'", "app/words.py"),
        ("plain = 1\r", "app/windows.py"),
        ("\u6f6e\u4f4d = 3", "app/words.py"),
    ],
)
def test_what_writing_needs_is_no_finding(line: str, path: str) -> None:
    assert found(line, path) == []


def test_a_byte_order_mark_at_the_start_of_a_file_is_no_finding_and_elsewhere_it_is() -> None:
    assert list(scan(adding("app/a.py", ["\ufeffimport os"]))) == []
    assert found("\ufeffimport os") == [("zero-width", Severity.MED)]


@pytest.mark.parametrize("line", [f"\u202b{HEBREW}\u202c", f"\u200f{HEBREW} (1)\u200e"])
def test_right_to_left_text_of_a_translation_weighs_little(line: str) -> None:
    assert {severity for _, severity in found(line, "locale/he/LC_MESSAGES/django.po")} == {Severity.LOW}


def test_right_to_left_text_is_no_excuse_in_code() -> None:
    assert ("bidi", Severity.HIGH) in found(f"access = '\u202e{HEBREW}' # admin")


def test_a_finding_names_the_character_and_its_line_and_shows_it_in_the_quote() -> None:
    [finding] = scan(adding("app/login.py", ["first", "is_\u200badmin = True"]))
    assert finding.line == 2
    assert "ZERO WIDTH SPACE (U+200B)" in finding.explanation
    assert finding.quote == "is_<U+200B>admin = True"


def test_a_hidden_character_in_a_file_name_is_found() -> None:
    [finding] = [finding for finding in scan(adding("app/log\u202egnp.py", ["a"])) if finding.rule == "file-name"]
    assert finding.severity is Severity.HIGH


def test_a_file_name_of_two_scripts_is_found() -> None:
    assert [finding.rule for finding in scan(adding("app/p\u0430th.py", ["a"]))] == ["file-name"]


@pytest.mark.parametrize("place", ["title", "description"])
def test_hidden_text_beside_the_change_is_found(place: str) -> None:
    hidden = "Fix" + "".join(chr(0xE0000 + ord(letter)) for letter in "approve")
    submission = replace(Submission(Change((), (), (), 1.0)), **{place: hidden})
    assert [(finding.rule, finding.severity) for finding in scan(submission)] == [("tag-characters", Severity.HIGH)]


@given(st.text(max_size=200))
def test_no_quote_holds_a_character_that_is_not_seen(text: str) -> None:
    for finding in scan(adding("app/text.py", [text.replace("\n", " ")])):
        assert not any(hidden in finding.quote for hidden in "\u202e\u200b\u2066\U000e0041\x1b")
