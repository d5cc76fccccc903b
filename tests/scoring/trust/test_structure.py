"""Trust in the store: paths, denounces, merges that count as vouches, and both measures."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store import transaction
from scoring.config.policy import Parameters, Policy
from scoring.explain.decided import explain
from scoring.explain.sentences import sentence
from scoring.gate.decide import judge
from scoring.queries import read
from scoring.thresholds import Thresholds
from scoring.trust.denounces import judge_denounces
from scoring.trust.first_passage import eigentrust
from scoring.trust.graph import Edges
from scoring.trust.table import _cut, served_trust
from scoring.types import Evidence, Measure, Reason
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import DAY, MERGED_AT, again, feed, settled, take


def world(*vouches: tuple[str, str]) -> Frames:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for voucher, subject in vouches:
        frames.vouch(voucher, subject)
    return frames


def trust(result: Result) -> dict[str, tuple[float, int | None, list[str]]]:
    dids = {row["contributor_id"]: row["did"] for row in result.rows("select contributor_id, did from contributors")}
    rows = result.rows("from trust where repository_id = 0")
    return {
        dids[row["contributor_id"]]: (row["structural_trust"], row["distance"], [dids[one] for one in row["path"]])
        for row in rows
    }


def test_trust_names_the_path_from_the_seed(result: Result) -> None:
    take(result, world((SEED, ANA), (ANA, MARA)))
    found = trust(result)
    assert found[SEED] == (1.0, 0, [SEED])
    assert found[MARA][1:] == (2, [SEED, ANA, MARA])
    assert 0 < found[MARA][0] < found[ANA][0] < 1
    assert [person.did for person in result.score(MARA, REPO).path] == [SEED, ANA, MARA]


def test_who_is_not_reached_has_no_row(result: Result) -> None:
    take(result, world((SEED, ANA), (MALLORY, MALLORY), (MALLORY, STRANGER), (STRANGER, MALLORY)))
    assert set(trust(result)) == {SEED, ANA}
    assert result.score(MALLORY).structural_trust == 0


def test_a_vouch_that_was_taken_back_carries_nothing(result: Result) -> None:
    frames = world((SEED, ANA))
    frames.delete(SEED, "sh.tangled.graph.vouch", ANA)
    take(result, frames)
    assert set(trust(result)) == {SEED}


def test_a_seeds_denounce_takes_all_trust_and_a_denounce_of_a_seed_nothing(result: Result) -> None:
    frames = world((SEED, ANA), (ANA, MARA))
    frames.vouch(SEED, MARA, kind="denounce")
    frames.vouch(ANA, SEED, kind="denounce")
    take(result, frames)
    assert trust(result)[MARA][0] == 0
    assert trust(result)[SEED][0] == 1
    assert result.score(ANA, REPO).structural_trust > 0.89, "a denounce is not transitive"


@pytest.mark.parametrize("order", [(ANA, MARA), (MARA, ANA)])
def test_equal_paths_are_told_apart_by_did_and_not_by_arrival(result: Result, order: tuple[str, str]) -> None:
    frames = world(*((SEED, middle) for middle in order), *((middle, MALLORY) for middle in order))
    take(result, frames, now=None)
    assert trust(result)[MALLORY][2] == [SEED, ANA, MALLORY]


def test_trust_is_the_same_in_however_small_groups_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames(settled("open"))
    frames.vouch(SEED, MARA)
    later = Frames(frames)
    later.vouch(MARA, ANA)
    told = []
    for rows, folder in ((1, tmp_path / "small"), (100_000, tmp_path / "large")):
        monkeypatch.setattr(transaction, "GROUP_ROWS", rows)
        folder.mkdir()
        with opened(folder) as result:
            take(result, frames)
            take(result, later)
            told.append(result.rows("from trust order by repository_id, contributor_id"))
    assert told[0] == told[1]
    assert len({row["repository_id"] for row in told[0]}) == 2


def row(result: Result, did: str) -> dict[str, Any]:
    """The row of one person, from the seeds of the site, who are those of the repository."""
    sql = "select t.* from trust t join contributors using (contributor_id) where did = ? and repository_id = 0"
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
    frames.pull(MALLORY, "offered")
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


def test_a_repositorys_seeds_have_rows_for_those_who_offered_something_there_and_no_others(result: Result) -> None:
    frames = world((SEED, ANA), (ANA, MARA))
    frames.pull(MARA, "offered")
    take(result, frames)
    sql = "select did from trust join contributors using (contributor_id) where repository_id > 0"
    assert result.rows(sql) == [{"did": MARA}]
    assert set(trust(result)) == {SEED, ANA, MARA}
    found = result.score(ANA, REPO)
    assert (found.structural_trust, found.distance) == (trust(result)[ANA][0], 1)
    assert [person.did for person in found.path] == [SEED, ANA]


def test_a_seed_hears_warnings_of_those_whom_they_trust_also_where_nobody_offered_anything(result: Result) -> None:
    frames, other = world((MARA, STRANGER)), "did:plc:" + "o" * 24
    frames.repository(ANA, "other", repoDid=other)
    frames.vouch(STRANGER, MALLORY, kind="denounce")
    take(result, frames)
    result.watch([other], [MARA])
    result.judge(at(len(frames)))
    assert result.value("select count(*) from trust where repository_id > 0") == 0
    with result.reading() as rows:
        pages = {viewer: read.contributor(rows, MALLORY, viewer, result.policy) for viewer in (MARA, None)}
    heard = {viewer: [line.kind for line in page.vouches] for viewer, page in pages.items() if page is not None}
    assert heard == {MARA: ["denounce"], None: []}


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


BASELINE = Policy(measure="eigentrust")
NOBODY = Edges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def served(vouches: list[tuple[int, int]], seeds: list[int], size: int, policy: Policy) -> list[float]:
    voucher, subject = np.array(vouches).T
    edges, start = Edges(voucher, subject, np.ones(len(voucher))), np.array(seeds)
    found = judge_denounces(edges, NOBODY, start, size, Parameters(), 1.0)
    is_seed = found.first.distance == 0
    share = eigentrust(edges, start, size)
    return served_trust(found.passage.trust, found.keep, share, is_seed, len(seeds), policy).tolist()


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_undiluted_vouch_by_a_seed_is_worth_the_same_by_both_measures(seeds: int) -> None:
    vouches = [(seed, seeds + seed) for seed in range(seeds)]
    for policy in (Policy(), BASELINE):
        found = served(vouches, list(range(seeds)), 2 * seeds, policy)
        assert found == pytest.approx([1.0] * seeds + [1 / 1.1] * seeds, abs=1e-6)


def test_a_tenth_of_it_is_a_half() -> None:
    found = served([(0, person) for person in range(1, 11)], [0], 11, BASELINE)
    assert found[1:] == pytest.approx([0.5] * 10, abs=1e-6)


def test_the_baseline_lies_between_0_and_1_and_can_be_raised_by_ones_own_vouches() -> None:
    alone = served([(0, 1), (0, 2), (0, 3)], [0], 5, BASELINE)
    raised = served([(0, 1), (0, 2), (0, 3), (1, 4), (4, 1)], [0], 5, BASELINE)
    assert all(0 <= trust <= 1 for trust in alone + raised)
    assert raised[1] > alone[1] + 0.05, "which is why it is the baseline"
    assert served([(0, 1), (1, 4), (4, 1)], [0], 5, Policy())[1] == served([(0, 1)], [0], 5, Policy())[1]


@pytest.mark.parametrize("measure", ["first_passage", "eigentrust"])
def test_what_is_served_is_told_with_every_score(tmp_path: Path, measure: Measure) -> None:
    with opened(tmp_path, Policy(measure=measure)) as result:
        frames = world((SEED, ANA), (ANA, MARA))
        frames.vouch(SEED, MARA, kind="denounce")
        take(result, frames)
        assert result.score(ANA, REPO).trust_measure == measure
        assert 0 < trust(result)[ANA][0] < 1
        assert trust(result)[SEED][0] == 1
        assert trust(result)[MARA][0] == 0, "a seed's denounce is final by either"


@pytest.mark.parametrize("measure", ["first_passage", "eigentrust"])
def test_every_repository_tells_the_share_of_the_sites_walk_on_demand_as_in_its_rows(
    tmp_path: Path, measure: Measure
) -> None:
    chain = [SEED, ANA, MARA, *(f"did:plc:{letter * 24}" for letter in "bcde")]
    with opened(tmp_path, Policy(measure=measure)) as result:
        frames = world(*pairwise(chain))
        frames.pull(SEED, "first")
        take(result, frames)
        on_demand = {did: result.score(did, REPO) for did in chain[1:]}
        first = len(frames)
        for did in chain[1:]:
            frames.pull(did, "offered")
        feed(result, frames[first:])
        result.judge(at(len(frames)))
        for did, before in on_demand.items():
            stored = result.score(did, REPO)
            assert stored.eigentrust == before.eigentrust == result.score(did).eigentrust > 0
            assert stored.structural_trust == before.structural_trust
        served = result.score(chain[-1], REPO).structural_trust
        assert (served > 0) == (measure == "eigentrust"), "first passage ends after four hops"
        assert result.value("select count(*) from trust where repository_id > 0 and eigentrust is not null") == 0


def test_another_measure_in_the_settings_is_served_by_the_next_pass(result: Result) -> None:
    take(result, world((SEED, ANA), (SEED, MARA)))
    before = trust(result)[ANA][0]
    assert result.judge() == 0
    result.policy = BASELINE
    assert result.judge() > 0
    assert trust(result)[ANA][0] != before
    assert {row["trust_measure"] for row in result.rows("select trust_measure from current_scores")} == {"eigentrust"}
    assert result.judge() == 0


@given(st.lists(st.just(0.0) | st.floats(1e-100, 1), min_size=1), st.integers(1, 6))
def test_what_is_stored_is_cut_and_never_rounded_up(values: list[float], digits: int) -> None:
    kept = _cut(np.array(values), digits)
    assert (kept <= np.array(values) * (1 + 1e-8)).all()
    assert (kept >= np.array(values) * (1 - 10.0 ** (1 - digits) * 1.001)).all()
    assert (np.diff(kept[np.argsort(values)]) >= 0).all()


def test_a_round_number_but_for_the_order_of_a_sum_stays_it() -> None:
    found = _cut(np.array([0.01 * (1 - 1e-15), 0.1, 0.0, 0.0099996]), 4)
    assert found == pytest.approx([0.01, 0.1, 0.0, 0.009999], rel=1e-12)
