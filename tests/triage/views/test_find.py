"""Whoever is not signed in finds that a pull request is here, and nothing that the site made of it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given
from hypothesis import settings as tries
from hypothesis import strategies as st
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.store.snapshots import publish
from scoring.pipeline.interventions import write_wish
from scoring.queries import read
from scoring.queries.read import AnswerMonth, Answers
from tests.conftest import count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, SEED, STRANGER, at, pull_uri
from tests.pipeline import Result, prepared
from tests.triage.axe import violations
from tests.triage.conftest import OpenPage
from tests.triage.worlds.pages_world import sign_in
from tests.triage.worlds.small_site import CABIN, OFFERED, frames_of_it, play
from triage.access.throttle import LIMIT
from triage.presenters.about import operator_told
from triage.views.about import FEWEST

pytestmark = pytest.mark.django_db
PAGE = "https://tangled.org/seed.example.com/lantern/pulls/12"
NOT_FOUND = "No open pull request found"
JUDGED = r"fast lane|needs review|flagged|stays clean|P\(clean\)|score|\d %|interval|finding|trust|vouch|denounce"
HANDLES = "update contributors set handle = 'seed.example.com', handle_verified = true where did = ?"
MARAS = "update contributors set handle = 'Mara.example.com', handle_verified = ? where did = ?"


@pytest.fixture(autouse=True)
def fresh_counts(settings: Settings) -> Iterator[None]:
    settings.PUBLIC_READ = False
    cache.clear()
    yield
    cache.clear()


def fill(result: Result) -> None:
    """The small world with handles and the number under which the forge has its pull request."""
    frames = frames_of_it()
    frames.pull(MARA, "elsewhere", target={"repo": "did:plc:" + "z" * 24, "branch": "main"})
    play(result, frames)
    sql(result, HANDLES, SEED)
    sql(result, MARAS, True, MARA)
    sql(result, "insert into pull_pages values (?, 12, ?)", OFFERED, PAGE)


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path, settings: Settings) -> Iterator[Result]:
    """A copy of it that is not published yet."""
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    with prepared(tmp_path, fill) as result:
        yield result


def sql(result: Result, statement: str, *values: object) -> None:
    with result.store.write() as txn:
        txn.execute(statement, list(values))


def shown(result: Result) -> Client:
    publish(result.store, result.folder / "snapshots")
    return Client()


def ask(client: Client, asked: str, **extra: Any) -> Any:
    return client.get(f"/find?{urlencode({'q': asked})}", **extra)


def main(answer: Any) -> str:
    return re.sub(r"<[^>]*>|\s+", " ", answer.content.decode().partition("<main")[2].partition("</main>")[0])


def result_of(answer: Any, asked: str) -> str:
    """The page without what was typed, in its field and in the address to come back to after signing in."""
    return re.sub(r"next=[^\"]*", "", answer.content.decode()).replace(asked, "")


def test_by_its_address_or_their_name_somebody_finds_that_it_is_here_and_since_when(world: Result) -> None:
    client = shown(world)
    for asked in (
        *(PAGE, f"{PAGE}/", f"{PAGE}/round/1", PAGE.removeprefix("https://")),
        *(OFFERED, f"  {OFFERED}  ", MARA, "mara.example.com", "@Mara.example.com", "mend the LAMP", "the LAM"),
        *("lantern #12", "#12"),
    ):
        answer = ask(client, asked)
        told = main(answer)
        assert answer.status_code == 200
        assert re.search(r"lantern #12 is here since \d+ \w+ 20\d\d\. It is open", " ".join(told.split())), asked
        assert "private link" in told
        assert answer["X-Robots-Tag"] == "noindex"
        assert "no-store" in answer["Cache-Control"]


def test_the_name_of_a_repository_leads_to_its_inbox_who_may_read_it(world: Result, settings: Settings) -> None:
    client = shown(world)
    told = main(ask(client, "Lantern"))
    assert "lantern is a repository that is watched here. Type the title of yours" in " ".join(told.split())
    settings.PUBLIC_READ = True
    assert 'href="/?repository=' in ask(client, "lantern").content.decode()
    assert "No pull request found" in main(ask(client, "lanterns"))
    assert "Too short: type at least four letters" in main(ask(client, "lam"))


def test_the_first_part_of_a_verified_handle_finds_who_has_it(world: Result) -> None:
    assert "lantern #12 is here since" in " ".join(main(ask(shown(world), "mara")).split())


def test_a_decided_one_is_found_by_its_title_who_may_read_and_after_the_open_ones(
    world: Result, settings: Settings
) -> None:
    decided = "insert into pull_requests by name select * replace (pull_uri || 'x' as pull_uri, 'merged' as state, "
    decided += "opened_at as state_at, seen_at + interval 1 hour as seen_at) from pull_requests where pull_uri = ?"
    sql(world, decided, OFFERED)
    client = shown(world)
    assert "It was merged on" not in main(ask(client, "Mend the lamp"))
    settings.PUBLIC_READ = True
    told = main(ask(client, "Mend the lamp"))
    assert told.index("It is open and waits for") < told.index("It was merged on")


def test_one_that_its_author_marked_as_merged_is_not_told_to_wait_for_a_merge(world: Result) -> None:
    sql(world, "update pull_requests set merge_proof = 'unverified' where pull_uri = ?", OFFERED)
    told = main(ask(shown(world), OFFERED))
    assert "Its author marked it as merged, and nothing confirms that yet" in told
    assert "to merge or close it" not in told


def test_an_address_says_if_its_repository_is_watched_and_nothing_of_a_hidden_pull_request(world: Result) -> None:
    client = shown(world)
    elsewhere = main(ask(client, "https://tangled.org/seed.example.com/nowhere/pulls/12"))
    assert "seed.example.com/nowhere is not watched here. Only pull requests to watched" in " ".join(elsewhere.split())
    unknown = main(ask(client, f"{PAGE}9"))
    assert "seed.example.com/lantern is watched here, but it may not have arrived yet" in " ".join(unknown.split())


def test_of_what_was_judged_and_of_whom_nothing_is_told(world: Result) -> None:
    client = shown(world)
    for asked in (OFFERED, MARA, PAGE, "made-up.example.com"):
        told = main(ask(client, asked))
        assert re.search(JUDGED, told, re.IGNORECASE) is None
        assert "Mend the lamp" not in told, "a stranger's words stand on no page for everybody"


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        (FEWEST, "Of the 5 first-timers who got an answer in six months, half had it within 2.1 days; 7 still wait."),
        (4, ""),
    ],
)
def test_how_soon_first_timers_hear_back_is_told_where_enough_did(
    world: Result, monkeypatch: pytest.MonkeyPatch, heard: int, told: str
) -> None:
    month = AnswerMonth(at(0), heard, 2.14, 1.0, 4.0)
    monkeypatch.setattr(
        read, "answers", lambda rows, now, where: (Answers(True, (), month, 7), Answers(False, (), None))
    )
    client = shown(world)
    assert ("an answer in" in main(ask(client, OFFERED))) == bool(told)
    assert told in main(ask(client, OFFERED))
    assert "an answer in" not in main(ask(client, "made-up"))


def test_a_regular_is_told_how_soon_regulars_hear_back(world: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    month = AnswerMonth(at(0), FEWEST, 2.14, 1.0, 4.0)
    monkeypatch.setattr(read, "answers", lambda rows, now, where: (Answers(True, (), None), Answers(False, (), month)))
    sql(
        world,
        "insert into pull_requests by name select * replace (pull_uri || 'x' as pull_uri, 'closed' as state, "
        "opened_at as state_at) from pull_requests where pull_uri = ?",
        OFFERED,
    )
    sql(world, "update pull_requests set opened_at = opened_at + interval 1 year where pull_uri = ?", OFFERED)
    told = main(ask(shown(world), OFFERED))
    assert "Of the 5 regulars who got an answer in six months, half had it within 2.1 days; nobody still waits." in told
    assert "first-timers" not in told


def test_a_hit_leads_to_its_open_row_where_the_reader_may_see_it(world: Result) -> None:
    client = shown(world)
    closed = ask(client, OFFERED)
    assert "?open=" not in closed.content.decode().partition("<main")[2]
    assert "This page tells no more. Your own page says why your pull request waits, what was" in main(closed)
    sign_in(client, "viewer")
    page = ask(client, "mend the").content.decode()
    ((address, name),) = re.findall(r'href="(/\?open=[^"]+)"><bdi>([^<]+)</bdi></a> <bdi>\(lantern #12\)', page)
    assert name == "Mend the lamp", "whoever reads the inbox knows it by its title"
    row = client.get(unescape(address)).content.decode()
    for public in ("Mend the lamp", "Stays clean", "Why this lane"):
        assert public in row, public
    told = main(ask(client, OFFERED))
    assert "The row of an open one says why it waits and what was found in it. Your own page adds what" in told
    assert "This page tells no more" not in told


def test_a_hit_that_is_decided_leads_to_no_row(world: Result, settings: Settings) -> None:
    settings.PUBLIC_READ = True
    sql(world, "update pull_requests set state = 'closed', state_at = ? where pull_uri = ?", at(60), OFFERED)
    closed = ask(shown(world), PAGE).content.decode().partition("<main")[2]
    assert ("It was closed on" in closed, "?open=" in closed) == (True, False), "no row is open"


def test_a_decided_hit_has_its_title_its_page_and_how_it_ended_for_who_may_read_and_for_nobody_else(
    world: Result,
) -> None:
    sql(world, "update pull_requests set state = 'closed', state_at = ? where pull_uri = ?", at(60), OFFERED)
    client = shown(world)
    told = main(ask(client, PAGE))
    assert "Mend the lamp" not in told
    assert "not merged" not in told
    sign_in(client, "viewer")
    page = ask(client, PAGE).content.decode()
    assert f'href="{reverse("history", args=[OFFERED])}"' in page
    told = " ".join(main(ask(client, PAGE)).split())
    assert "Mend the lamp" in told
    assert re.search(r"It was closed on [^:]+: not merged", told)


def test_a_few_letters_and_the_same_number_elsewhere_find_nothing(world: Result) -> None:
    client = shown(world)
    for asked in ("lam", "men", PAGE.replace("seed", "mara"), PAGE.replace("lantern", "cabin"), f"{PAGE}3"):
        assert NOT_FOUND in main(ask(client, asked)), asked


@pytest.mark.parametrize("state", ["merged", "closed"])
def test_one_that_is_decided_is_found_by_its_address_alone(world: Result, state: str) -> None:
    sql(world, "update pull_requests set state = ?, state_at = ? where pull_uri = ?", state, at(60), OFFERED)
    client = shown(world)
    assert f"It was {state} on " in main(ask(client, PAGE))
    assert NOT_FOUND in main(ask(client, MARA))


HIDDEN = {
    "suspended": "update contributors set account_status = 'suspended' where did = ?",
    "being erased": "update contributors set account_status = 'erasing' where did = ?",
    "deleted": "update pull_requests set deleted_at = now() where pull_uri like concat('at://', ?, '/%')",
    "erased": "delete from pull_requests where pull_uri like concat('at://', ?, '/%')",
    "opted out": "",
}
PAIRS = [(OFFERED, pull_uri(MARA, "offeree")), (MARA, STRANGER), (PAGE, f"{PAGE}9")]


@pytest.mark.parametrize("how", HIDDEN)
def test_whoever_is_hidden_erased_or_opted_out_is_told_in_the_words_of_what_never_was(world: Result, how: str) -> None:
    if how == "opted out":
        write_wish(world.store, MARA, True, at(0))
    else:
        sql(world, HIDDEN[how], MARA)
    client = shown(world)
    for asked, unknown in PAIRS:
        gone, never = ask(client, asked), ask(client, unknown)
        assert NOT_FOUND in main(gone)
        assert (gone.status_code, result_of(gone, asked)) == (never.status_code, result_of(never, unknown))


def test_people_and_pull_requests_that_are_known_are_not_told_from_those_that_are_not(world: Result) -> None:
    client = shown(world)
    never = ask(client, "nobody.example.org")
    for asked in (ANA, SEED, MALLORY, "seed.example.com", pull_uri(MARA, "elsewhere"), CABIN):
        assert result_of(ask(client, asked), asked) == result_of(never, "nobody.example.org")


def test_a_handle_that_its_domain_does_not_confirm_finds_nobody(world: Result) -> None:
    sql(world, MARAS, False, MARA)
    client = shown(world)
    for asked in ("mara.example.com", "mara"):
        assert NOT_FOUND in main(ask(client, asked))


@pytest.mark.usefixtures("small")
@tries(max_examples=count(50, 1000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=200), st.text().map("at://".__add__), st.text().map("https://x/y/z/pulls/".__add__)))
def test_any_text_gets_a_page_and_asks_no_other_site(text: str) -> None:
    cache.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fetcher, "get", refuse_to_ask)
        answer = ask(Client(), text.encode(errors="replace").decode())
    assert answer.status_code == 200
    assert answer.content.count(b"<script") == 3, "ours"


def refuse_to_ask(*_: object, **__: object) -> None:
    raise AssertionError("a visitor made this site ask another")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "asked",
    [
        *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 100_000, "at://" + "d" * 50_000, "\x00"),
        *("http://[::1", "http://127.0.0.1/a/b/pulls/1", "https://169.254.169.254/a/b/pulls/1", "%", "' or 1=1 --"),
        *(f"https://x/a/b/pulls/{'9' * 400}", "did:web:127.0.0.1%3A80", "\u202egpj", "{{ settings.SECRET_KEY }}"),
    ],
)
def test_hostile_text_finds_nothing_and_is_escaped(asked: str) -> None:
    answer = ask(Client(), asked)
    assert answer.status_code == 200
    assert NOT_FOUND in main(answer)
    assert b"<img" not in answer.content
    assert b"alert(1)</script>" not in answer.content
    assert len(main(answer)) < 1_500


@pytest.mark.usefixtures("small")
def test_who_searches_on_and_on_is_told_to_wait_found_or_not() -> None:
    client = Client()
    told = [ask(client, OFFERED if number % 2 else "made-up").status_code for number in range(LIMIT)]
    assert told == [200] * LIMIT
    late, unknown = ask(client, OFFERED), ask(client, "made-up")
    assert (late.status_code, unknown.status_code) == (429, 429)
    assert 0 < int(late["Retry-After"]) <= 300
    assert "Too many searches" in main(late)
    assert "is here since" not in main(late)
    assert ask(client, OFFERED, REMOTE_ADDR="198.51.100.7").status_code == 200
    assert client.get("/find").status_code == 200, "the empty page is no search"


def test_before_anything_was_published_nothing_is_found(tmp_path: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    assert NOT_FOUND in main(ask(Client(), OFFERED))


@pytest.mark.usefixtures("small")
def test_who_comes_without_an_account_is_led_there_from_every_page(settings: Settings) -> None:
    client = Client()
    for page in ("/sign-in", "/about"):
        assert 'href="/find"' in client.get(page).content.decode()
    settings.PUBLIC_READ = True
    for page in ("/", "/dashboard", "/leaderboard", f"/c/{MARA}", "/nothing-is-here"):
        assert 'href="/find"' in client.get(page).content.decode().partition("</nav>")[0], page
    settings.PUBLIC_READ = False
    landed = client.get("/", follow=True)
    assert 'href="/find"' in landed.content.decode()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "address", ["/find", "/about", "/sign-in", "/nothing-is-here", "/sign-in/made-up", "/c/x/data/y"]
)
def test_every_page_says_who_runs_the_site(settings: Settings, address: str) -> None:
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "<b>Ana</b>", "mailto:ana@site.example"
    foot = Client().get(address, follow=True).content.decode().partition("<footer")[2].partition("</footer>")[0]
    assert '&lt;b&gt;Ana&lt;/b&gt; runs this site. <a href="mailto:ana@site.example"' in foot


@pytest.mark.parametrize(
    ("name", "contact", "staged", "told"),
    [
        ("", "", "", "This site does not say who runs it."),
        ("", "https://site.example/us", "", "Contact of this site:"),
        ("Ana", "mailto:a@b.example", "a demo", "This site is a demo, and nobody runs it for others."),
    ],
)
def test_a_site_that_names_nobody_and_a_demo_say_so(name: str, contact: str, staged: str, told: str) -> None:
    said = operator_told(name, contact, staged)
    assert said.words == told
    assert said.contact == ("" if staged else contact)


@pytest.mark.usefixtures("small", "live_server")
@pytest.mark.parametrize("scripts", [True, False])
def test_in_a_real_browser_it_is_found_with_and_without_scripts(open_page: OpenPage, scripts: bool) -> None:
    page = open_page(390, scripts=scripts)
    page.goto("/sign-in")
    page.get_by_role("link", name="Find it by its address").click()
    page.get_by_label("Address or title of the pull request, or your handle").fill(OFFERED)
    page.get_by_role("button", name="Find").click()
    page.get_by_text("is here since").wait_for()
    for width in (390, 320, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not scripts or violations(page) == []
