"""The four ways in which a maintainer works: at a desk or with a thumb, each with scripts and without."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.conftest import looks
from tests.waiting import PATIENT_MS

NEVER = "window.setInterval = () => 0"
OFTEN = "const every = window.setInterval; window.setInterval = (act) => every(act, 1000)"  # instead of each 15 s
DESK, PHONE = 1440, 390
# What Chromium and htmx log of an answer that the page itself tells in words.
TOLD_IN_WORDS = (
    *(f"status of {status}" for status in (401, 403, 409, 502)),
    "Response Status Error Code 403",
    "net::ERR_INTERNET_DISCONNECTED",
    "htmx:afterRequest",
    "htmx:sendError",
    "htmx:sendAbort",  # a row that was passed over before it was there
)


@dataclass(frozen=True, slots=True)
class Mode:
    """How wide somebody's browser is, and whether it runs scripts."""

    width: int = DESK
    scripts: bool = True

    def __str__(self) -> str:
        return f"{self.width}, {'scripts' if self.scripts else 'no scripts'}"

    @property
    def is_phone(self) -> bool:
        """Whether it is worked with a thumb."""
        return self.width == PHONE

    @property
    def has_keys(self) -> bool:
        """Whether one letter does what a button does."""
        return self.scripts and not self.is_phone

    def options(self) -> dict[str, Any]:
        """What a window of it is opened with."""
        size = {"width": self.width, "height": 800 if self.is_phone else 900}
        return {"viewport": size, "java_script_enabled": self.scripts, "has_touch": self.is_phone}

    def press(self, button: Locator) -> None:
        """Click it, or put the thumb on it: after a tap beside all, since two at one place are one double tap."""
        if self.is_phone:
            button.page.locator("#main").tap(position={"x": 1, "y": 1}, force=True)
            button.tap()
        else:
            button.click()


MODES = looks(
    *(Mode(width, scripts) for width in (DESK, PHONE) for scripts in (True, False)),
    small=(Mode(DESK, True), Mode(PHONE, False)),
)
Opened = Callable[..., Page]


@contextmanager
def windows(browser: Browser, address: str, timers: str = NEVER) -> Generator[Opened]:
    """`opened(mode, cookie)`: windows that share nothing; fails at the end where a page of one logged an error.

    With `timers` as they are set here a page looks for news only when a test says so.
    """
    complaints: list[str] = []

    def note(told: ConsoleMessage) -> None:
        if told.type == "error" and not any(one in told.text for one in TOLD_IN_WORDS):
            complaints.append(told.text)

    with ExitStack() as held:

        def opened(mode: Mode, cookie: str = "") -> Page:
            window = held.enter_context(browser.new_context(base_url=address, **mode.options()))
            window.set_default_timeout(PATIENT_MS)
            window.add_init_script(timers)
            if cookie:
                window.add_cookies([{"name": "sessionid", "value": cookie, "url": address}])
            page = window.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            return page

        yield opened
    assert complaints == [], complaints


def row_of(page: Page, title: str) -> Locator:
    """The row of one pull request."""
    return page.locator(".row", has=page.get_by_text(title, exact=True))


def pane_of(page: Page, title: str) -> Locator:
    """The pane with this pull request in it."""
    return page.locator("#open", has=page.get_by_role("heading", name=title, exact=True))


def open_row(page: Page, mode: Mode, title: str) -> Locator:
    """Open a pull request from its row, on a phone from the list again; the pane that shows it."""
    if mode.is_phone and "open=" in page.url:
        mode.press(page.locator("#open .back"))
    mode.press(row_of(page, title).locator(".row-link"))
    expect(pane_of(page, title)).to_be_visible()
    return pane_of(page, title)


def titles(page: Page) -> Locator:
    """The titles of the rows, from the top."""
    return page.locator(".row h3 bdi")


def expect_focus(page: Page, title: str) -> None:
    """Wait until the focus is on the title of this row."""
    expect(row_of(page, title).locator(".row-link")).to_be_focused()


def press_keys(page: Page, keys: str) -> None:
    """One key after the other."""
    for key in keys.split():
        page.keyboard.press(key)


def look_for_news(page: Page) -> None:
    """What happens when somebody comes back to the tab, and else every 15 s."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def expect_no_sideways_scroll(page: Page, mode: Mode) -> None:
    """Nothing is wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth") <= mode.width
