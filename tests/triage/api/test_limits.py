"""The API refuses from everybody: too much, too large, no JSON, another method, another site's script."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.http.request import HttpHeaders
from django.test import Client
from django.urls import URLPattern, get_resolver
from django.utils import timezone
from pytest_django import Settings

from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.access.test_permissions import TABLE, Asked, operations, pages, send
from tests.triage.worlds.acting_site import invited
from triage.access import throttle
from triage.access.problems import NOTHING
from triage.access.tokens import create_token, revoke_token
from triage.api import api
from triage.api.base import LIMITS, SMALL
from triage.middleware import SHARED
from triage.models import ApiToken, Maintainer, Person

pytestmark = pytest.mark.django_db
ORIGIN = "https://overlay.example"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
TAKEN: dict[str, set[str]] = {}
OPERATIONS = tuple(operations())
for _operation in OPERATIONS:
    _method, _path = _operation.split(" ")
    TAKEN.setdefault(_path, set()).add(_method)


@pytest.fixture(autouse=True)
def world(small: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small world; the time stands, so that no window ends within a test."""
    cache.clear()
    settings.API_REQUESTS_A_MINUTE, settings.API_ANONYMOUS_A_MINUTE, settings.REVIEWS_AN_HOUR = 5, 3, 2
    settings.REVIEW_WAIT_SECONDS = 0
    monkeypatch.setattr("time.time", lambda: 3600.0 * 480_000 + 10)


def program(*scopes: str) -> Client:
    token = create_token("robot", scopes or ["read"], timezone.now())
    return Client(headers={"authorization": f"Bearer {token}"})


def asked_for(path: str) -> str:
    """An address of this operation."""
    return path.replace("{did}", MARA).replace("{job}", "1795000000-" + "0" * 32)


def refused(answer: Any, seconds: int) -> bool:
    """Whether it is a 429 that says when to come back."""
    if answer.status_code != 429:
        return False
    assert answer["Retry-After"] == str(seconds)
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "too_many_requests"
    return True


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "/review/" not in one and "/health" not in one])
def test_every_operation_counts_and_each_token_for_itself(operation: str) -> None:
    method, path = operation.split(" ")
    robot, other = program(), program()
    sent = {"headers": {"accept": "application/json"}}
    answers = [robot.generic(method, asked_for(path), **sent) for _ in range(6)]
    assert [refused(answer, 50) for answer in answers] == [False] * 5 + [True]
    assert other.generic(method, asked_for(path), **sent).status_code != 429


def test_a_person_is_counted_by_who_they_are_and_pages_are_not_counted() -> None:
    first, second = Client(), Client()
    for client in (first, second):
        client.force_login(invited(ANA))
    answers = [client.get("/metrics") for client in (first, second, first, second, first, second)]
    assert [refused(answer, 50) for answer in answers] == [False] * 5 + [True]
    assert [first.get("/").status_code for _ in range(7)] == [200] * 7


def test_an_address_is_counted_where_nobody_is_known_whatever_it_says_of_itself(settings: Settings) -> None:
    settings.PUBLIC_READ = True
    forged = [Client().get("/metrics", headers={"x-forwarded-for": f"192.0.2.{number}"}) for number in range(4)]
    assert [refused(answer, 50) for answer in forged] == [False] * 3 + [True]
    assert Client().get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 200
    assert program().get("/metrics").status_code == 200, "a token from there is counted for itself"


def test_wrong_tokens_are_counted_by_address_and_right_ones_from_there_go_on() -> None:
    guesses = [Client().get("/metrics", headers={"authorization": f"Bearer sunstead_{n}"}) for n in range(5)]
    assert [answer.status_code for answer in guesses] == [401, 401, 401, 429, 429]
    by_page = Client().get("/", headers={"authorization": "Bearer sunstead_made-up"})
    assert refused(by_page, 50), "pages answer programs in the same words"
    assert program().get("/metrics").status_code == 200


def test_reviews_are_counted_by_the_hour() -> None:
    robot = program("review")
    answers = [robot.post("/review/pr", {}, content_type="application/json") for _ in range(3)]
    assert [refused(answer, 3590) for answer in answers] == [False, False, True]


