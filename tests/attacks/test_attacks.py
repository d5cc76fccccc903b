"""Every attack of the simulated network, played with and without: nobody honest is moved, nobody gains."""

import pickle
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from scoring.config.policy import Parameters, Policy
from scoring.types import Lane
from tests.attacks.played import DECISIONS, SCORES, STATES, SWAPS, Play, Played, Swap, later, now, scores, without_time
from tests.conftest import PROVE
from tests.ingest.stream.frames import VOUCH
from tests.pipeline import Result, run
from trustsite.world import ATTACKS
from trustsite.world.cast import PROJECTS
from trustsite.world.network import Sheet, encode_tid, iso

PRIOR = Policy().prior
LANTERN, DRIFTWOOD = PROJECTS[0].name, PROJECTS[2].name


@pytest.mark.parametrize("attacks", [(one,) for one in sorted(ATTACKS)] if PROVE else [tuple(sorted(ATTACKS))])
def test_attacks_change_no_honest_score_lane_decision_or_label_and_take_trust_from_nobody(
    play: Play, attacks: tuple[str, ...]
) -> None:
    """All at once, each alone under PROVE=1."""
    full, peaceful = play(), play(without=attacks)
    for sql, key in ((SCORES, "repository"), (DECISIONS, "pull_uri"), (STATES, "pull_uri")):
        before, after = peaceful.facts(sql, key), full.facts(sql, key)
        assert before.keys() == after.keys()
        assert len(after) > 30
        for subject, row in after.items():
            gained = row.pop("structural_trust", 0) - before[subject].pop("structural_trust", 0)
            # The ring's entry vouches for mara: trust that the bought vouch really carried flows on to her and hers.
            assert (-1e-12 <= gained < 0.005) if "ring" in attacks else gained == 0
            assert row == before[subject]
    given_away = full.mass(full.world.honest) - peaceful.mass(full.world.honest)
    limit = Parameters().hops * Parameters().transfer * full.mass(full.dids("ring")[:1])
    assert (0 < given_away <= limit) if "ring" in attacks else given_away == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_nobodys_probability_is_higher_for_having_attacked(full: Played, attack: str) -> None:
    merged = {
        row["did"]: row["n"]
        for row in full.result.rows(
            "select did, count(*) as n from labels join contributors c on c.contributor_id = author_id where clean "
            "group by did"
        )
    }
    for did in full.dids(attack):
        for repository in (None, *full.world.watched.values()):
            found = full.result.score(did, repository).verdict.estimate
            earned = 4 if attack == "swap" else 0  # the swapper earned four merges before
            assert merged.get(did, 0) == earned
            assert found.probability is None or found.probability <= PRIOR + (0.21 if earned else 0.0)


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"swap"}))  # the swapper's trust and record are real
def test_no_attacker_reaches_a_fast_lane_that_an_operator_opened_at_60(full: Played, attack: str) -> None:
    lanes = full.result.rows(
        "select lane from current_scores join contributors using (contributor_id) where list_contains(?, did) "
        "union all select lane from current_decisions join contributors using (contributor_id) "
        "where list_contains(?, did)",
        [list(full.dids(attack))] * 2,
    )
    assert len(lanes) > 1
    assert Lane.FAST_LANE not in {row["lane"] for row in lanes}
    assert full.result.queue().counts["would_be_fast_lane"] > 5, "the lane is open, to others"


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"ring", "swap"}))
def test_who_bought_no_vouch_has_no_trust_at_all(full: Played, attack: str) -> None:
    for repository in ("", *full.world.watched.values()):
        assert full.mass(full.dids(attack), repository) == 0


def test_the_rings_trust_is_bounded_by_what_its_one_bought_vouch_passes_on(full: Played) -> None:
    parameters = Parameters()
    for repository in ("", *full.world.watched.values()):
        seller = full.mass((full.world.cast["pim"],), repository)
        bound = (parameters.hops - 1) * parameters.transfer * seller
        assert 0 < full.mass(full.dids("ring"), repository) <= bound


def test_twelve_members_hold_hardly_more_than_their_entry_alone(full: Played, after: Result) -> None:
    entry, *others = full.dids("ring")
    frames, before = later(after), full.mass((entry,))
    for line in full.world.recording.frames:
        told = msgspec.json.decode(line)
        if told["did"] in others and told["kind"] == "commit" and told["commit"]["collection"] == VOUCH:
            frames.delete(told["did"], VOUCH, told["commit"]["rkey"])
    assert len(frames) >= len(others)
    after.feed(frames)
    alone = Played(full.world, after).mass((entry,))
    assert before == pytest.approx(alone, rel=1e-5), "eleven puppets add nothing to the entry itself"
    assert alone < full.mass(full.dids("ring")) < 3 * alone


def test_merges_in_the_rings_own_repository_are_no_track_record(full: Played, after: Result) -> None:
    assert full.result.value("select count(*) from repositories where name = 'kit' and owner_id is not null") == 1
    sql = "select count(*) from labels join repositories using (repository_id) where name = 'kit'"
    assert full.result.value(sql) == 0
    # Someone whom both maintainers trust sells a vouch too: the owner of kit now has s above .5, at two hops.
    frames = later(after)
    frames.vouch(full.world.cast["mara"], full.world.cast["mallory"], createdAt=iso(frames.first_us))
    after.feed(frames)
    found = after.score(full.world.cast["mallory"])
    assert found.structural_trust > 0.5
    assert found.verdict.estimate.probability is None
    assert after.value(sql) == 0


