"""The line of a row as every list of pull requests shows it, open or closed.

A row asks for twenty values, and a template takes half a millisecond to print them. A line holds all that its markup
says and nothing else, and its template is given nothing but the line: lines equal in every word are drawn once.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

from django.template.loader import get_template
from django.utils.safestring import SafeString

from triage.act_forms import written_choice
from triage.acting import RowActs
from triage.pills import Pill
from triage.rows import PersonView, RowView

KEPT = 500  # lines: six first pages of the queue, in 2 MB
LONGEST = 1_000  # characters of what strangers write in a line, beyond which it is drawn anew each time

Button = Literal["undo", "approve", "review"]


class RowLine(NamedTuple):
    """All that the line of one row says to one viewer; texts are "" where there is nothing to say.

    Nothing of it belongs to a request: what a form sends stands beside the line, in the row.
    """

    anchor: str
    is_open: bool
    toggle: str
    uri: str
    author: PersonView
    title: str
    label: str
    done: str
    looked_at: str
    changed: str
    sentence: str
    age: str
    pill: Pill
    pick: str  # what its checkbox sends; "" where it has none
    button: Button


def row_line(item: RowView, act: RowActs | None) -> RowLine:
    """The line of a row, with what its viewer may do to it."""
    done, looked_at, changed = (act.done, act.looked_at, act.changed) if act else ("", "", "")
    return RowLine(
        item.anchor,
        item.judgement is not None,
        item.toggle,
        item.row.uri,
        item.author,
        item.title,
        item.label,
        done,
        looked_at,
        changed,
        item.row.sentence,
        item.age,
        item.pill,
        _pick(item, act),
        button(item, act),
    )


def button(item: RowView, act: RowActs | None) -> Button:
    """The one button of a row: undo while that is possible, approve in the fast lane, else to a page of its own."""
    if act is None:
        return "review"
    if act.undo_key:
        return "undo"
    return "approve" if act.can_approve and item.pill.kind == "fast" and not act.is_approved else "review"


def drawn_line(line: RowLine) -> SafeString:
    """The line as HTML."""
    written = len(line.title) + len(line.label) + len(line.author.name) + len(line.sentence) + len(line.toggle)
    return _draw(line) if written > LONGEST else _kept_line(line)


def _draw(line: RowLine) -> SafeString:
    return get_template("_fragments/row_line.html").render({"line": line})


_kept_line = lru_cache(maxsize=KEPT)(_draw)


def _pick(item: RowView, act: RowActs | None) -> str:
    """What the checkbox of a row sends, which those that can be approved together have."""
    if act is None or not act.can_approve or act.done or item.pill.kind != "fast" or item.row.own:
        return ""
    return written_choice(item.row.uri, act.seen, act.version)
