"""Registries are asked about proven accounts alone, and what they say ends with the proof."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.http import rate_limits
from ingest.lookups.declared.facts import REGISTRIES, withdraw_all
from tests.conftest import count
from tests.ingest.lookups.declaring import MALLORY, Declaring, claim
from tests.ingest.lookups.package_registries import CRATES, CRATES_USER, GITHUB_USER, NPM, PYPI, answers
from tests.ingest.peer import response

HANDLE = "mallory.example.test"
PROJECT = "https://pypi.org/project/lamps/"
SOURCES = ("npm", "crates.io", "pypi")


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Declaring]:
    """A person with proven accounts on npm and GitHub who links a project of PyPI."""
    monkeypatch.setattr(rate_limits, "PACES", {"crates.io": 0.02})
    made = Declaring(tmp_path)
    made.pages |= answers(HANDLE)
    made.claims(claim("npm", proof="https://www.npmjs.com/package/@mallory/keytrace"), "3knpm")
    made.claims(claim(), "3kgithub")
    made.links(PROJECT)
    made.look()
    made.peer.requests.clear()
    yield made
    made.close()


def told(world: Declaring) -> dict[str, dict[str, str]]:
    sql = "select source, key, value from signals where subject = ? and list_contains(?, source) order by all"
    found: dict[str, dict[str, str]] = {}
    for source, key, value in world.rows(sql, MALLORY, list(SOURCES)):
        found.setdefault(source, {})[key] = value
    return found


def test_each_registry_tells_since_when_how_many_and_how_used(world: Declaring) -> None:
    assert world.ask_registries() == 1
    assert told(world) == {
        "npm": {
            "packages": "2",
            "since": "2019-03-04T05:06:07",
            "newest": "2026-11-02T08:00:00",
            "downloads": "1234",
        },
        "crates.io": {
            "packages": "1",
            "since": "2021-02-03T00:00:00",
            "newest": "2026-05-06T00:00:00",
            "downloads": "560",
        },
        "pypi": {"packages": "1", "since": "2022-04-05T00:00:00", "newest": "2026-07-08T00:00:00"},
    }
    sql = "select distinct source, evidence_uri, declared_by from signals where key = 'packages' order by source"
    assert world.rows(sql) == [
        ("crates.io", "https://crates.io/users/mallory", MALLORY),
        ("npm", "https://www.npmjs.com/~mallory", MALLORY),
        ("pypi", PROJECT.rstrip("/"), MALLORY),
    ]
    asked = world.asked.total()
    assert (world.ask_registries(), world.asked.total()) == (0, asked)
    world.later(7)
    assert world.ask_registries() == 1


def test_crates_is_told_whom_to_write_to_and_without_an_address_it_is_not_asked(world: Declaring) -> None:
    world.ask_registries("mailto:ana@example.org")
    agents = {one.headers["user-agent"] for one in world.peer.requests if one.headers["host"] == "crates.io"}
    assert len(agents) == 1
    assert agents.pop().endswith("; mailto:ana@example.org")
    world.later(7)
    world.peer.requests.clear()
    world.ask_registries("")
    assert "crates.io" not in world.asked
    assert "crates.io" not in told(world)


def test_two_requests_to_crates_begin_a_rest_apart(world: Declaring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "PACES", {"crates.io": 0.3})
    began: list[float] = []
    answer = world.peer.answer

    def noting(request: Any) -> Any:
        began.extend([time.monotonic()] if request.headers["host"] == "crates.io" else [])
        return answer(request)

    world.peer.answer = noting
    world.ask_registries()
    assert len(began) == 2
    assert began[1] - began[0] >= 0.25


@pytest.mark.parametrize("avatar", ["https://avatars.githubusercontent.com/u/8?v=4", "https://x.example/u/77", None])
def test_a_name_on_github_that_passed_to_somebody_else_opens_no_crates(world: Declaring, avatar: str | None) -> None:
    user = {"id": 31, "login": "mallory", "avatar": avatar}
    world.pages[CRATES_USER] = {"user": user}
    world.ask_registries()
    assert "crates.io" not in told(world)
    assert f"/{CRATES.partition('/')[2]}" not in {one.path for one in world.peer.requests}


@pytest.mark.parametrize("urls", [{}, {"Author": "https://tangled.org/ana.example.test"}, {"x": f"not{HANDLE}"}])
def test_a_project_that_does_not_name_the_person_is_not_theirs(world: Declaring, urls: dict[str, str]) -> None:
    page: Any = world.pages[PYPI]
    page["info"]["project_urls"] = urls
    world.ask_registries()
    assert "pypi" not in told(world)


def test_what_registries_say_ends_with_the_claim_or_link_that_it_rests_on(world: Declaring) -> None:
    world.ask_registries()
    world.claims(None, "3knpm")
    world.look()
    asked = world.asked.total()
    world.ask_registries()
    assert set(told(world)) == {"crates.io", "pypi"}
    world.links()
    world.claims(None, "3kgithub")
    world.look()
    world.ask_registries()
    assert told(world) == {}
    assert world.asked.total() == asked


def test_downloads_of_packages_that_changes_add_do_not_rest_on_anybody_s_claim(world: Declaring) -> None:
    world.change(
        "insert into signals values ('pkg:npm/lamp', 'npm', 'downloads_7_days', '12', now(), now(), null, 'x', null)"
    )
    world.ask_registries()
    world.claims(None, "3knpm")
    world.look()
    world.ask_registries()
    assert "npm" not in told(world)
    assert world.rows("select value from signals where subject = 'pkg:npm/lamp'") == [("12",)]


def test_switched_off_their_facts_go_and_the_proven_accounts_stay(world: Declaring) -> None:
    world.ask_registries()
    known = sum(map(len, told(world).values()))
    assert withdraw_all(world.store, REGISTRIES) == known
    assert told(world) == {}
    assert set(world.facts("keytrace")) == {"npm:mallory", "github:mallory"}
    world.ask_registries()
    assert sum(map(len, told(world).values())) == known, "switched on again, they are asked at once"


def test_a_registry_that_is_silent_leaves_what_it_said_and_the_others_go_on(world: Declaring) -> None:
    world.ask_registries()
    before = told(world)
    world.later(7)
    world.faults = {"registry.npmjs.org": 503}
    world.pages.pop(CRATES_USER)
    world.ask_registries()
    assert told(world) == {"npm": before["npm"], "pypi": before["pypi"]}
    assert world.outcome("registry")[:2] == ("found", 1)


HOSTILE: dict[str, object] = {
    "a redirect to this machine": response(b"", 302, Location="http://127.0.0.1/"),
    "a large answer": response(b" " * 6_000_000),
    "no JSON": response(b"<html>"),
    "a list": [],
    "nothing": {},
    "wrong types": {"objects": 7, "user": 7, "crates": 7, "info": 7, "login": 7, "id": "7"},
    "negative and endless numbers": {
        "objects": [{"package": {"name": "lamps", "date": "x" * 100_000, "maintainers": [{"username": "mallory"}]}}],
        "downloads": -5,
        "user": {"id": -1, "login": "mallory", "avatar": "/u/7"},
        "crates": [{"downloads": -(10**30), "created_at": "0"}],
        "info": {"project_urls": {"a": HANDLE}},
        "releases": {"1": [{"upload_time_iso_8601": "9999-99-99"}]},
    },
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_registry_says_nothing_false_and_stops_nobody(world: Declaring, what: str) -> None:
    world.pages |= dict.fromkeys((NPM, CRATES_USER, PYPI), HOSTILE[what])
    world.ask_registries()
    assert all(set(facts.values()) <= {"1", "0", "1200", "2019-03-04T05:06:07"} for facts in told(world).values())
    assert world.outcome("registry")[0] == "found"


ENDLESS = b"9" * 4_300  # the longest number that Python reads: the sum of two cannot be written any more
NPM_DOWNLOADS = "api.npmjs.org/downloads/point/last-week/lamps"


def test_endless_counts_are_refused(world: Declaring) -> None:
    world.pages |= {
        NPM_DOWNLOADS: response(b'{"downloads": %b}' % ENDLESS),
        CRATES: response(b'{"crates": [{"downloads": %b}, {"downloads": %b}]}' % (ENDLESS, ENDLESS)),
    }
    world.ask_registries()
    assert set(told(world)) == {"npm", "pypi"}
    assert told(world)["npm"]["downloads"] == "34", "of the other package"


@pytest.mark.parametrize(
    ("page", "lacking"),
    [
        (NPM_DOWNLOADS, {"downloads": "34"}),
        ("registry.npmjs.org/lamps", {"since": "2020-03-04T05:06:07"}),
    ],
)
@pytest.mark.parametrize("answer", [response(b"", 404), response(b" " * 6_000_000), response(b"[]")])
def test_a_package_too_new_or_too_large_for_an_answer_hides_no_other(
    world: Declaring, page: str, lacking: dict[str, str], answer: bytes
) -> None:
    world.ask_registries()
    before = told(world)
    world.later(7)
    world.pages[page] = answer
    world.ask_registries()
    assert told(world) == before | {"npm": before["npm"] | lacking}


def test_times_that_cannot_be_are_left_out(world: Declaring) -> None:
    listed: Any = world.pages[NPM]
    listed["objects"][0]["package"]["date"] = "9999-12-31T00:00:00Z"
    moments = ("1000-01-01T00:00:00Z", "2022-04-05T00:00:00Z", "2099-01-01T00:00:00Z")
    project: Any = world.pages[PYPI]
    project["releases"] = {moment: [{"upload_time_iso_8601": moment}] for moment in moments}
    world.ask_registries()
    assert told(world)["npm"]["newest"] == "2026-11-02T08:00:00"
    assert told(world)["pypi"] == {"packages": "1", "since": "2022-04-05T00:00:00", "newest": "2022-04-05T00:00:00"}


SHAPES = draw.recursive(
    draw.none() | draw.integers() | draw.text(max_size=8),
    lambda inner: (
        draw.lists(inner, max_size=2)
        | draw.dictionaries(draw.sampled_from(["package", "name", "user", "id", "login", "info", "releases"]), inner)
    ),
    max_leaves=5,
)


@settings(max_examples=count(5, 300), deadline=None)
@given(names=draw.sets(draw.sampled_from([NPM, CRATES_USER, CRATES, PYPI, GITHUB_USER]), min_size=1), shape=SHAPES)
def test_whatever_a_registry_answers_is_read_or_refused(
    names: set[str], shape: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = Declaring(tmp_path_factory.mktemp("shapes"))
    try:
        world.pages |= answers(HANDLE) | dict.fromkeys(names, shape)
        world.claims(claim("npm"), "3knpm")
        world.look()
        world.ask_registries()
        assert world.outcome("registry")[0] == "found"
    finally:
        world.close()
