"""Evidence on vouches: what is verified raises a vouch, and whatever else somebody names changes nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Policy
from scoring.queries import read
from scoring.trust.first_passage import evidence_weights
from tests.ingest.stream.frames import (
    ANA,
    MALLORY,
    MARA,
    PULL,
    REPO,
    SEED,
    STATUS,
    STRANGER,
    VOUCH,
    Frames,
    at,
    pull_uri,
)
from tests.pipeline import Result, opened
from tests.scoring.small import again, feed, take
from tests.scoring.trust.test_structure import row
from triage.presenters.text import vouching_words

WEIGHED = Policy(vouch_weight=0.5, evidence_weight=0.25)
BASE, ONE, FULL = 0.05, 0.075, 0.1  # F behind a seed: c times the weight
HOME = "did:plc:" + "h" * 24


@pytest.fixture(name="result")
def result_fixture(tmp_path: Path) -> object:
    """An empty store, judged with evidence that counts."""
    with opened(tmp_path, WEIGHED) as result:
        yield result


def offered(author: str, *keys: str, actor: str = SEED, word: str = "merged", target: str = REPO) -> Frames:
    """Seed's repository, stranger's own one, and pull requests of somebody's with somebody's word on each."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(STRANGER, "home", repoDid=HOME)
    for key in keys:
        frames.pull(author, key, target=target)
        frames.status(actor, pull_uri(author, key), word, rkey=f"word-{key}")
    return frames


def uris(author: str, *keys: str) -> list[str]:
    return [pull_uri(author, key) for key in keys]


def mass(result: Result, frames: Frames, evidences: list[str], **vouch: str) -> float:
    """F of mara once seed vouches for her and names this."""
    frames.vouch(SEED, MARA, evidences=evidences, **vouch)
    take(result, frames)
    return row(result, MARA)["first_passage"]


@pytest.mark.parametrize(("keys", "expected"), [((), BASE), (("a",), ONE), (("a", "b"), FULL), (("a", "b", "c"), FULL)])
def test_each_merged_pull_request_raises_a_vouch_and_all_of_them_to_a_full_one(
    result: Result, keys: tuple[str, ...], expected: float
) -> None:
    found = mass(result, offered(MARA, "a", "b", "c"), uris(MARA, *keys))
    assert found == pytest.approx(expected)


FOREIGN: dict[str, tuple[Callable[[], Frames], list[str]]] = {
    "somebody else's": (lambda: offered(ANA, "a"), uris(ANA, "a")),
    "merged by its author alone": (lambda: offered(MARA, "a", actor=MARA), uris(MARA, "a")),
    "merged by a stranger": (lambda: offered(MARA, "a", actor=MALLORY), uris(MARA, "a")),
    "closed": (lambda: offered(MARA, "a", word="closed"), uris(MARA, "a")),
    "still open": (lambda: offered(MARA, "a", word="open"), uris(MARA, "a")),
    "merged in a repository that nobody watches": (
        lambda: offered(MARA, "a", actor=STRANGER, target=HOME),
        uris(MARA, "a"),
    ),
    "never seen": (lambda: offered(MARA, "a"), uris(MARA, "z")),
    "no pull request": (lambda: offered(MARA, "a"), [f"at://{SEED}/{STATUS}/word-a", f"at://{SEED}/{VOUCH}/{MARA}"]),
    "no at-uri": (lambda: offered(MARA, "a"), ["https://tangled.org/a", "'; drop table vouches; --", "a" * 9_000]),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_evidence_that_is_not_the_subjects_own_verified_merge_changes_nothing(result: Result, case: str) -> None:
    frames, named = FOREIGN[case]
    assert mass(result, frames(), named) == pytest.approx(BASE)


def test_one_merge_named_ten_times_is_one(result: Result) -> None:
    assert mass(result, offered(MARA, "a"), uris(MARA, *["a"] * 10)) == pytest.approx(ONE)


def test_a_denounce_weighs_no_more_for_what_it_names(result: Result) -> None:
    frames = offered(MARA, "a", "b")
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MARA, kind="denounce", evidences=uris(MARA, "a", "b"))
    with_evidence = mass(result, frames, [])
    assert row(result, MARA)["denounce_weight"] == pytest.approx(0.1 * BASE)
    assert with_evidence == pytest.approx(BASE - 0.1 * BASE)


def later(result: Result, frames: Frames, first: int) -> float:
    feed(result, frames[first:])
    again(result, at(len(frames)))
    return row(result, MARA)["first_passage"]


