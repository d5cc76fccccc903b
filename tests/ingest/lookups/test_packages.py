"""Ages and downloads of packages: asked of deps.dev, npm and crates.io, stored, and refused where they cannot be."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from ingest.http.fetcher import Fetcher
from ingest.lookups.advisories import Wanted
from ingest.lookups.packages import (
    COUNT_LIMIT,
    PACKAGE_LIMIT,
    fetch_downloads,
    fetch_first_publications,
    fetch_versions,
)
from ingest.store.database import Store
from tests.ingest.lookups.advisory_services import AdvisoryServices
from tests.ingest.peer import Start, response
from tests.ingest.stream.frames import rows

NOW = datetime(2026, 11, 20, 12)
CONTACT = "mailto:ana@site.example"
FLASK, LEFTPAD, SERDE = (
    Wanted("PyPI", "flask", "1.0"),
    Wanted("npm", "leftpad", "1.3.0"),
    Wanted("crates.io", "serde", "1"),
)
MODULE = Wanted("Go", "github.com/a/b", "1.2.3")
VERSION = {"publishedAt": "2018-04-26T00:00:00Z", "isDeprecated": False, "licenses": ["BSD-3-Clause"], "links": []}
LOOK_UPS = {
    "package": fetch_versions,
    "package_history": fetch_first_publications,
    "downloads": lambda store, fetcher, packages, wall: fetch_downloads(store, fetcher, packages, wall, CONTACT),
}


def history(*times: str) -> dict[str, Any]:
    """What deps.dev says of a package with a version of each time."""
    versions = [
        {"versionKey": {"system": "NPM", "name": "leftpad", "version": f"{number}.0.0"}, "publishedAt": time}
        for number, time in enumerate(times)
    ]
    return {"packageKey": {"system": "NPM", "name": "leftpad"}, "versions": versions}


class Asked:
    """A store, the services, and a clock that a test moves."""

    def __init__(self, store: Store, start: Start) -> None:
        self.store, self.now = store, NOW
        self.services = AdvisoryServices([])
        self.fetcher = Fetcher(start(self.services.answer).origin)

    def ask(self, kind: str, *packages: Wanted) -> int:
        return LOOK_UPS[kind](self.store, self.fetcher, packages, lambda: self.now)

    def signals(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select subject, source, key, value from signals order by all")

    def outcomes(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select kind, subject, outcome, due_clock from fetches order by all")


@pytest.fixture(name="asked")
def asked_fixture(store: Store, peer: Start) -> Iterator[Asked]:
    world = Asked(store, peer)
    yield world
    world.fetcher.close()


def test_facts_of_a_version_become_signals_under_its_package_url(asked: Asked) -> None:
    asked.services.facts["/systems/pypi/packages/flask/versions/1.0"] = VERSION
    asked.services.facts["/systems/go/packages/github.com/a/b/versions/v1.2.3"] = VERSION
    assert asked.ask("package", FLASK, Wanted("PyPI", "requests", "2.0"), MODULE) == 3
    assert [row for row in asked.signals() if row[0] == "pkg:pypi/flask@1.0"] == [
        ("pkg:pypi/flask@1.0", "deps.dev", "deprecated", "false"),
        ("pkg:pypi/flask@1.0", "deps.dev", "licences", '["BSD-3-Clause"]'),
        ("pkg:pypi/flask@1.0", "deps.dev", "published_at", "2018-04-26T00:00:00"),
    ]
    assert {row[0] for row in asked.signals()} == {"pkg:pypi/flask@1.0", "pkg:golang/github.com/a/b@1.2.3"}
    assert ("package", "pkg:pypi/requests@2.0", "absent", NOW + timedelta(days=1)) in asked.outcomes()
    assert asked.ask("package", FLASK) == 0


def test_the_first_publication_is_the_oldest_version_whatever_their_order(asked: Asked) -> None:
    asked.services.facts["/systems/npm/packages/leftpad"] = history("2026-11-19T00:00:00Z", "2026-11-17T08:00:00Z", "")
    assert asked.ask("package_history", LEFTPAD) == 1
    assert asked.signals() == [("pkg:npm/leftpad", "deps.dev", "first_published_at", "2026-11-17T08:00:00")]
    assert asked.outcomes() == [("package_history", "pkg:npm/leftpad", "found", NOW + timedelta(days=7))]


def test_downloads_are_those_of_a_week_at_npm_and_of_90_days_at_crates(asked: Asked) -> None:
    asked.services.downloads = {("api.npmjs.org", "@a/b"): 12, ("crates.io", "serde"): 4_000}
    assert asked.ask("downloads", Wanted("npm", "@a/b", "1.0"), SERDE, FLASK) == 2
    assert asked.signals() == [
        ("pkg:cargo/serde", "crates.io", "downloads_90_days", "4000"),
        ("pkg:npm/%40a/b", "npm", "downloads_7_days", "12"),
    ]
    assert sorted(asked.services.asked) == [
        "GET /api/v1/crates/serde?include=downloads",
        "GET /downloads/point/last-week/@a/b",
    ]
    assert any(agent.endswith(CONTACT) for agent in asked.services.agents)


def test_an_answer_serves_a_week_and_is_then_asked_for_again(asked: Asked) -> None:
    asked.services.downloads = {("api.npmjs.org", "leftpad"): 12}
    assert asked.ask("downloads", LEFTPAD) == 1
    asked.now += timedelta(days=6)
    assert asked.ask("downloads", LEFTPAD) == 0
    asked.now += timedelta(days=1)
    asked.services.downloads = {("api.npmjs.org", "leftpad"): 15}
    assert asked.ask("downloads", LEFTPAD) == 1
    assert [row[3] for row in asked.signals()] == ["12", "15"]


def test_without_a_contact_crates_is_not_asked(asked: Asked) -> None:
    asked.services.downloads = {("crates.io", "serde"): 4_000}
    assert fetch_downloads(asked.store, asked.fetcher, [SERDE], lambda: NOW, "") == 0
    assert asked.services.asked == []


def test_a_crate_is_one_package_with_hyphens_and_with_underscores(store: Store, peer: Start) -> None:
    answer = response(json.dumps({"crate": {"name": "serde_json", "recent_downloads": 7}}).encode())
    fetcher = Fetcher(peer(lambda _: answer).origin)
    assert fetch_downloads(store, fetcher, [Wanted("crates.io", "serde-json", "")], lambda: NOW, CONTACT) == 1
    assert rows(store, "select subject, value from signals") == [("pkg:cargo/serde-json", "7")]
    fetcher.close()


def test_a_hostile_name_stays_one_part_of_the_address(asked: Asked) -> None:
    hostile = Wanted("npm", "@a/../../x?y#z", "1.0")
    for kind in LOOK_UPS:
        asked.ask(kind, hostile, Wanted("npm", "@a/", "1.0"))
    assert sorted(asked.services.asked) == [  # as unquoted there
        "GET /downloads/point/last-week/@a/../../x?y#z",
        "GET /v3/systems/npm/packages/@a/../../x?y#z",
        "GET /v3/systems/npm/packages/@a/../../x?y#z/versions/1.0",
    ]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("package", {"publishedAt": "2026-11-20T12:02:00Z"}),
        ("package", {"publishedAt": "9999-12-31T23:59:59Z"}),
        ("package", {"publishedAt": "0001-01-01T00:00:00Z"}),
        ("package", {"publishedAt": "yesterday"}),
        ("package", {"publishedAt": 7}),
        ("package_history", history("2026-11-17T08:00:00Z", "2027-01-01T00:00:00Z")),
        ("package_history", {"versions": None}),
        ("package_history", {"versions": {"publishedAt": ""}}),
        ("package_history", ["x" * PACKAGE_LIMIT]),
        ("downloads", {"downloads": -1, "package": "leftpad"}),
        ("downloads", {"downloads": 10**30, "package": "leftpad"}),
        ("downloads", {"downloads": "12", "package": "leftpad"}),
        ("downloads", {"downloads": 12.5, "package": "leftpad"}),
        ("downloads", {"downloads": 12, "package": "left-pad"}),
        ("downloads", {"leftpad": {"downloads": 12, "package": "leftpad"}}),
        ("downloads", {"downloads": 12, "package": "leftpad", "more": "x" * COUNT_LIMIT}),
        ("downloads", None),
    ],
)
def test_an_answer_that_cannot_be_is_a_failure_and_nothing_is_stored(
    store: Store, peer: Start, kind: str, body: object
) -> None:
    fetcher = Fetcher(peer(lambda _: response(json.dumps(body).encode())).origin)
    assert LOOK_UPS[kind](store, fetcher, [LEFTPAD], lambda: NOW) == 1
    assert rows(store, "select kind, outcome from fetches") == [(kind, "failed")]
    assert rows(store, "select * from signals") == []
    fetcher.close()


PLAIN = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=20)
VALUES = some.recursive(
    PLAIN | some.sampled_from(["leftpad", "2026-11-17T08:00:00Z"]),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(["downloads", "package", "versions", "publishedAt"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example empties the two tables
@given(body=VALUES, kind=some.sampled_from(sorted(LOOK_UPS)))
def test_whatever_is_answered_is_stored_as_checked_or_fails(
    answering: tuple[Fetcher, list[bytes]], store: Store, body: object, kind: str
) -> None:
    fetcher, answers = answering
    answers[:] = [response(json.dumps(body).encode())]
    with store.write() as txn:
        txn.execute("delete from fetches")
        txn.execute("delete from signals")
    assert LOOK_UPS[kind](store, fetcher, [LEFTPAD], lambda: NOW) == 1
    for key, value in rows(store, "select key, value from signals"):
        if key.endswith("published_at"):
            assert datetime(1995, 1, 1) <= datetime.fromisoformat(value) <= NOW + timedelta(minutes=1)
        if key.startswith("downloads"):
            assert 0 <= int(value) <= 10**12


@pytest.fixture(name="answering")
def answering_fixture(peer: Start) -> Iterator[tuple[Fetcher, list[bytes]]]:
    """A fetcher, and the one answer that its server gives."""
    answers: list[bytes] = []
    fetcher = Fetcher(peer(lambda _: answers[0]).origin)
    yield fetcher, answers
    fetcher.close()
