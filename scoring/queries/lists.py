"""Read the lists beside the queue: approved, settled, unmarked and quiet pull requests, and what ends a snooze.

For an approved one it also reads where on the forge it would be merged. All is read from a snapshot.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from ingest.store.transaction import Rows
from scoring.pipeline.interventions import NEWEST, ROUND_KEY, current_approvals
from scoring.pipeline.stored import People
from scoring.queries.changes import SEALED
from scoring.queries.events import PastJudgement, judged_when_decided
from scoring.queries.people.contributors import outcomes_in_words
from scoring.queries.queue import KEY, labels
from scoring.queries.types import IS_NAMED, DueAudit, named_by
from scoring.types import Person

WATCHED = "select repository_id, repo_key, name from repositories semi join watched_repositories using (repository_id)"
# The newest decision on each, with its round: the pass that had read more data is the later one.
DECISIONS = """
select pull_uri, score_id, record_cid, round, patch_id from scores where list_contains(?, pull_uri)
qualify row_number() over (
  partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
"""
DUE = f"""
select c.pull_uri from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
semi join watched_repositories w on w.repository_id = c.repository_id
where {SEALED} order by p.opened_at, c.pull_uri
"""
ACTIONS = """
select m.*, a.state, a.reason, a.evidence, a.state_at from maintainer_actions m left join approvals a using (action_key)
where m.pull_uri = ? order by m.known_from, m.made_at, m.action_key
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The version that an action is about: the record, round and patch on the screen."""

    record_cid: str | None
    round: int
    patch_id: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """A pull request of a watched repository in any state, with its newest round.

    `decision` is the score_id of that round's current decision, "" where there is none or nobody asked.
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
    sha256: str | None  # hash that names the patch's file; None: not read, or no longer stored
    files: int | None
    added: int | None
    removed: int | None
    decision: str = ""


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval in force of the newest round."""

    key: str
    subject: Subject
    approver: Person
    made_at: datetime  # by the wall clock, like all that people do here
    approved_at: datetime  # when it took effect, by the stream's clock


@dataclass(frozen=True, slots=True)
class ChangedApproval:
    """An approval of an open pull request that a later round voided."""

    key: str
    uri: str
    approver: Person
    seen: Seen
    approved_at: datetime


@dataclass(frozen=True, slots=True)
class PastAction:
    """One action that took effect, and the state of an approval."""

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
    """Return those of these pull requests that are in a watched repository, by at-uri."""
    return {
        subject.uri: subject
        for subject in _subjects(rows, rows.rows(NEWEST + "where list_contains(?, p.pull_uri)", [[*uris]]))
    }


def due_audits(rows: Rows) -> tuple[tuple[Subject, DueAudit], ...]:
    """Return the pull requests whose audit nobody has answered, oldest first."""
    uris = [row["pull_uri"] for row in rows.rows(DUE)]
    by_uri, names = (subjects(rows, uris), labels(rows, uris)) if uris else ({}, {})
    return tuple((by_uri[uri], DueAudit(uri, names[uri])) for uri in uris if uri in by_uri and uri in names)


def decided_subjects(rows: Rows, uris: Iterable[str]) -> dict[str, Subject]:
    """Return these pull requests with their current decisions, for acting on them."""
    by_uri = subjects(rows, uris)
    decisions = {row["pull_uri"]: row for row in rows.rows(DECISIONS, [[*by_uri]])} if by_uri else {}
    return {
        uri: replace(subject, decision=decisions[uri]["score_id"])
        if uri in decisions and _seen(decisions[uri]) == subject.seen
        else subject
        for uri, subject in by_uri.items()
    }


def approved(rows: Rows) -> tuple[Approved, ...]:
    """Return all approved pull requests that are not merged yet, oldest approval first."""
    approvals, _ = current_approvals(rows)
    if not approvals:
        return ()
    people = People(rows, [row["actor_id"] for row in approvals])
    by_uri = {subject.uri: subject for subject in _subjects(rows, [row["newest"] for row in approvals])}
    return tuple(
        Approved(
            row["action_key"],
            by_uri[row["pull_uri"]],
            people.persons[row["actor_id"]],
            row["made_at"],
            row["approved_at"],
        )
        for row in approvals
        if row["pull_uri"] in by_uri and by_uri[row["pull_uri"]].state == "open"
    )


def changed_after(rows: Rows) -> dict[str, ChangedApproval]:
    """Return open pull requests that changed after somebody approved them, by at-uri."""
    _, voided = current_approvals(rows)
    if not voided:
        return {}
    people = People(rows, [row["actor_id"] for row in voided])
    return {
        row["pull_uri"]: ChangedApproval(
            row["action_key"], row["pull_uri"], people.persons[row["actor_id"]], _seen(row), row["approved_at"]
        )
        for row in voided
    }


def past_actions(rows: Rows, uri: str) -> tuple[PastAction, ...]:
    """Return every action on one pull request that took effect, oldest first; corrected outcomes are included."""
    actions = rows.rows(ACTIONS, [uri])
    people = People(rows, [row["actor_id"] for row in actions])
    return tuple(_past_action(row, people) for row in actions)


def taken_keys(rows: Rows, keys: Sequence[str]) -> set[str]:
    """Return which of these actions the worker has processed and this snapshot shows."""
    sql = "select action_key from maintainer_actions where list_contains(?, action_key)"
    return {row["action_key"] for row in rows.rows(sql, [list(keys)])} if keys else set()


def _subjects(rows: Rows, pulls: Sequence[Mapping[str, Any]]) -> list[Subject]:
    watched = {row["repository_id"]: row for row in rows.rows(WATCHED)}
    people = People(rows, [row["author_id"] for row in pulls])
    return [
        _subject(row, watched[row["repository_id"]], people.persons[row["author_id"]])
        for row in pulls
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
        *(row[name] for name in ("target_branch", "opened_at", "patch_ref", "sha256", "files", "added", "removed")),
    )


def _seen(row: Mapping[str, Any]) -> Seen:
    return Seen(row["record_cid"], row["round"], row["patch_id"])


def _past_action(row: Mapping[str, Any], people: People) -> PastAction:
    return PastAction(
        row["action_key"],
        row["kind"],
        row["outcome"],
        row["note"],
        people.persons[row["actor_id"]],
        _seen(row),
        *(row[name] for name in ("made_at", "known_from", "state", "reason", "evidence")),
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
    """Return where to merge a pull request; None where a part of it is unknown."""
    row = rows.row(PLACE, [uri])
    if row is None or not all(row.values()):
        return None
    pds = row["author_pds"].removeprefix("https://")
    return MergePlace(row["knot"], row["repo_key"], row["name"], row["owner"], row["branch"], pds)


def data_server(rows: Rows, did: str) -> str | None:
    """Return the host of a person's data server; None where it is unknown."""
    origin = rows.value("select pds from contributors where did = ?", [did])
    return origin.removeprefix("https://") if origin else None


SETTLED_PAGE = 50
SettledOutcome = Literal["", "clean", "bad", "uncounted", "closed"]
# A closed pull request has a label too, so its state is checked first. Rows are sorted by narrow columns before 50 are
# looked up.
SETTLED = """
with listed as (
  select p.pull_uri, coalesce(p.state_at, p.changed_at) as settled_at,
    case when p.state = 'closed' then 'closed' when l.clean is null then 'uncounted'
      when l.clean then 'clean' else 'bad' end as outcome
  from pull_requests p semi join watched_repositories w using (repository_id)
  anti join hidden_people h on h.contributor_id = p.author_id
  left join labels l using (pull_uri)
  left join touched_files t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
  where p.state in ('merged', 'closed') and {where}
)
select pull_uri, settled_at, count(*) over () as total from listed where {outcome}
order by settled_at desc, pull_uri limit ? offset ?
"""
# One column for all paths: the search text holds no line feed, so it never matches across two of them.
TEXT = f"""(
  {IS_NAMED} or contains(lower(p.title), lower(?)) or contains(lower(array_to_string(t.paths, chr(10))), lower(?))
  or p.author_id in (
    select contributor_id from contributors where did = ? or handle_verified and contains(lower(handle), lower(?)))
)"""
PULLS = """
select p.*, r.repo_key, coalesce(r.name, r.repo_key) as name, g.number, true as watched,
  case when k.pull_uri is null then l.clean else k.mined_clean end as clean, k.outcome as mark
from pull_requests p join repositories r using (repository_id) left join pull_pages g using (pull_uri)
left join labels l using (pull_uri) left join marks k using (pull_uri) where list_contains(?, p.pull_uri)
"""
AUDITED = f"select c.contributor_id from current_decisions c where {SEALED}"
WATCHED_NAMES = """
select repo_key, coalesce(name, repo_key) as name from repositories semi join watched_repositories using (repository_id)
order by name, repo_key
"""
# Merges whose outcome Git or a person already gave are omitted, and the viewer's own.
UNMARKED = """
select p.pull_uri, coalesce(p.merged_at, p.state_at) as landed_at
from pull_requests p join repositories r using (repository_id)
semi join watched_repositories w on w.repository_id = p.repository_id
join contributors c on c.contributor_id = p.author_id
anti join hidden_people h on h.contributor_id = p.author_id
where p.state = 'merged' and p.merge_proof = 'verified' and c.did <> $viewer
  and coalesce(p.merged_at, p.state_at) > $after and coalesce(p.merged_at, p.state_at) <= $before
  and ($everywhere or list_contains($keys, r.repo_key))
  and not exists (from maintainer_actions m where m.pull_uri = p.pull_uri and m.kind = 'outcome')
  and not exists (from pull_followups f where f.pull_uri = p.pull_uri)
order by landed_at desc, p.pull_uri limit $most
"""
# By the dates that people wrote, since a first reading sees everything at once. Flagged ones and those that the audit
# drew and nobody answered are never among them: somebody has to read those. Push-holders look after their own.
QUIET = f"""
with spoken as (
  select c.pull_uri, r.repo_key, greatest(p.opened_at,
    (select max(coalesce(o.created_at, o.seen_at)) from pull_rounds o where o.pull_uri = c.pull_uri),
    (select max(m.written_at) from comments m where m.subject_uri = c.pull_uri and m.deleted_at is null),
    (select max(a.known_from) from maintainer_actions a where a.pull_uri = c.pull_uri)) as last_at
  from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
  semi join watched_repositories w on w.repository_id = c.repository_id
  join repositories r on r.repository_id = c.repository_id
  where {KEY} not in ('needs_human', 'own') and not {SEALED}
)
select * from spoken where last_at < ? order by last_at, pull_uri
"""
ROW_STATES = f"""
select c.pull_uri, c.record_cid, c.round, c.patch_id, {KEY} as lane,
  (select count(*) from comments m where m.subject_uri = c.pull_uri) as comments
from current_decisions c where list_contains(?, c.pull_uri)
"""


@dataclass(frozen=True, slots=True)
class Quiet:
    """An open pull request with the time of the last round, comment or action on it, by the stream's clock."""

    uri: str
    repository_key: str
    last_at: datetime


def quiet(rows: Rows, since: datetime) -> tuple[Quiet, ...]:
    """Return the open pull requests on which nothing happened since then, the longest first; no flagged ones."""
    return tuple(Quiet(row["pull_uri"], row["repo_key"], row["last_at"]) for row in rows.rows(QUIET, [since]))


@dataclass(frozen=True, slots=True)
class SettledQuery:
    """A query for settled pull requests; `text` is searched in title, author and files, `repository` is a repo_key."""

    text: str = ""
    repository: str = ""
    outcome: SettledOutcome = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class SettledRow:
    """A merged or closed pull request; `outcome` is in words, `number` is the forge's.

    `judged` is how it was judged when it was decided; None where it was not, or where an audit hides it.
    """

    uri: str
    title: str
    repository_name: str
    number: int | None
    author: Person
    outcome: str
    settled_at: datetime
    judged: PastJudgement | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """One page of settled pull requests, newest first; `repositories` are key and name of all watched ones."""

    rows: tuple[SettledRow, ...]
    total: int
    page: int
    pages: int
    repositories: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RowState:
    """The state of an open pull request; a change of it ends a snooze. `lane` is its group in the queue."""

    seen: Seen
    lane: str
    comments: int


def settled(rows: Rows, query: SettledQuery) -> Settled:
    """Return one page of merged and closed pull requests of watched repositories.

    The last page where `page` is too high.
    """
    page_rows = _settled_page(rows, query, query.page)
    if not page_rows and query.page > 1:
        first = _settled_page(rows, query, 1)
        last = -(-first[0]["total"] // SETTLED_PAGE) if first else 1
        return settled(rows, SettledQuery(query.text, query.repository, query.outcome, last))
    total = page_rows[0]["total"] if page_rows else 0
    pages = max(1, -(-total // SETTLED_PAGE))
    repositories = tuple((row["repo_key"], row["name"]) for row in rows.rows(WATCHED_NAMES))
    return Settled(_settled_rows(rows, page_rows), total, query.page, pages, repositories)


def _settled_page(rows: Rows, query: SettledQuery, page: int) -> list[dict[str, Any]]:
    where, params = ["true"], list[object]()
    if query.text:
        where.append(TEXT)
        params += [*named_by(query.text), *[query.text] * 4]
    if query.repository:
        where.append("p.repository_id in (select repository_id from repositories where repo_key = ?)")
        params.append(query.repository)
    if query.outcome:
        params.append(query.outcome)
    sql = SETTLED.replace("{where}", " and ".join(where))
    sql = sql.replace("{outcome}", "outcome = ?" if query.outcome else "true")
    return list(rows.rows(sql, [*params, SETTLED_PAGE, (page - 1) * SETTLED_PAGE]))


def _settled_rows(rows: Rows, page_rows: Collection[Mapping[str, Any]]) -> tuple[SettledRow, ...]:
    if not page_rows:
        return ()
    by_uri = {row["pull_uri"]: row for row in rows.rows(PULLS, [[row["pull_uri"] for row in page_rows]])}
    authors = People(rows, (row["author_id"] for row in by_uri.values())).persons
    outcomes = outcomes_in_words(rows, list(by_uri.values()))
    # Of an author whose audit waits nothing tells the chance, the past one neither.
    audited = {row["contributor_id"] for row in rows.rows(AUDITED)}
    judged = judged_when_decided(rows, [uri for uri, row in by_uri.items() if row["author_id"] not in audited])
    return tuple(
        SettledRow(
            uri=row["pull_uri"],
            title=row["title"] or "(no title)",
            repository_name=row["name"],
            number=row["number"],
            author=authors[row["author_id"]],
            outcome=outcomes[row["pull_uri"]],
            settled_at=page_row["settled_at"],
            judged=judged.get(row["pull_uri"]),
        )
        for page_row in page_rows
        if (row := by_uri.get(page_row["pull_uri"]))
    )


def settled_outcomes(rows: Rows, uris: Sequence[str]) -> dict[str, str]:
    """Return in words how these merged or closed pull requests ended, as the list of them says, by at-uri."""
    return outcomes_in_words(rows, list(rows.rows(PULLS, [list(uris)])))


def unmarked_merges(
    rows: Rows, viewer: str, keys: Collection[str], after: datetime, before: datetime, most: int
) -> dict[str, datetime]:
    """Return the merge times, by at-uri, of other people's merges in this span that nobody has judged since.

    The newest comes first. `keys` are those of the repositories; "" among them stands for all.
    """
    parameters = {"viewer": viewer, "everywhere": "" in keys, "keys": sorted(keys)}
    merges = rows.rows(UNMARKED, parameters | {"after": after, "before": before, "most": most})
    return {row["pull_uri"]: row["landed_at"] for row in merges}


def row_states(rows: Rows, uris: Collection[str]) -> dict[str, RowState]:
    """Return the states of those of these pull requests that are open in a watched repository, by at-uri."""
    states = rows.rows(ROW_STATES, [list(uris)]) if uris else []
    return {
        row["pull_uri"]: RowState(Seen(*(row[name] for name in ROUND_KEY)), row["lane"], row["comments"])
        for row in states
    }