def test_a_self_marked_merge_is_unverified_no_label_and_still_open(full: Played) -> None:
    selma = full.dids("self_marked")[0]
    shown = {row.uri: row for group in full.result.queue().groups for row in group.rows}
    assert set(full.world.pulls["self_marked"]) <= set(shown)
    for row in full.result.rows(f"{STATES} where c.did = ?", [selma]):
        assert (row["state"], row["verified"], row["clean"]) == ("open", False, None)
    for uri in full.world.pulls["self_marked"]:
        assert shown[uri].first_timer
        assert shown[uri].verdict.estimate.probability is None
    told = full.result.rows("select distinct authority from statuses where contains(status_uri, ?)", [selma])
    assert told == [{"authority": "author"}]


def test_a_stranger_who_claims_merges_and_a_repository_owns_and_moves_nothing(full: Played) -> None:
    drifter = full.dids("stranger")[0]
    told = full.result.rows("select distinct authority from statuses where contains(status_uri, ?)", [drifter])
    assert told == [{"authority": "stranger"}]
    owner = full.result.value(
        "select did from repositories join contributors on contributor_id = owner_id where repo_key = ?",
        [full.world.watched[LANTERN]],
    )
    assert owner == full.world.cast["ana"]
    seeds = full.result.rows("select distinct did from seeds join contributors using (contributor_id)")
    assert {row["did"] for row in seeds} == {full.world.cast["ana"], full.world.cast["teo"]}
    assert full.result.score(drifter).person.name != full.result.score(full.world.cast["teo"]).person.name


def test_a_denounce_by_somebody_without_trust_is_nobodys_reason(full: Played) -> None:
    denounced = full.result.rows("select distinct did from trust join contributors using (contributor_id) "
                                 "where denounced_by_seed")  # fmt: skip
    assert [row["did"] for row in denounced] == [full.world.cast["blitz"]]


def test_a_seeds_denounce_is_final_for_its_repository_and_no_other(tmp_path: Path) -> None:
    sheet, start = Sheet(3), 1_790_000_000_000_000
    for name in ("ana", "teo", "bea"):
        sheet.add_person(name, start - 10**12)
    sheet.add_repository(PROJECTS[0], start)  # teo may push to this one
    sheet.add_repository(PROJECTS[2], start + 1000)  # and not to this one
    sheet.vouch("ana", "bea", start + 10**6, "good")
    sheet.vouch("teo", "bea", start + 2 * 10**6, "no", kind="denounce")
    recording = sheet.recording()
    lantern, driftwood = (sheet.repository_dids[name] for name in (LANTERN, DRIFTWOOD))
    bea = sheet.did("bea")
    with run(recording, tmp_path, [lantern, driftwood], [sheet.did("ana")]) as result:
        here, elsewhere, site = (result.score(bea, where) for where in (lantern, driftwood, None))
        assert (here.decision, here.structural_trust) == (Lane.NEEDS_HUMAN, 0)
        assert here.verdict.reasons[0].code == "denounced_by_seed"
        assert here.explanation.startswith("Someone trusted here warns about them")
        for other in (elsewhere, site):
            assert other.decision is Lane.NORMAL_QUEUE
            assert other.structural_trust > 0.89
            assert "denounced_by_seed" not in {reason.code for reason in other.verdict.reasons}


@pytest.mark.parametrize("name", ["swapped", "round_added"])
def test_a_decision_names_the_patch_that_it_saw_and_a_swap_voids_it(base: Path, name: str) -> None:
    swap: Swap = pickle.loads((base / SWAPS).read_bytes())[name]  # noqa: S301 - the fixture wrote it
    before, between, after = swap.before, swap.between, swap.after
    assert between.record_cid != before.record_cid
    assert (between.patch_id, between.files) == (None, None), "nothing of the old patch is shown for the new one"
    assert after.patch_id not in (None, before.patch_id)
    assert after.round == (1 if name == "round_added" else 0)
    for seen in (before, after):
        assert {"record_cid": seen.record_cid, "round": seen.round, "patch_id": seen.patch_id} in swap.kept
    assert after.verdict.estimate == before.verdict.estimate, "a swap earns nothing"


def test_future_and_back_dated_records_move_nobody(full: Played, after: Result) -> None:
    before, mallory, mara = without_time(scores(after)), full.world.cast["mallory"], full.world.cast["mara"]
    victim = full.world.pulls["ring"][0]
    frames = later(after)
    for moment in ("2099-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "not a time", "9999-12-31T23:59:59Z"):
        frames.vouch(mallory, full.dids("ring")[1], "update", createdAt=moment)
        frames.vouch(mallory, full.dids("denouncer")[0], "update", kind="denounce", createdAt=moment)
    for year in (2001, 2098):
        tid = encode_tid(int((datetime(year, 1, 1) - datetime(1970, 1, 1)).total_seconds()) * 10**6)
        frames.status(mallory, victim, "merged", tid)
        frames.pull(mallory, tid, target=full.world.watched[LANTERN])
    after.feed(frames)
    moved = without_time(scores(after))
    for key, row in before.items():
        assert moved[key]["probability"] == row["probability"], key
        assert moved[key]["lane"] == row["lane"], key
        if key[0] not in (*full.dids("ring"), mara):
            assert moved[key]["structural_trust"] == pytest.approx(row["structural_trust"], rel=1e-5), key
    assert all(row["opened_at"] <= now(after) for row in after.rows("select opened_at from pull_requests"))


def test_a_vouch_dated_2099_weighs_as_one_of_today(full: Played, after: Result) -> None:
    alba, bodo, teo = (full.world.cast[name] for name in ("alba", "bodo", "teo"))
    frames = later(after)
    frames.vouch(teo, alba, createdAt="2099-01-01T00:00:00Z")
    frames.vouch(teo, bodo, createdAt=iso(frames.first_us + 10**6))
    after.feed(frames)
    assert after.score(alba).structural_trust == pytest.approx(after.score(bodo).structural_trust, rel=1e-6)
