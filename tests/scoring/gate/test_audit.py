"""The audit draw: the right share, the same whenever it is asked, and nothing that an author could foretell."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import AuditRules
from scoring.pipeline.decisions import AuditSampler, RoundKey, audit_odds, draw_audit
from scoring.types import Draw

KEY, OTHER = b"one key", b"another key"
RULES = AuditRules()


def judged(number: int, round: int = 0) -> RoundKey:
    return RoundKey(f"at://did:plc:someone/pull/{number}", round, f"cid {round}", f"patch {round}")


ROUNDS = [judged(number) for number in range(4_000)]


def drawn(key: bytes, odds: float) -> list[bool]:
    return [draw_audit(key, one, odds).drawn for one in ROUNDS]


@pytest.mark.parametrize("odds", [0.0, 0.05, 0.3, 1.0])
def test_the_share_that_is_drawn_is_the_odds(odds: float) -> None:
    share = sum(drawn(KEY, odds)) / len(ROUNDS)
    assert share == pytest.approx(odds, abs=4 * sqrt(odds * (1 - odds) / len(ROUNDS)) + 1e-12)


def test_without_the_key_one_draw_tells_nothing_of_another() -> None:
    """Two keys agree as often as chance does: whoever knows the addresses and one key's draws knows no other's."""
    agree = sum(one == other for one, other in zip(drawn(KEY, 0.5), drawn(OTHER, 0.5), strict=True)) / len(ROUNDS)
    assert agree == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(ROUNDS)))
    follows = sum(one == other for one, other in zip(drawn(KEY, 0.5)[1:], drawn(KEY, 0.5), strict=False)) / len(ROUNDS)
    assert follows == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(ROUNDS)))


@given(st.binary(min_size=1), st.integers(), st.floats(0, 1), st.floats(0, 1))
def test_a_draw_is_repeated_exactly_and_higher_odds_drop_nobody(key: bytes, one: int, odds: float, more: float) -> None:
    first = draw_audit(key, judged(one), odds)
    assert first == draw_audit(key, judged(one), odds)
    assert first.odds == odds
    assert draw_audit(key, judged(one), max(odds, more)).drawn >= first.drawn


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


def test_an_estimated_lane_is_audited_one_in_three_from_the_first_and_takes_nobodys_turn() -> None:
    ballot = AuditSampler(RULES, KEY, drawn_from=59, daily=1000.0)
    drawn = [ballot.draw(one, 1, estimated=True) for one in ROUNDS[1:]]
    assert [one.odds for one in drawn] == pytest.approx([1 / 3] * len(drawn))
    share = sum(one.drawn for one in drawn) / len(drawn)
    assert share == pytest.approx(1 / 3, abs=4 * sqrt(2 / 9 / len(drawn)))
    assert ballot.draw(ROUNDS[0], 1).odds == 1.0, "still the sixtieth of the others"
    assert [estimated for _, _, estimated in ballot.draws.values()] == [*[True] * len(drawn), False]


def test_each_draw_of_a_pass_counts_for_the_next() -> None:
    ballot = AuditSampler(RULES, KEY, drawn_from=58, daily=100.0)
    odds = [ballot.draw(one, 1).odds for one in ROUNDS[:4]]
    assert odds == [1.0, 1.0, 0.05, 0.05]
    assert list(ballot.draws) == ROUNDS[:4]


def test_an_author_who_saw_that_a_round_was_not_drawn_knows_nothing_of_the_next() -> None:
    passed = [one for one in ROUNDS if not draw_audit(KEY, one, 0.5).drawn]
    ballot = AuditSampler(AuditRules(0.5, 0.0, 0), KEY, 0, 0.0, {one.pull_uri: Draw(False, 0.5) for one in passed})
    drawn = [ballot.draw(one._replace(round=1, record_cid="cid 1", patch_id="patch 1"), 1) for one in passed]
    share = sum(one.drawn for one in drawn) / len(passed)
    assert share == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(passed)))
    assert {one.odds for one in drawn} == {0.75}


@pytest.mark.parametrize("changed", [{"round": 1}, {"record_cid": "other"}, {"patch_id": "other"}])
def test_whatever_is_judged_otherwise_is_drawn_anew(changed: dict) -> None:
    others = [draw_audit(KEY, one._replace(**changed), 0.5).drawn for one in ROUNDS]
    agree = sum(one == other for one, other in zip(drawn(KEY, 0.5), others, strict=True)) / len(ROUNDS)
    assert agree == pytest.approx(0.5, abs=4 * sqrt(0.25 / len(ROUNDS)))


def test_what_was_drawn_once_stays_drawn_and_its_odds_are_those_of_all_its_rounds() -> None:
    """Over many pull requests the share that is drawn by their second round is what each one's odds say."""
    rules = AuditRules(0.2, 0.0, 0)
    firsts = {one.pull_uri: draw_audit(KEY, one, 0.2) for one in ROUNDS}
    ballot = AuditSampler(rules, KEY, 0, 0.0, firsts)
    by_now = [ballot.draw(one._replace(round=1, record_cid="cid 1"), 1) for one in ROUNDS]
    assert all(found.drawn for one, found in zip(ROUNDS, by_now, strict=True) if firsts[one.pull_uri].drawn)
    assert by_now[0].odds == pytest.approx(0.36)
    share = sum(found.drawn for found in by_now) / len(ROUNDS)
    assert share == pytest.approx(0.36, abs=4 * sqrt(0.36 * 0.64 / len(ROUNDS)))


def test_many_rounds_of_one_pull_request_do_not_use_up_the_first_ones() -> None:
    ballot = AuditSampler(RULES, KEY, drawn_from=59, daily=100.0, earlier={ROUNDS[0].pull_uri: Draw(True, 1.0)})
    for number in range(1, 100):
        assert ballot.draw(judged(0, number), 1) == Draw(True, 1.0)
    assert ballot.draw(ROUNDS[1], 1).odds == 1.0
    assert ballot.draw(ROUNDS[2], 1).odds == 0.05


def test_without_a_key_or_with_impossible_odds_nothing_is_drawn() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        draw_audit(b"", ROUNDS[0], 0.5)
    with pytest.raises(ValueError, match="odds"):
        draw_audit(KEY, ROUNDS[0], 1.5)
    for wrong in ((1.5, 5.0, 60), (0.05, -1.0, 60), (0.05, 5.0, -1), (0.05, 5.0, 60, 0.0), (0.05, 5.0, 60, 1.1)):
        with pytest.raises(ValueError, match="AUDIT"):
            AuditRules(*wrong)
