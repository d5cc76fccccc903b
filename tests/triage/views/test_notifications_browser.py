"""The site as an installed app and its notifications in a real browser: manifest, offline page, pushes, the page."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.test.testcases import QuietWSGIRequestHandler
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.ingest.push.service import Subscriber
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.test_every_page_browser import faults_of
from tests.waiting import PATIENT_MS, wait_for
from triage.models import Person, PushChoice, PushSubscription

pytestmark = pytest.mark.usefixtures("small")
KEPT = (
    "(async () => (await (await caches.open((await caches.keys())[0])).keys()).map(one => new URL(one.url).pathname))()"
)
# `ready` waits for ever for a worker that could not be installed.
REGISTER = """async () => { const {installing} = await navigator.serviceWorker.register('/service-worker.js');
  await new Promise((done, fail) => { installing.onstatechange = () =>
    ({redundant: () => fail(Error('not installed')), activated: done})[installing.state]?.(); }); }"""
WIDTH = """src => new Promise(done => { const image = new Image();
  image.onload = () => done(image.width); image.src = src; })"""
SHOWN = """async () => (await (await navigator.serviceWorker.ready).getNotifications())
  .map(({title, body, data}) => [title, body, data])"""
CLICK = """async () => { let opened; clients.openWindow = async path => (opened = path);
  const [notification] = await registration.getNotifications();
  dispatchEvent(new NotificationEvent('notificationclick', {notification})); return opened; }"""
# What stands between a page and a push service, which no test has: it gives what a real browser gives.
FAKE = """subscription => { PushManager.prototype.subscribe = async ({userVisibleOnly, applicationServerKey}) => {
  localStorage.asked = JSON.stringify({userVisibleOnly, applicationServerKey});
  return {toJSON: () => subscription}; } }"""


# A browser that has a subscription already and answers the first wish for one with this error.
SUBSCRIBED = """([name, subscription]) => { let isOld = true;
  const unsubscribe = async () => { isOld = false; localStorage.ended = 1; };
  PushManager.prototype.getSubscription = async () => ({unsubscribe});
  PushManager.prototype.subscribe = async () => {
    if (isOld) throw new DOMException('no', name);
    return {toJSON: () => subscription}; } }"""


@pytest.fixture
def window(browser: Browser, live_server: LiveServer) -> Iterator[BrowserContext]:
    """A window of its own, since a service worker stays in it."""
    made = browser.new_context(base_url=live_server.url, permissions=["notifications"])
    made.set_default_timeout(PATIENT_MS)
    yield made
    made.close()


@pytest.fixture
def offered(settings: Settings) -> None:
    settings.PUBLIC_ORIGIN, settings.PUSH_KEY = "https://trust.example", "5a" * 32


def signed_in(window: BrowserContext, person: Person, address: str) -> Page:
    client = Client()
    client.force_login(person)
    window.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": address}])
    return window.new_page()


def as_browsers_give_it(form: dict[str, str]) -> dict[str, Any]:
    """A subscription as a page gets it (PushSubscription.toJSON)."""
    return {"endpoint": form["endpoint"], "keys": {name: form[name] for name in ("p256dh", "auth")}}


def test_chromium_takes_the_manifest_and_would_install_the_site(window: BrowserContext) -> None:
    page = window.new_page()
    page.goto("/sign-in")
    tools = window.new_cdp_session(page)
    told = tools.send("Page.getAppManifest")
    assert told["errors"] == []
    manifest = json.loads(told["data"])
    assert (manifest["scope"], manifest["display"]) == ("/", "standalone")
    found = tools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert {one["errorId"] for one in found} <= {"in-incognito"}, "all that stands against it is this window"
    for icon in [
        *manifest["icons"],
        {"src": page.locator("[rel=apple-touch-icon]").get_attribute("href"), "sizes": "180"},
    ]:
        width = page.evaluate(WIDTH, icon["src"])
        assert icon["sizes"] in ("any", str(width), f"{width}x{width}"), icon


@pytest.mark.usefixtures("live_server")
def test_while_the_server_is_gone_a_page_says_so_and_nothing_but_that_page_was_kept(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuietWSGIRequestHandler, "protocol_version", "HTTP/1.0")  # no connection outlives the server
    server = LiveServer("127.0.0.1")
    window = browser.new_context(base_url=server.url)
    page = window.new_page()
    page.goto("/about")
    page.evaluate(REGISTER)
    page.goto("/find?q=private")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Offline")
    kept = set(page.evaluate(KEPT))
    styles = {path for path in kept if path.startswith("/static/") and path.endswith((".css", "theme.js"))}
    assert (kept - styles, len(styles)) == ({"/offline"}, 7)
    server.stop()
    page.goto("/about")
    expect(page.get_by_role("heading", level=1)).to_have_text("Offline")
    assert page.locator("main").evaluate("one => getComputedStyle(one).maxWidth") == "1216px", "it has its style"
    assert violations_in_both_themes(page) == []
    assert page.get_by_role("link", name="Try again").get_attribute("href") == ""
    window.close()


def test_a_push_shows_a_notification_and_a_click_on_it_opens_its_page(window: BrowserContext) -> None:
    page = window.new_page()
    page.goto("/about")
    tools, found = window.new_cdp_session(page), list[str]()
    tools.on("ServiceWorker.workerRegistrationUpdated", lambda told: found.extend(
        one["registrationId"] for one in told["registrations"]
    ))  # fmt: skip
    tools.send("ServiceWorker.enable")
    page.evaluate(REGISTER)
    message = {"text": "2 pull requests need a human.", "path": "/?bucket=needs_human"}
    origin = page.evaluate("location.origin")
    tools.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": origin, "registrationId": found[0], "data": json.dumps(message)},
    )
    wait_for(lambda: page.evaluate(SHOWN), what="a notification")
    assert page.evaluate(SHOWN) == [["Sunstead", message["text"], message["path"]]]
    (worker,) = window.service_workers
    assert worker.evaluate(CLICK) == message["path"]
    assert page.evaluate(SHOWN) == []


@pytest.mark.usefixtures("offered")
def test_a_maintainer_turns_notifications_on_chooses_and_ends_them(
    window: BrowserContext, live_server: LiveServer, seed: Person
) -> None:
    page, told = signed_in(window, seed, live_server.url), Subscriber("phone").form
    subscription = as_browsers_give_it(told)
    window.add_init_script(f"({FAKE})({json.dumps(subscription)})")
    page.goto("/notifications")
    page.get_by_role("button", name="Turn on in this browser").click()
    expect(page.get_by_role("row", name="(this one)")).to_contain_text("Chrome on Linux")
    row = PushSubscription.objects.get()
    assert (row.person, row.endpoint, row.p256dh, row.auth) == (
        seed,
        *(told[name] for name in ("endpoint", "p256dh", "auth")),
    )
    assert json.loads(page.evaluate("localStorage.asked")) == {
        "userVisibleOnly": True,
        "applicationServerKey": row.server_key,
    }
    page.get_by_label("An audit is due").uncheck()
    page.get_by_label("from").select_option("23:00")
    page.get_by_label("Your time zone").select_option("Europe/Berlin")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    choice = PushChoice.objects.get()
    assert (choice.events, choice.quiet_from, choice.quiet_until) == (["closed", "flagged"], 23, 7)
    assert choice.time_zone == "Europe/Berlin"
    assert told["endpoint"] not in page.content()
    assert violations_in_both_themes(page) == []
    page.get_by_role("button", name="End notifications in").click()
    expect(page.get_by_text("Notifications are off in all your browsers.")).to_be_visible()
    assert not PushSubscription.objects.exists()


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("Notification.requestPermission = async () => 'denied'", "does not allow notifications"),
        (
            "PushManager.prototype.subscribe = async () => { throw new DOMException('no', 'AbortError') }",
            "did not answer",
        ),
        ("delete window.PushManager", "takes no notifications"),
    ],
)
def test_where_a_browser_takes_none_the_page_says_why_and_nothing_is_sent(
    window: BrowserContext, live_server: LiveServer, seed: Person, script: str, words: str
) -> None:
    page = signed_in(window, seed, live_server.url)
    window.add_init_script(script)
    page.goto("/notifications")
    button = page.get_by_role("button", name="Turn on in this browser")
    if "delete" not in script:
        button.click()
    expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
    assert not PushSubscription.objects.exists()


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(("error", "is_ended"), [("InvalidStateError", True), ("AbortError", False)])
def test_a_subscription_that_works_ends_only_where_it_is_in_the_way_of_another(
    window: BrowserContext, live_server: LiveServer, seed: Person, error: str, is_ended: bool
) -> None:
    page, told = signed_in(window, seed, live_server.url), Subscriber("phone").form
    subscription = as_browsers_give_it(told)
    window.add_init_script(f"({SUBSCRIBED})({json.dumps([error, subscription])})")
    page.goto("/notifications")
    page.get_by_role("button", name="Turn on in this browser").click()
    if is_ended:
        expect(page.get_by_role("row", name="(this one)")).to_be_visible()
    else:
        expect(page.get_by_role("alert").filter(has_text="did not answer")).to_be_visible()
    assert page.evaluate("localStorage.ended ?? ''") == ("1" if is_ended else "")
    assert PushSubscription.objects.exists() is is_ended


@pytest.mark.usefixtures("offered")
def test_the_page_is_whole_at_every_width_and_without_scripts_says_what_needs_them(
    open_page: OpenPage, seed: Person
) -> None:
    client = Client()
    client.force_login(seed)
    assert faults_of(open_page(390, client), ["/notifications"]) == {}
    plain = open_page(390, client, scripts=False)
    plain.goto("/notifications")
    expect(plain.get_by_text("needs JavaScript")).to_be_visible()
    expect(plain.get_by_role("button", name="Turn on")).to_have_count(0)
    plain.get_by_label("The fast lane was closed").uncheck()
    plain.get_by_role("button", name="Save").click()
    assert PushChoice.objects.get().events == ["audit", "flagged"]


def test_an_installed_app_has_the_offline_page_from_its_first_page_on_and_a_tab_does_not(
    window: BrowserContext,
) -> None:
    page = window.new_page()
    page.goto("/about")
    assert page.evaluate("navigator.serviceWorker.getRegistrations().then(all => all.length)") == 0
    page.add_init_script("window.matchMedia = query => ({matches: query === '(display-mode: standalone)'})")
    page.goto("/about")
    page.wait_for_function("navigator.serviceWorker.ready.then(() => caches.match('/offline')).then(Boolean)")
