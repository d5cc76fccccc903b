"""The red team's newest report as its page shows it: a file that the command writes, with tables and nobody's name."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scoring.redteam.limits import got_through
from scoring.redteam.words import ground_words, sections, stolen_words
from scoring.shown_files import keep_shown, read_shown

FORM = "sunstead-redteam/1"
FILE = "redteam.json"
LARGEST = 256 * 1024  # bytes of a file that is read; the whole grid needs 10 KB
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Line = Annotated[tuple[Text, ...], msgspec.Meta(max_length=20)]
Moment = Annotated[datetime, msgspec.Meta(tz=False)]  # naive UTC


class ShownSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack as a table: `heads` of the columns (the first is that of the names), and how to read it."""

    title: Text
    note: Text
    heads: Line
    rows: Annotated[tuple[Line, ...], msgspec.Meta(max_length=200)]


class ShownReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run at `at` (naive UTC): on what it was played, what of it got through, and every table."""

    form: Literal["sunstead-redteam/1"]
    at: Moment
    ground: Line
    stolen: Line
    through: Line
    sections: Annotated[tuple[ShownSection, ...], msgspec.Meta(max_length=50)]


def shown_report(report: dict[str, Any], at: datetime) -> ShownReport:
    """A report by `scoring.redteam.report` as it is kept."""
    tables = tuple(
        ShownSection(one.title, one.note, tuple(one.rows[0]), tuple(tuple(row) for row in one.rows[1:]))
        for one in sections(report)
    )
    said = (tuple(ground_words(report)), tuple(stolen_words(report["stolen"])), got_through(report))
    return ShownReport(FORM, at.replace(microsecond=0), *said, tables)


def keep_report(folder: Path, shown: ShownReport) -> Path:
    """Put the run in the place of the one before. Raises OSError."""
    return keep_shown(folder / FILE, shown)


def read_report(folder: Path) -> ShownReport | None:
    """The newest run that was kept; None where there is none, or none that can be read."""
    found = read_shown(folder / FILE, ShownReport, LARGEST)
    if found is None or any(len(row) != len(one.heads) for one in found.sections for row in one.rows):
        return None
    return found
