"""Why somebody is trusted and what hangs on them, as pages and JSON are told."""

from pathlib import Path

import pytest

from scoring import read
from scoring.policy import Policy
from tests.ingest.stream import ANA, MALLORY, MARA, REPO, SEED, STRANGER
from tests.pipeline import Result, opened
from tests.scoring.small import settled, take
from tests.scoring.test_structure import world
from tests.scoring.test_structure_merges import WEAK, merged


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


def test_what_hangs_on_one_account_is_told_on_both_sides(result: Result) -> None:
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


def test_the_vouch_worth_making_is_for_whose_work_was_merged(result: Result) -> None:
    take(result, settled())
    with result.reading() as rows:
        (found,) = read.vouches_worth_making(rows, SEED, REPO, result.policy)
        assert read.vouches_worth_making(rows, MALLORY, REPO, result.policy) == ()
    assert (found.person.did, found.merges, found.before, found.opens) == (MARA, 1, 0, 0)
    assert found.after == pytest.approx(1 / 1.1)
