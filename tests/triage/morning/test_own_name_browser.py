"""An owner's first day in Chromium, all of it in their own name: real web, worker, data server, directory and stream.

They begin an empty site by signing in on their server's own pages, watch two repositories, approve and merge one pull
request, comment on another, and under `make prove` vouch for the author and take the comment and the vouch back. Only
the knot is a stand-in, which checks every token, and the other people write from outside: the two repositories and pull
requests are written at the data server without a page.
"""

import gzip
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from ingest.clock import wall_now
from ingest.oauth.records import COMMENT, STATUS, VOUCH
from ingest.records.registry import PULL, REPOSITORY
from tests.conftest import Count
from tests.peers.consent import PASSWORD
from tests.peers.knot import MERGE, Knot
from tests.peers.network import PDS_HOST, RELAY_HOST, Account, RealNetwork
from tests.peers.tls_front import TlsFront
from tests.scoring.offered import CLEAN
from tests.triage.conftest import ARGUMENTS
from tests.triage.morning.overheard import ANSWERED, HEADERS, SENT, keys_of, secrets_sent, texts_below
from tests.triage.morning.real_site import RealSite, is_there, started_site
from tests.triage.pictures.pictures import LOOKS, TARGET, faults_of
from tests.triage.windows import Windows, is_complaint
from tests.waiting import PATIENT_MS, wait_for

HOST = "first-day.sunstead.org"
ADDRESS = f"https://{HOST}"
MENDED, SWEPT = "Mend the lamp", "Sweep the stairs"
PAGES = (
    *("/", "/changes", "/signed-in", "/vouches", "/me", "/people", "/openapi.json", "/api", "/ops/metrics", "/nowhere"),
    *("/oauth/jwks.json", "/oauth/client-metadata.json", "/oauth/grant?act=vouch"),
)
WORDS, REASON = "Why <b>so</b> late?", "Careful work"


@dataclass
class Day:
    """The owner, the contributor, and what they meet."""

    network: RealNetwork
    owner: Account
    contributor: Account
    knot: Knot
    site: RealSite
    # Seconds from the click to the data server's commit, and from there to the page.
    lags: dict[str, tuple[float, float]] = field(default_factory=dict)

    def notice(self, page: Page, what: str, commit: Callable[[], object], address: str, shown: str) -> None:
        """Wait until a record is written, and then until a page has these words, or not those after "no "."""

        def is_shown() -> bool:
            text = page.evaluate("address => fetch(address).then(answer => answer.text())", address)
            return (shown.removeprefix("no ") in text) != shown.startswith("no ")

        clicked = time.monotonic()
        wait_for(commit, what=what)
        committed = time.monotonic()
        wait_for(is_shown, what=f"{what} that came back")
        self.lags[what] = (round(committed - clicked, 2), round(time.monotonic() - committed, 2))

    def written(self, collection: str) -> list[dict[str, Any]]:
        """What the owner's data server holds."""
        query = self.network.query
        return query("com.atproto.repo.listRecords", repo=self.owner.did, collection=collection)["records"]

    def streamed(self, collection: str) -> list[dict[str, Any]]:
        """What the stream brought of the owner, as its subscribers read it."""
        own = [
            frame["commit"]
            for frame in self.network.shim.frames
            if frame["did"] == self.owner.did and "commit" in frame
        ]
        return [commit["record"] for commit in own if commit["collection"] == collection]

    def offer(self, repository: str, title: str, file: str) -> str:
        """A pull request of the contributor's, with its patch at their data server."""
        moment = f"{wall_now().isoformat(timespec='milliseconds')}Z"
        blob = self.contributor.upload(gzip.compress(CLEAN.replace("a.py", file).encode()))
        rounds, target = [{"patchBlob": blob, "createdAt": moment}], {"repo": repository, "branch": "main"}
        record = {"title": title, "createdAt": moment, "target": target, "rounds": rounds}
        return self.contributor.create(PULL, record)


