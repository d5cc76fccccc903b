"""Reads facts about an open change that move no lane: its CI run, earlier authors of its files, and comments."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ingest.store.transaction import Rows
from scoring.pipeline.stored import People
from scoring.queries.types import CiState
from scoring.types import Person

OWNERS = 3  # people who are named, those with the most merges first
PATHS = 200  # of a change that are compared; 1,200 against 20,000 merges took 1.5 s
RUN = "select c.state, c.workflows from pull_requests p join ci_runs c using (pull_uri, patch_ref) where p.pull_uri = ?"
# Owners of whole files, not of lines: git names lines by e-mail addresses, and nobody can prove whose they are.
FILE_OWNERS = """
with change as (
  select p.repository_id, p.author_id as own_id, list_slice(t.paths, 1, $paths) as paths
  from pull_requests p join touched_files t using (pull_uri, patch_ref) where p.pull_uri = $uri
)
select p.author_id, p.author_id = c.own_id as own, count(*) as merged
from pull_requests p join touched_files t using (pull_uri, patch_ref)
join change c on c.repository_id = p.repository_id and list_has_any(t.paths, c.paths)
anti join hidden_people h on h.contributor_id = p.author_id
where p.merge_proof = 'verified' and p.pull_uri <> $uri
group by p.author_id, c.own_id order by own desc, merged desc, p.author_id limit $most
"""
# Those that a row of the queue counts; the newest are listed.
COUNTED = "m.deleted_at is null and m.author_id not in (select contributor_id from hidden_people)"
COMMENTS = f"""
select m.author_id, left(m.body, $longest) as body, least(m.written_at, m.seen_at) as written_at from comments m
where m.subject_uri = $uri and {COUNTED} order by least(m.written_at, m.seen_at) desc, m.uri limit $most
"""
LISTED, LONGEST = 50, 2_000  # comments that are shown, and characters of one


@dataclass(frozen=True, slots=True)
class CiRun:
    """The newest CI run on the round that is shown; `failed` names workflows, in the words of the spindle."""

    state: CiState
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileOwner:
    """A person, and how many of their pull requests to files of this change were merged here."""

    person: Person
    merged: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on the forge, in the words of its author; what is longer than LONGEST is cut."""

    author: Person
    text: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Facts about a change; `run` is None where CI was not asked, `own` counts the merges of its author.

    `comments` are the newest LISTED, the oldest first.
    """

    run: CiRun | None
    owners: tuple[FileOwner, ...]
    own: int
    comments: tuple[Comment, ...] = ()


class _Workflow(msgspec.Struct):
    name: str
    status: str


def change_facts(rows: Rows, uri: str) -> ChangeFacts:
    """Return what is known of a pull request and its newest round."""
    found = rows.rows(FILE_OWNERS, {"uri": uri, "most": OWNERS + 1, "paths": PATHS})
    others = [row for row in found if not row["own"]][:OWNERS]
    people = People(rows, (row["author_id"] for row in others)).persons
    owners = tuple(FileOwner(people[row["author_id"]], row["merged"]) for row in others)
    own = sum(row["merged"] for row in found if row["own"])
    return ChangeFacts(ci_run(rows, uri), owners, own, comments(rows, uri))


def comments(rows: Rows, uri: str) -> tuple[Comment, ...]:
    """Return the newest comments of people who are not hidden, the oldest of them first."""
    found = rows.rows(COMMENTS, {"uri": uri, "most": LISTED, "longest": LONGEST + 1})
    people = People(rows, (row["author_id"] for row in found)).persons
    return tuple(_comment(row, people[row["author_id"]]) for row in reversed(found))


def _comment(row: Mapping[str, Any], author: Person) -> Comment:
    text = row["body"]
    return Comment(author, text if len(text) <= LONGEST else f"{text[:LONGEST]}…", row["written_at"])


def ci_run(rows: Rows, uri: str) -> CiRun | None:
    """Return the CI run of the newest round; None where CI was not asked."""
    row = rows.row(RUN, [uri])
    if row is None:
        return None
    told = msgspec.json.decode(row["workflows"], type=list[_Workflow])
    return CiRun(row["state"], tuple(one.name for one in told if one.status in ("failed", "timeout")))
