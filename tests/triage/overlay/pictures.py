"""Pictures of the overlay on the forge's pages and of its own, in light and dark: part of `make screenshots`."""

import os
from pathlib import Path

import pytest

from tests.triage.overlay.browser import Overlay, wait_for_hats
from tests.triage.overlay.conftest import Connect
from tests.triage.overlay.forge import list_page, profile_page, pull_page
from tests.triage.overlay.world import DONE, FAST, FLAGGED, HANDLES, HOME, MARA, NEW, UNNUMBERED

pytestmark = pytest.mark.django_db(transaction=True)
WIDTHS = (1440, 390)


def test_pictures(overlay: Overlay, connected: Connect) -> None:
    target = Path(os.environ["SCREENSHOTS"])
    connected()
    handle, pages = HANDLES[MARA], overlay.forge.pages
    for pull in (FAST, FLAGGED, NEW):
        pages[HOME.path(pull.number)] = pull_page(HOME, pull)
    pages[HOME.path()] = list_page(HOME, (FAST, UNNUMBERED, DONE), (FLAGGED, NEW))
    pages[f"/{handle}"] = profile_page(handle, MARA)
    shown = {"list": (HOME.path(), 3), "profile": (f"/{handle}", 2)}
    shown |= {f"pull-{pull.number}": (HOME.path(pull.number), 1) for pull in (FAST, FLAGGED, NEW)}
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            for name, (path, count) in shown.items():
                with overlay.opened(path, width, scheme) as page:
                    wait_for_hats(page, count)
                    page.screenshot(path=target / f"overlay-{name}-{width}-{scheme}.png")
        with overlay.opened(HOME.path(FLAGGED.number)) as page, overlay.popup(page, scheme) as popup:
            popup.get_by_text("Waits longest").wait_for()
            popup.screenshot(path=target / f"overlay-popup-{scheme}.png")
        with overlay.opened(f"{overlay.own}/options.html", 800, scheme) as page:
            page.screenshot(path=target / f"overlay-options-{scheme}.png")