@pytest.fixture
def day(real_network: RealNetwork, tmp_path: Path, count: Count) -> Iterator[Day]:
    number = time.time_ns() % 1_000_000_000
    owner, contributor = real_network.join(f"day{number}"), real_network.join(f"con{number}")
    environment = {
        "PUBLIC_ORIGIN": ADDRESS,
        "ALLOWED_HOSTS": f"{HOST},127.0.0.1",
        "CSRF_TRUSTED_ORIGINS": ADDRESS,
        "SECURE_COOKIES": "True",
        "LOG_LEVEL": "DEBUG",
        "JETSTREAM_URLS": real_network.shim.url,
        "BACKFILL_HOSTS": f"https://{RELAY_HOST}",
    }
    real_network.overheard = []
    with (
        (tmp_path / "said").open("w") as said,
        Knot(real_network, holders={owner.did}) as knot,
        started_site(tmp_path, real_network.origin, said, count(1, 10), **environment) as site,
    ):
        real_network.lead(HOST, int(site.address.rpartition(":")[2]))
        yield Day(real_network, owner, contributor, knot, site)
    real_network.overheard = None


@pytest.fixture
def page(
    day: Day, chromium: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """A window of a browser that finds every name; fails where a page of the site complained."""

    def complains(message: ConsoleMessage) -> bool:
        return is_complaint(message) and message.location["url"].startswith(ADDRESS)

    with TlsFront(day.network, tmp_path_factory.mktemp("front")) as front, sync_playwright() as playwright:
        expect.set_options(timeout=PATIENT_MS)
        windows = Windows(
            playwright.chromium.launch(executable_path=chromium, args=[*ARGUMENTS, *front.browser_arguments])
        )
        windows.watch(monkeypatch)
        with windows.lend(ADDRESS, complains) as opened:
            yield opened()
        windows.browser.close()
        assert windows.forbidden == []


def say_yes_at_their_server(page: Page) -> None:
    """From the site's page before leaving over the server's own pages and back."""
    page.get_by_role("link", name=f"Continue to {PDS_HOST}").click()
    page.locator("input[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Authorize").click()
    page.wait_for_url(f"{ADDRESS}/**")


def begin_the_site(page: Page, day: Day) -> None:
    day.site.fork("first_admin")
    code = day.site.said()
    day.site.web = day.site.fork("web")
    day.site.start_worker()
    page.goto("/sign-in")
    page.get_by_role("link", name="begins here").click()
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Continue to the sign-in").click()
    page.get_by_label("Your handle", exact=True).fill(day.owner.handle)
    page.get_by_role("button", name="Continue", exact=True).click()
    say_yes_at_their_server(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Watched repositories")


def watch_the_repositories(page: Page, day: Day) -> None:
    expect(page.get_by_label("Handle or DID of the account")).to_have_value(day.owner.handle)
    page.get_by_role("button", name="List its repositories").click()
    for name in ("lantern", "attic"):
        page.get_by_label(f"Watch {name}").check()
    page.get_by_role("button", name="Watch and begin to read").click()
    expect(page.get_by_role("heading", name="The inbox is ready.")).to_be_visible()


def open_pull(page: Page, uri: str, title: str) -> None:
    """Its own page, once its patch was read: before, an approval would meet a change of what it names."""
    address, read = f"/pull/{quote(uri, safe=':/')}", page.get_by_text("The scanners found nothing")
    wait_for(lambda: page.goto(address) and read.count(), what=f"the reading of {title}")
    expect(page.get_by_role("heading", name=title).first).to_be_visible()


def picture(page: Page, name: str) -> None:
    """The page in every look, where `make screenshots` asks for it; fails on what would not be shipped."""
    for look, width, scheme in LOOKS if TARGET else ():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=Path(TARGET) / f"own-name-{name}.{look}.png", full_page=True)
        assert faults_of(page) == [], f"{name}.{look}"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})


def allow_it(page: Page) -> None:
    """The page that says what one act writes, and from there over the server's own pages and back."""
    expect(page.get_by_role("heading", level=1)).to_have_text("Allow it at your server")
    picture(page, f"allow-{dict(parse_qsl(urlsplit(page.url).query))['act']}")
    page.get_by_role("button", name="Ask my server").click()
    say_yes_at_their_server(page)


