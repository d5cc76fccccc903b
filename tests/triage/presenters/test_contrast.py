"""The contrast of every pair of tokens that stands on another, computed from the style sheet in both themes.

WCAG 2.2: 4.5 for text, 3 for what marks the focus, the border of a control and the parts of a chart.
"""

import re

import pytest

from tests.sources import PROJECT
from tests.triage.presenters.test_shapes import contrast, token

CSS = {path.stem: path.read_text() for path in (PROJECT / "static" / "css").glob("*.css")}
COLOURS = re.findall(r"--([\w-]+): light-dark\(#\w{6}, #\w{6}\)", CSS["tokens"])
PAPERS = ("canvas", "surface", "sunken")
INKS = ("ink", "ink-2", "ink-3", "link")
LANES = ("fast", "review", "flag")
TEXT = [*((ink, paper) for ink in INKS for paper in PAPERS), *((lane, f"{lane}-soft") for lane in LANES)]
TEXT += [(lane, paper) for lane in LANES for paper in PAPERS]
TEXT += [("canvas", "ink"), ("surface", "link")]  # a toast, and the primary button
# The row that is open.
TEXT += [(ink, "accent-soft") for ink in ("ink", "ink-2", "link", *LANES)]
# The ring of the focus, borders of fields and buttons, bars and marks of charts, also on a note and a pill.
MARKS = [
    (mark, paper) for mark in ("link", "ink-3", *LANES) for paper in (*PAPERS, *(f"{lane}-soft" for lane in LANES))
]
MARKS += [("canvas", "ink")]
# A line only separates: what it stands between has an edge or a heading of its own.
ONLY_SEPARATES = {"line"}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_marks_can_be_seen_on_everything_that_they_stand_on(theme: int) -> None:
    pairs = [(pair, 4.5) for pair in TEXT] + [(pair, 3.0) for pair in MARKS]
    measured = {pair: (contrast(*(token(name, theme) for name in pair)), least) for pair, least in pairs}
    assert {pair: round(value, 2) for pair, (value, least) in measured.items() if value < least} == {}


def test_no_colour_is_left_out() -> None:
    assert set(COLOURS) - {name for pair in (*TEXT, *MARKS) for name in pair} - ONLY_SEPARATES == set()


def test_colours_stand_in_the_tokens_alone() -> None:
    others = " ".join(text for name, text in CSS.items() if name != "tokens")
    assert re.findall(r"#[0-9a-f]{3,8}\b(?![^{]*\{)", others) == []
