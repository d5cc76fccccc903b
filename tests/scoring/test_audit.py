"""The audit draw: the right share, the same whenever it is asked, and nothing that an author could foretell."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.audit import AuditRules, Ballot, audit_odds, draw_audit

KEY, OTHER = b"one key", b"another key"
RULES = AuditRules()
URIS = [f"at://did:plc:someone/pull/{number}" for number in range(4_000)]


def drawn(key: bytes, odds: float) -> list[bool]:
    return [draw_audit(key, uri, odds).drawn for uri in URIS]


@pytest.mark.parametrize("odds", [0.0, 0.05, 0.3, 1.0])
def test_the_share_that_is_drawn_is_the_odds(odds: float) -> None:
    share = sum(drawn(KEY, odds)) / len(URIS)
    assert share == pytest.approx(odds, abs=4 * sqrt(odds * (1 - odds) / len(URIS)) + 1e-12)


def test_without_the_key_one_draw_tells_nothing_of_another() -> None:
    """Two keys agree as often as chance does: whoever knows the addresses and one key's draws knows no other's."""
    agree = sum(one == other for one, other in zip(drawn(KEY, 0.5), drawn(OTHER, 0.5), strict=True)) / len(URIS)
    assert agree == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(URIS)))
    follows = sum(one == other for one, other in zip(drawn(KEY, 0.5)[1:], drawn(KEY, 0.5), strict=False)) / len(URIS)
    assert follows == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(URIS)))


@given(st.binary(min_size=1), st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_draw_is_repeated_exactly_and_higher_odds_drop_nobody(key: bytes, uri: str, odds: float, more: float) -> None:
    first = draw_audit(key, uri, odds)
    assert first == draw_audit(key, uri, odds)
    assert first.odds == odds
    assert draw_audit(key, uri, max(odds, more)).drawn >= first.drawn


@pytest.mark.parametrize(
    ("before", "daily", "odds"),
    [
        (0, 1000.0, 1.0),
        (59, 1000.0, 1.0),
        (60, 1000.0, 0.05),
        (60, 100.0, 0.05),
        (60, 99.0, 5 / 99),
        (60, 20.0, 0.25),
        (60, 5.0, 1.0),
        (60, 0.5, 1.0),
        (60, 0.0, 1.0),
    ],
)
def test_all_of_the_first_sixty_then_about_five_a_day_and_never_below_five_per_cent(
    before: int, daily: float, odds: float
) -> None:
    assert audit_odds(RULES, before, daily) == pytest.approx(odds)


@given(st.integers(0, 200), st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 50), st.integers(0, 100))
def test_the_odds_are_never_below_the_share_nor_above_one(
    before: int, daily: float, share: float, per_day: float, first: int
) -> None:
    assert share <= audit_odds(AuditRules(share, per_day, first), before, daily) <= 1.0


def test_an_operator_who_wants_no_audit_has_none() -> None:
    assert audit_odds(AuditRules(0.0, 0.0, 0), 0, 0.0) == 0.0
    assert not any(drawn(KEY, 0.0))


def test_each_draw_of_a_pass_counts_for_the_next() -> None:
    ballot = Ballot(RULES, KEY, drawn_from=58, daily=100.0)
    odds = [ballot.draw(uri, 1).odds for uri in URIS[:4]]
    assert odds == [1.0, 1.0, 0.05, 0.05]
    assert list(ballot.draws) == URIS[:4]


def test_without_a_key_or_with_impossible_odds_nothing_is_drawn() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        draw_audit(b"", URIS[0], 0.5)
    with pytest.raises(ValueError, match="odds"):
        draw_audit(KEY, URIS[0], 1.5)
    for share, per_day, first in ((1.5, 5.0, 60), (0.05, -1.0, 60), (0.05, 5.0, -1)):
        with pytest.raises(ValueError, match="AUDIT"):
            AuditRules(share, per_day, first)
