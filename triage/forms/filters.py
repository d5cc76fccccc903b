"""Views as query strings: invalid values fall back to a default with a note. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Literal, cast, get_args
from urllib.parse import quote_plus, urlencode

from scoring.queries.read import LeaderboardSort, QueueQuery, QueueRow, QueueSort, SettledOutcome, SettledQuery, Subject

Bucket = Literal["", "needs_human", "normal_queue", "fast_lane", "would_be_fast_lane", "own"]
TEXT_LIMIT = 100
URI_LIMIT = 600
PAGE_LIMIT = 10_000
GROUP_PREVIEW = 20  # rows of one group when all groups are in view
GROUP_PAGE = 50  # rows of one page when one group is in view


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """The whole view of the queue from its URL: filters, the open row, and notes on invalid values."""

    bucket: Bucket = ""
    text: str = ""
    repository: str = ""
    sort: QueueSort = "need"
    mine: bool = False  # only rows assigned to or approved by the viewer, whom the URL does not name
    since: str = (
        ""  # only what was opened from then on: a naive time in UTC; `new` in the URL, where `since` is a round
    )
    opened: str = ""
    page: int = 1
    notes: tuple[str, ...] = ()

    def query(self) -> QueueQuery:
        """Return the query for `scoring.queries.read.queue`: the first rows of every group, or one page of one."""
        return QueueQuery(
            bucket=self.bucket or None,
            text=self.text,
            repository=self.repository,
            sort=self.sort,
            page=self.page if self.bucket else 1,
            size=self.size,
            since=self.opened_since,
        )

    @property
    def opened_since(self) -> datetime | None:
        """Return the time from which on a pull request is shown."""
        return datetime.fromisoformat(self.since) if self.since else None

    @property
    def whenever_opened(self) -> str:
        """Return the query string of this view without that time."""
        return replace(self, since="", page=1, opened="").search()

    @property
    def size(self) -> int:
        """Return how many rows of a group are shown at once."""
        return GROUP_PAGE if self.bucket else GROUP_PREVIEW

    def search(self) -> str:
        """Return the query string that restores this view, without default values."""
        values = {
            "bucket": self.bucket,
            "q": self.text,
            "repository": self.repository,
            "sort": "" if self.sort == "need" else self.sort,
            "mine": "1" if self.mine else "",
            "new": self.since,
            "page": "" if self.page == 1 else str(self.page),
            "open": self.opened,
        }
        return _search(values)

    def opening(self, uri: str) -> str:
        """Return the query string of this view with that row open ("": none)."""
        closed = _closed(self)
        return f"{closed}{'&' if closed else '?'}open={quote_plus(uri)}" if uri else closed

    def in_bucket(self, bucket: Bucket) -> str:
        """Return the query string of this view narrowed to a bucket, from its first page."""
        return replace(self, bucket=bucket, page=1, opened="").search()

    def on_page(self, page: int) -> str:
        """Return the query string of another page of this view."""
        return replace(self, page=page, opened="").search()

    @property
    def narrowed(self) -> bool:
        """Return whether the view may omit open pull requests."""
        return bool(self.bucket or self.text or self.repository or self.mine or self.since)

    @property
    def of_list(self) -> str:
        """Return the query string of this view from its first page, with no row open."""
        return replace(self, page=1, opened="").search()


@lru_cache(maxsize=16)
def _closed(filters: QueueFilters) -> str:
    """Return the query string with no row open, shared by a page's 80 rows."""
    return replace(filters, opened="").search()


@dataclass(frozen=True, slots=True)
class LeaderboardFilters:
    """Order and page of the leaderboard from its URL."""

    sort: LeaderboardSort = "score"
    descending: bool = True
    page: int = 1
    notes: tuple[str, ...] = ()

    def search(self) -> str:
        """Return the query string that restores this view."""
        return _search(
            {
                "sort": "" if self.sort == "score" else self.sort,
                "order": "" if self.descending else "up",
                "page": "" if self.page == 1 else str(self.page),
            }
        )

    def sorted_by(self, sort: LeaderboardSort) -> str:
        """Return a header's query string, which reverses the order where it is the current one."""
        first_time = sort != "hops"
        descending = not self.descending if sort == self.sort else first_time
        return replace(self, sort=sort, descending=descending, page=1).search()

    def on_page(self, page: int) -> str:
        """Return the query string of another page in this order."""
        return replace(self, page=page).search()


