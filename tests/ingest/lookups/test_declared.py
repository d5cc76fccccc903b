"""A claim or a link beyond the forge counts only as far as the other side proves it."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from ingest.erasure.erase import Erased, erase
from ingest.erasure.rows import erase_rows, find_names
from ingest.lookups.declared.facts import withdraw_all
from ingest.lookups.declared.links import names_person
from ingest.lookups.people import want_person
from ingest.store.database import Store
from ingest.worker.status import due_lookups
from tests.ingest.erasure.planted import folders_below
from tests.ingest.lookups.asked import NOW, did
from tests.ingest.lookups.declaring import (
    CLAIM,
    GIST,
    MALLORY,
    OTHER,
    SIGNED_AT,
    SIGNER,
    Declaring,
    claim,
)
from tests.ingest.peer import Answer, Request, response
from tests.ingest.stream.frames import ANA, MARA, Frames, letters, rows, take

HANDLE = "mallory.example.test"
MINUTE = timedelta(minutes=1)
GITHUB, USER = "https://github.com/mallory", "api.github.com/users/mallory"


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Declaring]:
    made = Declaring(tmp_path)
    yield made
    made.close()


def test_claims_are_kept_of_people_who_did_something_here_and_of_nobody_else(store: Store) -> None:
    frames = Frames()
    frames.commit(ANA, CLAIM, "before", claim(who=ANA))
    frames.commit(ANA, "sh.tangled.graph.follow", "f", {"subject": MARA})
    frames.commit(ANA, CLAIM, "after", claim(who=ANA))
    frames.commit(ANA, CLAIM, "gone", claim(who=ANA) | {"retractedAt": SIGNED_AT})
    frames.commit(MARA, CLAIM, "stranger", claim(who=MARA))
    take(store, frames)
    sql = "select uri, type, subject, claim_uri, status from account_claims order by uri"
    kept = [(f"at://{ANA}/{CLAIM}/{rkey}", "github", "mallory", GIST, status) for rkey, status in KEPT.items()]
    assert rows(store, sql) == kept
    assert rows(store, "select did from contributors where did = ?", MARA) == []
    later = Frames(frames[:0])
    later.extend(frames)
    later.delete(ANA, CLAIM, "after")
    take(store, later)
    assert rows(store, "select uri from account_claims where deleted_at is not null") == [kept[0][:1]]
    assert letters(store) == []


KEPT = {"after": "verified", "gone": "retracted"}


def test_a_claim_ends_with_its_deletion_and_a_rewritten_one_until_it_is_proven_again(world: Declaring) -> None:
    uri = world.claims(claim())
    assert world.look() == 1
    sql = "select value, evidence_uri, declared_by, known_from from signals where source = 'keytrace'"
    assert world.rows(sql) == [(SIGNER, uri, MALLORY, NOW)]
    asked = world.asked.total()
    assert world.look() == 0
    world.later(1)
    world.claims(claim("npm"))
    assert (world.look(), world.facts("keytrace")) == (2, {"npm:mallory": SIGNER}), "one withdrawn, one proven"
    world.later(1)
    world.claims(None)
    assert world.look() == 1
    assert world.facts("keytrace") == {}
    assert world.asked.total() == 2 * asked


@pytest.mark.parametrize("shown", [{"subject": "torvalds"}, {"type": "npm"}, {"claim_uri": "https://evil.example/"}])
def test_a_server_that_proves_another_claim_than_it_sent_to_the_stream_proves_nothing(
    world: Declaring, shown: dict[str, str]
) -> None:
    uri = world.claims(claim())
    (column, words), *_ = shown.items()
    world.change(f"update account_claims set {column} = ? where uri = ?", words, uri)
    world.look()
    assert world.facts("keytrace") == {}
    assert world.outcome("declared")[1] == 1, "the stream may still bring it: it is tried again soon"


def test_a_claim_that_is_rewritten_every_minute_is_looked_at_once_a_day(world: Declaring) -> None:
    world.claims(claim())
    world.look()
    asked = world.asked.total()
    for _ in range(5):
        world.now += MINUTE
        world.claims(claim())
        world.look()
    assert (world.facts("keytrace"), world.asked.total()) == ({}, asked)


@pytest.mark.parametrize("others", [OTHER, ""])
def test_a_signer_who_no_longer_counts_proves_nothing_from_the_next_pass_on(world: Declaring, others: str) -> None:
    world.claims(claim())
    world.look()
    asked = world.asked.total()
    assert world.look(others) == 1
    assert world.facts("keytrace") == {}
    world.later(7)
    assert (world.look(others), world.facts("keytrace")) == (1, {})
    assert (world.asked.total() == asked) == (not others), "without signers no claim is read"


def test_while_a_server_is_silent_what_was_proven_stays_until_it_expires(world: Declaring) -> None:
    world.claims(claim())
    world.links(GITHUB)
    world.pages[USER] = {"login": "Mallory", "id": 7, "blog": f"https://{HANDLE}"}
    world.pages[f"{USER}/social_accounts"] = []
    world.look()
    before = world.rows("select * from signals order by key")
    world.later(7)
    world.faults = {"pds.example.test": 503, "api.github.com": 503}
    world.look()
    assert world.rows("select * from signals order by key") == before
    assert world.outcome("declared")[0] == "found"
    assert world.outcome("declared")[1] == 1, "it is tried again soon"


USERS: dict[str, tuple[dict[str, Any], object]] = {
    "its web site": ({"blog": f"https://{HANDLE}/"}, []),
    "its web site without a scheme": ({"blog": HANDLE.upper()}, []),
    "its words": ({"bio": f"I make lamps. (@{HANDLE})"}, []),
    "a DID in its words": ({"bio": f"{MALLORY}, since 2019"}, []),
    "a page on Tangled": ({}, [{"provider": "generic", "url": f"https://tangled.org/@{HANDLE}"}]),
    "a page on Bluesky": ({}, [{"provider": "bluesky", "url": f"https://bsky.app/profile/{MALLORY}"}]),
}
LIARS: dict[str, tuple[dict[str, Any], object]] = {
    "nothing": ({}, []),
    "somebody else's handle": ({"blog": "https://ana.example.test"}, []),
    "a longer name": ({"blog": f"https://not{HANDLE}", "bio": f"x.{HANDLE} {HANDLE}.evil.example"}, []),
    "a page below another's": ({"blog": f"https://evil.example/{HANDLE}"}, []),
    "a name in a query": ({"blog": f"https://evil.example/?{HANDLE}"}, []),
    "another account's profile": ({"login": "torvalds", "blog": f"https://{HANDLE}"}, []),
    "wrong types": ({"blog": 7}, []),
    "accounts that are no list": ({"blog": f"https://{HANDLE}"}, {}),
}


@pytest.mark.parametrize("how", USERS)
def test_a_github_account_that_names_the_person_is_theirs(world: Declaring, how: str) -> None:
    world.links(GITHUB, "https://elsewhere.example.org/@mallory")
    profile, social = USERS[how]
    world.pages |= {USER: {"login": "Mallory", "id": 7} | profile, f"{USER}/social_accounts": social}
    world.look()
    assert world.facts("link") == {GITHUB: "mutual", "https://elsewhere.example.org/@mallory": "claimed"}
    assert world.rows("select evidence_uri from signals where value = 'mutual'") == [(GITHUB,)]
    assert set(world.asked) == {"api.github.com"}, "a page inside a site may be anybody's, and is not asked for"


@pytest.mark.parametrize("how", LIARS)
def test_a_github_account_that_does_not_name_them_stays_claimed(world: Declaring, how: str) -> None:
    world.links(GITHUB)
    profile, social = LIARS[how]
    world.pages |= {USER: {"login": "mallory", "id": 7} | profile, f"{USER}/social_accounts": social}
    world.look()
    assert world.facts("link") == {GITHUB: "claimed"}


SITE = "https://lamps.example.org"
ME = f'<a class=x rel="noopener me" href="https://tangled.org/{HANDLE}">here</a>'
LYING_PAGES = {
    "no link": b"<p>mallory.example.test</p>",
    "a link that is not rel=me": ME.replace("me", "author", 1).replace(" me", "").encode(),
    "another person": ME.replace(HANDLE, "ana.example.test").encode(),
    "another person with the name behind": ME.replace(HANDLE, f"ana.example.test/{HANDLE}").encode(),
    "an attribute inside another": f"<a title='rel=me href=https://{HANDLE}' href='/'>".encode(),
    "no page at all": b"\x00\xff" * 1_000,
    "a megabyte": b"<a " * 350_000 + ME.encode(),
}


def test_a_domain_whose_first_page_links_the_person_with_rel_me_is_theirs(world: Declaring) -> None:
    world.links(SITE, f"{SITE}/below")
    world.pages["lamps.example.org/"] = response(f"<!doctype html><title>Lamps</title>{ME}".encode())
    world.pages["lamps.example.org/below"] = world.pages["lamps.example.org/"]
    world.look()
    assert world.facts("link") == {SITE: "mutual", f"{SITE}/below": "claimed"}
    world.links(f"{SITE}/below")
    world.look()
    assert world.facts("link") == {f"{SITE}/below": "claimed"}, "a link that is not declared any more is forgotten"


@pytest.mark.parametrize("how", LYING_PAGES)
def test_a_page_that_lies_leaves_the_link_claimed(world: Declaring, how: str) -> None:
    world.links(SITE)
    world.pages["lamps.example.org/"] = response(LYING_PAGES[how])
    world.look()
    assert world.facts("link") == {SITE: "claimed"}


@pytest.mark.parametrize("to", ["http://127.0.0.1:1/", "https://tangled.org/", "http://169.254.169.254/latest"])
def test_a_redirect_is_not_followed(world: Declaring, to: str) -> None:
    world.links(SITE)
    world.pages["lamps.example.org/"] = response(ME.encode(), 302, Location=to)
    world.look()
    assert world.facts("link") == {SITE: "claimed"}
    assert world.asked == {"lamps.example.org": 1}


def test_links_to_this_machine_are_never_asked_for(world: Declaring) -> None:
    world.links("https://127.0.0.1/", "https://localhost/", "https://lamps.example.org:8443/", "https://[::1]/")
    world.look()
    assert set(world.facts("link").values()) == {"claimed"}
    assert world.asked.total() == 0


def test_an_unproven_handle_is_not_looked_for(world: Declaring) -> None:
    world.change("update contributors set handle_verified = false")
    world.links(GITHUB)
    world.pages |= {USER: {"login": "mallory", "id": 7, "blog": f"https://{HANDLE}"}, f"{USER}/social_accounts": []}
    world.look()
    assert world.facts("link") == {GITHUB: "claimed"}


def test_other_addresses_of_a_did_document_are_checked_like_links(world: Declaring) -> None:
    world.known_as = [SITE, "https://127.0.0.1/", "mailto:m@example.org", "x" * 5_000, GITHUB]
    world.pages["lamps.example.org/"] = response(ME.encode())
    world.identities()
    assert world.facts("document") == {SITE: "claimed", GITHUB: "claimed"}
    world.look()
    assert world.facts("link") == {SITE: "mutual", GITHUB: "claimed"}
    world.known_as = []
    world.change("delete from fetches where kind = 'identity'")
    world.identities()
    world.look()
    assert world.facts("document", "link") == {}


def test_who_declares_nothing_causes_no_request(world: Declaring) -> None:
    world.links()
    assert not want_person(world.store, MALLORY, world.wall), "nor does somebody who opens their page"
    assert (world.look(), world.footprints(), world.ask_registries()) == (0, 0, 0)
    assert world.asked.total() == 0


def test_only_authors_here_and_people_who_are_looked_at_are_asked_about_once_a_week(world: Declaring) -> None:
    world.links(SITE)
    world.change("update pull_requests set state = 'closed'")
    assert (world.look(), world.asked.total()) == (0, 0)
    assert want_person(world.store, MALLORY, world.wall)
    assert (world.look(), world.footprints()) == (1, 1)
    assert not want_person(world.store, MALLORY, world.wall)
    assert not want_person(world.store, did("nobody"), world.wall)
    world.later(8)
    assert world.look() == 2, "nobody has looked since, and both facts have expired"
    assert world.facts("link", "repository") == {}
    assert want_person(world.store, MALLORY, world.wall)
    assert world.look() == 1
    assert world.asked["lamps.example.org"] == 2


def test_a_repository_tells_how_many_services_it_holds_records_of(world: Declaring) -> None:
    world.links(SITE)
    assert world.footprints() == 1
    assert world.facts("repository") == {"collections": "3"}
    assert world.footprints() == 0
    world.later(7)
    world.collections = []
    world.footprints()
    assert world.facts("repository") == {"collections": "0"}
    assert set(world.asked) == {"pds.example.test"}


def test_what_their_server_told_goes_with_the_last_thing_that_a_person_declares(world: Declaring) -> None:
    world.links(SITE)
    world.claims(claim())
    world.footprints()
    world.links()
    assert (world.footprints(), world.facts("repository")) == (0, {"collections": "3"}), "a claim still stands"
    world.claims(None)
    asked = world.asked.total()
    assert (world.footprints(), world.facts("repository")) == (1, {})
    world.later(7)
    assert (world.look(), world.footprints(), world.asked.total()) == (0, 0, asked)


def test_one_switch_ends_all_of_it(world: Declaring) -> None:
    world.links(SITE)
    assert (world.look(), world.footprints()) == (1, 1)
    world.change(
        "insert into signals by name select * replace ('pkg:npm/lamp' as subject, 'npm' as source) from signals"
    )
    assert withdraw_all(world.store) == 2
    assert withdraw_all(world.store) == 0
    assert world.rows("select distinct subject from signals") == [("pkg:npm/lamp",)], "that is a package"
    assert world.rows("select subject from fetches where kind in ('declared', 'footprint')") == []
    assert (world.look(), world.footprints()) == (1, 1), "switched on again, it is asked for at once"


def test_what_is_switched_off_waits_for_nothing(world: Declaring) -> None:
    def due(asks_declared: bool) -> int:
        with world.store.read() as rows:
            return due_lookups(rows, world.wall, asks_declared=asks_declared)

    before = due(True)
    world.links(SITE)
    assert (due(True), due(False)) == (before + 2, before), "the link, and the server's list"
    world.look()
    world.footprints()
    assert due(True) == before


def test_all_of_it_is_erased_with_the_person(world: Declaring) -> None:
    world.claims(claim())
    world.links(SITE)
    assert (world.look(), world.footprints()) == (1, 1)
    with world.store.write() as txn:
        names, number = find_names(txn, MALLORY)
        erase_rows(txn, names, number, NOW)
    for table in ("signals", "account_claims", "profiles"):
        assert world.rows(f"select * from {table}") == []
    assert world.rows("select subject from fetches where contains(subject, ?)", MALLORY) == []


def test_who_is_erased_while_they_are_looked_up_stays_erased(world: Declaring, tmp_path: Path) -> None:
    def erase_and_answer(request: Request) -> Answer:
        if not erased:
            erased.append(erase(world.store, MALLORY, "by_request", NOW, folders_below(tmp_path)))
        return answer(request)

    world.claims(claim())
    world.links(SITE)
    world.pages["lamps.example.org/"] = response(ME.encode())
    world.store.tombstones.key = b"a key of the tests"
    answer, erased = world.peer.answer, list[Erased]()
    world.peer.answer = erase_and_answer
    world.look()
    assert len(erased) == 1
    for table in ("signals", "account_claims", "profiles"):
        assert world.rows(f"select * from {table}") == []
    assert world.rows("select subject from fetches where contains(subject, ?)", MALLORY) == []
    asked = world.asked.total()
    assert (world.look(), world.footprints(), world.ask_registries(), world.asked.total()) == (0, 0, 0, asked)


@given(text=draw.text(max_size=300))
def test_a_text_without_a_name_names_nobody(text: str) -> None:
    names = frozenset({MALLORY, HANDLE})
    assert not names_person(text.replace("mallory", ""), names)
    assert names_person(f"{text.rstrip('.@/')} {HANDLE}", names)
