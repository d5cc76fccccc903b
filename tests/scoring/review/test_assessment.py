"""The one shape of an assessment: its bounds, its schema, and texts made fit to be shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scoring.review.schema import Assessment, plain_text, tool_schema
from tests.scoring.review.reviewing import a_flag, an_assessment
from tests.standins.claude_rules import schema_problems


def told(**changes: object) -> str:
    whole = {"content_risk": 0.2, "flags": [a_flag()], "summary": "Fine.", "review_recommended": False}
    return json.dumps(whole | changes)


def test_an_assessment_is_read_strictly() -> None:
    assert Assessment.model_validate_json(told(), strict=True).content_risk == 0.2


@pytest.mark.parametrize(
    "changes",
    [
        {"content_risk": 1.01},
        {"content_risk": -0.01},
        {"content_risk": float("nan")},
        {"content_risk": float("inf")},
        {"content_risk": "0.2"},
        {"content_risk": True},
        {"content_risk": None},
        {"review_recommended": "false"},
        {"review_recommended": 0},
        {"summary": ""},
        {"summary": "x" * 901},
        {"flags": {}},
        {"flags": [a_flag()] * 61},
        {"flags": [a_flag(severity="none")]},
        {"flags": [a_flag(kind="praise")]},
        {"flags": [a_flag(location="")]},
        {"flags": [a_flag() | {"line": 3}]},
        {"approved": True},
    ],
)
def test_what_is_out_of_range_or_shape_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Assessment.model_validate_json(told(**changes), strict=True)


def test_the_schema_of_the_tool_has_no_keyword_that_a_strict_grammar_refuses() -> None:
    assert list(schema_problems(tool_schema())) == []
    assert list(schema_problems(Assessment.model_json_schema())) != [], "the bare one has bounds"


def test_the_schema_tells_the_bounds_in_words() -> None:
    risk = tool_schema()["properties"]["content_risk"]
    assert "maximum: 1" in risk["description"]
    assert tool_schema()["required"] == ["content_risk", "flags", "summary", "review_recommended"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://evil.example/a?b for more", "see (link to evil.example) for more"),
        ("from registry+https://github.com/rust-lang/index, which", "from (link to github.com) which"),
        ("see WWW.evil.example", "see (link to evil.example)"),
        ("see https://crates.io@evil.example:8443/crates.io", "see (link to evil.example)"),
        ("see https://evil.example?https://crates.io", "see (link removed)"),
        ("see https://www.www.evil.example or https://10.0.0.1/", "see (link removed) or (link removed)"),
        ("see https://\u0435vil.example/ or https://<b>x</b>.example", "see (link removed) or (link removed)"),
        (f"see https://{'x' * 64}.example", "see (link removed)"),
        ("at at://did:plc:x/y and javascript:alert(1)", "at (link removed) and (link removed)"),
        ("a\x00b\x1b[0m\nc\u2028d", "a b [0m c d"),
        ("pass\u200bword \u202eevil\U000e0041", "password evil"),
        ("src/a.py:12 sets metadata: none", "src/a.py:12 sets metadata: none"),
    ],
)
def test_links_and_what_cannot_be_seen_are_taken_out(text: str, shown: str) -> None:
    assert plain_text(text, 200) == shown


@given(st.text(), st.integers(1, 50))
def test_plain_text_is_short_one_line_and_stays_as_it_is(text: str, limit: int) -> None:
    shown = plain_text(text, limit)
    assert len(shown) <= limit
    assert "\n" not in shown
    assert plain_text(shown, limit) == shown


def test_assessments_are_equal_by_what_they_say() -> None:
    assert an_assessment(0.3, a_flag()) == an_assessment(0.3, a_flag())
