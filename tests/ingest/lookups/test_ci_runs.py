"""CI: what the repository's own spindle says about a pull request, and what strangers cannot make it say."""

import gzip
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import pipelines
from ingest.lookups.rounds import state_of
from tests.ingest.lookups.asked import DIFF, NOW, PACKED, REPOSITORY, World, cid_of, did, log_record
from tests.ingest.peer import Peer, Start, response

SPINDLE, URI = "spindle.example.test", "at://a/1"
COMMIT, OTHER = "c" * 40, "d" * 40
MAIL = f"From {COMMIT} Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n{DIFF}-- \n2.43.0\n"
RUNS = "select commit_id, state from ci_runs"


def pipeline(*statuses: str, pull: str | None = URI, commit: str = COMMIT, **fields: Any) -> dict[str, Any]:
    trigger = {"$type": "sh.tangled.ci.trigger#pullRequest", "sourceSha": commit, "targetBranch": "main"}
    workflows = [{"id": f"{place}.yml", "name": f"{place}.yml", "status": each} for place, each in enumerate(statuses)]
    told = {"id": "3mr7m2f6ger23", "repo": REPOSITORY, "commit": commit, "createdAt": f"{NOW.isoformat()}Z"}
    return told | {"trigger": trigger | ({"pull": pull} if pull else {}), "workflows": workflows} | fields


@pytest.fixture
def asked(world: World) -> list[Mapping[str, str]]:
    """A pull request with a mail for a patch, in a repository with a spindle; what the spindle is asked."""
    packed = gzip.compress(MAIL.encode())
    world.blobs[cid_of(packed)] = packed
    world.offer(URI, 1, cid_of(packed))
    world.change("update repositories set spindle = ?", SPINDLE)
    world.change("insert into pull_rounds values (?, 0, ?, null, null, ?, true)", URI, f"blob:{cid_of(packed)}", NOW)
    world.identities()
    world.patches()
    world.peer.requests.clear()
    return []


def spindle_says(world: World, asked: list[Mapping[str, str]], *told: dict[str, Any]) -> None:
    world.methods["queryPipelines"] = lambda query: asked.append(query) or {"total": len(told), "pipelines": list(told)}


def test_trap_5_ci_is_asked_of_the_spindle_since_the_stream_never_tells(
    world: World, asked: list[Mapping[str, str]]
) -> None:
    spindle_says(world, asked, pipeline("success", "success"))
    assert world.runs() == 1
    assert asked == [{"repo": REPOSITORY, "commits": COMMIT, "kinds": "pull_request", "limit": "50"}]
    assert world.peer.requests[-1].headers["host"] == SPINDLE
    assert world.rows(RUNS) == [(COMMIT, "passed")]
    assert world.runs() == 0


def test_trap_6_a_change_that_nobody_let_run_has_never_run_and_has_not_failed(
    world: World, asked: list[Mapping[str, str]]
) -> None:
    spindle_says(world, asked)
    world.runs()
    assert world.rows(RUNS) == [(COMMIT, "never_ran")]
    world.now += timedelta(minutes=1)
    spindle_says(world, asked, pipeline("failed", "success"))
    assert world.runs() == 1
    assert world.rows(RUNS) == [(COMMIT, "failed")]


def test_a_bare_patch_has_no_commit_that_could_run_so_nobody_is_asked(world: World, asked: list[object]) -> None:
    world.offer(URI, 1, cid_of(PACKED))
    world.patches()
    world.peer.requests.clear()
    assert world.runs() == 1
    assert world.rows(RUNS) == [("", "never_ran")]
    assert world.peer.requests == []


def test_a_change_that_was_opened_again_after_its_text_was_dropped_stops_no_other_look_up(
    world: World, asked: list[Mapping[str, str]]
) -> None:
    world.offer("at://a/2", 1, cid_of(PACKED))
    world.patches()
    world.change("update patches set sha256 = null where pull_uri = ?", URI)
    spindle_says(world, asked)
    assert world.runs() == 1
    assert world.rows("select pull_uri from ci_runs") == [("at://a/2",)]


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        (["success"], "passed"),
        (["success", "cancelled"], "passed"),
        (["success", "timeout"], "failed"),
        (["failed", "running"], "failed"),
        (["success", "pending"], "running"),
        (["success", "no such status"], "running"),
        (["cancelled"], "never_ran"),
        ([], "never_ran"),
    ],
)
def test_one_failure_fails_and_a_cancelled_workflow_says_nothing(statuses: list[str], state: str) -> None:
    assert state_of([("w", status) for status in statuses]) == state


def test_a_spindle_that_cannot_be_asked_leaves_ci_unknown(world: World, asked: list[object]) -> None:
    world.faults[SPINDLE] = 500
    assert world.runs() == 1
    assert world.rows(RUNS) == []
    assert world.outcome("ci")[0] == "failed"


def test_a_run_under_way_is_asked_for_again_later_each_time_and_a_finished_one_daily(
    world: World, asked: list[Mapping[str, str]]
) -> None:
    spindle_says(world, asked, pipeline("running"))
    waits = []
    for _ in range(4):
        assert world.runs() == 1
        waits.append((world.outcome("ci")[2] - world.now).total_seconds() / 60)
        world.now = world.outcome("ci")[2]
    assert waits == [1, 2, 4, 8]
    assert world.rows("select observed_at from ci_runs") == [(NOW,)]
    spindle_says(world, asked, pipeline("success"))
    world.runs()
    assert world.outcome("ci")[1:3] == (0, world.now + timedelta(days=1))