def of_person(person: Person, *scopes: str) -> tuple[Client, ApiToken]:
    """A program with a new token of this person."""
    secret = create_token("robot", scopes or ["read"], timezone.now(), person)
    return Client(headers={"authorization": f"Bearer {secret}"}), ApiToken.objects.latest("pk")


def test_a_person_who_makes_and_revokes_tokens_begins_no_new_count() -> None:
    """The attack: 24 reviews and 30 requests were answered where 3 and 5 were allowed."""
    person = invited(ANA)
    Maintainer.objects.create(person=person, repo_key=REPO)
    reviews, requests = [], []
    for _ in range(6):
        robot, token = of_person(person, "review", "read")
        reviews.append(robot.post("/review/pr", {}, content_type="application/json"))
        revoke_token(token, person, timezone.now())
    assert [refused(answer, 3590) for answer in reviews[:3]] == [False, False, True]
    assert [answer.status_code for answer in reviews[5:]] == [429], "each of these counted as a request too"
    for _ in range(3):
        robot, token = of_person(person)
        requests.append(robot.get("/metrics"))
        revoke_token(token, person, timezone.now())
    assert all(refused(answer, 50) for answer in requests)
    other, _ = of_person(invited(MARA))
    assert other.get("/metrics").status_code == 200, "somebody else has a count of their own"


def test_whatever_somebody_asks_with_they_are_answered_no_more_than_one_person(count: Count) -> None:
    """Pages, tokens old and new, and feeds of one person in any order share one count; so do their reviews."""
    for seed in range(count(5, 300)):
        cache.clear()
        draw, person = random.Random(seed), invited(f"did:plc:{seed:024}".replace("0", "a"))
        Maintainer.objects.create(person=person, repo_key=REPO)
        browser, tokens = Client(), [of_person(person, "read", "review")]
        answered, reviews = 0, 0
        browser.force_login(person)
        for _ in range(15):
            act = draw.choice(["page", "token", "review", "new", "revoke", "feed"])
            if act == "new" or not tokens:
                tokens.append(of_person(person, "read", "review"))
            elif act == "revoke":
                revoke_token(tokens.pop(draw.randrange(len(tokens)))[1], person, timezone.now())
            elif act == "feed":
                secret = create_token("feed", ["read"], timezone.now(), person)
                answered += Client().get(f"/feed/{secret}.atom").status_code == 200
            elif act == "review":
                answer = draw.choice(tokens)[0].post("/review/pr", {}, content_type="application/json")
                reviews += answer.status_code != 429
            else:
                asked = browser if act == "page" else draw.choice(tokens)[0]
                answered += asked.get("/metrics").status_code == 200
        assert answered + reviews <= 5, seed
        assert reviews <= 2, seed


def test_health_is_asked_more_often_than_the_rest() -> None:
    answers = [Client().get("/health") for _ in range(31)]
    assert [answer.status_code for answer in answers] == [503] * 30 + [429]


def test_a_window_ends_and_a_count_survives_a_cache_that_drops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [throttle.count("test", "ana", 60, 600.0 + second) for second in (0, 30, 59, 60)] == [1, 2, 3, 1]
    assert [throttle.seconds_left(60, 600.0 + second) for second in (0, 0.5, 59.5)] == [60, 60, 1]
    monkeypatch.setattr(cache, "add", lambda *args: False)
    assert throttle.count("test", "ben", 60, 600.0) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"dids": ["%s"]}' % MARA.encode(), "application/json", 200),
        (b'{"dids": ["%s"]}' % MARA.encode(), "application/json; charset=utf-8", 200),
        (b'{"dids": ["%s"]}' % MARA.encode(), "text/plain", 415),
        (b"dids=x", "application/x-www-form-urlencoded", 415),
        (b'{"dids": ["\xff"]}', "application/json", 400),
        (b'{"dids": ', "application/json", 400),
        (b'{"dids": NaN}', "application/json", 400),
        (b'{"dids": [1e999]}', "application/json", 422),
        (b"9" * 5000, "application/json", 400),
        (b"[" * 60_000, "application/json", 400),
        (b'{"dids": ["did:plc:\\ud800"]}', "application/json", 200),
        (b'{"dids": ["x"], "repo": "\\ud800"}', "application/json", 422),
        (b" " * (SMALL + 1), "application/json", 413),
        (b" " * 1_000_001, "application/json", 413),
        (b"", "application/json", 422),
        (b"null", "application/json", 422),
        (b'{"dids": []}', "application/json", 422),
    ],
)
def test_an_odd_body_is_answered_as_described(body: bytes, kind: str, status: int) -> None:
    answer = program().generic("POST", "/score", body, content_type=kind)
    assert answer.status_code == status, answer.content[:200]
    assert status == 200 or answer["Content-Type"] == "application/problem+json"


