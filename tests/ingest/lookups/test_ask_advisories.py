"""osv.dev and deps.dev, asked only where the operator allows it, once a day, and believed only as far as checked."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.http.fetcher import Fetcher
from ingest.lookups.advisories import Wanted, fetch_advisories, fetch_package_facts, learn_of_packages
from ingest.store.database import Store
from tests.ingest.lookups.advisory_services import AdvisoryServices
from tests.ingest.lookups.osv_records import record
from tests.ingest.peer import Start, response
from tests.ingest.stream.frames import rows

NOW = datetime(2026, 11, 20, 12)
FLASK, REQUESTS = Wanted("PyPI", "flask", "1.0"), Wanted("PyPI", "requests", "2.0")
FACTS = {"publishedAt": "2018-04-26T00:00:00Z", "isDeprecated": False, "licenses": ["BSD-3-Clause"], "links": []}


class Asked:
    """A store, the two services, and a clock that a test moves."""

    def __init__(self, store: Store, start: Start) -> None:
        self.store, self.now = store, NOW
        self.services = AdvisoryServices([record("PYSEC-1"), record("PYSEC-2", "other")])
        self.fetcher = Fetcher(start(self.services.answer).origin)

    def advisories(self, *packages: Wanted) -> int:
        return fetch_advisories(self.store, self.fetcher, packages, lambda: self.now)

    def facts(self, *packages: Wanted) -> int:
        return fetch_package_facts(self.store, self.fetcher, packages, lambda: self.now)

    def held(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select advisory_id from advisories order by all")

    def outcomes(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select kind, subject, outcome, attempts, due_clock from fetches order by all")


@pytest.fixture(name="asked")
def asked_fixture(store: Store, peer: Start) -> Iterator[Asked]:
    """A world to ask in."""
    world = Asked(store, peer)
    yield world
    world.fetcher.close()


def test_packages_are_asked_about_at_once_and_their_records_kept(asked: Asked) -> None:
    assert asked.advisories(FLASK, REQUESTS, FLASK) == 2
    assert asked.held() == [("PYSEC-1",)]
    assert asked.services.asked == ["POST /v1/querybatch", "GET /v1/vulns/PYSEC-1"]
    subjects = ("pkg:pypi/flask@1.0", "pkg:pypi/requests@2.0")
    assert asked.outcomes() == [("advisories", subject, "found", 0, NOW + timedelta(days=1)) for subject in subjects]


def test_what_was_asked_today_is_not_asked_again_and_tomorrow_only_what_changed_is_fetched(asked: Asked) -> None:
    asked.advisories(FLASK)
    assert asked.advisories(FLASK) == 0
    asked.now += timedelta(days=1)
    assert asked.advisories(FLASK) == 1
    assert asked.services.asked[2:] == ["POST /v1/querybatch"]
    asked.services.records[0] |= {"modified": "2026-06-01T00:00:00Z", "summary": "It breaks more"}
    asked.now += timedelta(days=1)
    asked.advisories(FLASK)
    assert rows(asked.store, "select summary from advisories") == [("It breaks more",)]


def test_further_pages_are_asked_for_and_no_more_than_a_few(asked: Asked) -> None:
    asked.services.records = [record(f"PYSEC-{number}") for number in range(4)]
    asked.services.page = 1
    assert asked.advisories(FLASK) == 1
    assert len(asked.held()) == 4
    asked.services.records += [record(f"PYSEC-{number}") for number in range(4, 9)]
    asked.now += timedelta(days=1)
    assert asked.advisories(FLASK) == 0
    assert asked.outcomes()[0][2] == "failed"


def test_more_records_than_one_go_takes_are_due_again_soon(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lookups.advisories.RECORDS", 2)
    asked.services.records = [record(f"PYSEC-{number}") for number in range(3)]
    asked.advisories(FLASK)
    assert len(asked.held()) == 2
    asked.now += timedelta(minutes=1)
    asked.advisories(FLASK)
    assert len(asked.held()) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_is_noted_and_asked_again_later_each_time(asked: Asked, status: int) -> None:
    asked.services.faults["api.osv.dev"] = status
    assert asked.advisories(FLASK) == 0
    assert asked.outcomes() == [("advisories", "pkg:pypi/flask@1.0", "failed", 1, NOW + timedelta(minutes=1))]
    assert asked.held() == []


def test_a_record_of_another_id_and_one_that_is_gone_are_not_kept(asked: Asked) -> None:
    asked.services.records.append(record("PYSEC-3"))
    asked.services.swapped = {"PYSEC-1": "PYSEC-2", "PYSEC-3": "none"}
    assert asked.advisories(FLASK) == 1
    assert asked.held() == []


@pytest.mark.parametrize(
    "results", [[], [{}, {}], [{"vulns": [{"id": "../../x"}]}], [{"vulns": [{"id": "A" * 500}]}], None, [{"vulns": 7}]]
)
def test_an_answer_that_does_not_fit_brings_nothing(store: Store, peer: Start, results: object) -> None:
    fetcher = Fetcher(peer(lambda _: response(json.dumps({"results": results}).encode())).origin)
    fetch_advisories(store, fetcher, [FLASK], lambda: NOW)
    assert rows(store, "select * from advisories") == []
    fetcher.close()


def test_facts_of_a_version_become_signals_under_its_package_url(asked: Asked) -> None:
    asked.services.facts["/systems/pypi/packages/flask/versions/1.0"] = FACTS
    asked.services.facts["/systems/go/packages/github.com/a/b/versions/v1.2.3"] = FACTS
    assert asked.facts(FLASK, REQUESTS, Wanted("Go", "github.com/a/b", "1.2.3")) == 3
    told = rows(asked.store, "select subject, key, value, source, expires_at from signals order by all")
    expires = NOW + timedelta(days=30)
    assert [row[:3] for row in told if row[0] == "pkg:pypi/flask@1.0"] == [
        ("pkg:pypi/flask@1.0", "deprecated", "false"),
        ("pkg:pypi/flask@1.0", "licences", '["BSD-3-Clause"]'),
        ("pkg:pypi/flask@1.0", "published_at", "2018-04-26T00:00:00"),
    ]
    assert {row[0] for row in told} == {"pkg:pypi/flask@1.0", "pkg:golang/github.com/a/b@1.2.3"}
    assert {row[3:] for row in told} == {("deps.dev", expires)}
    assert ("package", "pkg:pypi/requests@2.0", "absent", 1, NOW + timedelta(days=1)) in asked.outcomes()
    assert asked.facts(FLASK) == 0


def test_a_hostile_name_stays_one_part_of_the_address(asked: Asked) -> None:
    asked.facts(Wanted("npm", "@a/../../x?y#z", "1.0"))
    assert asked.services.asked == ["GET /v3/systems/npm/packages/@a/../../x?y#z/versions/1.0"]  # as unquoted there


def runtime(asked: Asked, allowed: bool) -> Any:
    return SimpleNamespace(store=asked.store, fetcher=asked.fetcher, ask_advisories=allowed)


@pytest.mark.parametrize("allowed", [True, False])
def test_nobody_is_asked_unless_the_operator_allows_it(asked: Asked, allowed: bool) -> None:
    assert learn_of_packages(runtime(asked, allowed), [FLASK]) == (2 if allowed else 0)
    assert bool(asked.services.asked) is allowed