def test_a_new_round_is_asked_for_anew(world: World, asked: list[Mapping[str, str]]) -> None:
    spindle_says(world, asked, pipeline("success"))
    world.runs()
    newer = gzip.compress(MAIL.replace(COMMIT, OTHER).encode())
    world.blobs[cid_of(newer)] = newer
    world.offer(URI, 1, cid_of(newer))
    world.patches()
    assert world.runs() == 1
    assert sorted(world.rows(RUNS)) == [(COMMIT, "passed"), (OTHER, "never_ran")]


ANOTHERS = [
    pipeline("success", pull="at://somebody/else"),
    pipeline("success", pull=None),
    pipeline("success", commit=OTHER),
    pipeline("success", createdAt=f"{(NOW - timedelta(days=1)).isoformat()}Z"),
    pipeline("success", createdAt=None),
    pipeline("success", trigger={"$type": "sh.tangled.ci.trigger#manual", "sha": COMMIT, "pull": URI}),
    pipeline("success", trigger={"$type": "sh.tangled.ci.trigger#push", "newSha": COMMIT, "pull": URI}),
]


@pytest.mark.parametrize("told", ANOTHERS)
def test_who_writes_anothers_commit_into_a_patch_gets_none_of_its_green(
    world: World, asked: list[Mapping[str, str]], told: dict[str, Any]
) -> None:
    spindle_says(world, asked, told)
    world.runs()
    assert world.rows(RUNS) == [(COMMIT, "never_ran")]


@pytest.mark.parametrize(("pull", "state"), [(URI, "passed"), (None, "passed"), ("at://somebody/else", "never_ran")])
def test_of_compared_commits_the_run_is_known_by_the_commit_itself(
    world: World, asked: list[Mapping[str, str]], pull: str | None, state: str
) -> None:
    world.change("update pull_requests set patch_ref = ?, record_form = 'versions'", f"compare:{OTHER}..{COMMIT}")
    spindle_says(world, asked, pipeline("success", pull=pull))
    world.runs()
    assert world.rows(RUNS) == [(COMMIT, state)]


def test_an_older_record_names_its_commit_itself(world: World, asked: list[Mapping[str, str]]) -> None:
    body = json.dumps({"patch": DIFF, "source": {"branch": "x", "sha": OTHER}})
    uri = f"at://{did('mallory')}/sh.tangled.repo.pull/3k"
    log_record(world, "3k", "cid", body)
    world.change("update pull_requests set pull_uri = ?, record_form = 'target', record_cid = 'cid'", uri)
    world.change("update patches set pull_uri = ?", uri)
    spindle_says(world, asked, pipeline("success", commit=OTHER, pull=uri))
    world.runs()
    assert world.rows(RUNS) == [(OTHER, "passed")]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1"])
def test_a_spindle_whose_name_points_to_a_private_address_is_never_asked(
    world: World, asked: list[object], address: str
) -> None:
    dialled: list[str] = []
    world.fetcher = Fetcher(resolver=lambda _: [address], route=lambda to, port: (dialled.append(to) or to, port))
    assert world.runs() == 1
    assert "not a public address" in world.outcome("ci")[3]
    assert dialled == []
    assert world.rows(RUNS) == []


def test_the_spindle_is_the_repositorys_and_without_one_nobody_is_asked(world: World, asked: list[object]) -> None:
    world.change("update repositories set spindle = null")
    assert world.runs() == 0
    world.change("update repositories set spindle = '127.0.0.1'")
    world.fetcher = Fetcher()
    assert world.runs() == 1
    assert world.outcome("ci")[3] == "the spindle has no name that may be fetched from"


def test_the_recorded_page_of_a_spindle_is_read(shared: Path) -> None:
    recorded = (shared / "examples" / "swift-tangled-fixtures" / "pipeline-page.json").read_bytes()
    with Peer(lambda _: response(recorded)) as peer:
        (found,) = pipelines(Fetcher(peer.origin), SPINDLE, REPOSITORY, COMMIT)
    assert (found.pull, found.workflows) == (
        "at://did:plc:author/sh.tangled.repo.pull/3mr7m2f6ger25",
        (("review.yml", "running"),),
    )


JSON = some.recursive(
    some.none() | some.integers() | some.text(max_size=20),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(["pipelines", "commit", "trigger", "workflows", "name", "status"]), inner)
    ),
    max_leaves=12,
)


def test_whatever_a_spindle_answers_it_is_read_or_refused(peer: Start) -> None:
    said: list[bytes] = []
    fetcher = Fetcher(peer(lambda _: response(said[-1])).origin)

    @given(JSON | some.builds(lambda value: {"pipelines": [pipeline("success") | {"workflows": value}]}, JSON))
    def ask(told: object) -> None:
        said.append(json.dumps(told).encode())
        with suppress(FetchProblem):
            found = pipelines(fetcher, SPINDLE, REPOSITORY, COMMIT)
            assert len(found) <= 50
            assert all(len(one.workflows) <= 50 for one in found)

    ask()