def test_every_limit_is_of_an_operation_that_takes_a_body() -> None:
    assert {path for path in LIMITS if "POST" in TAKEN.get(path, ())} == set(LIMITS)


@pytest.mark.parametrize("path", [path for path in TAKEN if path not in SHARED])
def test_a_method_that_an_address_does_not_have_is_405_with_those_it_has(path: str) -> None:
    for method in set(METHODS) - TAKEN[path]:
        answer = program().generic(method, asked_for(path))
        assert answer.status_code == 405
        assert set(answer["Allow"].split(", ")) == TAKEN[path]
        assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_to_a_token_runs_nothing_sets_no_cookie_and_is_kept_for_nobody_else(operation: str) -> None:
    line, _ = TABLE[operation]
    for client in (program("read", "review"), Client()):
        answer = (
            send(client, Asked.of(line), {})
            if Asked.of(line).path not in SHARED
            else client.get(Asked.of(line).path, headers={"accept": "application/json"})
        )
        assert answer["Content-Security-Policy"] == NOTHING
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["X-Frame-Options"] == "DENY"
        assert answer["Cache-Control"] == "private, no-cache"
        assert {"Cookie", "Authorization"} <= {part.strip() for part in answer["Vary"].split(",")}
        assert not answer.cookies


def allowed_origin(answer: Any) -> HttpHeaders | str | None:
    assert "Access-Control-Allow-Credentials" not in answer
    return answer.get("Access-Control-Allow-Origin")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_sites_script_reads_json_only_where_the_operator_named_it(operation: str, settings: Settings) -> None:
    method, path = operation.split(" ")
    robot, asks = program(), {"origin": ORIGIN, "accept": "application/json"}
    preflight = {**asks, "access-control-request-method": method, "access-control-request-headers": "authorization"}
    assert allowed_origin(robot.generic(method, asked_for(path), headers=asks)) is None
    assert allowed_origin(Client().options(asked_for(path), headers=preflight)) is None
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    assert allowed_origin(robot.generic(method, asked_for(path), headers=asks)) == ORIGIN
    told = Client().options(asked_for(path), headers=preflight)
    assert allowed_origin(told) == ORIGIN
    assert "authorization" in told["Access-Control-Allow-Headers"]
    for origin in ("https://overlay.example.evil.example", "http://overlay.example", "null", "https://evil.example"):
        assert allowed_origin(robot.generic(method, asked_for(path), headers={**asks, "origin": origin})) is None


def test_no_page_is_ever_read_by_another_sites_script(settings: Settings) -> None:
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    seed = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=seed, repo_key=REPO, role="admin")
    client = Client()
    client.force_login(seed)
    known = set(pages(get_resolver("triage.urls").url_patterns))
    for name in known & TABLE.keys():
        asked = Asked.of(TABLE[name][0])
        if asked.method == "GET":
            assert allowed_origin(client.get(asked.path, headers={"origin": ORIGIN})) is None, asked.path


def test_the_addresses_for_scripts_are_those_of_the_operations(settings: Settings) -> None:
    reached = re.compile(settings.CORS_URLS_REGEX)
    assert {path for path in TAKEN if not reached.match(asked_for(path))} == set()
    assert all(isinstance(one, URLPattern) for one in api.urls[0])
