"""Ask about the repository on GitHub that a watched repository's own record links: its Scorecard, and its health.

Off unless the operator turns registries on. Each upstream is asked about once in seven days, at two hosts. The answers
are shown as those hosts' words about the upstream: they say nothing of the repository here and move nothing. Sources:
api.scorecard.dev; "Get a repository" of docs.github.com/rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from ingest.clock import SLACK, parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.declared.facts import GITHUB, LOOK_UPS, SCORECARD, Fact, Facts, note_facts, write_facts
from ingest.lookups.engine import Due, Found, Kind, Row, Wall, fetch
from ingest.records.registry import REPOSITORY
from ingest.records.repositories import logged_record, standing_records
from ingest.store.database import Store
from ingest.store.transaction import Transaction

KIND = LOOK_UPS[SCORECARD]
SOURCES = (SCORECARD, GITHUB)
SCORE_LIMIT = 2_000_000  # bytes: it lists what each check found
HEALTH_LIMIT = 200_000  # bytes; some 20,000 are usual
OLDEST = datetime(2005, 4, 3)  # git is no older
# Pages of the two hosts about an upstream, which are the evidence of its facts.
PAGES: Mapping[str, str] = {
    SCORECARD: "https://scorecard.dev/viewer/?uri=github.com/",
    GITHUB: "https://github.com/",
}
LINKED = """
select r.repo_key as subject, r.upstream, c.did as owner, r.seen_at
from repositories r semi join watched_repositories using (repository_id)
join contributors c on c.contributor_id = r.owner_id
where r.deleted_at is null and r.upstream <> '' and c.account_status <> 'deleted'
"""
# An upstream of which nothing is known is asked about again after a day, also one that took another's place: writing
# the record again and again may not spend the 60 requests an hour that GitHub answers.
DUE = f"""
select l.*, l.owner as payer, 0 as rank, coalesce(f.due_clock, l.seen_at) as since, coalesce(f.attempts, 0) as attempts
from ({LINKED}) l left join fetches f on f.kind = '{KIND}' and f.subject = l.subject
where f.subject is null or f.due_clock <= $wall
  or f.attempts = 0 and f.fetched_clock <= $wall - interval 1 day
    and not exists (from signals s where s.subject = l.subject and s.source in {SOURCES})
"""
WITHDRAWN = f"""
from signals where source in {SOURCES} and (subject, declared_by, evidence_uri) not in (
  select (subject, owner, page || upstream) from ({LINKED}), (select unnest($pages::varchar[]) as page)
)
"""
UNREAD = """
select r.repository_id, 'at://' || c.did || '/' || $collection || '/' || coalesce(r.rkey, '') as uri
from repositories r semi join watched_repositories using (repository_id)
join contributors c on c.contributor_id = r.owner_id where r.upstream is null and r.deleted_at is null
"""
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]


class _Named(msgspec.Struct):
    name: str


class _Scorecard(msgspec.Struct):
    repo: _Named
    score: Annotated[float, msgspec.Meta(ge=0, le=10)]
    date: str = ""


class _Health(msgspec.Struct):
    full_name: str
    archived: bool
    stargazers_count: Count
    open_issues_count: Count
    pushed_at: str | None = None


def fetch_upstreams(store: Store, fetcher: Fetcher, now: datetime, wall: Wall) -> int:
    """Withdraw facts whose link is gone, and ask about linked upstreams that are due; return how many that were."""

    def write(txn: Transaction, results: Sequence[Found[Facts]]) -> None:
        write_facts(txn, results, SOURCES, now, wall())

    kind = Kind(KIND, Due(DUE), lambda row: _ask(fetcher, row, now), write, note_facts)
    _read_older_records(store)
    return _withdraw(store) + fetch(store, fetcher, wall, kind)


def _withdraw(store: Store) -> int:
    """Delete the facts whose link is gone; return how many."""
    params = {"pages": list(PAGES.values())}
    with store.read() as rows:
        if not rows.value(f"select count(*) {WITHDRAWN}", params):
            return 0
    with store.write() as txn:
        return len(txn.rows(f"delete {WITHDRAWN} returning subject", params))


def _read_older_records(store: Store) -> None:
    """Read the link of repositories whose record came before links were kept."""
    params = {"collection": REPOSITORY}
    with store.read() as rows:
        if not rows.value(f"select count(*) from ({UNREAD})", params):
            return
    with store.write() as txn:
        unread = txn.rows(UNREAD, params)
        events = standing_records(txn, [row["uri"] for row in unread])
        for row in unread:
            found = logged_record(txn, events.get(row["uri"]))
            upstream = found[1].upstream if found else ""
            txn.execute(
                "update repositories set upstream = ? where repository_id = ?", [upstream, row["repository_id"]]
            )


def _ask(fetcher: Fetcher, row: Row, now: datetime) -> Facts:
    """Ask both hosts about one upstream; one that does not answer leaves what it said before."""
    found: list[Fact] = []
    unanswered: set[str] = set()
    for source, read in READS:
        page = PAGES[source] + row["upstream"]
        try:
            found += [Fact(source, key, value, page) for key, value in read(fetcher, row["upstream"], now)]
        except FetchProblem as problem:
            if problem.closed:
                raise
            if problem.retry:
                unanswered.add(source)
    return Facts(tuple(found), frozenset(unanswered))


def _read_scorecard(fetcher: Fetcher, upstream: str, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the newest Scorecard of a repository and its day. Raises FetchProblem."""
    address = f"https://api.scorecard.dev/projects/github.com/{upstream}"
    answer = fetcher.get_json(address, _Scorecard, SCORE_LIMIT)
    if answer.repo.name.lower() != f"github.com/{upstream}":
        raise FetchProblem("the score that was sent is another repository's")
    yield "score", f"{answer.score:.1f}"
    yield from _moment("scored_at", answer.date, now)


def _read_health(fetcher: Fetcher, upstream: str, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield how a repository on GitHub fares. Raises FetchProblem, also if it has moved: redirects are not followed."""
    answer = fetcher.get_json(f"https://api.github.com/repos/{upstream}", _Health, HEALTH_LIMIT)
    if answer.full_name.lower() != upstream:
        raise FetchProblem("the repository that was described is another one")
    yield "archived", "true" if answer.archived else "false"
    yield "stars", str(answer.stargazers_count)
    yield "open_issues", str(answer.open_issues_count)
    yield from _moment("pushed_at", answer.pushed_at or "", now)


READS: tuple[tuple[str, Callable[[Fetcher, str, datetime], Iterator[tuple[str, str]]]], ...] = (
    (SCORECARD, _read_scorecard),
    (GITHUB, _read_health),
)


def _moment(key: str, text: str, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield a time that can be: neither before git nor yet to come."""
    moment = parse_time(text[:64])
    if moment is not None and OLDEST <= moment <= now + SLACK:
        yield key, moment.isoformat()
