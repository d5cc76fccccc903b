"""The four ways in which a maintainer works: at a desk or with a thumb, each with scripts and without."""

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import ConsoleMessage, Locator, Page, expect

from tests.conftest import looks

# With timers as they are set here a page looks for news only when a test says so.
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
        height = 800 if self.is_phone else 900
        return {"width": self.width, "height": height, "scripts": self.scripts, "touch": self.is_phone}

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


def complains(message: ConsoleMessage) -> bool:
    """Tell whether a page logged an error that it does not tell in words."""
    return message.type == "error" and not any(words in message.text for words in TOLD_IN_WORDS)


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
