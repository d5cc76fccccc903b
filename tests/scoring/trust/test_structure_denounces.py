"""Denounces in the store: they weigh what their authors are trusted, from when they are seen, and stand in words."""

from pathlib import Path
from typing import Any

import pytest

from scoring.config.policy import Policy
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, at
from tests.pipeline import Result, opened
from tests.scoring.small import again, take
from tests.scoring.trust.test_structure import world


def row(result: Result, did: str) -> dict[str, Any]:
    """The row of one person, from the seeds of the repository."""
    sql = "select t.* from trust t join contributors using (contributor_id) where did = ? and repository_id > 0"
    return result.rows(sql, [did])[0]


def denounced(*denouncers: str) -> Frames:
    """Seed vouches for ana and for mara; these people denounce mara."""
    frames = world((SEED, ANA), (SEED, MARA), (MARA, STRANGER))
    for did in denouncers:
        frames.vouch(did, MARA, kind="denounce")
    return frames


def test_a_denounce_by_somebody_trusted_takes_what_they_are_trusted_and_is_counted(result: Result) -> None:
    take(result, denounced(ANA))
    found = row(result, MARA)
    assert (found["denounce_weight"], found["keep"]) == (pytest.approx(0.009), pytest.approx(0.9))
    assert found["first_passage"] == pytest.approx(0.081)
    assert (found["trusted_denouncers"], found["denounced_by_seed"]) == (1, False)
    assert row(result, STRANGER)["first_passage"] == pytest.approx(0.00729), "what comes through mara falls with her"
    shown = result.score(MARA, REPO)
    assert "1 trusted person warns about them" in shown.explanation
    assert {factor.name: factor.value for factor in shown.verdict.factors}["trusted_denouncers"] == 1
    assert shown.decision == "normal_queue"


def test_a_denounce_by_somebody_without_trust_changes_no_digit_and_no_word(result: Result) -> None:
    take(result, denounced())
    before = row(result, MARA), result.score(MARA, REPO).explanation
    take(result, denounced(MALLORY))
    assert (row(result, MARA), result.score(MARA, REPO).explanation) == before


def test_two_who_denounce_are_two_and_the_seeds_word_is_final(result: Result) -> None:
    take(result, denounced(ANA, SEED))
    found = row(result, MARA)
    assert (found["structural_trust"], found["keep"], found["distance"]) == (0, 0, None)
    assert (found["trusted_denouncers"], found["denounced_by_seed"]) == (2, True)
    assert found["path"] == []
    assert row(result, ANA)["first_passage"] == pytest.approx(0.09)
    assert "2 trusted people warn about them" in result.score(MARA, REPO).explanation


def test_a_change_of_mind_counts_from_when_it_was_seen(result: Result) -> None:
    frames = denounced(ANA)
    told = len(frames)
    frames.vouch(ANA, MARA, "update")
    take(result, frames[:told], at(told))
    kept = row(result, MARA)["keep"]
    take(result, frames[told:], at(told - 1))
    assert row(result, MARA)["keep"] == kept < 1, "not before"
    again(result, at(told))
    assert row(result, MARA)["keep"] == 1
    assert row(result, MARA)["first_passage"] > 0.09


def test_the_strength_is_the_operators(tmp_path: Path) -> None:
    for strength, keep in ((0.0, 1.0), (5.0, 0.5), (50.0, 0.0)):
        with opened(tmp_path / str(strength), Policy(denounce_strength=strength)) as result:
            take(result, denounced(ANA))
            assert row(result, MARA)["keep"] == pytest.approx(keep)


def test_the_one_account_that_trust_hangs_on_is_named_and_no_seed(result: Result) -> None:
    take(result, world((SEED, ANA), (ANA, MARA), (MARA, MALLORY), (SEED, STRANGER), (STRANGER, MALLORY)))
    people = {one["did"]: one["contributor_id"] for one in result.rows("select did, contributor_id from contributors")}
    assert row(result, MARA)["dominator"] == people[ANA]
    assert row(result, ANA)["dominator"] is None
    assert row(result, MALLORY)["dominator"] is None, "two ways lead to mallory"


def test_a_pass_writes_only_the_rows_that_changed(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = world((SEED, ANA), (ANA, MARA))
    first = len(frames)
    frames.vouch(MARA, MALLORY)
    take(result, frames[:first], at(first))
    before = {tuple(one.values())[:2]: one for one in result.rows("select rowid, * from trust")}
    again(result, at(first))
    assert {tuple(one.values())[:2]: one for one in result.rows("select rowid, * from trust")} == before
    take(result, frames[first:], at(first + 1))
    after = {tuple(one.values())[:2]: one for one in result.rows("select rowid, * from trust")}
    added = [one for key, one in after.items() if key not in before]
    people = {one["contributor_id"]: one["did"] for one in result.rows("select did, contributor_id from contributors")}
    told = {(people[one["contributor_id"]], one["repository_id"] > 0) for one in added if one["distance"] == 3}
    assert told == {(MALLORY, True), (MALLORY, False)}
