"""The one of several reviews of a change that is shown."""

from datetime import datetime

import pytest

from scoring.queries.changes import _newest

EARLY, LATE = datetime(2026, 3, 1), datetime(2026, 3, 2)


def read(summary: str, when: datetime | None, rules: str) -> dict[str, object]:
    texts = dict.fromkeys(("missing", "asked_because"), "") | {"flags": "[]", "findings": "[]", "reviewer": "somebody"}
    told = {"content_risk": 0.1, "recommended": True, "coverage": 1.0, "state": "content verdict", "dollars": 0.0}
    return {**texts, **told, "summary": summary, "reviewed_clock": when, "rules": rules}


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ([read("old", EARLY, "a"), read("new", LATE, "b")], "new"),
        ([read("new", LATE, "b"), read("old", EARLY, "a")], "new"),
        ([read("second", LATE, "b"), read("first", LATE, "a")], "first"),
        ([read("never", None, "a"), read("once", EARLY, "b")], "once"),
    ],
    ids=["newer last", "newer first", "at once", "without a time"],
)
def test_the_newest_review_is_shown_and_of_several_at_once_the_first_by_its_rules(
    found: list[dict[str, object]], shown: str
) -> None:
    chosen = _newest(found)
    assert chosen is not None
    assert chosen.summary == shown


def test_where_nobody_read_a_change_there_is_no_review() -> None:
    assert _newest([]) is None
