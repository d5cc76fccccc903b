"""Nobody opens a lane by what they move alone: own records, whatever they say, leave P(clean) where it was."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from scoring.gate.decide import decide_change
from scoring.types import Circumstances, Content, Evidence, Lane, Signing
from tests.attacks.played import Played, later, now
from tests.conftest import count
from tests.ingest.stream.frames import PULL, STATUS
from tests.pipeline import OPEN_LANE, Later, Result, opened
from tests.scoring.gate.test_conditions import arounds
from tests.scoring.gate.test_gate import OPEN, contents, estimate, evidences
from trustsite.world import World
from trustsite.world.cast import PROJECTS
from trustsite.world.network import iso

TIDEPOOL = PROJECTS[1].name
KEY = "sh.tangled.publicKey"
LANES = list(Lane)  # the best is last


def settled_pulls(result: Result, did: str) -> list[str]:
    sql = "select pull_uri from labels join contributors on contributor_id = author_id where did = ? order by pull_uri"
    return [row["pull_uri"] for row in result.rows(sql, [did])]


@pytest.mark.parametrize("words", [("closed",), ("closed", "open"), ("open", "merged")])
def test_what_authors_say_of_their_own_settled_work_changes_no_score(
    full: Played, after: Result, words: tuple[str, ...]
) -> None:
    people = [full.world.cast[name] for name in ("ruben", "emil", "sami", "switcher")]
    before = {did: (after.score(did).verdict, settled_pulls(after, did)) for did in people}
    frames = later(after)
    for did, (_, uris) in before.items():
        assert uris
        for word in words:
            for number, uri in enumerate(uris):
                frames.status(did, uri, word, f"own{word}{number}")
    after.feed(frames)
    for did, (verdict, uris) in before.items():
        found = after.score(did).verdict
        assert (found.estimate, found.lane, found.reasons) == (verdict.estimate, verdict.lane, verdict.reasons)
        assert settled_pulls(after, did) == uris


@pytest.mark.parametrize("then", ["deleted", "written again", "pointed elsewhere"])
def test_taking_settled_work_back_changes_no_score(full: Played, after: Result, then: str) -> None:
    people = [full.world.cast[name] for name in ("ruben", "sami")]
    before, frames = {did: after.score(did).verdict for did in people}, later(after)
    for did in people:
        for uri in settled_pulls(after, did):
            rkey = uri.rsplit("/", 1)[-1]
            if then != "pointed elsewhere":
                frames.delete(did, PULL, rkey)
            if then != "deleted":
                elsewhere = full.world.watched[TIDEPOOL] if then == "written again" else f"did:plc:{'z' * 24}"
                frames.pull(did, rkey, "update", target=elsewhere)
    after.feed(frames)
    for did, verdict in before.items():
        assert after.score(did).verdict.estimate == verdict.estimate
        assert after.score(did).verdict.lane is verdict.lane


NAMES = ("ruben", "sami", "goran", "alba", "mallory", "switcher", "noor")
ACTIONS = draw.lists(
    draw.tuples(
        draw.sampled_from(["vouch", "denounce", "pull", "status", "delete", "star", "profile", "repository", "key"]),
        draw.integers(0, 40),
        draw.sampled_from(["open", "closed", "merged"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=count(3, 100))
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
    assert moved.structural_trust <= before.structural_trust + 1e-4
    if not any(kind == "denounce" for kind, _, _ in actions):  # of one's own voucher it costs oneself
        assert moved.structural_trust == pytest.approx(before.structural_trust, abs=1e-4)


def act(frames: Later, did: str, actions: list[Any], people: list[str], settled: list[str], world: World) -> None:
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
        elif kind == "key":
            key = {
                "name": word,
                "key": f"ssh-ed25519 {'AAAA' * (choice + 1)} {word}",
                "createdAt": iso(frames.first_us),
            }
            frames.commit(did, KEY, f"key{choice}", key)
        elif kind in ("star", "profile"):
            collection = STATUS.replace("repo.pull.status", "feed.star" if kind == "star" else "actor.profile")
            frames.commit(
                did, collection, "self" if kind == "profile" else str(number), {"subject": people[choice % len(people)]}
            )


SIGNINGS = draw.builds(
    Signing,
    draw.sampled_from(["unsigned", "unknown_key", "unchecked"]),
    draw.integers(0, 40),
    draw.integers(0, 40),
    draw.none(),
    draw.booleans(),
) | draw.builds(Signing, draw.just("new_key"), draw.just(40), draw.just(40), draw.integers(0, 400), draw.booleans())


@settings(max_examples=count(200, 10_000), deadline=None)
@given(evidences, contents, arounds, SIGNINGS, draw.none() | draw.floats(0, 1))
def test_no_signature_habit_or_time_zone_lifts_anybody(
    evidence: Evidence, content: Content, around: Circumstances, signing: Signing, probability: float | None
) -> None:
    def lane(known: Signing | None) -> int:
        inputs = evidence, estimate(probability), content, replace(around, signing=known), OPEN
        return LANES.index(decide_change(*inputs)[0])

    assert lane(signing) <= lane(None)


OUTSIDE = ("document", "keytrace", "link", "npm", "crates.io", "pypi", "repository", "scorecard", "github")
KEYS = ("github:torvalds", "https://github.com/torvalds", "packages", "since", "downloads", "score", "x")
VALUES = ("mutual", "claimed", "did:plc:signer", "999999999", "1999-01-01T00:00:00", "10.0", "-1", "")


@pytest.mark.parametrize("part", range(count(1, 20)))
def test_whatever_a_person_proves_beyond_the_forge_moves_no_score_and_no_lane(
    base: Path, tmp_path: Path, part: int
) -> None:
    """Each of 47 people and 3 repositories gets drawn facts; in all parts that makes 10,000 of them.

    A thousand signed claims and packages are worth nothing here.
    """
    shutil.copy(base / "trust.duckdb", tmp_path / "trust.duckdb")
    with opened(tmp_path, OPEN_LANE) as result:
        subjects = "select did as subject from contributors union all select repo_key from repositories order by all"
        names = [row["subject"] for row in result.rows(subjects)]
        assert len(names) >= 50
        frames = later(result, minutes=1)
        frames.identity(names[0])
        result.feed(frames)
        before = judgements(result)
        moment = dict.fromkeys(("observed_at", "known_from"), now(result)) | {"expires_at": None}
        for turn in range(count(2, 10)):
            random = Random(f"{part} {turn}")
            rows = [row | moment for name in names for row in drawn_facts(name, random)]
            with result.store.write() as txn:
                txn.execute("delete from signals where list_contains(?, source)", [list(OUTSIDE)])
                txn.append("signals", rows)
                txn.inputs_changed()
            assert result.judge() > 0, "everybody is judged anew"
            assert judgements(result) == before


def drawn_facts(name: str, random: Random) -> list[dict[str, Any]]:
    """Up to 12 facts on one person or repository."""
    drawn = {(random.choice(OUTSIDE), random.choice(KEYS)): random.choice(VALUES) for _ in range(random.randint(0, 12))}
    return [
        {"subject": name, "source": source, "key": key, "value": value, "declared_by": name, "evidence_uri": None}
        for (source, key), value in drawn.items()
    ]


def judgements(result: Result) -> list[list[dict[str, Any]]]:
    """Everybody's chance, trust and lane, and what was decided on every open pull request."""
    columns = "repository_id, probability, low, high, structural_trust, lane, reasons"
    return [
        result.rows(f"select {key}, {columns} from {table} order by all")
        for key, table in (("contributor_id", "current_scores"), ("pull_uri", "current_decisions"))
    ]
