"""Chromium with the extension as it is shipped, and what its hats say; no script of a page could read that."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, CDPSession, Page, Playwright, Worker, expect

from tests.sources import PROJECT
from tests.triage.overlay.forge import NAME, ORIGIN, Forge
from tests.waiting import PATIENT_MS, wait_for

OVERLAY = PROJECT / "static" / "overlay"
LOOPBACK = "http://127.0.0.1/*"
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--ignore-certificate-errors",
    f"--disable-extensions-except={OVERLAY}",
    f"--load-extension={OVERLAY}",
]
ALL_PAGES = ["pull", "list", "person"]
TAG = "SUNSTEAD-HAT"


def extension_id(folder: Path) -> str:
    """The id that Chromium gives an unpacked extension: the hash of its path, in letters."""
    return "".join(chr(ord("a") + int(digit, 16)) for digit in sha256(str(folder).encode()).hexdigest()[:32])


@dataclass
class Overlay:
    """The browser with the extension and the forge that it visits."""

    context: BrowserContext
    forge: Forge

    @property
    def worker(self) -> Worker:
        """The background worker, which Chromium starts when it is needed."""
        workers = self.context.service_workers
        return workers[0] if workers else self.context.wait_for_event("serviceworker")

    @property
    def own(self) -> str:
        """The beginning of the addresses of the extension's own pages."""
        return f"chrome-extension://{extension_id(OVERLAY)}"

    def connect(self, origin: str, token: str, pages: list[str] | None = None) -> None:
        """Store these settings, and forget what was asked and answered before."""
        stored = {"origin": origin, "token": token, "pages": ALL_PAGES if pages is None else pages}
        with self.opened(f"{self.own}/options.html") as page:
            page.evaluate(
                "async stored => { await chrome.storage.local.clear(); await chrome.storage.session.clear();"
                " await chrome.storage.local.set(stored); }",
                stored,
            )

    def stop_worker(self) -> None:
        """End the background worker, as Chromium does with one that was idle for half a minute."""
        with self.opened(f"{self.own}/options.html") as page:
            session = self.context.new_cdp_session(page)
            workers: list[Any] = []
            session.on("ServiceWorker.workerVersionUpdated", lambda told: workers.extend(told["versions"]))
            session.send("ServiceWorker.enable")
            wait_for(lambda: page.evaluate("0") == 0 and workers, what="the worker")
            session.send("ServiceWorker.stopWorker", {"versionId": workers[-1]["versionId"]})
            wait_for(
                lambda: page.evaluate("0") == 0 and workers[-1]["runningStatus"] == "stopped", what="the worker's end"
            )

    @contextmanager
    def opened(self, address: str, width: int = 1280, scheme: str = "light") -> Generator[Page]:
        """A window at this address of the forge or of the extension, closed at the end."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENT_MS)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        try:
            page.goto(address if ":" in address.split("/")[0] else f"{ORIGIN}{address}")
            yield page
        finally:
            page.close()

    @contextmanager
    def popup(self, page: Page, scheme: str = "light") -> Generator[Page]:
        """The popup as it opens over this page: in a window of its own, told that the page is in view."""
        with self.opened(f"{self.own}/options.html", scheme=scheme) as shown:
            found = "async address => (await chrome.tabs.query({ url: address }))[0].id"
            tab = shown.evaluate(found, page.url.partition("#")[0])
            shown.add_init_script(f"chrome.tabs.query = async () => [{{ id: {tab} }}];")
            shown.set_viewport_size({"width": 360, "height": 600})
            shown.goto(f"{self.own}/popup.html")
            yield shown


def hats(page: Page) -> list[str]:
    """What each hat of a page says, in the order of the page; "" for one that is empty."""
    return [" ".join(" ".join(_texts(root)).split()) for root in _roots(page)]


def hat_markup(page: Page) -> list[str]:
    """The markup within each hat."""
    session = page.context.new_cdp_session(page)
    try:
        tree = session.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"]
        roots = [root for host in _hosts(tree) for root in host.get("shadowRoots", ())]
        return ["".join(_outer(session, child) for child in root.get("children", ())) for root in roots]
    finally:
        session.detach()


def wait_for_hats(page: Page, count: int = 1) -> list[str]:
    """The same once there are so many."""
    wait_for(lambda: len(hats(page)) == count and all(hats(page)), what=f"{count} hats on {page.url}")
    return hats(page)


def _roots(page: Page) -> list[Any]:
    session = page.context.new_cdp_session(page)
    try:
        tree = session.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"]
    finally:
        session.detach()
    return [(host.get("shadowRoots") or [{}])[0] for host in _hosts(tree)]


def _outer(session: CDPSession, node: Any) -> str:
    return session.send("DOM.getOuterHTML", {"nodeId": node["nodeId"]})["outerHTML"]


def _hosts(node: Any) -> Iterator[Any]:
    if node["nodeName"] == TAG:
        yield node
    for child in node.get("children", ()):
        yield from _hosts(child)


def _texts(node: Any) -> Iterator[str]:
    if node.get("nodeType") == 3:
        yield node["nodeValue"]
    if node.get("nodeName") != "STYLE":
        for child in node.get("children", ()):
            yield from _texts(child)


@contextmanager
def running(playwright: Playwright, chromium: str, profile: Path, forge: Forge) -> Generator[Overlay]:
    """The browser, whose person had let the extension reach this machine before: no test can press its prompt."""
    names = f"--host-resolver-rules=MAP {NAME}:443 127.0.0.1:{forge.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

    def launch() -> BrowserContext:
        return playwright.chromium.launch_persistent_context(
            str(profile), executable_path=chromium, headless=False, args=[*ARGUMENTS, names], timeout=PATIENT_MS
        )

    preferences = profile / "Default" / "Preferences"
    allowed = {"api": [], "explicit_host": [LOOPBACK], "manifest_permissions": [], "scriptable_host": []}
    preferences.parent.mkdir(parents=True)
    kept = {"extensions": {"settings": {extension_id(OVERLAY): {"runtime_granted_permissions": allowed}}}}
    preferences.write_text(json.dumps(kept))
    context = launch()
    try:
        overlay = Overlay(context, forge)
        with overlay.opened(f"{overlay.own}/options.html") as page:
            page.fill("#address", "http://127.0.0.1:9")
            page.fill("#token", f"sunstead_{'a' * 43}")
            page.click("button")
            expect(page.locator("#said")).to_contain_text("Saved")
        yield overlay
    finally:
        context.close()
