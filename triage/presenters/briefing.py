"""The morning in a few sentences to be read aloud: what waits, audits due, lanes that are shut, incidents.

It holds counts, ages and names of watched repositories, which the operator's people chose, and no other word that
somebody wrote: a title that says "this one is approved" would be heard as the system's own. Of a pull request that the
audit drew it tells what the inbox shows of it. All together take at most 90 seconds at 170 words a minute.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from xml.sax.saxutils import escape

from django.urls import reverse
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.formatting import things
from scoring.queries import read
from scoring.queries.read import GroupKey, QueueQuery
from triage.access.permissions import Role, Roles
from triage.forms.filters import QueueFilters
from triage.presenters import lane_heads, lists
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.text import age_words
from triage.services.lane_closures import incidents_of, standing_closures, told_to_readers

WORDS_A_MINUTE, MOST_SECONDS = 170, 90
NAME_LENGTH, NAME_WORDS = 40, 10  # characters of a repository's name, and words that it takes
NAMED = 3  # repositories in one sentence
NEW = timedelta(days=1)  # for a reader without an earlier visit
NAMELESS = "a repository without a name"
LANES: Mapping[GroupKey, str] = {
    "needs_human": "flagged",
    "normal_queue": "to review",
    "fast_lane": "in the fast lane",
    "would_be_fast_lane": "that would be in the fast lane",
}
STALE = "No new data is coming in, so this may be out of date."
_WORD = re.compile(r"[^\W_]+")
_SPOKEN = re.compile(r"\d|[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Oldest:
    """The pull request that waits longest, in the group in which the inbox shows it."""

    group: GroupKey
    repository: str
    opened_at: datetime
    uri: str


@dataclass(frozen=True, slots=True)
class Morning:
    """The material of a briefing, with every number as its reader's pages show it.

    `since`: the reader's last visit; None: they had none, and what is new came within a day. `lanes_shut` are the names
    of those of `lanes_known` repositories whose fast lane lets nothing through. `only` names the one repository that it
    is about, "" for all. Times are naive UTC.
    """

    now: datetime
    since: datetime | None
    lanes: Mapping[GroupKey, int]
    added: int
    oldest: Oldest | None
    audits: int
    incidents: int
    lanes_known: int
    lanes_shut: tuple[str, ...]
    closures: int
    only: str = ""
    is_stale: bool = False
    only_key: str = ""  # the key of the one repository


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence, and the page that has more: its path and the words of the link, "" for none."""

    said: str
    path: str = ""
    link: str = ""


def write_lines(morning: Morning) -> tuple[Line, ...]:
    """Return the sentences in the order in which they are read."""
    return tuple(_lines(morning))


def _lines(morning: Morning) -> Iterator[Line]:
    if morning.is_stale:
        yield Line(STALE, reverse("dashboard"), "What is wrong")
    if morning.only:
        yield Line(f"This is about {spoken_name(morning.only)} alone.")
    yield Line(_waiting(morning.lanes), reverse("queue"), "Inbox")
    yield Line(_new(morning), *((_new_ones(morning), "Show them") if morning.added else ()))
    if morning.oldest is not None:
        yield Line(_longest(morning.oldest, morning.now), reverse("pull", args=[morning.oldest.uri]), "Open it")
    yield Line(_counted(morning.audits, "random audit", "due"), *_if(morning.audits, "audits", "Audits"))
    if morning.lanes_known:
        yield Line(_fast_lane(morning), reverse("lane"), "Fast lane")
    if morning.closures:
        verb = "is" if morning.closures == 1 else "are"
        yield Line(
            f"{things(morning.closures, 'closure')} by maintainers {verb} in force.", reverse("lane"), "Closures"
        )
    yield Line(_counted(morning.incidents, "incident", "open"), *_if(morning.incidents, "incidents", "Incidents"))


def _if(count: int, place: str, link: str) -> tuple[str, str]:
    return (reverse(place), link) if count else ("", "")


def _waiting(lanes: Mapping[GroupKey, int]) -> str:
    shown = [key for key in LANES if key != "would_be_fast_lane" or lanes.get(key)]
    if not any(lanes.get(key) for key in shown):
        return "Nothing is in the inbox."
    return f"In the inbox: {_joined([f'{lanes.get(key, 0):,} {LANES[key]}' for key in shown])}."


def _new(morning: Morning) -> str:
    since = "this time yesterday"
    if morning.since is not None:
        since = f"your last visit, {_age(morning.since, morning.now)} ago"
    if not morning.added:
        return f"Nothing is new since {since}."
    return f"{things(morning.added, 'pull request')} {'is' if morning.added == 1 else 'are'} new since {since}."


def _new_ones(morning: Morning) -> str:
    """Return the address of the inbox with just those that are new."""
    filters = QueueFilters(repository=morning.only_key, since=new_since(morning.now, morning.since).isoformat())
    return reverse("queue") + filters.search()


