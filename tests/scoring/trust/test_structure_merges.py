"""Merges as weak vouches: whose count, what they weigh, and how they are told."""

from pathlib import Path
from typing import Any

import pytest

from scoring.config.policy import Policy
from scoring.explain.sentences import explain, sentence
from scoring.gate.decide import judge
from scoring.thresholds import Thresholds
from scoring.types import Evidence, Reason
from tests.ingest.stream.frames import MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import DAY, MERGED_AT, settled, take
from tests.scoring.trust.test_structure_denounces import row

WEAK = Policy(merge_weight=0.1, merge_cap=0.25)


def merged(times: int, author: str = MARA, actor: str = SEED) -> Frames:
    """A repository of seed's that takes so many pull requests of somebody's."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for number in range(times):
        frames.pull(author, f"offered{number}")
        frames.status(actor, pull_uri(author, f"offered{number}"), "merged")
    return frames


def trusted(result: Result, did: str) -> dict[str, Any]:
    """What the seeds of the repository trust somebody with; zeros where they have no row."""
    found = result.rows("select did from trust join contributors using (contributor_id) where repository_id > 0")
    return row(result, did) if {"did": did} in found else {"first_passage": 0.0, "distance": None}


def test_merges_are_no_vouches_unless_the_operator_wants_it(result: Result) -> None:
    take(result, merged(3))
    assert trusted(result, MARA)["distance"] is None


@pytest.mark.parametrize(("times", "weight"), [(1, 0.1), (2, 0.2), (7, 0.25)])
def test_each_merge_weighs_a_little_and_all_of_them_no_more_than_the_cap(
    tmp_path: Path, times: int, weight: float
) -> None:
    with opened(tmp_path, WEAK) as result:
        take(result, merged(times))
        assert trusted(result, MARA)["first_passage"] == pytest.approx(0.1 * weight)
        assert trusted(result, MARA)["path_merges"] == [times]
        told = "merged once by the maintainer" if times == 1 else f"merged {times} times by the maintainer"
        assert told in result.score(MARA, REPO).explanation.lower()


@pytest.mark.parametrize(("author", "actor"), [(MARA, MARA), (MARA, MALLORY)])
def test_the_word_of_the_author_or_of_a_stranger_is_no_vouch(tmp_path: Path, author: str, actor: str) -> None:
    with opened(tmp_path, WEAK) as result:
        frames = merged(2, author, actor)
        frames.vouch(SEED, MALLORY)
        take(result, frames)
        assert trusted(result, MARA)["distance"] is None


def test_merges_of_work_by_whoever_could_push_there_are_no_vouch(tmp_path: Path) -> None:
    with opened(tmp_path, WEAK) as result:
        take(result, merged(2))
        assert trusted(result, MARA)["distance"] == 1
        with result.store.write() as txn:
            txn.execute(
                "insert into push_holders select r.repository_id, c.contributor_id, 'collaborator', 'knot', null, "
                "timestamp '2000-01-01' from repositories r, contributors c where c.did = ?",
                [MARA],
            )
            txn.inputs_changed()
        result.judge()
        assert trusted(result, MARA)["distance"] is None


def test_a_merge_that_was_taken_back_or_lies_ahead_is_no_vouch(tmp_path: Path) -> None:
    with opened(tmp_path, WEAK) as result:
        frames = settled("merged")
        merge = len(frames)
        frames.status(SEED, pull_uri(MARA, "offered"), "open")
        take(result, frames[:merge], at(merge - 2))
        assert trusted(result, MARA)["distance"] is None, "not yet"
        with result.store.write() as txn:
            txn.inputs_changed()
        result.judge(at(merge - 1))
        assert trusted(result, MARA)["distance"] == 1
        take(result, frames[merge:], at(merge))
        assert trusted(result, MARA)["distance"] is None, "opened again"


@pytest.mark.parametrize(("kind", "mass"), [("vouch", 0.09), ("denounce", 0.0)])
def test_what_the_merger_says_themselves_stands_before_what_they_did(tmp_path: Path, kind: str, mass: float) -> None:
    with opened(tmp_path, WEAK) as result:
        frames = merged(5)
        frames.vouch(SEED, MARA, kind=kind)
        take(result, frames)
        assert trusted(result, MARA)["first_passage"] == pytest.approx(mass)
        assert not any(trusted(result, MARA)["path_merges"])


def test_merges_by_a_seed_make_no_repository_count(tmp_path: Path) -> None:
    """Else a patient stranger would have work merged, and then merge what they like at home as track record."""
    strong = Policy(merge_weight=1.0, merge_cap=1.0)
    with opened(tmp_path, strong) as result:
        frames = merged(3, author=MALLORY)
        home = "did:plc:" + "h" * 24
        frames.repository(MALLORY, "home", repoDid=home)
        frames.pull(MARA, "there", target=home)
        frames.status(MALLORY, pull_uri(MARA, "there"), "merged")
        take(result, frames, MERGED_AT + 30 * DAY)
        assert result.score(MALLORY).structural_trust >= 0.5
        assert result.score(MARA).verdict.estimate.cases == 0


def test_a_path_over_merges_is_told_as_one() -> None:
    known = Evidence(structural_trust=0.4, path=("seed.test", "ana.test", "mara.test"), path_merges=(4, 0))
    said = explain(judge(known, Thresholds(), 0.53, 5.0), known)
    assert "; vouched for by ana.test, merged before by the seed seed.test" in said
    params = {"seed": "seed.test", "voucher": "ana.test", "hops": 2, "merges": 7, "seed_merges": 0}
    told = sentence(Reason("trust_path", params))
    assert told == "Merged 7 times by ana.test, vouched for by the seed seed.test."