def comment(page: Page, day: Day, uri: str) -> None:
    open_pull(page, uri, SWEPT)
    page.locator("summary", has_text="Comment").click()
    page.locator("#say-comment").fill(WORDS)
    picture(page, "comment")
    page.get_by_role("button", name="Comment on Tangled").click()
    allow_it(page)
    assert day.written(COMMENT) == [], "allowing it sends nothing"
    page.get_by_role("button", name="Send to Tangled").click()
    day.notice(page, "the comment", lambda: day.written(COMMENT), "/", "1 comment")
    (record,) = day.written(COMMENT)
    assert (record["value"]["subject"]["uri"], record["value"]["body"]["text"]) == (uri, WORDS)
    wait_for(lambda: day.streamed(COMMENT) == [record["value"]], what="the comment in the stream")
    wait_for(lambda: page.reload() and page.get_by_text("on Tangled:").count(), what="the comment that came back")
    expect(page.get_by_role("main")).to_contain_text(WORDS)


def merge(page: Page, day: Day, uri: str) -> None:
    open_pull(page, uri, MENDED)
    ready = page.locator("summary", has_text="Merge…")
    wait_for(lambda: page.reload() and ready.count(), what="the approval")
    ready.click()
    picture(page, "merge")
    page.get_by_role("button", name="Merge", exact=True).click()
    allow_it(page)
    assert day.knot.merged == [], "allowing it merges nothing"
    page.locator("summary", has_text="Merge…").click()
    page.get_by_role("button", name="Merge", exact=True).click()
    day.notice(page, "the merge", lambda: day.written(STATUS), "/", f"no {MENDED}")
    (merged,) = day.knot.merged
    assert (merged["by"], merged["branch"], day.knot.refused) == (day.owner.did, "main", [])
    (asked,) = {one.path for one in day.network.overheard or () if "getServiceAuth" in one.path}
    assert dict(parse_qsl(urlsplit(asked).query)) == {"aud": f"did:web:{day.knot.host}", "lxm": MERGE}
    (record,) = day.written(STATUS)
    assert (record["value"]["pull"], record["value"]["status"]) == (uri, f"{STATUS}.merged")
    wait_for(lambda: day.streamed(STATUS) == [record["value"]], what="the status in the stream")


def vouch(page: Page, day: Day, uri: str) -> None:
    """From the page that the merge led to, whose merged work it names."""
    page.goto(f"/history/{uri}")
    page.locator("summary", has_text="Vouch").click()
    reason = page.get_by_label("Reason, if you want to give one")
    expect(page.get_by_label(MENDED)).to_be_checked()
    picture(page, "vouch")
    reason.fill(REASON)
    page.get_by_role("button", name="Vouch", exact=True).click()
    allow_it(page)
    expect(reason).to_have_value(REASON)
    page.get_by_role("button", name="Vouch", exact=True).click()
    day.notice(page, "the vouch", lambda: day.written(VOUCH), f"/c/{day.contributor.did}", f"“<bdi>{REASON}</bdi>”")
    (record,) = day.written(VOUCH)
    assert record["uri"].endswith(f"/{day.contributor.did}")
    assert (record["value"]["reason"], record["value"]["evidences"]) == (REASON, [uri])
    wait_for(lambda: day.streamed(VOUCH) == [record["value"]], what="the vouch in the stream")


def take_the_vouch_back(page: Page, day: Day) -> None:
    page.goto("/vouches")
    expect(page.locator("#sent")).to_contain_text(day.written(VOUCH)[0]["uri"])
    page.get_by_role("button", name="Take my vouch back").click()
    allow_it(page)
    page.get_by_role("button", name="Take my vouch back").click()
    wait_for(lambda: not day.written(VOUCH), what="the end of the vouch")


