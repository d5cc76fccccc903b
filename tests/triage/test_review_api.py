"""POST /review/pr: who may, what is told, and what becomes of an answer that takes longer."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from huey.api import Huey
from pytest_django import Settings

from ingest import runtime
from ingest.queue import huey
from ingest.store import Store
from scoring import review_jobs, tasks
from scoring.review_jobs import KEPT_SECONDS, new_job, reply_key
from tests.trustsite.test_review_diff import CLEAN, LEAK, TOKEN
from triage.models import Maintainer, Person
from triage.tokens import create_token
from trustsite.standins.claude import KEY, ClaudeStandIn

URL = "/review/pr"
PERSON = "did:plc:ana222222222222222222222"
pytestmark = pytest.mark.django_db


class Standing:
    """Stands where the worker's runtime does: of it a review needs the store."""

    def __init__(self, store: Store) -> None:
        self.store = store


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "trust.duckdb")
    yield store
    store.close()


@pytest.fixture(name="queue", autouse=True)
def queue_fixture(settings: Settings) -> Iterator[Huey]:
    """The real queue, empty before and after; nobody works on it unless a test does."""
    settings.REVIEW_WAIT_SECONDS = 0
    huey.flush()
    yield huey
    huey.flush()


@pytest.fixture(name="bearer")
def bearer_fixture() -> dict[str, str]:
    return {"Authorization": f"Bearer {create_token('robot', ['review'], timezone.now())}"}


def send(client: Client, headers: dict[str, str], **fields: object) -> Any:
    return client.post(URL, {"diff": LEAK, **fields}, content_type="application/json", headers=headers)


def work(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what waits in the queue, as the worker would."""
    monkeypatch.setattr(tasks, "current", lambda: Standing(store))
    while (task := huey.dequeue()) is not None:
        huey.execute(task)


def test_a_diff_is_answered_by_its_job_once_the_worker_has_read_it(
    client: Client, bearer: dict[str, str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send(client, bearer)
    assert sent.status_code == 202
    place = sent.json()["url"]
    assert client.get(place, headers=bearer).status_code == 202
    work(store, monkeypatch)
    told = client.get(place, headers=bearer)
    assert told.status_code == 200
    review = told.json()
    assert review["content_risk"] >= 0.8
    assert (review["reviewer"], review["verdict"], review["cost"]["dollars"]) == ("deterministic", "content verdict", 0)
    assert review["findings"][0]["file"] == "a.py"
    assert TOKEN[-10:] not in told.content.decode()
    assert client.get(place, headers=bearer).status_code == 200, "it can be fetched again"


def test_a_fast_answer_comes_at_once(
    client: Client, bearer: dict[str, str], store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REVIEW_WAIT_SECONDS = 30
    monkeypatch.setattr(time, "sleep", lambda seconds: work(store, monkeypatch))
    told = send(client, bearer, diff=CLEAN, title="Print two", discussion=["Fine."])
    assert told.status_code == 200
    assert told.json()["content_risk"] < 0.4


def test_claude_reads_it_where_a_key_is_set_and_what_it_cost_is_told(
    client: Client, bearer: dict[str, str], store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        place = send(client, bearer).json()["url"]
        work(store, monkeypatch)
    review = client.get(place, headers=bearer).json()
    assert review["reviewer"].startswith("claude-")
    assert review["cost"]["dollars"] > 0
    with store.read() as rows:
        assert rows.value("select count(*) from reviews where pull_uri is null") == 1


@pytest.mark.parametrize("scopes", [[], ["read"], ["act"]])
def test_without_the_scope_nothing_is_queued(client: Client, scopes: list[str]) -> None:
    secret = create_token("robot", scopes, timezone.now()) if scopes else "none"
    assert send(client, {"Authorization": f"Bearer {secret}"}).status_code == 401
    assert client.get(f"{URL}/{new_job(time.time())}").status_code == 401
    assert huey.pending_count() == 0


def test_a_signed_in_maintainer_may_and_another_person_may_not(client: Client) -> None:
    person = Person.objects.create(did=PERSON)
    client.force_login(person)
    assert send(client, {}).status_code == 401
    Maintainer.objects.create(person=person, repo_key="did:plc:core")
    assert send(client, {}).status_code == 202


def test_another_site_cannot_have_a_maintainers_browser_review(settings: Settings) -> None:
    strict = Client(enforce_csrf_checks=True)
    person = Person.objects.create(did=PERSON)
    Maintainer.objects.create(person=person, repo_key="did:plc:core")
    strict.force_login(person)
    refused = send(strict, {})
    assert refused.status_code == 403
    assert "X-CSRFToken" in refused.json()["detail"]
    assert huey.pending_count() == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"diff": ""}, 422),
        ({}, 422),
        ({"diff": CLEAN, "title": "x" * 1001}, 422),
        ({"diff": CLEAN, "discussion": ["x"] * 51}, 422),
        ({"diff": "x" * 1_000_001}, 413),
    ],
)
def test_a_body_that_is_empty_or_too_large_is_refused_in_words(
    client: Client, bearer: dict[str, str], body: dict, status: int
) -> None:
    refused = client.post(URL, body, content_type="application/json", headers=bearer)
    assert refused.status_code == status, refused.content
    assert refused["Content-Type"] == "application/problem+json"
    assert huey.pending_count() == 0


def test_a_body_that_is_no_json_is_refused(client: Client, bearer: dict[str, str]) -> None:
    assert client.post(URL, "{", content_type="application/json", headers=bearer).status_code == 400


def test_an_answer_is_forgotten_after_an_hour(client: Client, bearer: dict[str, str]) -> None:
    old, young = new_job(time.time() - KEPT_SECONDS - 5), new_job(time.time())
    for job in (old, young):
        huey.put(reply_key(job), {"summary": "quoted"})
    review_jobs.drop_old_replies(huey, time.time())
    assert huey.get(reply_key(young), peek=True) is not None
    assert client.get(f"{URL}/{old}", headers=bearer).status_code == 404


@pytest.mark.parametrize("job", ["x", "reply:1", "1790000000-" + "0" * 31, "../metrics"])
def test_a_job_that_is_none_is_refused(client: Client, bearer: dict[str, str], job: str) -> None:
    assert client.get(f"{URL}/{job}", headers=bearer).status_code in (404, 422)


def test_the_runtime_is_that_of_the_worker() -> None:
    assert tasks.current is runtime.current
