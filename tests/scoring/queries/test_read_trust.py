"""Trust explained to pages and JSON: its ways, and what hangs on them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from ingest.store.snapshots import PerSnapshot, SnapshotReader, publish
from scoring.config.policy import Policy
from scoring.queries import read
from scoring.queries.people import scores, trust
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, pull_uri
from tests.pipeline import Later, Result, opened
from tests.scoring.small import DAY, MERGED_AT, again, feed, settled, take
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


def test_whoever_has_a_flagged_change_open_is_not_proposed(result: Result) -> None:
    take(result, settled())
    later = Later(MERGED_AT + 29 * DAY)
    later.pull(MARA, "next")
    feed(result, later)
    again(result, MERGED_AT + 30 * DAY)
    assert worth(result)["lantern"] == [MARA]
    with result.store.write() as txn:
        assert len(txn.rows("update current_decisions set lane = 'needs_human' returning pull_uri")) == 1
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


MAKERS = ("read_graph", "prepare_incoming")  # in the order in which they are needed


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of MAKERS in the order in which they were called; nothing is cached yet."""
    calls = list[str]()

    def counted(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            time.sleep(0.02)  # for other threads to come to the same
            return make(*arguments)

        return call

    for name in MAKERS:
        monkeypatch.setattr(trust, name, counted(name, getattr(trust, name)))
    for name, most in (("_graphs", 1), ("_incoming", 1)):
        monkeypatch.setattr(trust, name, PerSnapshot[Any](most))
    monkeypatch.setattr(trust, "_kept", type(trust._kept)())
    return calls


@pytest.fixture
def reader(result: Result) -> Iterator[SnapshotReader]:
    """Seed vouches for ana, she for mara; the stranger and mallory are reached by nobody."""
    take(result, world((SEED, ANA), (ANA, MARA), (MALLORY, STRANGER)))
    publish(result.store, result.folder / "snapshots")
    with closing(SnapshotReader(result.folder / "snapshots")) as reader:
        yield reader


def test_all_who_offered_nothing_to_a_repository_share_what_its_trust_is_made_of(
    result: Result, reader: SnapshotReader, made: list[str]
) -> None:
    people = (ANA, MARA, MALLORY)
    expected = {did: result.score(did, REPO) for did in people}
    made.clear()
    with reader.pin() as snapshot:
        assert snapshot is not None
        assert {did: read.score(snapshot, did, REPO, result.policy) for did in people} == expected
    assert made == [*MAKERS]
    assert expected[ANA].structural_trust > expected[MARA].structural_trust > 0 == expected[MALLORY].structural_trust


def test_threads_that_ask_at_once_wait_for_one_of_them(result: Result, reader: SnapshotReader, made: list[str]) -> None:
    together = Barrier(4)

    def ask(did: str) -> float:
        with reader.pin() as snapshot:
            assert snapshot is not None
            together.wait()
            found = read.score(snapshot, did, REPO, result.policy)
        assert found is not None
        return found.structural_trust

    with ThreadPoolExecutor(4) as threads:
        trusted = list(threads.map(ask, (ANA, ANA, MARA, MALLORY)))
    assert made == [*MAKERS]
    assert trusted[0] == trusted[1] > trusted[2] > trusted[3] == 0


@pytest.mark.parametrize("used", [True, False])
def test_what_every_seed_set_needs_is_prepared_for_a_new_snapshot_if_it_was_used(
    result: Result, reader: SnapshotReader, made: list[str], used: bool
) -> None:
    with reader.pin() as before:
        assert before is not None
        if used:
            read.score(before, ANA, REPO, result.policy)
    publish(result.store, result.folder / "snapshots")
    made.clear()
    with closing(SnapshotReader(result.folder / "snapshots")) as later, later.pin() as snapshot:
        assert snapshot is not None
        read.renew(snapshot, result.policy)
        assert made == ([*MAKERS] if used else [])
        found = read.score(snapshot, ANA, REPO, result.policy)
    assert made == [*MAKERS]
    assert found == result.score(ANA, REPO)


def test_a_column_of_trust_that_is_missing_is_an_error_and_no_doubt_about_somebody(result: Result) -> None:
    take(result, world((SEED, ANA), (ANA, MARA)))
    sql = "select t.* from trust t join contributors using (contributor_id) where did = ?"
    (direct,), (row,) = (result.rows(sql, [did]) for did in (ANA, MARA))
    assert [scores._seen_from_here(each)["one_account"] for each in (direct, row)] == [False, True]
    for name in scores.TRUSTED_BY_NOBODY.keys() - {"one_account"}:
        with pytest.raises(KeyError, match=name):
            scores._seen_from_here({column: value for column, value in row.items() if column != name})
