"""Records that claim what is not theirs to say: no label, feature or score of anybody differs for them."""

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.played import Played, later, now
from tests.conftest import PROVE
from tests.ingest.stream.frames import PULL
from tests.pipeline import OPEN_LANE, Later, Result, opened
from tests.scoring.small import again
from trustsite.world import World
from trustsite.world.cast import PROJECTS
from trustsite.world.network import iso

LANTERN = PROJECTS[0].name
COLLABORATOR = f"{PULL.removesuffix('.pull')}.collaborator"
WINDOW = timedelta(days=15)  # a merge of now would have become a label by then
PEOPLE = "join contributors c on c.contributor_id = t.{} left join repositories r on r.repository_id = t.repository_id"
JUDGED = {
    "labels": f"select c.did, r.repo_key, t.pull_uri, clean, known_from from labels t {PEOPLE.format('author_id')}",
    "features": "select c.did, r.repo_key, t.* exclude (contributor_id, repository_id) "
    f"from features t {PEOPLE.format('contributor_id')}",
    "scores": "select c.did, r.repo_key, t.* exclude (contributor_id, repository_id) "
    f"from current_scores t {PEOPLE.format('contributor_id')}",
    "decisions": "select c.did, r.repo_key, t.pull_uri, lane, own "
    f"from current_decisions t {PEOPLE.format('contributor_id')}",
}
Judged = dict[str, list[dict[str, Any]]]
Act = Callable[[Later, Result, World], None]


def judged(result: Result, at: datetime) -> Judged:
    """Everything that is judged of everybody, at one moment; the last digits of sums depend on their order."""
    again(result, at)
    return {
        table: [
            {name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()}
            for row in result.rows(f"{sql} order by all")
        ]
        for table, sql in JUDGED.items()
    }


def open_pulls(world: World) -> list[str]:
    """Pull requests that wait for a decision, of people who attack and of people who do not."""
    return [uri for name in ("alba", "bodo", "ring", "self_marked", "stranger") for uri in world.pulls[name]]


def marks_everything_merged(name: str) -> Act:
    def act(frames: Later, result: Result, world: World) -> None:
        for number, uri in enumerate(open_pulls(world)):
            frames.status(world.cast[name], uri, "merged", f"claim{name}{number}")

    return act


def author_marks_own(frames: Later, result: Result, world: World) -> None:
    for uri in open_pulls(world):
        frames.status(uri.split("/")[2], uri, "merged", "claim" + uri[-5:])


def name_collaborator(frames: Later, result: Result, author: str, subject: str, repository: str) -> None:
    """A collaborator record on the author's own server, and the row that it leads to."""
    record = {"repo": repository, "subject": subject, "createdAt": "2024-01-01T00:00:00Z"}
    frames.commit(author, COLLABORATOR, "3kcollaborator", record)
    seen_at = now(result)
    with result.store.write() as txn:
        row: dict[str, object] = {
            "uri": f"at://{author}/{COLLABORATOR}/3kcollaborator",
            "author_id": txn.person_ids([author])[author],
        }
        row |= {"record_cid": None, "form": "collaborator", "repository": repository, "subject": subject}
        row |= dict.fromkeys(("written_at", "seen_at", "changed_at"), seen_at) | {"deleted_at": None}
        txn.upsert("collaborators", [row])


def names_a_collaborator(author: str, subject: str) -> Act:
    """Somebody names somebody in a repository of others, who then merges whatever is open there."""

    def act(frames: Later, result: Result, world: World) -> None:
        name_collaborator(frames, result, world.cast[author], world.cast[subject], world.watched[LANTERN])
        marks_everything_merged(subject)(frames, result, world)

    return act


def writes_ci_results(frames: Later, result: Result, world: World) -> None:
    did, repository = world.cast["drifter"], world.watched[LANTERN]
    for number, uri in enumerate(open_pulls(world)):
        workflow = {"id": "w", "name": "test", "status": "success"}
        trigger = {"$type": "sh.tangled.ci.trigger#pullRequest", "pull": uri, "sourceSha": "c" * 40}
        run = {"repo": repository, "commit": "c" * 40, "trigger": trigger, "workflows": [workflow], "pull": uri}
        for collection in ("sh.tangled.ci.pipeline", "sh.tangled.pipeline", "sh.tangled.pipeline.status"):
            frames.commit(
                did, collection, f"ci{number}", run | {"status": "success", "createdAt": "2026-11-01T00:00:00Z"}
            )


def gives_evidence(frames: Later, result: Result, world: World) -> None:
    """Vouches without trust that name other people's merged work, and work that nobody merged."""
    foreign = [row["pull_uri"] for row in result.rows("select pull_uri from labels where clean order by 1 limit 5")]
    for subject in ("selma", "narcis", "grudge"):
        evidences = [*foreign, *world.pulls["self_marked"], f"at://{world.cast[subject]}/{PULL}/3nothere"]
        frames.vouch(world.cast["drifter"], world.cast[subject], evidences=evidences)


