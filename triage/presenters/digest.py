"""The queue in plain text, for a mail that cron sends: what waits, what is new, and what is asked of maintainers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse

from scoring.formatting import visible
from scoring.queries.read import Approved, Queue, QueueRow
from scoring.types import Lane
from triage.presenters.pills import row_pill
from triage.presenters.row_actions import OpenCounts, open_words
from triage.presenters.text import age_words

MOST = 20
NEW = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Told:
    """The material of a digest; rows and texts as whoever asks may see them.

    `queue` holds of each group the newest MOST + 1, `added` is how many came within NEW, `closures` are sentences.
    `origin` is where this site is reached.
    """

    queue: Queue
    open: OpenCounts
    oldest: QueueRow | None
    added: int
    due: tuple[QueueRow, ...]
    due_total: int
    approved: tuple[Approved, ...]
    closures: tuple[str, ...]
    lane_notice: str
    now: datetime
    origin: str
    snoozed: tuple[int, int] = (0, 0)  # how many rows, and how many of them are flagged


def digest_text(told: Told) -> str:
    """The whole text; every line ends in a line feed, and nobody's words break one."""
    parts = (_head(told), _waiting(told), _new(told), _audits(told), _lane(told), _approved(told))
    return "\n".join("".join(f"{line}\n" for line in part) for part in map(tuple, parts) if part)


def _head(told: Told) -> Iterator[str]:
    yield f"Sunstead, {told.now.day} {told.now:%B %Y %H:%M} UTC. {told.origin}/"


def _waiting(told: Told) -> Iterator[str]:
    counts, own = told.queue.counts, told.queue.own_count
    flagged, review, fast = (counts.get(lane, 0) for lane in (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE))
    yield f"In the inbox: {flagged:,} flagged, {review:,} to review, {fast:,} fast lane."
    yield f"{open_words(told.open)} {own:,} more by people with push access."
    if told.snoozed[0]:
        yield "Snoozed: {:,}, {:,} of them flagged.".format(*told.snoozed)
    if told.oldest is not None:
        yield f"The oldest waits for {age_words(told.oldest.opened_at, told.now)}: {_line(told, told.oldest)}"
    first = [group.oldest_first_timer for group in told.queue.groups if group.key != "own" and group.oldest_first_timer]
    if first:
        yield f"The oldest by a first-timer waits for {age_words(min(first), told.now)}."


def _new(told: Told) -> Iterator[str]:
    since = told.now - NEW
    rows = [row for group in told.queue.groups if group.key != "own" for row in group.rows if row.opened_at >= since]
    yield f"New within 24 hours: {told.added:,}."
    yield from (f"- {_line(told, row)}" for row in rows[:MOST])
    yield from _more(told.added - MOST)


def _audits(told: Told) -> Iterator[str]:
    if told.due_total:
        yield f"Random audits due: {told.due_total:,}."
        yield from (f"- {_line(told, row)}" for row in told.due[:MOST])
        yield from _more(told.due_total - MOST)
    else:
        yield "No audit is due."


def _lane(told: Told) -> Iterator[str]:
    yield told.lane_notice or "The fast lane is open."
    yield from (f"- {visible(sentence)}." for sentence in told.closures)


def _approved(told: Told) -> Iterator[str]:
    yield f"Approved, not merged yet: {len(told.approved):,}."
    for one in told.approved[:MOST]:
        subject = one.subject
        yield f"- {visible(subject.repository_name)}: {visible(subject.title)} ({_address(told, subject.uri)})"
    yield from _more(len(told.approved) - MOST)


def _line(told: Told, row: QueueRow) -> str:
    """One pull request: lane, name, title, reason, address; text of others with what hides in it made visible."""
    named = f"{row_pill(row).word} · {visible(row.label)}: {visible(row.title)}"
    return f"{named}. {visible(row.sentence)}. {_address(told, row.uri)}"


def _address(told: Told, uri: str) -> str:
    return told.origin + reverse("pull", args=[uri])


def _more(count: int) -> Iterable[str]:
    return (f"- and {count:,} more.",) if count > 0 else ()
