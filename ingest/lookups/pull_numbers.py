"""Find the numbers of pull requests on the forge's own site by reading its pages, since no record has them.

Each watched repository's pages are read upward from the last number that was found, at most one a second. A number is
stored for good and never guessed: a page counts only if it names a pull request that is known to belong to that
repository. `pullId` of the oldest records is only its author's claim; the walk finds that page anyway, so `pullId` is
not read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

from ingest.clock import doubled, waiting_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store

PAUSE_SECONDS = 1.0  # between two pages
PAGES_A_RUN = 30
GAP = 3  # numbers in a row without a page after which the walk ends for now
PAGE_LIMIT = 4_000_000  # bytes: a page shows the whole diff
TAGS, TAG_BYTES = 100, 4_000  # read on one page

DUE_WALKS = """
with missing as (
  select p.repository_id, max(p.seen_at) as seen_at from pull_requests p
  anti join pull_pages using (pull_uri) where p.deleted_at is null group by p.repository_id
)
select r.repository_id, r.repo_key as subject, r.name, c.did, case when c.handle_verified then c.handle end as handle,
  coalesce(w.number, 0) as number, coalesce(f.attempts, 0) as attempts
from repositories r
join watched_repositories using (repository_id)
join contributors c on c.contributor_id = r.owner_id
join missing m using (repository_id)
left join page_walks w using (repository_id)
left join fetches f on f.kind = 'pages' and f.subject = r.repo_key
where r.deleted_at is null and r.name is not null
  and (f.subject is null or f.due_clock <= $wall or f.outcome = 'found' and f.fetched_clock < m.seen_at)
order by f.fetched_clock nulls first, r.repository_id
"""
_OWNER = re.compile(r"[A-Za-z0-9.:-]{1,253}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MARK = re.compile(rb"data-aturi|at-uri-panel")


@dataclass
class _Walk:
    """The result of one walk: `found` maps at-uris to numbers, `problem` is the failure that ended it early."""

    number: int
    found: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    problem: FetchProblem | None = None
    ended: bool = False  # no page beyond


def read_pages(store: Store, fetcher: Fetcher, appview_url: str, pages: int = PAGES_A_RUN) -> int:
    """Walk on in the repositories that have pull requests without a number; return how many pages were fetched.

    Takes over a second a page. Raises nothing: a site that fails is left alone for a while, like other peers.
    """
    with store.read() as reader:
        due = reader.rows(DUE_WALKS, {"wall": store.wall()})
    asked_count = 0
    for row in due:
        if asked_count >= pages or fetcher.closed:
            break
        if not (_NAME.fullmatch(row["name"]) and _OWNER.fullmatch(row["handle"] or row["did"])):
            continue
        base = f"{appview_url}/{row['handle'] or row['did']}/{row['name']}/pulls/"
        walk = _walk_pages(fetcher, base, row["number"], pages - asked_count)
        asked_count += walk.asked
        _store_walk(store, row, base, walk)
    return asked_count


def _walk_pages(fetcher: Fetcher, base: str, number: int, pages: int) -> _Walk:
    """Fetch page after page until none follows, one fails or the allowed number is reached."""
    walk, missing = _Walk(number), 0
    while walk.asked < pages and not walk.ended:
        number_asked = walk.number + missing + 1
        walk.asked += 1
        try:
            fetcher.rest(PAUSE_SECONDS)
            uri = named_uri(fetcher.get(f"{base}{number_asked}", PAGE_LIMIT))
        except FetchProblem as problem:
            if not (problem.absent or problem.too_large):
                walk.problem = problem
                return walk
            if problem.absent:
                missing += 1
                walk.ended = missing > GAP
                continue
            uri = None
        walk.number, missing = number_asked, 0
        if uri:
            walk.found.setdefault(uri, number_asked)
    return walk


def _store_walk(store: Store, row: Mapping[str, Any], base: str, walk: _Walk) -> None:
    """Write the numbers that a walk found, the last number it reached and when to go on."""
    if walk.problem and walk.problem.closed and not walk.found:
        return
    now: datetime = store.wall()
    with store.write() as txn:
        sql = "select pull_uri from pull_requests where repository_id = ? and pull_uri in (select unnest(?))"
        own_uris = [pull["pull_uri"] for pull in txn.rows(sql, [row["repository_id"], list(walk.found)])]
        pages = [{"pull_uri": uri, "number": walk.found[uri], "url": f"{base}{walk.found[uri]}"} for uri in own_uris]
        txn.append_new("pull_pages", pages)
        txn.upsert("page_walks", [{"repository_id": row["repository_id"], "number": walk.number}])
        txn.upsert(
            "fetches",
            [{"kind": "pages", "subject": row["subject"], "fetched_clock": now, **_fetch_row(row, walk, now)}],
        )


def _fetch_row(row: Mapping[str, Any], walk: _Walk, now: datetime) -> dict[str, object]:
    """Go on at once if there may be more; wait longer each time if the walk ended without anything new."""
    moved = walk.number > row["number"]
    attempts = 0 if moved else row["attempts"] + 1
    if walk.problem:
        wait = waiting_time(max(attempts, 1), walk.problem)
        return {"outcome": "failed", "reason": str(walk.problem), "attempts": attempts, "due_clock": now + wait}
    due = now + doubled(max(attempts, 1)) if walk.ended else now
    return {"outcome": "found", "reason": None, "attempts": attempts, "due_clock": due}


def named_uri(page: bytes) -> str | None:
    """Return the at-uri of a pull request's page: the one in its own panel, else the only one on the page.

    Only the tags around the two attributes are parsed, at most 100: a page may hold megabytes of somebody's diff.
    """
    listed: list[str] = []
    in_panel = False
    for attributes in _marked_tags(page):
        in_panel = in_panel or attributes.get("id") == "at-uri-panel"
        uri = attributes.get("data-aturi")
        if uri and in_panel:
            return uri[:TAG_BYTES]
        listed += [uri] if uri else []
    return listed[0] if len(set(listed)) == 1 else None


def _marked_tags(page: bytes) -> Iterator[dict[str, str | None]]:
    """Yield the attributes of each start tag that carries one of the marks, in order."""
    searched_to = 0
    for count, mark in enumerate(_MARK.finditer(page)):
        if count >= TAGS:
            return
        start = page.rfind(b"<", max(searched_to, mark.start() - TAG_BYTES), mark.start())
        end = page.find(b">", mark.end(), mark.end() + TAG_BYTES)
        if start < 0 or end < 0:
            continue
        searched_to = end + 1
        reader = _Reader()
        reader.feed(page[start:searched_to].decode("utf-8", "replace"))
        yield from reader.found[:1]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take one start tag; if an attribute occurs twice, the first one counts, as in browsers."""
        self.found.append(dict(reversed(attrs)))
