"""Reads approvals for pages, JSON and commands: those in force, what changed after, earlier ones, the target.

The target is the place on the forge where an approved pull request would be merged. All is read from a snapshot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ingest.store.transaction import Rows
from scoring.pipeline.approvals import NEWEST, current_approvals
from scoring.pipeline.stored import People
from scoring.types import Person

WATCHED = "select repository_id, repo_key, name from repositories semi join watched_repositories using (repository_id)"
# The newest decision on each, with what it is about: the pass that had read more is the later one.
DECISIONS = """
select pull_uri, score_id, record_cid, round, patch_id from scores where list_contains(?, pull_uri)
qualify row_number() over (
  partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
"""
ACTIONS = """
select m.*, a.state, a.reason, a.evidence, a.state_at from maintainer_actions m left join approvals a using (action_key)
where m.pull_uri = ? order by m.known_from, m.made_at, m.action_key
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The object of an action: the record, the round and the patch that stood on the screen."""

    record_cid: str | None
    round: int
    patch_id: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """A pull request of a watched repository, whatever its state, with its newest round.

    `decision` is the score_id of the decision that stands on that round, "" where none does or nobody asked.
    """

    uri: str
    title: str
    repository_key: str
    repository_name: str
    author: Person
    state: str  # 'open', 'merged', 'closed', 'abandoned'
    seen: Seen
    target_branch: str | None
    opened_at: datetime
    patch_ref: str | None
    sha256: str | None  # names the patch's file; None: not read, or not kept any more
    files: int | None
    added: int | None
    removed: int | None
    decision: str = ""


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval in force of what is still the newest round."""

    key: str
    subject: Subject
    approver: Person
    approved_at: datetime  # when it took effect, by the stream's clock


@dataclass(frozen=True, slots=True)
class ChangedApproval:
    """An approval that a later round voided, of a pull request that is open."""

    key: str
    uri: str
    approver: Person
    seen: Seen
    approved_at: datetime


@dataclass(frozen=True, slots=True)
class PastAction:
    """One action that took effect, and for an approval what became of it."""

    key: str
    kind: str
    outcome: str | None
    note: str
    actor: Person
    seen: Seen
    made_at: datetime
    known_from: datetime
    state: str | None  # of an approval: approvals.state
    reason: str | None
    evidence: str | None


def subjects(rows: Rows, uris: Iterable[str]) -> dict[str, Subject]:
    """The pull requests at these addresses that are in a watched repository."""
    return {
        one.uri: one for one in _subjects(rows, rows.rows(NEWEST + "where list_contains(?, p.pull_uri)", [[*uris]]))
    }


def decided_subjects(rows: Rows, uris: Iterable[str]) -> dict[str, Subject]:
    """Read the same with the decision that stands on each, for whoever acts on them."""
    found = subjects(rows, uris)
    decided = {row["pull_uri"]: row for row in rows.rows(DECISIONS, [[*found]])} if found else {}
    return {
        uri: replace(one, decision=decided[uri]["score_id"])
        if uri in decided and _seen(decided[uri]) == one.seen
        else one
        for uri, one in found.items()
    }


def approved(rows: Rows) -> tuple[Approved, ...]:
    """Everything that is approved and not merged yet, oldest approval first."""
    found, _ = current_approvals(rows)
    if not found:
        return ()
    people = People(rows, [row["actor_id"] for row in found])
    by_uri = {one.uri: one for one in _subjects(rows, [row["newest"] for row in found])}
    return tuple(
        Approved(row["action_key"], by_uri[row["pull_uri"]], people.persons[row["actor_id"]], row["approved_at"])
        for row in found
        if row["pull_uri"] in by_uri and by_uri[row["pull_uri"]].state == "open"
    )


def changed_after(rows: Rows) -> dict[str, ChangedApproval]:
    """Open pull requests that changed after somebody approved them, by address."""
    _, found = current_approvals(rows)
    if not found:
        return {}
    people = People(rows, [row["actor_id"] for row in found])
    return {
        row["pull_uri"]: ChangedApproval(
            row["action_key"], row["pull_uri"], people.persons[row["actor_id"]], _seen(row), row["approved_at"]
        )
        for row in found
    }


def past_actions(rows: Rows, uri: str) -> tuple[PastAction, ...]:
    """Every action on one pull request that took effect, oldest first; corrected outcomes stay."""
    found = rows.rows(ACTIONS, [uri])
    people = People(rows, [row["actor_id"] for row in found])
    return tuple(_past(row, people) for row in found)


def taken_keys(rows: Rows, keys: Sequence[str]) -> set[str]:
    """Return which of these actions the worker took and this snapshot shows."""
    sql = "select action_key from maintainer_actions where list_contains(?, action_key)"
    return {row["action_key"] for row in rows.rows(sql, [list(keys)])} if keys else set()


def _subjects(rows: Rows, found: Sequence[Mapping[str, Any]]) -> list[Subject]:
    watched = {row["repository_id"]: row for row in rows.rows(WATCHED)}
    people = People(rows, [row["author_id"] for row in found])
    return [
        _subject(row, watched[row["repository_id"]], people.persons[row["author_id"]])
        for row in found
        if row["repository_id"] in watched
    ]


def _subject(row: Mapping[str, Any], repository: Mapping[str, Any], author: Person) -> Subject:
    return Subject(
        row["pull_uri"],
        row["title"] or "(no title)",
        repository["repo_key"],
        repository["name"] or repository["repo_key"],
        author,
        row["state"],
        _seen(row),
        row["target_branch"],
        row["opened_at"],
        row["patch_ref"],
        row["sha256"],
        row["files"],
        row["added"],
        row["removed"],
    )


def _seen(row: Mapping[str, Any]) -> Seen:
    return Seen(row["record_cid"], row["round"], row["patch_id"])


def _past(row: Mapping[str, Any], people: People) -> PastAction:
    return PastAction(
        row["action_key"],
        row["kind"],
        row["outcome"],
        row["note"],
        people.persons[row["actor_id"]],
        _seen(row),
        row["made_at"],
        row["known_from"],
        row["state"],
        row["reason"],
        row["evidence"],
    )


PLACE = """
select r.knot, r.repo_key, r.name, o.did as owner, a.pds as author_pds, coalesce(p.target_branch, m.head) as branch
from pull_requests p join repositories r using (repository_id)
left join contributors o on o.contributor_id = r.owner_id
left join contributors a on a.contributor_id = p.author_id
left join mirrors m on m.repository_id = p.repository_id
where p.pull_uri = ?
"""


@dataclass(frozen=True, slots=True)
class MergePlace:
    """The knot, repository and branch, and the host of the author's data server."""

    knot: str
    repository: str
    name: str
    owner: str
    branch: str
    author_pds: str


def merge_place(rows: Rows, uri: str) -> MergePlace | None:
    """Return where to merge a pull request; None where one part of it is not known."""
    row = rows.row(PLACE, [uri])
    if row is None or not all(row.values()):
        return None
    pds = row["author_pds"].removeprefix("https://")
    return MergePlace(row["knot"], row["repo_key"], row["name"], row["owner"], row["branch"], pds)


def data_server(rows: Rows, did: str) -> str | None:
    """The host of a person's data server; None where it is not known."""
    origin = rows.value("select pds from contributors where did = ?", [did])
    return origin.removeprefix("https://") if origin else None
