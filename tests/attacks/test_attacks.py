"""Every attack of the simulated network, played with and without: nobody honest is moved, nobody gains."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from scoring.policy import Policy
from scoring.trust import Parameters
from scoring.verdict import Lane
from tests.conftest import count
from tests.ingest.stream import PULL, STATUS, Frames
from tests.pipeline import OPEN_LANE, Later, Result, opened, run
from trustsite.standins.recording import Recording, make_recording
from trustsite.world import ATTACKS, World, build_world
from trustsite.world.cast import PROJECTS
from trustsite.world.encoding import encode_tid, iso
from trustsite.world.network import Sheet

PRIOR = Policy().prior
LANTERN, TIDEPOOL, DRIFTWOOD = (project.name for project in PROJECTS)
# What a person is told to be, in every repository and at the site.
SCORES = """
select c.did, coalesce(r.repo_key, '') as repository, s.probability, s.low, s.high, s.cases, s.structural_trust, s.lane,
  s.reasons, s.as_of
from current_scores s join contributors c using (contributor_id)
left join repositories r on r.repository_id = s.repository_id
"""
DECISIONS = """
select c.did, d.pull_uri, d.record_cid, d.round, d.patch_id, d.own, d.probability, d.structural_trust, d.lane, d.reasons
from current_decisions d join contributors c using (contributor_id)
"""
STATES = """
select c.did, p.pull_uri, p.state, p.state_at, p.merged_at, p.merge_verified, l.clean, l.known_from
from pull_requests p join contributors c on c.contributor_id = p.author_id left join labels l using (pull_uri)
"""
Facts = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Played:
    """A world that was played to its end, with the store that holds it."""

    world: World
    result: Result

    def facts(self, sql: str, key: str) -> Facts:
        """Rows of one of the statements above about everybody honest."""
        honest = set(self.world.honest)
        return {(row["did"], row[key]): row for row in self.result.rows(sql) if row["did"] in honest}

    def dids(self, attack: str) -> tuple[str, ...]:
        return self.world.groups[attack]

    def mass(self, dids: tuple[str, ...], repository: str = "") -> float:
        """First-passage trust of these people together, from a repository's seeds or the site's."""
        sql = """
            select coalesce(sum(first_passage), 0) from trust join contributors using (contributor_id)
            left join repositories using (repository_id)
            where coalesce(repo_key, '') = ? and list_contains(?, did)
        """
        return self.result.value(sql, [repository, list(dids)])


Play = Callable[..., Played]


@pytest.fixture(scope="module", name="play")
def play_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """`play(without=…)`: that variant of the world, judged with a fast lane from .60 on; each is played once."""
    done: dict[tuple[str, ...], Played] = {}
    with ExitStack() as stack:

        def play(*, without: tuple[str, ...] = ()) -> Played:
            if without not in done:
                world = build_world(without=without)
                folder = tmp_path_factory.mktemp("world")
                context = run(
                    world.recording, folder, world.watched.values(), [world.cast["ana"]], world.stages, OPEN_LANE
                )
                done[without] = Played(world, stack.enter_context(context))
            return done[without]

        yield play


@pytest.fixture(scope="module", name="full")
def full_fixture(play: Play) -> Played:
    """The world with all its attacks."""
    return play()


@pytest.fixture(scope="module", name="base")
def base_fixture(full: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed copy of the full world's store, to go on from."""
    folder = tmp_path_factory.mktemp("base")
    full.result.store.checkpoint()
    shutil.copy(full.result.store.path, folder / "trust.duckdb")
    return folder


@pytest.fixture(name="after")
def after_fixture(base: Path, tmp_path: Path) -> Iterator[Result]:
    """That copy, opened: what is fed to it comes after everything else."""
    shutil.copy(base / "trust.duckdb", tmp_path / "trust.duckdb")
    with opened(tmp_path, OPEN_LANE) as result:
        yield result


def now(result: Result) -> datetime:
    return result.value("select max(as_of) from current_scores")


def later(result: Result, **change: int) -> Later:
    """Frames that come a minute, or `change`, after everything else."""
    return Later(now(result) + timedelta(**change or {"minutes": 1}))


def scores(result: Result) -> Mapping[tuple[str, str], dict[str, Any]]:
    return {(row["did"], row["repository"]): row for row in result.rows(SCORES)}


