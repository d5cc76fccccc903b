"""Nobody opens a lane by what they move alone: own records, whatever they say, leave P(clean) where it was."""

import shutil
from base64 import b64encode
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.git.signatures import fingerprint
from scoring.gate.decide import decide_change
from scoring.thresholds import Thresholds
from scoring.types import Circumstances, Content, Evidence, Lane, Signing
from tests.attacks.played import Played, later, now
from tests.conftest import count
from tests.ingest.stream.frames import PULL, STATUS
from tests.pipeline import OPEN_LANE, UNAUDITED, Later, Result, opened
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
    """Each of 50 people and 3 repositories gets drawn facts; in all parts that makes 10,000 of them.

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


# Every round names commits, as one that is sent from a branch does: a patch carries no signature.
AS_COMMITS = ("ci_runs", "content_reviews", "diff_vectors", "patches", "pull_requests", "pull_rounds", "touched_files")
ROUNDS = """
select p.pull_uri, p.author_id, r.patch_ref, p.state = 'open' as is_open
from pull_requests p join pull_rounds r using (pull_uri) order by all
"""
# Nothing but trust, record, content and signatures keeps anything out, so that there is something to lower.
WIDE_LANE = replace(UNAUDITED, thresholds=Thresholds(t_low=0.1, t_high=0.2, conditions=("signing",)))
DRAWN = ("signals", "public_keys", "round_commits")


@pytest.mark.parametrize("part", range(count(1, 24)))
def test_any_set_of_signals_from_beyond_the_forge_leaves_every_lane_equal_or_lower(
    base: Path, tmp_path: Path, part: int
) -> None:
    """Signatures, keys and time zones of 50 people's rounds are drawn beside the facts above; 10,000 people in all.

    What is told of packages that a change adds stands in `test_packages.py`.
    """
    shutil.copy(base / "trust.duckdb", tmp_path / "trust.duckdb")
    with opened(tmp_path, WIDE_LANE) as result:
        with result.store.write() as txn:
            for table in AS_COMMITS:
                txn.execute(f"update {table} set patch_ref = replace(patch_ref, 'blob:', 'compare:')")
            txn.execute("update fetches set subject = replace(subject, ' blob:', ' compare:')")
            txn.inputs_changed()
        people = result.rows("select contributor_id, did from contributors order by 1")
        frames = later(result, minutes=1)
        frames.identity(people[0]["did"])
        result.feed(frames)
        rounds, scores_before, decisions_before = result.rows(ROUNDS), *judgements(result)
        assert sum(row["lane"] == "fast_lane" for row in decisions_before) >= 10
        lowered = 0
        for turn in range(count(2, 9)):
            draw_signals(result, people, rounds, Random(f"{part} {turn}"))
            assert result.judge() > 0, "everybody is judged anew"
            scores, decisions = judgements(result)
            assert scores == scores_before
            for before, found in zip(decisions_before, decisions, strict=True):
                assert all(found[name] == before[name] for name in before.keys() - {"lane", "reasons"})
                assert LANES.index(Lane(found["lane"])) <= LANES.index(Lane(before["lane"]))
                lowered += found["lane"] != before["lane"]
        assert lowered, "whoever usually signs and does not waits"


def draw_signals(result: Result, people: list[Any], rounds: list[Any], random: Random) -> None:
    """Put drawn signals of everybody in the place of those from before."""
    present, rows = now(result), {table: list[dict[str, Any]]() for table in DRAWN}
    own_keys, shares = dict[int, list[str]](), dict[int, float]()
    for person in people:
        number, did = person["contributor_id"], person["did"]
        moment = {"observed_at": present, "known_from": present, "expires_at": None}
        rows["signals"] += [fact | moment for fact in drawn_facts(did, random)]
        own_keys[number], shares[number] = [], random.choice([0, 0.5, 0.85, 1, 1])
        for place in range(random.randint(0, 2)):
            wire = random.randbytes(30)
            seen_at = present - timedelta(days=random.choice([0, 5, 29, 30, 400]))
            times = dict.fromkeys(("written_at", "seen_at", "changed_at"), seen_at) | {"deleted_at": None}
            key = {"uri": f"at://{did}/{KEY}/{place}", "author_id": number, "record_cid": None, "name": "k"}
            rows["public_keys"].append(key | times | {"key": f"ssh-ed25519 {b64encode(wire).decode()}"})
            own_keys[number].append(fingerprint(wire))
    outcomes = []
    for row in rounds:
        if row["is_open"]:
            outcomes.append((f"{row['pull_uri']} {row['patch_ref']}", random.choice(["found", "found", "failed", ""])))
        share, keys = shares[row["author_id"]], [*own_keys[row["author_id"]], "SHA256:strange"]
        for place in range(random.randint(0, 5)):
            signed = random.random() < (share if not row["is_open"] else random.choice([share, 0, 1]))
            names = {"pull_uri": row["pull_uri"], "patch_ref": row["patch_ref"]}
            names["commit_id"] = f"{random.getrandbits(160):040x}"
            facts = {"place": place, "signed_by": random.choice(keys) if signed else None, "declared": signed}
            rows["round_commits"].append(names | facts | {"zone_band": random.choice([None, 0, 1, 2, 3])})
    with result.store.write() as txn:
        txn.execute("delete from signals where list_contains(?, source)", [list(OUTSIDE)])
        txn.execute("delete from public_keys")
        txn.execute("delete from round_commits")
        txn.execute("delete from fetches where kind = 'signatures'")
        for table, drawn in rows.items():
            txn.append(table, drawn)
        fetch = {"kind": "signatures", "reason": None, "attempts": 0, "due_clock": None, "fetched_clock": present}
        txn.append("fetches", [fetch | {"subject": name, "outcome": outcome} for name, outcome in outcomes if outcome])
        txn.inputs_changed()


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
