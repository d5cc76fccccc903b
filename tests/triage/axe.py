"""axe-core in a page: what it says of accessibility, without the network and past the page's own policy."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

RUN = """async only => {
  const options = only.length ? {runOnly: {type: 'rule', values: only}} : {};
  const told = await axe.run(document, {...options, preload: false, resultTypes: ['violations']});
  const where = node => `${node.target.join(' ')} (${(node.failureSummary ?? '').split('\\n')[1]?.trim()})`;
  return told.violations.map(one => `${one.id}: ${one.nodes.slice(0, 4).map(where).join('; ')}`);
}"""


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
