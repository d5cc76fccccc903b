"""Objections and wishes of contributors in the store: those made on pages, and those that people wrote as records.

An objection counts only for the person who objects: one to a decision for that pull request of the author, one without
a pull request for every open one of theirs. A maintainer may object in a contributor's name, about pull requests to
their own repository alone. An objection moves no score; it asks for a person (`circumstances.read_open_objections`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ingest.store.database import Store
from ingest.store.transaction import Rows

DAYS = 30  # within which a person answers
REPOSITORY = """
select coalesce((select repository_id from repository_aliases where alias = $key),
  (select repository_id from repositories where repo_key = $key))
"""
NOWHERE = 0  # for a repository that is not known here
# Objections without an answer, at most 20 of each author; those of authors with a pull request to a watched repository
# come first, so that records by accounts made for the purpose hide nobody's objection.
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
# The newer of a person's wish on a page and their record counts.
LEFT_OUT = """
select contributor_id from leaderboard_wishes where left_out
union
select d.author_id from declarations d where d.kind = 'leaderboard_opt_out' and d.deleted_at is null and not exists (
  from leaderboard_wishes w where w.contributor_id = d.author_id and not w.left_out and w.told_at >= d.changed_at)
"""


@dataclass(frozen=True, slots=True)
class RecordObjection:
    """An objection that a person wrote as a record; `pull_uri` None: to being scored at all."""

    uri: str
    record_cid: str | None
    did: str
    pull_uri: str | None
    repo_key: str  # of the pull request; "" without one
    text: str
    seen_at: datetime

    @property
    def due_at(self) -> datetime:
        """Return the moment by which a person must answer."""
        return self.seen_at + timedelta(days=DAYS)


def record_objections(rows: Rows) -> tuple[RecordObjection, ...]:
    """Return at most 500 objections that stand as records and have no answer, those of contributors here first."""
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


def write_objection(store: Store, key: str, objection: Mapping[str, Any]) -> None:
    """Write the state of one objection; a repetition is harmless.

    `objection` has did, pull_uri (or None), record_cid (or None), state, made_at, due_at and answered_at (or None), in
    naive UTC; where a maintainer objects also `by_maintainer` and `repo_key`, which older messages do not have.
    """
    with store.write() as txn:
        person = txn.person_ids([objection["did"]])[objection["did"]]
        row = {name: value for name, value in objection.items() if name not in ("did", "repo_key")}
        repo_key = objection.get("repo_key")
        number = (txn.value(REPOSITORY, {"key": repo_key}) or NOWHERE) if repo_key else None
        defaults = {"by_maintainer": False, "repository_id": number}
        txn.upsert("objections", [{"objection_key": key, "contributor_id": person, **defaults, **row}])
        txn.inputs_changed()


def write_wish(store: Store, did: str, left_out: bool, told_at: datetime) -> None:
    """Write whether a person wishes to be left out of the leaderboard; a repetition is harmless."""
    with store.write() as txn:
        person = txn.person_ids([did])[did]
        txn.upsert("leaderboard_wishes", [{"contributor_id": person, "left_out": left_out, "told_at": told_at}])


def is_left_out(rows: Rows, did: str) -> bool:
    """Return whether a person wishes to be left out of the leaderboard."""
    sql = f"select count(*) from contributors where did = ? and contributor_id in ({LEFT_OUT})"
    return rows.value(sql, [did]) > 0
