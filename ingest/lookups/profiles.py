"""Public Bluesky profiles of people who declare theirs: on demand, each asked for once in seven days.

Only of people whose own profile record here says so (`bluesky: true`), and of those only of authors of open pull
requests in watched repositories, and of whoever somebody looks at. Nobody else is ever looked up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec

from ingest.clock import parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.store.database import Store
from ingest.store.transaction import Transaction

WEEK = timedelta(days=7)
PROFILE_LIMIT = 200_000  # bytes
MOST = 2**53  # a count beyond this is no count

DECLARED = "select author_id, min(uri) as uri from profiles where bluesky and deleted_at is null group by author_id"
DUE_PROFILES = f"""
with declared as ({DECLARED}), offering as (
  select author_id, max(seen_at) as since from pull_requests join watched_repositories using (repository_id)
  where state = 'open' and deleted_at is null group by author_id
)
select c.did as subject, d.uri, c.did as payer, case when f.outcome = 'wanted' then 0 else 1 end as rank,
  coalesce(f.due_clock, o.since) as since, coalesce(f.attempts, 0) as attempts
from contributors c
join declared d on d.author_id = c.contributor_id
left join offering o on o.author_id = c.contributor_id
left join fetches f on f.kind = 'bluesky' and f.subject = c.did
where c.account_status <> 'deleted'
  and (f.outcome = 'wanted' or o.author_id is not null and (f.subject is null or f.due_clock <= $wall))
"""


class _Profile(msgspec.Struct):
    did: str
    followersCount: int = 0  # noqa: N815 - the wire's spelling
    followsCount: int = 0  # noqa: N815
    postsCount: int = 0  # noqa: N815
    createdAt: str = ""  # noqa: N815


@dataclass(frozen=True)
class PublicProfile:
    """A person's public profile on Bluesky, by its own counts."""

    followers: int
    follows: int
    posts: int
    created_at: datetime | None


def want_profile(store: Store, did: str, wall: Wall) -> bool:
    """Have a person's profile asked for at the next chance, since somebody looks at them; whether that is needed.

    It is not where they declare none, or where it was asked for within seven days or is left alone after a failure.
    """
    now = wall()
    with store.write() as txn:
        declares = txn.value(
            f"select count(*) from contributors join ({DECLARED}) on author_id = contributor_id where did = ?",
            [did],
        )
        known = txn.row("select outcome, due_clock from fetches where kind = 'bluesky' and subject = ?", [did])
        if not declares or (
            known and (known["outcome"] == "wanted" or not known["due_clock"] or known["due_clock"] > now)
        ):
            return False
        row = {"kind": "bluesky", "subject": did, "outcome": "wanted", "reason": None, "attempts": 0}
        txn.upsert("fetches", [row | {"due_clock": now, "fetched_clock": now}])
    return True


def fetch_profiles(store: Store, fetcher: Fetcher, bluesky_api: str, now: datetime, wall: Wall) -> int:
    """Ask for the profiles that are due; returns how many."""

    def ask(row: Row) -> PublicProfile:
        return public_profile(fetcher, bluesky_api, row["subject"])

    def write(txn: Transaction, found: Sequence[Found[PublicProfile]]) -> None:
        _write_profiles(txn, found, now)

    kind = Kind("bluesky", Due(DUE_PROFILES), ask, write, lambda _: Note(again=WEEK))
    return fetch(store, fetcher, wall, kind)


def public_profile(fetcher: Fetcher, bluesky_api: str, did: str) -> PublicProfile:
    """Return what the public API says about a DID.

    Raises FetchProblem, with status 404 where it has no profile there.
    """
    address = f"{bluesky_api}/xrpc/app.bsky.actor.getProfile?actor={quote(did, safe='')}"
    try:
        told = fetcher.get_json(address, _Profile, PROFILE_LIMIT)
    except FetchProblem as problem:
        if problem.status == 400:  # how it says that there is none
            raise FetchProblem("there is no such profile on Bluesky", status=404) from None
        raise
    counts = (told.followersCount, told.followsCount, told.postsCount)
    if told.did != did or not all(0 <= count < MOST for count in counts):
        raise FetchProblem("the profile that was sent is another one's, or makes no sense")
    return PublicProfile(*counts, parse_time(told.createdAt))


def _write_profiles(txn: Transaction, found: Sequence[Found[PublicProfile]], now: datetime) -> None:
    rows = [
        _signal(one.row, key, value, now)
        for one in found
        if isinstance(one.answer, PublicProfile)
        for key, value in _values(one.answer).items()
    ]
    txn.upsert("signals", rows)
    if rows:
        txn.inputs_changed()


def _values(profile: PublicProfile) -> dict[str, str]:
    counts = {"followers": profile.followers, "follows": profile.follows, "posts": profile.posts}
    created = {"created_at": profile.created_at.isoformat()} if profile.created_at else {}
    return {key: str(value) for key, value in counts.items()} | created


def _signal(row: Row, key: str, value: str, now: datetime) -> dict[str, object]:
    return {
        "subject": row["subject"],
        "source": "bluesky",
        "key": key,
        "value": value,
        "observed_at": now,
        "known_from": now,
        "expires_at": now + WEEK,
        "evidence_uri": row["uri"],
        "declared_by": row["subject"],
    }
