"""Two hosts are asked about the repository on GitHub that a watched repository links, and about nothing else."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.erasure.rows import erase_rows, find_names
from ingest.http.fetcher import Fetcher
from ingest.lookups.declared.facts import REGISTRIES, withdraw, withdraw_all
from ingest.lookups.declared.upstreams import fetch_upstreams
from ingest.store.database import Store
from ingest.tasks import _ask_declared
from tests.conftest import count
from tests.ingest.lookups.asked import NOW, PLC, REPOSITORY
from tests.ingest.lookups.asked import did as person
from tests.ingest.lookups.declaring import Declaring
from tests.ingest.peer import Peer, response
from tests.ingest.stream.frames import SEED as OWNER
from tests.ingest.stream.frames import Frames, rows, take

SCORE = "api.scorecard.dev/projects/github.com/ana/lamp"
HEALTH = "api.github.com/repos/ana/lamp"
SEED = person("seed")
SCORE_PAGE, HEALTH_PAGE = "https://scorecard.dev/viewer/?uri=github.com/ana/lamp", "https://github.com/ana/lamp"
# The shapes of api.scorecard.dev's /projects and of "Get a repository" of docs.github.com/rest.
CARD: dict[str, Any] = {
    "date": "2026-11-16",
    "repo": {"name": "github.com/ana/lamp", "commit": "5e3c"},
    "scorecard": {"version": "v5.1.1", "commit": "cd15"},
    "score": 6.4,
    "checks": [{"name": "Code-Review", "score": 10, "reason": "all changesets reviewed", "details": None}],
}
STATE: dict[str, Any] = {
    "id": 7,
    "full_name": "Ana/Lamp",
    "private": False,
    "archived": False,
    "pushed_at": "2026-11-17T08:00:00Z",
    "stargazers_count": 1_200,
    "open_issues_count": 14,
}
FACTS = {
    ("github", "archived"): "false",
    ("github", "open_issues"): "14",
    ("github", "pushed_at"): "2026-11-17T08:00:00",
    ("github", "stars"): "1200",
    ("scorecard", "score"): "6.4",
    ("scorecard", "scored_at"): "2026-11-16T00:00:00",
}


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Declaring]:
    """A watched repository of seed that links ana/lamp, and one that nobody watches and that links it too."""
    made = Declaring(tmp_path)
    made.pages |= {SCORE: CARD, HEALTH: STATE}
    made.change("update repositories set upstream = 'ana/lamp'")
    made.peer.requests.clear()
    yield made
    made.close()


def ask(world: Declaring) -> int:
    return fetch_upstreams(world.store, world.fetcher, world.now, world.wall)


def told(world: Declaring) -> dict[tuple[str, str], str]:
    rows = world.rows("select source, key, value from signals where subject = ? order by all", REPOSITORY)
    return {(source, key): value for source, key, value in rows}


def test_both_hosts_are_asked_once_a_week_about_what_a_watched_repository_links(world: Declaring) -> None:
    assert ask(world) == 1
    assert told(world) == FACTS
    assert dict(world.asked) == {"api.scorecard.dev": 1, "api.github.com": 1}
    sql = "select distinct subject, source, evidence_uri, declared_by from signals order by source"
    assert world.rows(sql) == [
        (REPOSITORY, "github", HEALTH_PAGE, SEED),
        (REPOSITORY, "scorecard", SCORE_PAGE, SEED),
    ]
    world.later(6)
    assert (ask(world), world.asked.total()) == (0, 2)
    world.later(1)
    assert (ask(world), world.asked.total()) == (1, 4)


@pytest.mark.parametrize("upstream", ["", None])
def test_a_repository_without_a_linked_upstream_causes_no_request(world: Declaring, upstream: str | None) -> None:
    world.change("update repositories set upstream = ?", upstream)
    assert (ask(world), world.peer.requests) == (0, [])


@pytest.mark.parametrize(
    "how",
    [
        "delete from watched_repositories",
        "update repositories set deleted_at = now()",
        "update repositories set upstream = ''",
        "update contributors set account_status = 'deleted'",
    ],
)
def test_what_was_told_goes_with_the_link_the_record_or_its_author(world: Declaring, how: str) -> None:
    ask(world)
    world.change(how)
    world.peer.requests.clear()
    assert ask(world) == len(FACTS)
    assert (told(world), world.peer.requests) == ({}, [])


def test_what_one_owner_s_record_linked_ends_with_their_ownership(world: Declaring) -> None:
    ask(world)
    world.change("update repositories set owner_id = ?", world.people[person("mara")])
    ask(world)
    assert told(world) == {}
    world.later(1)
    ask(world)
    assert world.rows("select distinct declared_by from signals") == [(person("mara"),)]


def test_a_record_that_is_rewritten_every_hour_is_asked_about_once_a_day(world: Declaring) -> None:
    ask(world)
    for hour in range(30):
        world.now += timedelta(hours=1)
        world.change("update repositories set upstream = ? where repository_id = 1", f"ana/lamp{hour}")
        ask(world)
    assert world.asked["api.github.com"] == 2
    assert told(world) == {}, "nobody knows the new ones"


def test_a_host_that_is_silent_leaves_what_it_said_until_it_expires(world: Declaring) -> None:
    ask(world)
    world.faults = {"api.github.com": 503, "api.scorecard.dev": 429}
    world.later(7)
    ask(world)
    assert told(world) == FACTS
    assert world.outcome("upstream")[:2] == ("found", 1)
    world.later(2)
    withdraw(world.store, (), world.now)
    assert told(world) == {}


def test_a_repository_that_neither_host_knows_has_no_facts(world: Declaring) -> None:
    world.pages.clear()
    ask(world)
    assert told(world) == {}
    assert world.outcome("upstream")[0] == "found"


def test_either_switch_ends_it(world: Declaring) -> None:
    ask(world)
    assert withdraw_all(world.store, REGISTRIES) == len(FACTS)
    assert (told(world), withdraw_all(world.store, REGISTRIES)) == ({}, 0)
    ask(world)
    assert withdraw_all(world.store) == len(FACTS)
    assert told(world) == {}


@pytest.mark.parametrize(
    ("declared", "registries", "sources"),
    [(True, True, {"link", "scorecard", "github"}), (True, False, {"link"}), (False, True, set())],
)
def test_the_worker_asks_and_deletes_as_its_settings_say(
    world: Declaring, declared: bool, registries: bool, sources: set[str]
) -> None:
    def turn(asks_declared: bool, asks_registries: bool) -> set[str]:
        runtime.ask_declared, runtime.ask_registries = asks_declared, asks_registries
        _ask_declared(runtime)
        return {source for (source,) in world.rows("select distinct source from signals where source <> 'repository'")}

    world.links("https://github.com/mallory")
    clock = SimpleNamespace(now=world.wall)
    runtime: Any = SimpleNamespace(store=world.store, fetcher=world.fetcher, clock=clock, plc_url=PLC, contact="")
    runtime.claim_signers = frozenset()
    assert turn(True, True) == {"link", "scorecard", "github"}
    world.peer.requests.clear()
    assert turn(declared, registries) == sources
    assert world.peer.requests == []


def test_all_of_it_is_erased_with_the_repository_s_owner(world: Declaring) -> None:
    ask(world)
    with world.store.write() as txn:
        names, number = find_names(txn, SEED)
        erase_rows(txn, names, number, world.now)
    assert world.rows("select * from signals") == []
    assert world.rows("select upstream from repositories") == [(None,), (None,)]


@pytest.mark.parametrize("known", [True, False], ids=["today's store", "a store from before links were kept"])
def test_the_link_is_what_the_newest_record_says(store: Store, known: bool) -> None:
    def upstreams(*steps: tuple[str, dict[str, object]]) -> list[tuple[object, ...]]:
        for operation, record in steps:
            frames.repository(OWNER, "lamp", operation, **record)
        take(store, frames)
        with store.write() as txn:
            txn.execute(
                "insert or ignore into watched_repositories select repository_id, 'off', now() from repositories"
            )
            txn.execute("update repositories set upstream = null where not ?", [known])
        with Peer(lambda _: response(b"", 404)) as peer:
            fetch_upstreams(store, Fetcher(peer.origin), NOW, lambda: NOW)
            asked.append(sorted({request.path for request in peer.requests}))
        return rows(store, "select upstream from repositories")

    frames, asked = Frames(), list[list[str]]()
    assert upstreams(("create", {"source": "https://github.com/Ana/Lamp"})) == [("ana/lamp",)]
    assert upstreams(("update", {"source": "at://did:plc:x/sh.tangled.repo/1"})) == [("",)]
    assert upstreams(("update", {"website": "https://github.com/ana/other"})) == [("ana/other",)]
    assert asked == [["/projects/github.com/ana/lamp", "/repos/ana/lamp"], [], []], "the next is asked about in a day"


HOSTILE: dict[str, object] = {
    "a redirect to this machine": response(b"", 302, Location="http://127.0.0.1/"),
    "a redirect to where it moved": response(b"", 301, Location="https://api.github.com/repositories/7"),
    "a large answer": response(b" " * 3_000_000),
    "no JSON": response(b"<html>"),
    "a list": [],
    "nothing": {},
    "wrong types": {"repo": 7, "score": "6.4", "full_name": 7, "archived": "no", "stargazers_count": "1"},
    "another repository": CARD | STATE | {"repo": {"name": "github.com/evil/lamp"}, "full_name": "evil/lamp"},
    "a score that cannot be": CARD | STATE | {"score": 10.5, "stargazers_count": -1},
    "no score": CARD | STATE | {"score": -1, "open_issues_count": 10**12},
    "no number": response(b'{"repo": {"name": "github.com/ana/lamp"}, "score": NaN, "archived": null}'),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_host_says_nothing_and_stops_nobody(world: Declaring, what: str) -> None:
    world.pages |= dict.fromkeys((SCORE, HEALTH), HOSTILE[what])
    assert ask(world) == 1
    assert told(world) == {}
    assert dict(world.asked) == {"api.scorecard.dev": 1, "api.github.com": 1}, "a redirect is not followed"


@pytest.mark.parametrize("moment", ["2026-11-30T00:00:00Z", "1999-01-01", "soon", "9" * 100_000, ""])
def test_a_time_that_cannot_be_is_left_out(world: Declaring, moment: str) -> None:
    world.pages |= {SCORE: CARD | {"date": moment}, HEALTH: STATE | {"pushed_at": moment}}
    ask(world)
    assert {key for _, key in told(world)} == {"score", "archived", "stars", "open_issues"}


SHAPES = draw.recursive(
    draw.none() | draw.booleans() | draw.integers() | draw.floats() | draw.text(max_size=8),
    lambda inner: draw.lists(inner, max_size=2) | draw.dictionaries(draw.sampled_from([*CARD, *STATE, "name"]), inner),
    max_leaves=5,
)


@settings(max_examples=count(5, 300), deadline=None)
@given(name=draw.sampled_from([*CARD, *STATE]), value=SHAPES)
def test_whatever_a_host_answers_is_read_or_refused(
    name: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = Declaring(tmp_path_factory.mktemp("shapes"))
    try:
        world.change("update repositories set upstream = 'ana/lamp'")
        world.pages |= {SCORE: CARD | {name: value}, HEALTH: STATE | {name: value}}
        ask(world)
        facts = told(world)
        assert all(len(words) <= 30 for words in facts.values())
        assert 0 <= float(facts.get(("scorecard", "score"), "0")) <= 10
        assert world.outcome("upstream")[0] == "found"
    finally:
        world.close()