@pytest.mark.parametrize("how", ["opened again", "word deleted", "reverted"])
def test_a_merge_that_was_taken_back_is_evidence_no_more(result: Result, how: str) -> None:
    frames = offered(MARA, "a")
    assert mass(result, frames, uris(MARA, "a")) == pytest.approx(ONE)
    first = len(frames)
    if how == "opened again":
        frames.status(SEED, pull_uri(MARA, "a"), "open")
    elif how == "word deleted":
        frames.delete(SEED, STATUS, "word-a")
    else:
        with result.store.write() as txn:
            told = {"pull_uri": pull_uri(MARA, "a"), "kind": "reverted", "happened_at": at(first), "evidence": "c0ffee"}
            txn.append("pull_followups", [told | {"known_from": at(first), "carried_by": None}])
    assert later(result, frames, first) == pytest.approx(BASE)


def test_nothing_that_the_subject_does_with_their_own_record_takes_or_gives_evidence(result: Result) -> None:
    frames = offered(MARA, "a")
    assert mass(result, frames, uris(MARA, "a")) == pytest.approx(ONE)
    first = len(frames)
    frames.delete(MARA, PULL, "a")
    frames.status(MARA, pull_uri(MARA, "a"), "open")
    frames.pull(MARA, "b")
    frames.status(MARA, pull_uri(MARA, "b"), "merged")
    assert later(result, frames, first) == pytest.approx(ONE)


def test_a_merge_counts_from_when_it_was_seen(result: Result) -> None:
    frames = offered(MARA, "a")
    merge = len(frames) - 1
    word = frames.pop()
    frames.vouch(SEED, MARA, evidences=uris(MARA, "a"))
    frames.append(word.replace(str(1_790_000_000 + merge).encode(), str(1_790_000_000 + merge + 1).encode()))
    take(result, frames, at(merge))
    assert row(result, MARA)["first_passage"] == pytest.approx(BASE), "the vouch stands, the merge lies ahead"
    again(result, at(merge + 1))
    assert row(result, MARA)["first_passage"] == pytest.approx(ONE)


def test_whatever_evidence_somebody_names_on_own_vouches_leaves_their_own_trust(result: Result) -> None:
    frames = offered(MARA, "a", "b")
    before = mass(result, frames, uris(MARA, "a"))
    first = len(frames)
    frames.pull(MALLORY, "m")
    frames.status(SEED, pull_uri(MALLORY, "m"), "merged")
    for subject in (SEED, MALLORY, STRANGER, MARA):
        frames.vouch(MARA, subject, evidences=uris(MALLORY, "m") + uris(MARA, "a", "b"))
        frames.vouch(subject, MARA, "update", evidences=uris(MARA, "a")) if subject != SEED else None
    assert later(result, frames, first) == before


def test_with_the_policy_of_a_store_that_asks_for_none_every_vouch_is_a_full_one(tmp_path: Path) -> None:
    with opened(tmp_path, Policy(vouch_weight=1.0, evidence_weight=0.0)) as result:
        assert mass(result, offered(MARA, "a"), uris(ANA, "z")) == pytest.approx(FULL)


def test_the_explanation_counts_only_what_was_verified(result: Result) -> None:
    mass(result, offered(MARA, "a", "b"), uris(MARA, "a", "b") + uris(ANA, "z"))
    with result.reading() as rows:
        found = read.explain_trust(rows, MARA, REPO, WEIGHED)
    assert found is not None
    assert [(one.person.did, one.merges, one.evidence) for one in found.vouchers] == [(SEED, 0, 2)]
    assert vouching_words(0, 2) == "vouched, with 2 merged pull requests as evidence"
    assert vouching_words(0, 1) == "vouched, with 1 merged pull request as evidence"


@given(st.lists(st.integers(0, 10_000), min_size=1), st.floats(0.01, 1), st.floats(0, 1))
def test_a_weight_never_leaves_the_span_from_the_base_to_one(pulls: list[int], base: float, each: float) -> None:
    weights = evidence_weights(np.array(pulls), base, each)
    assert (weights >= base).all()
    assert (weights <= 1).all()
    assert (weights[np.array(pulls) == 0] == base).all()
    assert (np.diff(weights[np.argsort(pulls)]) >= 0).all()


@pytest.mark.parametrize(("base", "each"), [(0.0, 0.1), (1.1, 0.1), (0.5, -0.1), (0.5, 1.5), (float("nan"), 0.1)])
def test_weights_that_make_no_sense_are_refused(base: float, each: float) -> None:
    with pytest.raises(ValueError, match="a vouch weighs from above 0 to 1"):
        evidence_weights(np.array([1]), base, each)
