"""POST /review/pr: who may, what is told, and what becomes of an answer that takes longer."""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from huey.api import Huey
from pytest_django import Settings

from ingest.store.database import Store
from ingest.worker import runtime
from ingest.worker.runtime import QueueStorage, huey
from scoring import tasks
from scoring.review.by_hand import KEPT_SECONDS, new_job, reply_key, review_sent
from tests.standins.claude import KEY, ClaudeStandIn
from tests.trustsite.commands.test_review_diff import CLEAN, LEAK, TOKEN
from triage.access.tokens import create_token
from triage.models import Maintainer, Person

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


@pytest.mark.parametrize("scopes", [[], ["read"]])
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
    assert client.get(f"{URL}/{old}", headers=bearer).status_code == 404
    tasks.forget_sent.call_local()
    assert huey.get(reply_key(young), peek=True) is not None
    assert huey.get(reply_key(old), peek=True) is None, "it quotes what was sent"


@pytest.mark.parametrize("job", ["x", "reply:1", "1790000000-" + "0" * 31, "../metrics"])
def test_a_job_that_is_none_is_refused(client: Client, bearer: dict[str, str], job: str) -> None:
    assert client.get(f"{URL}/{job}", headers=bearer).status_code in (404, 422)


def test_the_runtime_is_that_of_the_worker() -> None:
    assert tasks.current is runtime.current


def test_a_diff_that_was_lost_with_its_worker_is_not_said_to_be_under_way(
    client: Client, bearer: dict[str, str]
) -> None:
    place = send(client, bearer).json()["url"]
    huey.flush()  # as a worker does when it starts
    gone = client.get(place, headers=bearer)
    assert gone.status_code == 404
    assert "send the diff again" in gone.json()["detail"]


def test_an_error_in_the_program_is_told_and_the_next_diff_is_read(
    client: Client, bearer: dict[str, str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, fine = (send(client, bearer, diff=diff).json()["url"] for diff in (LEAK, CLEAN))

    def fail(store: Store, artefact: dict[str, Any], sender: str) -> dict[str, Any]:
        if artefact["diff"] == LEAK:
            raise ZeroDivisionError
        return review_sent(store, artefact, sender)

    monkeypatch.setattr(tasks, "review_sent", fail)
    work(store, monkeypatch)
    assert client.get(broken, headers=bearer).status_code == 500
    assert client.get(fine, headers=bearer).status_code == 200


def test_one_diff_is_read_at_a_time_and_each_content_paid_once_however_many_are_sent_at_once(
    client: Client, bearer: dict[str, str], store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        places = [send(client, bearer, diff=diff).json()["url"] for diff in (LEAK, CLEAN, LEAK, LEAK)]
        monkeypatch.setattr(tasks, "current", lambda: Standing(store))
        reading, most = 0, 0

        def count(store: Store, artefact: dict[str, Any], sender: str) -> dict[str, Any]:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            told = review_sent(store, artefact, sender)
            reading -= 1
            return told

        monkeypatch.setattr(tasks, "review_sent", count)
        threads = [Thread(target=work, args=(store, monkeypatch)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        work(store, monkeypatch)
        assert len(claude.messages) == 2
    told = [client.get(place, headers=bearer).json() for place in places]
    assert most == 1
    assert {one["verdict"] for one in told} == {"content verdict"}
    assert told[0]["content_risk"] == told[2]["content_risk"] == told[3]["content_risk"] >= 0.8
    assert [one["cost"]["dollars"] > 0 for one in told].count(True) == 2


def test_too_many_that_wait_are_refused_in_words(
    client: Client, bearer: dict[str, str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_WAITING", 0)
    place = send(client, bearer).json()["url"]
    work(store, monkeypatch)
    refused = client.get(place, headers=bearer)
    assert (refused.status_code, refused["Retry-After"]) == (503, "60")


def test_a_budget_that_is_spent_is_said_and_what_the_scanners_found_stands(
    client: Client, bearer: dict[str, str], store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        settings.REVIEW_DOLLARS_A_DAY = 0.0
        place = send(client, bearer).json()["url"]
        work(store, monkeypatch)
        assert claude.messages == []
    review = client.get(place, headers=bearer).json()
    assert (review["verdict"], review["missing"], review["reviewer"]) == (
        "no content verdict",
        "over_budget",
        "deterministic",
    )
    assert (review["content_risk"] >= 0.8, review["review_recommended"]) == (True, True)


def test_one_person_spends_their_share_by_hand_and_leaves_the_rest_to_others(
    client: Client, store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new token of the same person has no dollars of its own."""
    person, other = Person.objects.create(did=PERSON), Person.objects.create(did=PERSON.replace("ana", "ben"))
    for one in (person, other):
        Maintainer.objects.create(person=one, repo_key="did:plc:repo2222222222222222222a")

    def missing(whose: Person, diff: str) -> str | None:
        headers = {"Authorization": f"Bearer {create_token('robot', ['review'], timezone.now(), whose)}"}
        place = send(client, headers, diff=diff).json()["url"]
        work(store, monkeypatch)
        return client.get(place, headers=headers).json()["missing"]

    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        assert missing(person, LEAK) is None
        with store.read() as rows:
            (paid,) = rows.rows("select dollars, payer from reviews")
        assert paid["payer"] == f"person:{person.pk}"
        settings.REVIEW_DOLLARS_A_DAY_BY_HAND = paid["dollars"] * 1.5
        assert missing(person, CLEAN) == "over_own_budget"
        settings.REVIEW_DOLLARS_A_DAY_BY_HAND = 2.0
        assert missing(other, CLEAN) is None


SIZE = 1_000_000 - len('{"diff": ""}')


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"diff": "' + b"x" * SIZE + b'"}', 202),
        (b'{"diff": "' + b"x" * SIZE + b'" }', 413),
        (b'{"diff": "\xff\xfe"}', 400),
        (b'{"diff":' + b"[" * 300_000 + b"]" * 300_000 + b"}", 400),
        (b'{"diff":"x","more":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", 400),
        (b'{"diff": "\\ud800"}', 422),
        (b'{"diff": "x", "title": "\\ud800"}', 422),
        (b'{"diff": "x", "discussion": ["\\udfff"]}', 422),
        (b'{"diff": ' + b"9" * 5000 + b"}", 400),
        (b'{"diff": NaN}', 400),
        (b"null", 422),
        (b"", 422),
        (b'{"diff": "a\\u0000b", "title": "\\u0000"}', 202),
    ],
)
def test_an_odd_body_is_refused_or_reviewed_and_never_breaks_anything(
    client: Client, bearer: dict[str, str], store: Store, monkeypatch: pytest.MonkeyPatch, body: bytes, status: int
) -> None:
    sent = client.generic("POST", URL, body, content_type="application/json", headers=bearer)
    assert sent.status_code == status, sent.content[:200]
    if status != 202:
        assert sent["Content-Type"] == "application/problem+json"
        assert huey.pending_count() == 0
        return
    work(store, monkeypatch)
    told = client.get(sent.json()["url"], headers=bearer).json()
    assert (told["review_recommended"], told["coverage"]) == (True, 0.0), "it is no patch"


def test_a_damaged_queue_is_said_in_words(
    client: Client, bearer: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.sqlite3").write_bytes(b"x" * 9_000)
    with monkeypatch.context() as patched:
        patched.setattr(huey, "storage", QueueStorage("sunstead", filename=str(tmp_path / "queue.sqlite3")))
        refused = send(client, bearer)
    assert refused.status_code == 503
    assert refused.json()["code"] == "not_ready"
    assert "the queue to the worker cannot be used just now" in refused.json()["detail"]