def without_time(facts: Mapping[tuple[str, str], dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {key: {name: value for name, value in row.items() if name != "as_of"} for key, row in facts.items()}


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"ring"}))
def test_an_attack_changes_no_honest_score_lane_trust_decision_or_label(play: Play, attack: str) -> None:
    full, peaceful = play(), play(without=(attack,))
    for sql, key in ((SCORES, "repository"), (DECISIONS, "pull_uri"), (STATES, "pull_uri")):
        assert full.facts(sql, key) == peaceful.facts(sql, key)
        assert len(full.facts(sql, key)) > 30


def test_the_ring_changes_no_honest_score_lane_decision_or_label_and_takes_trust_from_nobody(play: Play) -> None:
    full, peaceful = play(), play(without=("ring",))
    for sql, key in ((DECISIONS, "pull_uri"), (STATES, "pull_uri"), (SCORES, "repository")):
        before, after = peaceful.facts(sql, key), full.facts(sql, key)
        assert before.keys() == after.keys()
        for subject, row in after.items():
            # Its entry vouches for mara: trust that the bought vouch really carried flows on to her and hers.
            gained = row.pop("structural_trust", 0) - before[subject].pop("structural_trust", 0)
            assert -1e-12 <= gained < 0.005
            assert row == before[subject]
    given_away = full.mass(full.world.honest) - peaceful.mass(full.world.honest)
    limit = Parameters().hops * Parameters().transfer * full.mass(full.dids("ring")[:1])
    assert 0 < given_away <= limit


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
    assert full.result.queue().counts[Lane.FAST_LANE] > 5, "the lane is open, to others"


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


def test_twelve_members_hold_hardly_more_than_their_entry_alone(full: Played, tmp_path: Path) -> None:
    entry, *others = full.dids("ring")
    small = only_without(full.world.recording, others)
    with run(small, tmp_path, full.world.watched.values(), [full.world.cast["ana"]], policy=OPEN_LANE) as result:
        alone = Played(full.world, result).mass((entry,))
    assert full.mass((entry,)) == pytest.approx(alone, rel=1e-9), "eleven puppets add nothing to the entry itself"
    assert alone < full.mass(full.dids("ring")) < 3 * alone


def only_without(recording: Recording, dids: list[str]) -> Recording:
    """The recording without any frame that names one of these people."""
    needles = [did.encode() for did in dids]
    frames = [frame for frame in recording.frames if not any(needle in frame for needle in needles)]
    return make_recording(frames, recording.blobs, recording.people, recording.repositories)


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
        assert (row["state"], row["merge_verified"], row["clean"]) == ("open", False, None)
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
        assert here.explanation.startswith("Denounced by a seed here")
        for other in (elsewhere, site):
            assert other.decision is Lane.NORMAL_QUEUE
            assert other.structural_trust > 0.9
            assert "denounced_by_seed" not in {reason.code for reason in other.verdict.reasons}


@pytest.mark.parametrize("name", ["swapped", "round_added"])
def test_a_decision_names_the_patch_that_it_saw_and_a_swap_voids_it(full: Played, tmp_path: Path, name: str) -> None:
    world, uri = full.world, full.world.pulls[name][0]
    first = world.stages[:1]
    with run(world.recording, tmp_path, world.watched.values(), [world.cast["ana"]], first, OPEN_LANE) as result:
        before = result.pull(uri)
        assert before is not None
        result.feed(world.recording.frames[first[0] :])
        between = result.pull(uri)
        assert between is not None
        assert between.record_cid != before.record_cid
        assert (between.patch_id, between.files) == (None, None), "nothing of the old patch is shown for the new one"
        result.play(())
        after = result.pull(uri)
        assert after is not None
        assert after.patch_id not in (None, before.patch_id)
        assert after.round == (1 if name == "round_added" else 0)
        kept = result.rows("select record_cid, round, patch_id from scores where pull_uri = ?", [uri])
        for seen in (before, after):
            assert {"record_cid": seen.record_cid, "round": seen.round, "patch_id": seen.patch_id} in kept
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


def settled_pulls(result: Result, did: str) -> list[str]:
    sql = "select pull_uri from labels join contributors on contributor_id = author_id where did = ? order by pull_uri"
    return [row["pull_uri"] for row in result.rows(sql, [did])]