def new_since(now: datetime, visited: datetime | None) -> datetime:
    """Return from when on a pull request is new, of the same clock as its arguments."""
    return visited or now - NEW


def _longest(oldest: Oldest, now: datetime) -> str:
    kind = "flagged pull request" if oldest.group == "needs_human" else "pull request"
    return f"The longest wait is {_age(oldest.opened_at, now)}, for a {kind} in {spoken_name(oldest.repository)}."


def _counted(count: int, name: str, state: str) -> str:
    return f"{things(count, name)} {'is' if count == 1 else 'are'} {state}." if count else f"No {name} is {state}."


def _fast_lane(morning: Morning) -> str:
    shut, known = len(morning.lanes_shut), morning.lanes_known
    if not shut or shut == known:
        return f"The fast lane is {'shut' if shut else 'open'}{' everywhere' if known > 1 else ''}."
    named = [spoken_name(name) for name in sorted(morning.lanes_shut)[:NAMED]]
    more = [f"{shut - NAMED:,} more"] if shut > NAMED else []
    return f"The fast lane is shut in {shut:,} of {known:,} repositories: {_joined([*named, *more])}."


def _age(then: datetime, now: datetime) -> str:
    """Return an age as one figure ("3 days"); it is at least a minute, so that "ago" can follow."""
    words = age_words(then, now)
    return words if words[:1].isdigit() else "1 minute"


def _joined(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def spoken_name(name: str) -> str:
    """Return a repository's name as words that can be read aloud: letters and digits, cut, never a DID."""
    words = _WORD.findall(unicodedata.normalize("NFKC", name[:200]))
    if not words or name.lower().startswith("did:"):
        return NAMELESS
    spoken = " ".join(words)[:NAME_LENGTH]
    while _count_words(spoken) > NAME_WORDS:
        spoken = spoken[:-1]
    return spoken.strip()


def speech_seconds(sentences: Sequence[str]) -> float:
    """Return how long reading takes at WORDS_A_MINUTE, at most."""
    return sum(map(_count_words, sentences)) * 60 / WORDS_A_MINUTE


def _count_words(text: str) -> int:
    """Count words as they are spoken; a digit counts as two: "1,234" is one thousand two hundred and thirty four."""
    return sum(2 if part.isdecimal() else 1 for part in _SPOKEN.findall(text))


def write_ssml(sentences: Sequence[str]) -> str:
    """Return the sentences as SSML 1.1."""
    said = "".join(f"<s>{escape(sentence)}</s>" for sentence in sentences)
    head = 'version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en"'
    return f"<speak {head}><p>{said}</p></speak>"


def read_morning(
    snapshot: Snapshot, roles: Roles, repository: str, now: datetime, since: datetime | None, is_stale: bool
) -> Morning:
    """Read what a maintainer with these roles is told: of one repository by its key, or of all with "".

    `now` is the present of the data and `since` on the same clock, both naive UTC.
    """
    query, names = QueueQuery(repository=repository, size=1), read.repository_names(snapshot)
    lanes = [one.repository for one in lane_heads.lane_states(snapshot) if repository in ("", one.repository)]
    is_open = lane_heads.open_lanes(snapshot)
    incidents = incidents_of(roles, snapshot).filter(is_open=True)
    return Morning(
        now=now,
        since=since,
        lanes=row_actions.lane_counts(query, snapshot, timezone.now()),
        added=read.opened_since(snapshot, new_since(now, since), as_shown.as_it_stands(snapshot, query)),
        oldest=_find_oldest(snapshot, query),
        audits=sum(repository in ("", one.repository_key) for one in lists.audits_due(snapshot, roles)),
        incidents=(incidents.filter(repo_key=repository) if repository else incidents).count(),
        lanes_known=len(lanes),
        lanes_shut=tuple(names.get(key, "") for key in lanes if key not in is_open),
        closures=_count_closures(snapshot, roles, repository),
        only=names.get(repository, "") if repository else "",
        only_key=repository,
        is_stale=is_stale,
    )


def _find_oldest(snapshot: Snapshot, query: QueueQuery) -> Oldest | None:
    row = as_shown.longest_waiting(snapshot, query)
    if row is None:
        return None
    return Oldest(read.lanes(snapshot, [row.uri])[row.uri], row.repository_name, row.opened_at, row.uri)


def _count_closures(snapshot: Snapshot, roles: Roles, repository: str) -> int:
    """Count the closures by people that pages show to this reader and that are in force in the repository."""
    closures = standing_closures(snapshot)
    public = told_to_readers(closures)
    shown = [one for one in closures if one in public or roles.role(one.repository) >= Role.MAINTAINER]
    return sum(not repository or one.repository in ("", repository) for one in shown)
