"""The line of a row, used by every list of pull requests, open or closed.

A row needs twenty values, and a template takes half a millisecond to print them. A line holds everything that its
markup needs, and the template gets nothing else: identical lines are rendered once.
"""

from functools import lru_cache
from hashlib import blake2s
from typing import NamedTuple

from django.template.loader import get_template
from django.utils.safestring import SafeString

from scoring.explain.decided import CHANGE_CLAUSES
from scoring.formatting import visible
from scoring.queries.read import QueueRow
from triage.forms.actions import written_choice
from triage.models import Action
from triage.presenters.queue.pills import Pill
from triage.presenters.queue.row_actions import RowActs
from triage.presenters.queue.rows import RowView
from triage.presenters.text import brief_age
from triage.services.actions import TO_AUTHOR, is_own

CHANGED = CHANGE_CLAUSES["approved_before"]({})
# They stand last for that alone, whatever else is known of them.
LAST = {"copy": "Stands last: a copy of one of theirs", "claimed": "Stands last: only its author says merged"}
CI_BRIEF = {"passed": "✓ CI", "failed": "✕ CI", "running": "… CI", "never_ran": "no CI"}
LABELS = 3  # shown in a line; the pane shows all
KEPT = 500  # cached lines: six first pages of the queue, in 2 MB
LONGEST = 1_000  # characters of strangers' text in a line; longer lines are not cached


class RowLine(NamedTuple):
    """Everything that one row's line says to one viewer; texts are "" where there is nothing to say.

    It is independent of the request: form fields are next to the line, in the row.
    """

    anchor: str
    is_open: bool
    search: str  # query string of the inbox with this row open
    author: str
    title: str
    repository: str
    number: str  # the pull request's number, which is never cut
    decided: str  # the deciding reason
    reason: str  # the sentence that begins with the deciding reason
    age: str
    ci: str
    ci_words: str
    size: str
    alike: int  # in the inbox by its author with its title; 1 where it is alone
    comments: int
    labels: str  # the first labels, and the number of others
    state: str  # its state or whose turn it is, in a word
    more: str  # further states, one word each
    told: str  # all states in full
    claim: str  # claim of an unconfirmed merge
    struck: bool  # just decided
    pill: Pill
    start: str  # the fast lane's threshold in per cent, for maintainers
    pick: str  # the value of its checkbox; "" where it has none
    pick_id: str  # stands for `pick`: the same box stays ticked where the list is swapped


def row_line(item: RowView, act: RowActs | None, opened: str = "") -> RowLine:
    """Return the line of a row with its viewer's actions; `opened` is the at-uri of the row in the pane."""
    row, (repository, _, number) = item.row, item.label.rpartition(" ")
    changed = act.changed if act else ""
    decided = item.decided_exact if act and act.can_act else item.decided
    cause = "" if row.place is None else "claimed" if row.claim and row.place.cause == "author" else row.place.cause
    decided = LAST.get(cause, decided)
    pick = pick_of(item, act)
    is_cause, changed_sentence = bool(changed) and item.decided == CHANGED, f"{changed[:1].upper()}{changed[1:]}"
    return RowLine(
        item.anchor,
        row.uri == opened,
        item.opening,
        item.author.name,
        item.title,
        repository.removesuffix(" ·"),
        number,
        changed_sentence if is_cause else decided,
        item.reason,
        brief_age(item.age),
        row.ci or "",
        CI_BRIEF[row.ci] if row.ci else "",
        "" if row.files is None else f"+{row.added or 0:,} \N{MINUS SIGN}{row.removed or 0:,}",
        row.alike,
        row.comments + sum(note.kind in TO_AUTHOR and not is_own(note) for note in (act.notes if act else ())),
        _labels(row.labels),
        *_states(row, act, "" if is_cause else changed_sentence),
        f"{row.claim[:1].upper()}{row.claim[1:]}",
        bool(act and act.is_decided and act.undo_left_ms),
        item.pill,
        f"{100 * row.lane_start:g}" if act and act.can_act and row.lane_start is not None else "",
        pick,
        f"pick-{blake2s(pick.encode(), digest_size=6).hexdigest()}",
    )


def _states(row: QueueRow, act: RowActs | None, changed: str) -> tuple[str, str, str]:
    """Return the main state, the others, and all in full; `changed` says how it changed since an action."""
    done, notes = (act.done, act.notes) if act else ("", ())
    on_author = bool(act and act.is_asked) or (row.on_author and not done and not (act and act.reply))
    word = (
        "changed"
        if changed.startswith("Changed after")
        else "answered"
        if changed.startswith(("New", "Its author"))
        else "void"
    )
    words = {
        act.done_brief if act else "": "" if on_author else done,
        word: "" if act and act.is_decided else changed,
        "waiting": "Waiting on author" if on_author else "",
        "looking": act.looked_at if act else "",
        "noted": "Maintainers noted something" if any(one.kind == Action.Kind.NOTE for one in notes) else "",
    }
    states = {brief: full for brief, full in words.items() if full}
    main, *further = states or ("",)
    return main, " ".join(further), " ".join(f"{full}." for full in states.values())


def _labels(labels: tuple[str, ...]) -> str:
    more = len(labels) - LABELS
    return ", ".join(map(visible, labels[:LABELS])) + (f" and {more} more" if more > 0 else "")


def draw_line(line: RowLine) -> SafeString:
    """Return the line as HTML."""
    texts = (line.title, line.repository, line.author, line.reason, line.search, line.labels)
    return _draw(line) if sum(map(len, texts)) > LONGEST else _kept_line(line)


def _draw(line: RowLine) -> SafeString:
    return get_template("inbox/_row_line.html").render({"line": line})


_kept_line = lru_cache(maxsize=KEPT)(_draw)


def pick_of(item: RowView, act: RowActs | None) -> str:
    """Return the value of a row's checkbox; only rows that can be approved together have one."""
    if act is None or not act.can_approve or act.done or item.pill.kind != "fast" or item.row.own:
        return ""
    if item.row.ci == "failed" or item.row.audited or item.row.reverted:
        return ""
    return written_choice(item.row.uri, act.seen, act.version)
