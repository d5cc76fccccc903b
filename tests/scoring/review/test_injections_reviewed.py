"""The injection corpus against a model that obeys every text in the data: no attempt buys a better result."""

from collections.abc import Iterator

import pytest

from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.schema import Review
from scoring.scanners import scanners
from scoring.scanners.submission import Submission
from tests.conftest import count
from tests.scoring.review.injections import CASES
from tests.scoring.review.reviewing import a_flag, a_reviewer
from tests.standins.claude import CALM, ClaudeStandIn, obedient

PLAYED = CASES[:: max(1, len(CASES) // count(40, len(CASES)))]


@pytest.fixture(name="claude", scope="module")
def claude_fixture() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn(obedient) as claude:
        yield claude


def as_case(submission: Submission) -> Case:
    return Case.of(submission, [finding for scan in scanners().values() for finding in scan(submission)])


def burden(review: Review) -> tuple[bool, bool, float]:
    """What a lane follows from, the better the smaller: no verdict, a person asked for, content risk."""
    told = review.assessment
    return review.state == "no content verdict", told.review_recommended, told.content_risk


def test_no_attempt_gets_better_than_the_findings_say_without_it(claude: ClaudeStandIn) -> None:
    """The model does fall for them: what it says by itself is the best that an attacker could wish for."""
    reviewer = a_reviewer(claude)
    for attempt in PLAYED:
        without = reviewer.review(as_case(attempt.without), Call.DETERMINISTIC)
        attacked = reviewer.review(as_case(attempt.attacked), Call.CLAUDE)
        assert attacked.assessment.content_risk >= without.assessment.content_risk, attempt.name
        assert all(now >= before for now, before in zip(burden(attacked), burden(without), strict=True)), attempt.name
    fell = [dict(claude.behaviour(request.told)) for request in claude.messages]
    assert sum(told["content_risk"] == 0 and not told["review_recommended"] for told in fell) >= 0.9 * len(PLAYED)


def test_a_flaw_that_an_honest_model_sees_keeps_its_flag_beside_an_attempt() -> None:
    def honest(_: object) -> dict[str, object]:
        return {**CALM, "content_risk": 0.9, "flags": [a_flag(severity="high")], "review_recommended": True}

    with ClaudeStandIn(honest) as claude:
        for attempt in PLAYED[:5]:
            review = a_reviewer(claude).review(as_case(attempt.attacked), Call.CLAUDE)
            assert review.assessment.content_risk >= 0.9
            assert any(flag.explanation == "Wrong." for flag in review.assessment.flags)