def land(result: Result, uri: str, proof: str, proven: bool) -> None:
    """What the search for landed commits says of a pull request."""
    row = {"pull_uri": uri, "commit_id": "c0ffee", "branch": "main", "round": 0, "landed_at": now(result)}
    with result.store.write() as txn:
        txn.upsert("landings", [row | {"proof": proof, "proven": proven, "followed": False}])


def finds_unproven(proof: str) -> Act:
    """The author re-offers what landed long ago, or copies its Change-Id: it is on the branch and proves nothing."""

    def act(frames: Later, result: Result, world: World) -> None:
        for uri in open_pulls(world):
            land(result, uri, proof, proven=False)
        author_marks_own(frames, result, world)

    return act


CLAIMS: dict[str, Act] = {
    "a stranger who claims merges": marks_everything_merged("drifter"),
    "authors who claim merges": author_marks_own,
    "a stranger who names a collaborator": names_a_collaborator("drifter", "selma"),
    "an author who names herself a collaborator": names_a_collaborator("selma", "selma"),
    "a CI result in a record": writes_ci_results,
    "evidence that is somebody else's": gives_evidence,
    "a landed commit that is offered again": finds_unproven("patch_id"),
    "a copied Change-Id": finds_unproven("change_id"),
}


@pytest.fixture(scope="module", name="quiet")
def quiet_fixture(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[datetime, Judged]]:
    """The moment of comparison, and what is judged at it of a world in which nobody claimed anything."""
    folder = tmp_path_factory.mktemp("quiet")
    shutil.copy(base / "trust.duckdb", folder / "trust.duckdb")
    with opened(folder, OPEN_LANE) as result:
        at = now(result) + WINDOW
        yield at, judged(result, at)


# Those that speak of the same row stand in different halves.
HALVES = [sorted(CLAIMS)[::2], sorted(CLAIMS)[1::2]]


@pytest.mark.parametrize("claims", [[one] for one in sorted(CLAIMS)] if PROVE else HALVES)
def test_a_claim_changes_no_label_feature_score_or_decision(
    full: Played, after: Result, quiet: tuple[datetime, Judged], claims: list[str]
) -> None:
    """Half of them at a time, each alone under PROVE=1."""
    at, expected = quiet
    frames = later(after)
    for claim in claims:
        told = len(frames)
        CLAIMS[claim](frames, after, full.world)
        assert len(frames) > told
    after.feed(frames)
    found = judged(after, at)
    for table, rows in expected.items():
        assert len(rows) > 20
        assert found[table] == rows, table


def test_evidence_adds_nothing_to_a_vouch_that_counts(full: Played, base: Path, tmp_path: Path) -> None:
    found = []
    foreign = [
        row["pull_uri"] for row in full.result.rows("select pull_uri from labels where clean order by 1 limit 5")
    ]
    for evidences in ([], foreign):
        folder = tmp_path / f"with{len(evidences)}"
        folder.mkdir()
        shutil.copy(base / "trust.duckdb", folder / "trust.duckdb")
        with opened(folder, OPEN_LANE) as result:
            frames, at = later(result), now(result) + WINDOW
            written = iso(frames.first_us)
            frames.vouch(full.world.cast["mara"], full.world.cast["selma"], evidences=evidences, createdAt=written)
            result.feed(frames)
            found.append(judged(result, at))
            assert result.score(full.world.cast["selma"]).structural_trust > 0
    assert found[0] == found[1]


@pytest.mark.parametrize("right", ["the owner's collaborator record", "a proven landing"])
def test_the_same_from_who_may_say_so_does_count(
    full: Played, after: Result, quiet: tuple[datetime, Judged], right: str
) -> None:
    world, (at, expected) = full.world, quiet
    sql = "select pull_uri from current_decisions join repositories using (repository_id) where repo_key = ? order by 1"
    here = [row["pull_uri"] for row in after.rows(sql, [world.watched[LANTERN]])]
    mine = next(uri for uri in here if uri.split("/")[2] != world.cast["selma"] and uri in open_pulls(world))
    frames = later(after)
    if right == "a proven landing":
        land(after, mine, "patch_id", proven=True)
        frames.identity(world.cast["ana"])
    else:
        name_collaborator(frames, after, world.cast["ana"], world.cast["selma"], world.watched[LANTERN])
        frames.status(world.cast["selma"], mine, "merged", "mine")
    after.feed(frames)
    found = judged(after, at)
    assert {row["pull_uri"] for row in found["labels"]} - {row["pull_uri"] for row in expected["labels"]} == {mine}
