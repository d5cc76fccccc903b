"""Objections and wishes of contributors in the worker's file: what the pages told, and what people wrote as records.

An objection counts only for the person whom it concerns: one to a decision for the pull request's author, one without a
pull request for every open one of its author. A maintainer who speaks in somebody's name speaks about what was offered
to their own repository, and it counts there alone. It moves nobody's score; it asks for a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from ingest.store.database import Store
from ingest.store.transaction import Rows

DAYS = 30  # within which a person answers
OPEN = """
with standing as (
  select contributor_id, pull_uri, repository_id, coalesce(by_maintainer, false) as by_maintainer
  from objections where state = 'open'
  union all
  select d.author_id, d.subject, null, false from declarations d where d.kind = 'objection' and d.deleted_at is null
  and not exists (from objections o where o.objection_key = d.uri and o.record_cid is not distinct from d.record_cid)
)
select p.pull_uri, bool_and(s.by_maintainer) as by_maintainer
from pull_requests p join standing s on s.contributor_id = p.author_id
where p.state = 'open' and (s.pull_uri is null or s.pull_uri = p.pull_uri)
  and (s.repository_id is null or s.repository_id = p.repository_id)
group by p.pull_uri
"""
REPOSITORY = """
select coalesce((select repository_id from repository_aliases where alias = $key),
  (select repository_id from repositories where repo_key = $key))
"""
NOWHERE = 0  # for a repository that is not known here
# Those that nobody answered, a few of each author, and first of those who offered something to a watched repository: no
# heap of records by accounts made for it hides what a contributor says.
RECORDS = """
select d.uri, d.record_cid, d.subject, d.value, d.seen_at, c.did, r.repo_key from declarations d
join contributors c on c.contributor_id = d.author_id
left join pull_requests p on p.pull_uri = d.subject and p.author_id = d.author_id
left join repositories r on r.repository_id = p.repository_id
where d.kind = 'objection' and d.deleted_at is null and (d.subject is null or p.pull_uri is not null)
and not exists (from objections o where o.objection_key = d.uri and o.record_cid is not distinct from d.record_cid)
qualify row_number() over (partition by d.author_id order by d.seen_at, d.uri) <= 20
order by d.author_id not in (
  select author_id from pull_requests semi join watched_repositories using (repository_id)), d.seen_at, d.uri
limit 500
"""
# Of somebody's wish on a page and their record the newer counts.
LEFT_OUT = """
select contributor_id from leaderboard_wishes where left_out
union
select d.author_id from declarations d where d.kind = 'leaderboard_opt_out' and d.deleted_at is null and not exists (
  from leaderboard_wishes w where w.contributor_id = d.author_id and not w.left_out and w.told_at >= d.changed_at)
"""


@dataclass(frozen=True, slots=True)
class RecordObjection:
    """An objection that a person wrote as a record; `pull_uri` None: to being scored at all. The text is theirs."""

    uri: str
    record_cid: str | None
    did: str
    pull_uri: str | None
    repo_key: str  # of the pull request; "" without one
    text: str
    seen_at: datetime

    @property
    def due_at(self) -> datetime:
        """Return when a person must have answered."""
        return self.seen_at + timedelta(days=DAYS)


def open_objections(rows: Rows) -> dict[str, Literal["contributor", "maintainer"]]:
    """Return who objects to each open pull request that needs a person's decision for it, by at-uri.

    "maintainer": only a maintainer of its repository spoke, in the contributor's name.
    """
    return {row["pull_uri"]: "maintainer" if row["by_maintainer"] else "contributor" for row in rows.rows(OPEN)}


def record_objections(rows: Rows) -> tuple[RecordObjection, ...]:
    """The objections that stand as records and that nobody answered: at most 500, those of contributors here first."""
    return tuple(
        RecordObjection(
            uri=row["uri"],
            record_cid=row["record_cid"],
            did=row["did"],
            pull_uri=row["subject"],
            repo_key=row["repo_key"] or "",
            text=str(msgspec.json.decode(row["value"]).get("text", "")),
            seen_at=row["seen_at"],
        )
        for row in rows.rows(RECORDS)
    )


def tell_objection(store: Store, key: str, told: Mapping[str, Any]) -> None:
    """Write what stands of one objection; again is harmless.

    `told`: did, pull_uri (None), record_cid (None), state, made_at, due_at and answered_at (None), naive UTC; of a
    maintainer who speaks in their name `by_maintainer` and `repo_key`, None for a message of an older version.
    """
    with store.write() as txn:
        person = txn.person_ids([told["did"]])[told["did"]]
        row = {name: value for name, value in told.items() if name not in ("did", "repo_key")}
        repo_key = told.get("repo_key")
        number = (txn.value(REPOSITORY, {"key": repo_key}) or NOWHERE) if repo_key else None
        known = {"by_maintainer": False, "repository_id": number}
        txn.upsert("objections", [{"objection_key": key, "contributor_id": person, **known, **row}])
        txn.inputs_changed()


def tell_wish(store: Store, did: str, left_out: bool, told_at: datetime) -> None:
    """Write whether a person wishes to be left out of the leaderboard; again is harmless."""
    with store.write() as txn:
        person = txn.person_ids([did])[did]
        txn.upsert("leaderboard_wishes", [{"contributor_id": person, "left_out": left_out, "told_at": told_at}])


def is_left_out(rows: Rows, did: str) -> bool:
    """Return whether a person is left out of the leaderboard on their own wish."""
    sql = f"select count(*) from contributors where did = ? and contributor_id in ({LEFT_OUT})"
    return rows.value(sql, [did]) > 0
