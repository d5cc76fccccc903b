"""Windows of a browser, each lent to one test after the other: to open one and to warm it up takes 1 s of CPU."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from django.templatetags.static import static
from playwright.sync_api import Browser, ConsoleMessage, Error, Page

from tests.waiting import PATIENT_MS

Scheme = Literal["light", "dark"]
Opened = Callable[..., Page]
REPORT_VIOLATIONS = """document.addEventListener('securitypolicyviolation',
  event => console.error(`the policy forbids ${event.blockedURI} (${event.violatedDirective})`))"""
PASSED_OVER = ("htmx:afterRequest", "htmx:sendAbort")  # a row that was asked for, and another chosen before it came


def is_complaint(message: ConsoleMessage) -> bool:
    """Tell an error of the page's own from a refused or absent address, or a request that a newer one replaced."""
    text = message.text
    return (
        message.type == "error"
        and "the server responded with a status of 4" not in text
        and not text.startswith(PASSED_OVER)
    )


class Windows:
    """The windows of one browser; `forbidden` is what the Content-Security-Policy forbade in any of them."""

    def __init__(self, browser: Browser) -> None:
        self.forbidden: list[str] = []
        self.browser = browser
        self._idle: dict[tuple[Any, ...], list[Page]] = {}

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Have every window of the browser tell what its policy forbade, with or without scripts of its own."""

        def note(message: ConsoleMessage) -> None:
            if "Content Security Policy" in message.text or "the policy forbids" in message.text:
                self.forbidden.append(f"{message.text} on {message.location}")

        def watched(opening: Callable[..., Any]) -> Callable[..., Any]:
            def opened(**options: Any) -> Any:
                made = opening(**options)
                window = made.context if isinstance(made, Page) else made
                window.add_init_script(REPORT_VIOLATIONS)
                window.on("console", note)
                return made

            return opened

        for name in ("new_context", "new_page"):
            patch.setattr(self.browser, name, watched(getattr(self.browser, name)))

    @contextmanager
    def lend(
        self,
        address: str,
        complains: Callable[[ConsoleMessage], bool] = is_complaint,
        timers: str = "",
    ) -> Generator[Opened]:
        """`opened(width, height, cookie, scripts, touch, scheme)`: windows on `address` that share nothing.

        Fails at the end where a page complained: of a dialog, of an error in a script or of what `complains` holds
        for one. `timers` is run before each page.
        """
        complaints: list[str] = []
        handlers: dict[Any, Callable[[Any], None]] = {
            "console": lambda message: complaints.append(message.text) if complains(message) else None,
            "pageerror": lambda error: complaints.append(str(error)),
            "dialog": lambda dialog: complaints.append(f"a dialog: {dialog.message}"),
        }
        lent: list[tuple[tuple[Any, ...], Page]] = []

        def opened(
            width: int = 1440,
            height: int = 900,
            cookie: str = "",
            scripts: bool = True,
            touch: bool = False,
            scheme: Scheme = "light",
        ) -> Page:
            key = (address, timers, scripts, touch)
            page = idle.pop() if (idle := self._idle.get(key)) else self._open(*key)
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            if cookie:
                page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": address}])
            for event, handler in handlers.items():
                page.on(event, handler)
            lent.append((key, page))
            return page

        yield opened
        for key, page in lent:
            for event, handler in handlers.items():
                page.remove_listener(event, handler)
            if _is_as_new(page, address):
                self._idle.setdefault(key, []).append(page)
        assert complaints == []

    def _open(self, address: str, timers: str, scripts: bool, touch: bool) -> Page:
        window = self.browser.new_context(base_url=address, java_script_enabled=scripts, has_touch=touch)
        window.set_default_timeout(PATIENT_MS)
        if timers:
            window.add_init_script(timers)
        return window.new_page()


def _is_as_new(page: Page, address: str) -> bool:
    """Take from a window all that a test left in it; one whose clock was set cannot be mended, and is closed."""
    window = page.context
    for other in window.pages:
        if other is not page:
            other.close()
    if page.is_closed():
        window.close()
        return False
    page.unroute_all()
    window.set_offline(False)
    window.clear_cookies()
    try:
        page.goto(address + static("js/theme.js"))  # a text of the same origin, which asks for nothing
    except Error:  # the test ended while its page was on its way to another
        window.close()
        return False
    if not page.evaluate("localStorage.clear(), sessionStorage.clear(), /native code/.test(Date)"):
        window.close()
        return False
    session = window.new_cdp_session(page)
    session.send("Network.clearBrowserCache")  # another test's pages have the same addresses and numbers
    session.detach()
    return True
