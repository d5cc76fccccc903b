"""Tests of a browser wait only for what a page shows."""

import re

from tests.sources import PROJECT

AT_ONCE = re.compile(r"\.(?:is_visible|is_hidden)\(\)")


def test_no_test_of_a_browser_asks_at_once_whether_something_is_seen() -> None:
    """`is_visible()` answers at once, and a click returns before the page that it leads to is parsed: on a machine
    at load 4 the answer was False. `expect(...)` of Playwright waits for what it is told.
    """
    found = [
        f"{path.relative_to(PROJECT)}:{number}"
        for path in sorted((PROJECT / "tests").rglob("*.py"))
        if "playwright.sync_api" in (text := path.read_text())
        for number, line in enumerate(text.splitlines(), 1)
        if AT_ONCE.search(line)
    ]
    assert found == [], "write expect(...).to_be_visible() or .to_be_hidden()"
