"""A token for one repository reads that one: no page, no other repository's rows, no figure of the whole site."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.triage.access.test_permissions import TABLE, Asked, send
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import create_token
from triage.models import ApiToken, Maintainer, Person

pytestmark = pytest.mark.django_db
LANTERN = f"repo={quote(REPO)}"
# What a token for one repository is asked: its own, and another's or the whole site's.
OWN = {
    "GET /score/{did}": f"/score/{MARA}?{LANTERN}",
    "GET /trust/{did}": f"/trust/{MARA}?{LANTERN}",
    "GET /pull": f"/pull?uri={quote(OFFERED)}",
    "GET /queue": "/queue",
    "GET /inbox": "/inbox",
    "GET /approved.json": "/approved.json",
    "GET /lanes": "/lanes",
}
OTHERS = [
    f"/score/{MARA}",
    f"/score/{MARA}?repo={CABIN}",
    f"/score/{MARA}?repo=nobody/nothing",
    f"/score/{MARA}?repo={CABIN}&as_of=2026-01-01T00:00:00Z",
    f"/trust/{MARA}",
    f"/trust/{MARA}?repo={CABIN}",
    f"/queue?repository={CABIN}",
    "/queue?repository=nothing",
    "/leaderboard",
    "/metrics",
    "/thresholds?query=maximum",
]


@pytest.fixture(autouse=True)
def world(small: Path) -> None:
    """The small world, for readers only."""


def program(repo_key: str, person: Person | None = None) -> Client:
    """A program with a token for this repository; "" for all."""
    token = create_token("robot", ["read"], timezone.now(), person, repo_key)
    return Client(headers={"authorization": f"Bearer {token}", "accept": "application/json"})


def scores(client: Client, **fields: object) -> Any:
    return client.post("/score", {"dids": [MARA], **fields}, content_type="application/json")


def test_it_reads_its_own_repository_in_any_of_its_names() -> None:
    robot = program(REPO)
    for path in OWN.values():
        assert robot.get(path).status_code == 200, path
    assert scores(robot, repo=REPO).status_code == 200
    assert robot.get("/queue").json()["total"] == 1
    assert robot.get(f"/queue?repository={REPO}").json()["total"] == 1


@pytest.mark.parametrize("path", OTHERS)
def test_it_reads_nothing_else_and_is_told_so_in_the_same_words(path: str) -> None:
    answer = program(REPO).get(path)
    assert answer.status_code == 403
    assert answer.json()["code"] == "one_repository"
    assert "nothing" not in answer.json()["detail"], "whether there is such a repository is not told"


def test_many_scores_at_once_are_held_to_it_likewise() -> None:
    robot = program(REPO)
    for fields in ({}, {"repo": CABIN}, {"repo": "nobody/nothing"}, {"repo": ""}, {"repo": None}):
        assert scores(robot, **fields).status_code == 403, fields


def test_what_is_another_repositorys_is_unknown_to_it() -> None:
    robot = program(CABIN)
    assert robot.get("/queue").json()["pull_requests"] == []
    elsewhere = robot.get(f"/pull?uri={quote(OFFERED)}")
    made_up = robot.get("/pull?uri=at://made/up")
    assert (elsewhere.status_code, elsewhere.json()) == (404, made_up.json())


def test_of_many_at_once_and_of_the_inbox_it_is_told_its_own_part() -> None:
    asked = {"uris": [OFFERED]}
    for repo_key, known, waiting in ((REPO, OFFERED, 1), (CABIN, None, 0), ("", OFFERED, 1)):
        robot = program(repo_key)
        (found,) = robot.post("/pulls", asked, content_type="application/json").json()["found"]
        assert (found["pull_request"] or {}).get("uri") == known
        told = robot.get("/inbox").json()
        assert (sum(told["lanes"].values()), (told["oldest"] or {}).get("uri")) == (waiting, known)
        assert [one["repository"] for one in told["repositories"]] == ([repo_key] if repo_key else [CABIN, REPO])
        assert told["only"] == (repo_key or None)


def test_a_tag_of_another_token_tells_it_nothing() -> None:
    everything, cabin = program(""), program(CABIN)
    for path in (*OWN.values(), *OTHERS[:2]):
        tag = everything.get(path).get("ETag", "")
        assert everything.get(path, headers={"if-none-match": tag}).status_code == 304, path
        assert cabin.get(path, headers={"if-none-match": tag}).status_code != 304, path
        assert cabin.get(path, headers={"if-none-match": "*"}).status_code in (304, 403, 404), path


def test_it_opens_no_page() -> None:
    robot = program(REPO)
    for name, (line, answers) in TABLE.items():
        asked = Asked.of(line)
        if asked.method == "GET" and name not in OWN and answers.split()[0] in ("sign", "401"):
            assert send(robot, asked, {}).status_code in (401, 403), line


def test_it_is_told_what_a_review_needs() -> None:
    answer = program(REPO).post("/review/pr", {"diff": "x"}, content_type="application/json")
    assert answer.status_code == 401
    assert "scope review" in answer.json()["detail"]


def test_its_person_is_nobody_elsewhere() -> None:
    seed = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=seed, role="admin")
    exact = program("", seed).get(f"/pull?uri={quote(OFFERED)}").json()
    here = program(REPO, seed).get(f"/pull?uri={quote(OFFERED)}").json()
    assert here == exact
    operators = program(REPO).get(f"/trust/{MARA}?{LANTERN}").json()
    assert operators["threshold"] is None
    assert program("", seed).get("/thresholds?query=maximum").status_code == 422
    assert program(REPO, seed).get("/thresholds?query=maximum").status_code == 403


def test_where_anybody_may_read_it_reads_what_anybody_may(settings: Settings) -> None:
    settings.PUBLIC_READ = True
    assert program(REPO).get("/leaderboard").status_code == 200


def test_the_operator_makes_one_by_any_name_of_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_token", "overlay", "--repo", REPO)
    assert capsys.readouterr().out.startswith("sunstead_")
    assert ApiToken.objects.get().repo_key == REPO
    with pytest.raises(CommandError, match="No watched repository is called"):
        call_command("create_token", "overlay", "--repo", "nobody/nothing")
