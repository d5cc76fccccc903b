"""axe-core in a page: what it says of accessibility, without the network and past the page's own policy."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page, ViewportSize

from tests.conftest import looks

RUN = """async only => {
  const options = only.length ? {runOnly: {type: 'rule', values: only}} : {};
  const told = await axe.run(document, {...options, preload: false, resultTypes: ['violations']});
  const where = node => `${node.target.join(' ')} (${(node.failureSummary ?? '').split('\\n')[1]?.trim()})`;
  return told.violations.map(one => `${one.id}: ${one.nodes.slice(0, 4).map(where).join('; ')}`);
}"""

SIGHT = ("color-contrast", "scrollable-region-focusable", "target-size")
PHONE, DESKTOP = ViewportSize(width=360, height=800), ViewportSize(width=1440, height=900)


@cache
def axe_source() -> str:
    """axe.min.js as the pinned package carries it."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


def violations(page: Page, *only: str) -> list[str]:
    """What breaks a rule of axe, a line each; of all rules or of those in `only`."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_source())
    found: list[Any] = page.evaluate(RUN, list(only))
    return [str(one) for one in found]


def violations_in_both_themes(page: Page) -> list[str]:
    """What breaks a rule on a dark phone, or one of sight on a light desktop; any rule in all four under PROVE."""
    found = []
    for size, scheme, rules in looks(
        *((size, scheme, ()) for size in (PHONE, DESKTOP) for scheme in ("dark", "light")),
        small=((PHONE, "dark", ()), (DESKTOP, "light", SIGHT)),
    ):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        found += violations(page, *rules)
    return found