@dataclass(frozen=True, slots=True)
class ListFilters:
    """The view of a list beside the queue from its URL; only the settled list can be searched."""

    text: str = ""
    repository: str = ""
    outcome: SettledOutcome = ""
    page: int = 1
    notes: tuple[str, ...] = ()

    def query(self) -> SettledQuery:
        """Return the query for `scoring.queries.read.settled`."""
        return SettledQuery(self.text, self.repository, self.outcome, self.page)

    @property
    def by_author(self) -> str:
        """Return the beginning of at-uris by the account whose DID is searched; "" without one."""
        return f"at://{self.text}/" if self.text.startswith("did:") else ""

    def on_page(self, page: int) -> str:
        """Return the query string of another page of this view."""
        values = {"q": self.text, "repository": self.repository, "outcome": self.outcome}
        return _search(values | {"page": "" if page == 1 else str(page)})

    @property
    def narrowed(self) -> bool:
        """Return whether the view may omit entries."""
        return bool(self.text or self.repository or self.outcome)


def read_queue(values: Mapping[str, str]) -> QueueFilters:
    """Return the queue's view from a query string; never fails, `notes` names ignored values."""
    notes: list[str] = []
    return QueueFilters(
        bucket=cast(Bucket, _choice(values, "bucket", get_args(Bucket), "", notes)),
        text=_text(values, notes),
        repository=_visible_line(values.get("repository", ""))[:URI_LIMIT],
        sort=cast(QueueSort, _choice(values, "sort", get_args(QueueSort), "need", notes)),
        mine=_choice(values, "mine", ("", "1"), "", notes) == "1",
        since=_moment(values, notes),
        opened=_visible_line(values.get("open", ""))[:URI_LIMIT],
        page=_page(values),
        notes=tuple(notes),
    )


def read_list(values: Mapping[str, str]) -> ListFilters:
    """Return a list's view from a query string; never fails, `notes` names ignored values."""
    notes: list[str] = []
    return ListFilters(
        text=_text(values, notes),
        repository=_visible_line(values.get("repository", ""))[:URI_LIMIT],
        outcome=cast(SettledOutcome, _choice(values, "outcome", get_args(SettledOutcome), "", notes)),
        page=_page(values),
        notes=tuple(notes),
    )


def is_in_view(item: QueueRow | Subject, query: QueueQuery) -> bool:
    """Return whether a query includes this pull request, by the queue's rules for repository, text and at-uri."""
    if query.repository not in ("", item.repository_key) or (query.only is not None and item.uri not in query.only):
        return False
    text, author = query.text.lower(), item.author
    texts = (item.title, item.repository_name, *([] if author.name.startswith("did:") else [author.name]))
    return query.text == author.did or any(text in words.lower() for words in texts)


def read_leaderboard(values: Mapping[str, str]) -> LeaderboardFilters:
    """Return the leaderboard's view from a query string; never fails, `notes` names ignored values."""
    notes: list[str] = []
    sort = cast(LeaderboardSort, _choice(values, "sort", get_args(LeaderboardSort), "score", notes))
    order = _choice(values, "order", ("up", "down"), "down", notes)
    return LeaderboardFilters(sort, order == "down", _page(values), tuple(notes))


def _text(values: Mapping[str, str], notes: list[str]) -> str:
    text = _visible_line(values.get("q", ""))
    if len(text) > TEXT_LIMIT:
        notes.append(f"The search was cut at {TEXT_LIMIT} characters.")
    return text[:TEXT_LIMIT]


def _visible_line(text: str) -> str:
    """Return the text without control characters (a NUL byte stops some readers) and with single spaces."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _choice(values: Mapping[str, str], name: str, known: tuple[str, ...], default: str, notes: list[str]) -> str:
    value = values.get(name, "") or default
    if value in known:
        return value
    shown = f"“{_visible_line(value)[:40]}”"
    notes.append(
        f"No such lane: {shown}. All lanes are shown."
        if name == "bucket"
        else f"No {name} here is called {shown}, so it was ignored."
    )
    return default


def _moment(values: Mapping[str, str], notes: list[str]) -> str:
    """Return the time of a query string in one form, "" for none or for one that is not a naive time."""
    text = values.get("new", "")
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        moment = None
    if text and (moment is None or moment.tzinfo is not None):
        notes.append("That is not a time in UTC, so pull requests of all times are shown.")
        return ""
    return moment.isoformat() if moment else ""


def is_page(text: str) -> bool:
    """Return whether a text is a possible page number of a list."""
    return text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= PAGE_LIMIT


def _page(values: Mapping[str, str]) -> int:
    text = values.get("page", "")
    return int(text) if is_page(text) else 1


def _search(values: Mapping[str, str]) -> str:
    values_set = {name: value for name, value in values.items() if value}
    return "?" + urlencode(values_set) if values_set else ""
