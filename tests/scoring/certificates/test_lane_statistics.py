"""Questions about thresholds, asked in words."""

import numpy as np
import pytest

from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.threshold_queries import Question, QuestionProblem, find_best, read_question, table_of

SCORES = np.repeat([0.9, 0.8, 0.7], 100)
BAD = np.concatenate([np.arange(100) < 2, np.arange(100) < 10, np.arange(100) < 60])
JUDGED = ScoredCases.of(SCORES, BAD, np.arange(300), np.datetime64("2025-01-01") + np.arange(300))
TABLE = table_of(JUDGED)


def ask(text: str) -> float | None:
    found = find_best(read_question(text), TABLE, 0.05)
    return found.threshold if found else None


def test_the_largest_lane_within_a_rate_is_found() -> None:
    found = find_best(read_question("maximum lane share at false-approval rate <= 0.06"), TABLE, 0.05)
    assert found is not None
    assert found.threshold == 0.8
    assert found.statistics["lane share"] == pytest.approx(2 / 3)
    assert found.statistics["false-approval rate"] == pytest.approx(0.06)
    assert found.statistics["clean share"] == pytest.approx(188 / 228)
    assert (found.statistics["pull requests"], found.statistics["authors"]) == (200, 200)


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("MAXIMUM lane share AT false-approval rate<=6%", 0.8),
        ("minimum false-approval rate at lane share >= 50 %".replace(" %", "%"), 0.8),
        ("maximum threshold at clean share >= .9", 0.7),
        ("maximum lane share at false-approval bound <= .05", None),
        ("maximum lane share at false-approval bound <= .062", 0.9),
        ("minimum threshold at authors >= 1", 0.7),
        ("maximum threshold at false-alarm rate <= 18%", 0.8),
        ("maximum caught share at flagged share <= .4", 0.8),
    ],
)
def test_any_statistic_may_be_asked_for_under_any_other(text: str, threshold: float | None) -> None:
    assert ask(text) == threshold


def test_a_question_is_read_word_for_word() -> None:
    question = read_question("maximum lane share at false-approval rate <= 5%")
    assert question == Question("maximum", "lane share", "false-approval rate", "<=", 0.05)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "maximum",
        "best lane share at false-approval rate <= 0.05",
        "maximum beauty at false-approval rate <= 0.05",
        "maximum lane share at false-approval rate = 0.05",
        "maximum lane share at at rate <= 0.05",
        "maximum lane share at false-approval rate <= nan",
        "maximum lane share at false-approval rate <= five",
        "maximum lane share at false-approval rate <= inf",
        "maximum " * 1000,
    ],
)
def test_what_is_no_question_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(QuestionProblem, match=r"\w"):
        read_question(text)


def test_without_cases_there_is_no_answer() -> None:
    assert (
        find_best(read_question("maximum lane share at threshold >= 0"), table_of(JUDGED.select(np.arange(0))), 0.05)
        is None
    )
