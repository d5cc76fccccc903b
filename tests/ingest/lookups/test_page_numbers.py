"""Numbers of pull requests come from the forge's own pages and from nowhere else."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.lookups import pull_numbers
from ingest.lookups.pull_numbers import named_uri, read_pages
from tests.ingest.lookups.asked import World, cid_of, did, log_record
from tests.ingest.peer import Request, response

SITE = "https://tangled.org"
URI = "at://{}/sh.tangled.repo.pull/{}"


def uri(number: int) -> str:
    return URI.format(did("mallory"), number)


def page(shown: str, others: str = "") -> bytes:
    panel = f'<section id="at-uri-panel"><button class="x" data-aturi="{shown}">copy</button></section>'
    return f"<!doctype html><html><body><p>a &lt;b&gt; {others}</p>{panel}</body></html>".encode()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_numbers, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def pages(world: World) -> dict[str, bytes]:
    """What the site has, by path; the repository has a name and its owner a proven handle."""
    served: dict[str, bytes] = {}
    plain: Callable[[Request], object] = world.answer

    def answer(request: Request) -> object:
        if request.headers["host"] != "tangled.org":
            return plain(request)
        return response(served.get(request.path, b""), 200 if request.path in served else 404)

    world.peer.answer = answer  # ty: ignore[invalid-assignment]
    world.change("update repositories set name = 'project' where repository_id = 1")
    world.change(
        "update contributors set handle = 'seed.example.test', handle_verified = true where did = ?", did("seed")
    )
    world.change("delete from pull_requests")
    return served


def offer(world: World, *numbers: int, repository: int = 1) -> None:
    for number in numbers:
        world.offer(uri(number), repository, cid_of(b""))


def walked(world: World, pages: int = 30) -> list[str]:
    world.peer.requests.clear()
    asked = read_pages(world.store, world.fetcher, SITE, pages)
    paths = [request.path for request in world.peer.requests]
    assert len(paths) == asked
    return paths


def numbers(world: World) -> dict[str, int]:
    return dict(world.rows("select pull_uri, number from pull_pages"))


def test_trap_11_a_number_is_what_the_page_says_whatever_the_record_claims(
    world: World, pages: dict[str, bytes]
) -> None:
    offer(world, 101, 102)
    body = json.dumps({"$type": "sh.tangled.repo.pull", "pullId": 7, "title": "x"})
    log_record(world, "101", "c", body)
    base = "/seed.example.test/project/pulls/"
    pages |= {f"{base}1": page(uri(102)), f"{base}2": page(uri(101)), f"{base}7": page(uri(999))}
    assert walked(world) == [f"{base}{number}" for number in range(1, 7)]
    assert numbers(world) == {uri(102): 1, uri(101): 2}
    assert world.rows("select url from pull_pages where number = 2") == [(f"{SITE}{base}2",)]
    assert walked(world) == []


def test_the_walk_goes_on_from_the_last_number_over_gaps_and_in_pieces(world: World, pages: dict[str, bytes]) -> None:
    offer(world, *range(1, 10))
    base = "/seed.example.test/project/pulls/"
    pages |= {f"{base}{number}": page(uri(number)) for number in (1, 2, 3, 6, 7)}
    assert walked(world, pages=2) == [f"{base}1", f"{base}2"]
    assert walked(world) == [f"{base}{number}" for number in range(3, 12)]
    assert sorted(numbers(world).values()) == [1, 2, 3, 6, 7]
    assert walked(world) == []
    world.change("update fetches set due_clock = fetched_clock where kind = 'pages'")
    pages[f"{base}8"] = page(uri(8))
    assert walked(world)[0] == f"{base}8"


def test_a_page_that_shows_another_repositorys_pull_request_is_not_believed(
    world: World, pages: dict[str, bytes]
) -> None:
    offer(world, 1)
    offer(world, 2, repository=2)
    base = "/seed.example.test/project/pulls/"
    pages |= {f"{base}1": page(uri(2)), f"{base}2": page("at://did:plc:x/y/z"), f"{base}3": b"<html>no mark</html>"}
    walked(world)
    assert numbers(world) == {}


def test_where_all_have_a_number_or_the_repository_is_not_watched_nothing_is_asked(
    world: World, pages: dict[str, bytes]
) -> None:
    offer(world, 2, repository=2)
    assert walked(world) == []
    offer(world, 1)
    pages["/seed.example.test/project/pulls/1"] = page(uri(1))
    assert walked(world, pages=1)
    world.change("update fetches set due_clock = fetched_clock where kind = 'pages'")
    assert walked(world) == []


def test_a_site_in_trouble_is_left_alone_and_what_was_found_stays(world: World, pages: dict[str, bytes]) -> None:
    offer(world, 1, 2)
    pages["/seed.example.test/project/pulls/1"] = page(uri(1))
    walked(world, pages=1)
    world.peer.answer = lambda _: response(b"", 429, Retry_After="600")
    assert len(walked(world)) == 1
    outcome, attempts, due, reason = world.outcome("pages")
    assert (outcome, attempts, reason) == ("failed", 1, "tangled.org answered 429")
    assert due > world.store.wall() + timedelta(minutes=9)
    assert numbers(world) == {uri(1): 1}
    assert walked(world) == []


def test_a_site_that_sends_elsewhere_is_not_followed(world: World, pages: dict[str, bytes]) -> None:
    offer(world, 1)
    world.peer.answer = lambda _: response(b"", 302, Location="http://169.254.169.254/latest")
    assert len(walked(world)) == 1
    assert "a redirect to" in world.outcome("pages")[3]
    assert numbers(world) == {}


@pytest.mark.parametrize("name", ["../../secret", "a b", "a/b", "x" * 200, "", "é"])
def test_a_repository_whose_name_fits_no_address_is_not_asked_for(
    world: World, pages: dict[str, bytes], name: str
) -> None:
    offer(world, 1)
    world.change("update repositories set name = ? where repository_id = 1", name)
    assert walked(world) == []


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (page(uri(1), '<i data-aturi="at://b/c/d">'), uri(1)),
        (b"<p data-aturi='at://a/b/c'>", "at://a/b/c"),
        (b"<p data-aturi='at://a/b/c'><p data-aturi='at://a/b/c'>", "at://a/b/c"),
        (b"<p data-aturi='at://a/b/c'><p data-aturi='at://d/e/f'>", None),
        (b'<p data-aturi="at://a/b/c&amp;x">', "at://a/b/c&x"),
        (b"&lt;p data-aturi=x&gt;", None),
        (b"data-aturi", None),
        (b"<p data-aturi>", None),
        (b"<p data-aturi=''>", None),
        (b"<" * 1_000_000 + b"data-aturi>", None),
        (b"<a data-aturi " * 100_000, None),
    ],
)
def test_the_page_names_what_its_own_panel_holds(said: bytes, named: str | None) -> None:
    assert named_uri(said) == named


PIECES = [
    b"<p ",
    b"data-aturi",
    b"=",
    b'"',
    b"'",
    b"at-uri-panel",
    b" id=",
    b">",
    b"<!--",
    b"<![CDATA[",
    b"</",
    b"\0",
    b"&#x",
]


@given(some.lists(some.sampled_from(PIECES) | some.binary(max_size=6), max_size=60).map(b"".join))
def test_no_page_crashes_the_reader(said: bytes) -> None:
    found = named_uri(said)
    assert found is None or 0 < len(found) <= 4_000
