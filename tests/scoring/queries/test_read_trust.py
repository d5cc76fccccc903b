"""Trust explained to pages and JSON: its ways, and what hangs on them."""

from pathlib import Path

import pytest

from scoring.config.policy import Policy
from scoring.queries import read
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import DAY, MERGED_AT, again, settled, take
from tests.scoring.trust.test_structure import WEAK, merged, world


def explained(result: Result, did: str, repository: str | None = REPO) -> read.TrustExplanation:
    with result.reading() as rows:
        found = read.explain_trust(rows, did, repository, result.policy)
    assert found is not None
    return found


def dids(people: tuple[read.Person, ...]) -> list[str]:
    return [person.did for person in people]


def test_two_ways_are_told_as_two_and_no_account_carries_them_alone(result: Result) -> None:
    take(result, world((SEED, ANA), (SEED, MARA), (ANA, MALLORY), (MARA, MALLORY)))
    found = explained(result, MALLORY)
    assert sorted(dids(path) for path in found.paths) == [[SEED, ANA, MALLORY], [SEED, MARA, MALLORY]]
    assert (found.dominator, found.distance) == (None, 2)
    assert [(one.person.did, one.share) for one in found.vouchers] == [(ANA, 0.5), (MARA, 0.5)]


def test_what_hangs_on_one_account_is_told_on_both_sides(tmp_path: Path) -> None:
    with opened(tmp_path, Policy(vouch_weight=1.0)) as result:
        take(result, world((SEED, ANA), (ANA, MARA), (ANA, MALLORY), (SEED, STRANGER), (STRANGER, MALLORY)))
        assert explained(result, MARA).dominator == explained(result, ANA).paths[0][-1]
        found = explained(result, ANA)
        assert dids(found.dependents) == [MARA]
        assert found.dependents_total == 1
        assert explained(result, MALLORY).dominator is None, "two ways lead to mallory"
        assert explained(result, MARA).dependents == ()


def test_the_explanation_is_of_the_trust_that_the_score_shows(result: Result) -> None:
    frames = world((SEED, ANA), (SEED, MARA), (ANA, MALLORY))
    frames.vouch(MARA, ANA, kind="denounce")
    take(result, frames)
    stored = result.score(MALLORY, REPO)
    found = explained(result, MALLORY)
    assert found.paths == (stored.path,)
    assert found.distance == stored.distance


def test_who_is_not_reached_has_an_empty_explanation_and_nobody_unknown_has_one(result: Result) -> None:
    take(result, world((SEED, ANA), (MALLORY, STRANGER)))
    found = explained(result, STRANGER, None)
    assert (found.paths, found.vouchers, found.dominator, found.distance) == ((), (), None, None)
    with result.reading() as rows:
        assert read.explain_trust(rows, "did:plc:" + "n" * 24, None, Policy()) is None
        assert read.explain_trust(rows, ANA, "did:plc:" + "n" * 24, Policy()) is None


def test_a_voucher_by_merges_is_told_with_how_many(tmp_path: Path) -> None:
    with opened(tmp_path, WEAK) as result:
        take(result, merged(3))
        assert [(one.person.did, one.merges) for one in explained(result, MARA).vouchers] == [(SEED, 3)]


def test_nobody_hidden_is_named_as_hanging_on_somebody(result: Result) -> None:
    frames = world((SEED, ANA), (ANA, MARA))
    frames.account(MARA, active=False, status="deactivated")
    take(result, frames)
    assert explained(result, ANA).dependents == ()


def worth(result: Result, did: str = SEED) -> dict[str | None, list[str]]:
    """Whom somebody is told to vouch for, by the name of the repository whose seeds look."""
    with result.reading() as rows:
        found = read.vouches_worth_making(rows, did, [REPO, "did:plc:" + "n" * 24], result.policy)
    return {group.repository: [vouch.person.did for vouch in group.vouches] for group in found}


def test_the_vouch_worth_making_is_for_whose_work_was_merged_and_stayed_clean(result: Result) -> None:
    take(result, settled())
    assert worth(result) == {}, "nothing of hers is settled: her merge is still being watched"
    again(result, MERGED_AT + 30 * DAY)
    assert worth(result) == {None: [MARA], "lantern": [MARA]}
    assert worth(result, MALLORY) == {}
    with result.reading() as rows:
        found = read.vouches_worth_making(rows, SEED, [REPO], result.policy)[1].vouches[0]
    assert (found.merges, found.clean, found.cases, found.before, found.opens) == (1, 1, 1, 0, 0)
    assert found.after == pytest.approx(1 / 1.1, abs=0.03)


def test_whoever_had_one_merged_and_thirteen_closed_is_not_proposed(result: Result) -> None:
    frames = merged(1)
    for number in range(13):
        frames.pull(MARA, f"refused{number}")
        frames.status(SEED, pull_uri(MARA, f"refused{number}"), "closed")
    take(result, frames, MERGED_AT + 30 * DAY)
    assert result.score(MARA).verdict.estimate.cases == 14
    assert worth(result) == {}


def test_whoever_has_no_path_comes_before_whoever_has_a_weak_one(result: Result) -> None:
    frames = merged(3)
    for number in range(9):
        frames.pull(ANA, f"hers{number}")
        frames.status(SEED, pull_uri(ANA, f"hers{number}"), "merged")
    for voucher, subject in ((SEED, MALLORY), (MALLORY, STRANGER), (STRANGER, ANA)):
        frames.vouch(voucher, subject)
    take(result, frames, MERGED_AT + 30 * DAY)
    assert worth(result)["lantern"] == [MARA, ANA]
