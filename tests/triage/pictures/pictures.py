"""Pictures of every page and state, to be looked at: `make screenshots` takes them, no run of the tests does."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from scoring.queries.read import LaneMonth
from scoring.redteam.render import write_report
from scoring.training.summary import write_backtest
from tests.scoring.redteam.test_scenes import RUN
from tests.triage.axe import violations
from tests.triage.every_page import BEN, lane_pages, signed_out_pages, something_of_everything
from tests.triage.views.test_reports import EVERY_LANE, serve, whole_backtest
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.drawn_rows import ANA, MARA, drawn_rows, pull_request
from tests.triage.worlds.hostile import PULLS, hostile_site
from tests.triage.worlds.lane_site import MORE
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in
from triage.models import Person

TARGET = os.environ.get("SCREENSHOTS", "")
LOOKS: tuple[tuple[str, int, Literal["light", "dark"]], ...] = (
    ("light", 1440, "light"),
    ("dark", 1440, "dark"),
    ("tablet", 768, "light"),
    ("tablet-dark", 768, "dark"),
    ("phone", 390, "light"),
    ("phone-dark", 390, "dark"),
)
Take = Callable[..., None]


@pytest.fixture
def take(browser: Browser, live_server: LiveServer) -> Iterator[Take]:
    """`take(name, path)`: that page in every look; `before` acts on it first, `cookie` signs somebody in.

    A page that scrolls sideways or breaks a rule of axe fails in the end, unless something acted on it first.
    """
    pages, faults = {}, dict[str, list[str]]()
    for look, width, scheme in LOOKS:
        size: ViewportSize = {"width": width, "height": 900}
        page = browser.new_page(
            viewport=size, color_scheme=scheme, base_url=live_server.url, is_mobile=width < 500, has_touch=width < 500
        )
        session = page.context.new_cdp_session(page)
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})  # a drawn world changes under one number
        pages[look] = page

    def taken(name: str, path: str, before: Callable[[Page], object] | None = None, cookie: str = "") -> None:
        for look, page in pages.items():
            page.context.clear_cookies(name="sessionid")  # a page that the server kept came with the other cookie
            if cookie:
                page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
            page.goto(path)
            if before:
                before(page)
            page.screenshot(path=Path(TARGET) / f"{name}.{look}.png", full_page=True)
            if not before and (found := faults_of(page)):
                faults[f"{name}.{look}"] = found
            page.unroute_all(behavior="ignoreErrors")

    yield taken
    for page in pages.values():
        page.close()
    assert faults == {}


def faults_of(page: Page) -> list[str]:
    """What would not be shipped of a page as it is: that it scrolls sideways, and what breaks a rule of axe."""
    sideways = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return [*(["it scrolls sideways"] if sideways else []), *violations(page)]


@pytest.fixture
def world(live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> DrawnWorld:
    settings.PUBLIC_READ = settings.STREAM_CLOCK = True
    drawn = DrawnWorld()
    drawn.rows = drawn_rows()[:5]
    draw(monkeypatch, drawn)
    return drawn


def test_states_of_the_queue(take: Take, world: DrawnWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = drawn_rows()[1].uri
    take("queue", "/")
    take("queue-open", f"/?open={quote(opened)}")
    take("queue-filtered", "/?bucket=normal_queue")
    take("queue-nothing-matches", "/?q=nothing+like+it")
    take("queue-notes", "/?bucket=x&sort=odd")
    take("queue-busy", "/", _busy)
    take("queue-unreachable", "/", _unreachable)
    take("contributor-known", f"/c/{MARA.did}")
    take("leaderboard", "/leaderboard")
    take("dashboard", "/dashboard")
    take("error-404", "/nothing-is-here")
    take("error-422", "/c/mara")
    world.rows = tuple(pull_request(number, ANA, f"Fix number {number}", 40 + number, 0) for number in range(1, 25))
    take("queue-full", "/?sort=oldest")  # the server keeps a page for as long as its snapshot is the newest
    world.rows = ()
    take("queue-nothing-waits", "/?sort=newest")
    world.t_high = None
    draw(monkeypatch, world)  # the frame keeps what it was told of a snapshot
    take("lane-shut", "/?bucket=fast_lane")
    take("lane-shut-dashboard", "/dashboard")


def test_reports_that_were_written(
    take: Take, world: DrawnWorld, settings: Settings, tmp_path: Path, client: Client
) -> None:
    settings.LOG_DIR = settings.MODEL_DIR = tmp_path
    world.results = tuple(LaneMonth(f"2026-0{month}", 20 + month, month % 3, 0.01, 0.2, 0.05) for month in (1, 2, 3))
    serve(tmp_path, EVERY_LANE)
    write_backtest(tmp_path, whole_backtest())
    write_report(tmp_path, RUN)
    sign_in(client, "maintainer")
    for path in ("dashboard", "backtest", "redteam", "vouches", ""):
        take(f"written-{path or 'queue'}", f"/{path}", cookie=client.cookies["sessionid"].value)


def test_first_run_and_trouble(
    take: Take, world: DrawnWorld, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.STREAM_CLOCK = False
    settings.STATUS_PATH = tmp_path / "none.json"
    world.newest = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=3)
    world.gaps_open = 2
    take("stale", "/")
    take("stale-dashboard", "/dashboard")
    monkeypatch.setattr("triage.charts.histogram.lane_shares", _break)
    take("error-500", "/dashboard?anew")  # of the other address the browser holds the page that is whole
    draw(monkeypatch, None)
    take("first-run", "/")


def test_every_page_of_a_maintainer_and_a_conflict(take: Take, shown_site: ActingSite, settings: Settings) -> None:
    something_of_everything(shown_site)
    admin = Client()
    admin.force_login(Person.objects.get(did=BEN))
    cookie = admin.cookies["sessionid"].value
    for path in lane_pages(shown_site, admin):
        take(name_of(path), path, cookie=cookie)
    for path in signed_out_pages(shown_site):
        take("signed-out-" + name_of(path), path)
    form = shown_site.form(uri=MORE, version=7, next="/")
    take("conflict", "/", lambda page: page.evaluate(SEND, form), cookie)
    take("acted", f"/?open={quote(MORE)}", _pull_for_review, cookie)


def test_hostile_texts(
    take: Take, live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hostile_site(tmp_path, settings, monkeypatch):
        take("hostile-queue", "/?bucket=normal_queue")
        take("hostile-open", f"/?open={quote(PULLS[0])}")
        take("hostile-leaderboard", "/leaderboard")
        take("hostile-diff", f"/diff/{PULLS[0]}")


# A form as a page that was loaded earlier would send it, and what comes back in its place.
SEND = """async told => {
  const token = document.querySelector('[name=csrfmiddlewaretoken]').value;
  const body = new URLSearchParams({...told, csrfmiddlewaretoken: token});
  const answer = await fetch('/act', {method: 'POST', body});
  document.documentElement.innerHTML = (await answer.text()).replace(/<script.*?<\\/script>/gs, '');
}"""


def name_of(path: str) -> str:
    """The name of a page's picture."""
    place, _, query = path.partition("?")
    short = [part[:24] for part in place.split("/") if part and not part.startswith(("at:", "did:plc", "sh.tangled"))]
    return "-".join(["page", *short[:3], *re.findall(r"(\w+)=", query)])


def _busy(page: Page) -> None:
    """A filter that the server has not answered yet."""
    page.evaluate("XMLHttpRequest.prototype.send = () => {}")
    page.locator("#tile-fast_lane").click()
    expect(page.locator("#results")).to_have_css("opacity", "0.6")


def _pull_for_review(page: Page) -> None:
    """By the button, which is gone in the looks after the first: it was pressed."""
    for button in page.locator("[value=pull_for_review]").all():
        button.click()
        page.wait_for_load_state("networkidle")  # on a slow machine the ten seconds may be over, and this says so


def _unreachable(page: Page) -> None:
    page.route("**/?bucket=*", _abort)
    page.locator("#tile-fast_lane").click()
    page.get_by_role("alert").wait_for()


def _abort(route: Route) -> None:
    route.abort()


def _break(board: object) -> None:
    raise RuntimeError("made by a test")
