"""Reads how authors usually sign their commits, and what of it the newest round of an open pull request lacks.

A person's commits are those of the rounds that they offered, in every watched repository: only there git and the
network together say whose they are. Both the habit and a key count from KEY_DAYS before the round. So a thief of an
account cannot declare a key or send some unsigned work first, and deleting the old keys ends no habit either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.transaction import Rows
from scoring.thresholds import KEY_DAYS
from scoring.types import Signing

LAST_COMMITS = 40  # of a habit: the newest, so that a habit may end
FEWEST_COMMITS = 5  # with fewer nothing is usual
# From here a person usually signs: a missed commit in five is another machine or an editor in the browser. Who signs
# half of the time reaches it by chance with 5 commits in one case of five, with 40 in none of ten thousand.
USUAL_SHARE = 0.8

SIGNATURES = """
with offered as (
  select p.pull_uri, p.patch_ref, p.author_id, p.state = 'open' and p.deleted_at is null and w.repository_id is not null
    as is_open, r.patch_ref as ref, min(r.seen_at) as seen_at
  from pull_requests p join pull_rounds r using (pull_uri) left join watched_repositories w using (repository_id)
  where r.patch_ref like 'compare:%' and r.seen_at <= $now group by all
), open as (select * exclude (ref) from offered where is_open and ref = patch_ref),
earlier as (
  select o.author_id, c.commit_id, bool_or(c.declared) as declared, max(c.zone_band) as zone_band,
    min(o.seen_at) as seen_at, max(c.place) as place
  from offered o join round_commits c on c.pull_uri = o.pull_uri and c.patch_ref = o.ref
  where o.author_id in (select author_id from open) group by all
), before_round as (
  select o.pull_uri, e.declared, e.zone_band,
    row_number() over (partition by o.pull_uri order by e.seen_at desc, e.place desc, e.commit_id) as newest
  from open o join earlier e on e.author_id = o.author_id and e.seen_at <= o.seen_at - to_days($key_days)
), habits as (
  select pull_uri, count(*) filter (newest <= $last) as checked,
    count(*) filter (newest <= $last and declared) as signed,
    count(zone_band) as zoned, list_distinct(list(zone_band)) as zones
  from before_round group by pull_uri having checked >= $fewest and signed >= $share * checked
)
select o.pull_uri, o.seen_at, h.checked, h.signed, h.zoned, h.zones,
  any_value(f.outcome) is not distinct from 'found' as is_read, count(c.commit_id) as commits,
  count(*) filter (c.commit_id is not null and c.signed_by is null) as unsigned,
  count(*) filter (c.signed_by is not null and k.fingerprint is null) as undeclared,
  max(k.seen_at) as key_seen_at, list(c.zone_band) as round_zones
from open o join habits h using (pull_uri)
left join fetches f on f.kind = 'signatures' and f.subject = o.pull_uri || ' ' || o.patch_ref
left join round_commits c on c.pull_uri = o.pull_uri and c.patch_ref = o.patch_ref
left join declared_keys k on k.author_id = o.author_id and k.fingerprint = c.signed_by and k.seen_at <= $now
group by all
"""


def read_signing(rows: Rows, now: datetime) -> dict[str, Signing]:
    """Return what the newest rounds of usual signers lack, by pull request; the others are left out."""
    parameters = {"now": now, "key_days": KEY_DAYS, "last": LAST_COMMITS, "fewest": FEWEST_COMMITS}
    found = rows.rows(SIGNATURES, {**parameters, "share": USUAL_SHARE})
    return {row["pull_uri"]: signing for row in found if (signing := _compare_round(row, now)) is not None}


def _compare_round(row: Mapping[str, Any], now: datetime) -> Signing | None:
    """Return what a round lacks beside its author's habit; None where it lacks nothing, or has no commit of its own."""
    counts = (row["signed"], row["checked"])
    if not row["is_read"]:
        return Signing("unchecked", *counts)
    if not row["commits"]:
        return None
    has_moved = row["zoned"] >= FEWEST_COMMITS and bool({*row["round_zones"]} - {*row["zones"], None})
    if row["unsigned"]:
        return Signing("unsigned", *counts, has_moved=has_moved)
    if row["undeclared"]:
        return Signing("unknown_key", *counts, has_moved=has_moved)
    if (row["seen_at"] - row["key_seen_at"]).days < KEY_DAYS:
        return Signing("new_key", *counts, key_days=(now - row["key_seen_at"]).days, has_moved=has_moved)
    return None


NEWEST_ROUND = """
select count(*) as commits, count(c.signed_by) as signed, count(k.fingerprint) as declared,
  max(k.seen_at) as key_seen_at
from pull_requests p join round_commits c on c.pull_uri = p.pull_uri and c.patch_ref = p.patch_ref
left join declared_keys k on k.author_id = p.author_id and k.fingerprint = c.signed_by
where p.pull_uri = ?
"""
# A commit that several rounds bring counts once, where it came first.
HABIT = """
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
    row = rows.row(NEWEST_ROUND, [uri])
    return RoundSignatures(**row) if row and row["commits"] else None


def signing_habit(rows: Rows, contributor_id: int) -> SigningHabit | None:
    """Return how a person's last commits were signed; None where none was signed by a key of theirs."""
    row = rows.row(HABIT, {"person": contributor_id, "last": LAST_COMMITS})
    return SigningHabit(row["signed"], row["checked"]) if row and row["signed"] else None
