"""Figures that a stranger moves alone, such as bought downloads, leave the lane of a change equal or lower."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as draw

from scoring.gate.decide import judge_inputs
from scoring.packages.publication import Publication
from scoring.review.deterministic import review_without_model
from scoring.scanners.run import examine
from scoring.types import Content, Lane, Severity
from tests.conftest import count
from tests.scoring.diff.patched import submission
from tests.scoring.versions.cases import FAST

SENT = datetime(2026, 11, 20, 12)
# What is found without any figures, and a change that adds such a package.
ADDED = {
    "a medium finding": ("requirements.txt", "requestes2==1.0\n"),
    "a high finding": ("requirements.txt", "reqeusts==1.0\n"),
    "a low finding": ("package.json", '{"dependencies": {"winter": "1.0.0"}}\n'),
}
MOMENTS = draw.none() | (draw.sampled_from([-1, 0, 89, 90]) | draw.integers(-400, 10_000)).map(
    lambda days: SENT - timedelta(days=days)
)
DOWNLOADS = draw.none() | draw.integers(0, 10**12)
PUBLICATIONS = draw.builds(
    Publication, draw.just(SENT), MOMENTS, MOMENTS, DOWNLOADS, draw.sampled_from([7, 90]), draw.booleans()
)


@cache
def lane_of(added: str, publication: Publication) -> tuple[int, float]:
    """Place of the lane, 0 the slowest, and content risk of a trusted author's change that adds a package."""
    path, text = ADDED[added]
    sent = submission({path: ("", text)}, publications=lambda packages: [publication] * len(packages))
    assessment = review_without_model(sent.change, examine(sent).findings).assessment
    worst = assessment.flags[0].type if assessment.flags else None
    high = sum(flag.severity is Severity.HIGH for flag in assessment.flags)
    content = Content(assessment.content_risk, assessment.review_recommended, high_flags=high, worst=worst)
    return list(Lane).index(judge_inputs(replace(FAST, content=content)).lane), content.risk


@settings(max_examples=count(60, 10_000))
@given(added=draw.sampled_from(sorted(ADDED)), told=PUBLICATIONS, bought=DOWNLOADS)
def test_no_figure_of_an_added_package_gives_a_better_lane_or_a_lower_risk(
    added: str, told: Publication, bought: int | None
) -> None:
    lane, risk = lane_of(added, Publication())
    lane_told, risk_told = lane_of(added, told)
    assert lane_told <= lane
    assert risk_told >= risk
    assert lane_of(added, replace(told, downloads=bought)) == (lane_told, risk_told)


def test_a_young_look_alike_does_give_a_lower_lane() -> None:
    young = Publication(SENT, SENT - timedelta(days=3), downloads=12)
    lanes = [lane_of("a medium finding", publication)[0] for publication in (young, Publication())]
    assert lanes == [list(Lane).index(Lane.NEEDS_HUMAN), list(Lane).index(Lane.NORMAL_QUEUE)]
