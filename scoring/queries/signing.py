"""Reads what signatures say of a pull request and of a person, for pages: facts that open no lane."""

from dataclasses import dataclass
from datetime import datetime

from ingest.store.transaction import Rows
from scoring.pipeline.signing import LAST_COMMITS

ROUND = """
select count(*) as commits, count(c.signed_by) as signed, count(k.fingerprint) as declared,
  max(k.seen_at) as key_seen_at
from pull_requests p join round_commits c on c.pull_uri = p.pull_uri and c.patch_ref = p.patch_ref
left join declared_keys k on k.author_id = p.author_id and k.fingerprint = c.signed_by
where p.pull_uri = ?
"""
# A commit that several rounds bring counts once, where it came first.
PERSON = """
with commits as (
  select c.commit_id, bool_or(c.declared) as declared, min(r.seen_at) as seen_at, max(c.place) as place
  from pull_requests p join round_commits c using (pull_uri)
  join pull_rounds r on r.pull_uri = c.pull_uri and r.patch_ref = c.patch_ref
  where p.author_id = $person group by c.commit_id
), newest as (select declared from commits order by seen_at desc, place desc, commit_id limit $last)
select count(*) as checked, count(*) filter (declared) as signed from newest
"""


@dataclass(frozen=True, slots=True)
class RoundSignatures:
    """The signatures of the newest round's commits, which are at least one.

    `signed` have a valid one, `declared` of them by a key that the author declares now; `key_seen_at` is when the
    newest of these keys was first seen, None without one.
    """

    commits: int
    signed: int
    declared: int
    key_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class SigningHabit:
    """Of a person's last `checked` commits in pull requests `signed` were signed by a key that they declared."""

    signed: int
    checked: int


def round_signatures(rows: Rows, uri: str) -> RoundSignatures | None:
    """Return the signatures of a pull request's newest round; None for a patch, and before its commits were read."""
    row = rows.row(ROUND, [uri])
    return RoundSignatures(**row) if row and row["commits"] else None


def signing_habit(rows: Rows, contributor_id: int) -> SigningHabit | None:
    """Return how a person's last commits were signed; None where none was signed by a key of theirs."""
    row = rows.row(PERSON, {"person": contributor_id, "last": LAST_COMMITS})
    return SigningHabit(row["signed"], row["checked"]) if row and row["signed"] else None