@pytest.mark.parametrize("words", [("open",), ("closed",), ("merged",), ("closed", "open"), ("open", "merged")])
def test_what_authors_say_of_their_own_settled_work_changes_no_score(
    full: Played, after: Result, words: tuple[str, ...]
) -> None:
    for name in ("ruben", "emil", "sami", "switcher"):
        did, before, frames = full.world.cast[name], after.score(full.world.cast[name]), later(after)
        uris = settled_pulls(after, did)
        assert uris
        for word in words:
            for number, uri in enumerate(uris):
                frames.status(did, uri, word, f"own{word}{number}")
        after.feed(frames)
        found = after.score(did).verdict
        assert (found.estimate, found.lane, found.reasons) == (
            before.verdict.estimate,
            before.verdict.lane,
            before.verdict.reasons,
        )
        assert settled_pulls(after, did) == uris


@pytest.mark.parametrize("then", ["deleted", "written again", "pointed elsewhere"])
def test_taking_settled_work_back_changes_no_score(full: Played, after: Result, then: str) -> None:
    for name in ("ruben", "sami"):
        did, before, frames = full.world.cast[name], after.score(full.world.cast[name]), later(after)
        for uri in settled_pulls(after, did):
            rkey = uri.rsplit("/", 1)[-1]
            if then != "pointed elsewhere":
                frames.delete(did, PULL, rkey)
            if then != "deleted":
                elsewhere = full.world.watched[TIDEPOOL] if then == "written again" else f"did:plc:{'z' * 24}"
                frames.pull(did, rkey, "update", target=elsewhere)
        after.feed(frames)
        assert after.score(did).verdict.estimate == before.verdict.estimate
        assert after.score(did).verdict.lane is before.verdict.lane


NAMES = ("ruben", "sami", "goran", "alba", "mallory", "switcher", "noor")
ACTIONS = draw.lists(
    draw.tuples(
        draw.sampled_from(["vouch", "denounce", "pull", "status", "delete", "star", "profile", "repository"]),
        draw.integers(0, 40),
        draw.sampled_from(["open", "closed", "merged"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=count(8, 100))
@given(name=draw.sampled_from(NAMES), actions=ACTIONS, days=draw.integers(0, 3))
def test_whatever_a_person_does_alone_leaves_their_probability_and_lane(
    full: Played, base: Path, tmp_path_factory: pytest.TempPathFactory, name: str, actions: list[Any], days: int
) -> None:
    folder = tmp_path_factory.mktemp("alone")
    shutil.copy(base / "trust.duckdb", folder / "trust.duckdb")
    did = full.world.cast[name]
    with opened(folder, OPEN_LANE) as result:
        # Time alone settles merges that wait: the comparison is with a world in which only time went by.
        start = later(result, days=days, minutes=1)
        quiet = Later(now(result) + timedelta(days=days, minutes=5))
        start.identity(full.world.cast["ana"])
        result.feed(start)
        before, frames = result.score(did), later(result)
        act(frames, did, actions, list(full.world.cast.values()), settled_pulls(result, did), full.world)
        result.feed(frames)
        quiet.identity(full.world.cast["ana"])
        result.feed(quiet)
        moved = result.score(did)
    shutil.rmtree(folder)
    one, other = before.verdict.estimate.probability, moved.verdict.estimate.probability
    assert (one is None) == (other is None)
    assert abs((one or 0) - (other or 0)) <= 0.02
    assert moved.verdict.lane is before.verdict.lane
    assert moved.structural_trust == pytest.approx(before.structural_trust, abs=1e-4)


def act(frames: Frames, did: str, actions: list[Any], people: list[str], settled: list[str], world: World) -> None:
    """What somebody may write on their own server, one record for each action."""
    repositories = list(world.watched.values())
    for number, (kind, choice, word) in enumerate(actions):
        if kind in ("vouch", "denounce"):
            subject = people[choice % len(people)]
            frames.vouch(did, subject, "update", kind=kind, createdAt=iso(frames.first_us + number * 10**6))
        elif kind == "pull":
            frames.pull(did, f"3own{number:09d}", target=repositories[choice % len(repositories)])
        elif kind == "status":
            uris = [*settled, f"at://{did}/{PULL}/3own{choice % 25:09d}"]
            frames.status(did, uris[choice % len(uris)], word, f"said{number}")
        elif kind == "delete" and settled:
            frames.delete(did, PULL, settled[choice % len(settled)].rsplit("/", 1)[-1])
        elif kind == "repository":
            frames.repository(did, f"own{number}", repoDid=repositories[choice % len(repositories)])
        elif kind in ("star", "profile"):
            collection = STATUS.replace("repo.pull.status", "feed.star" if kind == "star" else "actor.profile")
            frames.commit(
                did, collection, "self" if kind == "profile" else str(number), {"subject": people[choice % len(people)]}
            )