def take_the_comment_back(page: Page, day: Day, uri: str) -> None:
    open_pull(page, uri, SWEPT)
    page.locator("summary", has_text="Take back…").click()
    expect(page.locator(".say[open]")).to_contain_text(day.written(COMMENT)[0]["uri"])
    page.evaluate("location.hash = 'part-comments'")  # a phone shows one part at a time
    picture(page, "take-back")
    page.get_by_role("button", name="Take back", exact=True).click()
    allow_it(page)
    page.locator("summary", has_text="Take back…").click()
    page.get_by_role("button", name="Take back", exact=True).click()
    day.notice(page, "the end of the comment", lambda: not day.written(COMMENT), "/", "no 1 comment")


def find_no_secret(page: Page, day: Day, uri: str, scratch: Path) -> None:
    """In no file, log, row, backup, export or answer of the site, searched for by value."""
    root, exported = day.site.root, day.site.root / "exported.json"
    assert day.network.overheard is not None
    secrets = {*secrets_sent(day.network.overheard), *keys_of(root)}
    assert {name for name, _ in secrets} >= {*HEADERS, *SENT, *ANSWERED, "the site's key", "a session's key"}
    code, state = (next(value for name, value in secrets if name == wanted) for wanted in ("code", "state"))
    addresses = [*PAGES, f"/history/{uri}", f"/c/{day.owner.did}", f"/c/{day.owner.did}/data"]
    addresses.append(f"/oauth/callback?code={code}&state={state}")
    fetch = "address => fetch(address).then(async one => [...one.headers].join() + await one.text())"
    said = {address: page.evaluate(fetch, address) for address in addresses}
    day.site.fork("export_contributor", day.owner.did, "--out", str(exported))
    day.site.fork("backup")
    wait_for(lambda: list((root / "backups").glob("*Z/manifest.json")), what="the backup")
    wait_for(lambda: exported.exists() and exported.read_text().endswith("\n"), what="the export")
    os.kill(day.site.worker, signal.SIGKILL)
    wait_for(lambda: not is_there(day.site.worker), what="the end of the worker")
    said |= dict(texts_below(root, scratch))
    told = [name for name, text in said.items() if day.owner.did in text]
    assert {"web.sqlite3 as rows", "duckdb/trust.duckdb as rows", "/changes"} <= set(told), "what is there is found"
    assert [(where, name) for where, text in said.items() for name, value in secrets if value in text] == []


def test_an_owner_begins_a_site_and_acts_on_it_in_their_own_name(
    page: Page, day: Day, tmp_path_factory: pytest.TempPathFactory, prove: bool
) -> None:
    # Else tests/triage/acting/test_real_vouching.py and test_real_taking_back.py do the rest without a browser.
    whole = prove or bool(TARGET)
    made = {"knot": day.knot.host, "createdAt": "2026-01-01T00:00:00Z"}
    lantern, attic = (f"did:plc:{letter * 4}{day.owner.did[-20:]}" for letter in "la")
    for name, did in (("lantern", lantern), ("attic", attic)):
        day.owner.create(REPOSITORY, {"name": name, "repoDid": did, **made})
    begin_the_site(page, day)
    watch_the_repositories(page, day)
    mended, swept = day.offer(lantern, MENDED, "a.py"), day.offer(attic, SWEPT, "b.py")
    open_pull(page, mended, MENDED)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved by you.").first).to_be_visible()
    comment(page, day, swept)
    merge(page, day, mended)
    if whole:
        vouch(page, day, mended)
    page.goto("/")
    expect(page.locator(".row", has_text=SWEPT)).to_be_visible()
    expect(page.locator(".row", has_text=MENDED)).to_have_count(0)
    page.goto("/changes")
    for collection in (COMMENT, STATUS, VOUCH) if whole else (COMMENT, STATUS):
        (record,) = day.written(collection)
        expect(page.get_by_role("main")).to_contain_text(f"record: {record['uri']}")
    picture(page, "changes")
    if whole:
        take_the_vouch_back(page, day)
        take_the_comment_back(page, day, swept)
    find_no_secret(page, day, mended, tmp_path_factory.mktemp("scratch"))
    print(json.dumps(day.lags))  # noqa: T201  for docs/measurements.md: pytest -rP
