"""The cost gate, branch by branch and at its boundaries."""

from math import nan, nextafter

import pytest

from scoring.config.repository import Mode
from scoring.review.costs import Call, GateFacts, decide


def ask(
    trust: float = 0.5,
    mode: Mode = "claude",
    sensitive: bool = False,
    has_key: bool = True,
    screens: bool = False,
    spent: float = 0.0,
    budget: float = 5.0,
    repository_spent: float = 0.0,
) -> GateFacts:
    return GateFacts(mode, trust, sensitive, has_key, screens, spent, budget, repository_spent, repository_budget=2.0)


@pytest.mark.parametrize(
    ("asked", "t_low", "t_high", "decision"),
    [
        (ask(mode="off", trust=0.0, sensitive=True), 0.3, 0.9, (Call.NOBODY, "review_off")),
        (ask(mode="deterministic"), 0.3, 0.9, (Call.DETERMINISTIC, "claude_off")),
        (ask(has_key=False), 0.3, 0.9, (Call.DETERMINISTIC, "no_key")),
        (ask(0.9), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0, sensitive=True), 0.3, 0.9, (Call.CLAUDE, "trusted_but_sensitive")),
        (ask(1.0, screens=True), 0.3, 0.9, (Call.SCREEN, "trusted")),
        (ask(1.0, screens=True, spent=5.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(nextafter(0.9, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(0.3), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(nextafter(0.3, 0)), 0.3, 0.9, (Call.CLAUDE, "below_t_low")),
        (ask(0.0), 0.3, 0.9, (Call.CLAUDE, "below_t_low")),
        (ask(1.0), 0.3, None, (Call.CLAUDE, "fast_lane_shut")),
        (ask(0.0), None, None, (Call.CLAUDE, "fast_lane_shut")),
        (ask(0.0), None, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(spent=5.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
        (ask(spent=nextafter(5.0, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(budget=0.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
        (ask(repository_spent=2.0), 0.3, 0.9, (Call.MISSING, "over_repository_budget")),
        (ask(spent=5.0, repository_spent=2.0), 0.3, 0.9, (Call.MISSING, "over_repository_budget")),
        (ask(repository_spent=nextafter(2.0, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(1.0, screens=True, repository_spent=2.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0, sensitive=True, spent=9.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
    ],
)
def test_each_case_has_its_reader_and_reason(
    asked: GateFacts, t_low: float | None, t_high: float | None, decision: tuple[Call, str]
) -> None:
    assert decide(asked, t_low, t_high) == decision


@pytest.mark.parametrize("asked", [ask(nan), ask(-0.1), ask(1.1), ask(spent=nan), ask(spent=-1.0), ask(budget=nan)])
def test_what_is_no_trust_and_no_money_is_refused(asked: GateFacts) -> None:
    with pytest.raises(ValueError, match="must be"):
        decide(asked, 0.3, 0.9)
