"""Reads and writes what people said that bears on lanes: approvals, objections, wishes, and closures of the fast lane.

A later round voids an approval; a merge fulfils it, or turns out to be a merge of another change. The target branch has
the last word: where the approved change is found on it later, it was merged as approved. Nobody can approve their own
pull request: such an approval, which older versions accepted, never counts. Readers also compare rounds themselves
(`current_approvals`): a snapshot may show a round that the worker has not met yet.

An objection counts only for the person who objects: one to a decision for that pull request of the author, one without
a pull request for every open one of theirs. A maintainer may object in a contributor's name, about pull requests to
their own repository alone. An objection moves no score; it asks for a person.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.gate.conditions import closed_reason
from scoring.pipeline.stored import People
from scoring.types import LaneClosed, Reason

IN_FORCE, VOIDED, RELEASED = "in force", "voided", "released"
MERGED, MERGED_ELSE = "merged as approved", "merged something else"
OWN = "own"  # why one is void: its author sent the pull request
NOT_READ = "not_read"  # why it counts as another change: git reads more from the patch than was read here

# The newest round of pull requests, as an approval names it.
NEWEST = """
select p.pull_uri, p.repository_id, p.author_id, p.title, p.state, p.state_at, p.target_branch, p.opened_at,
  p.merge_proof, p.record_cid, p.round, p.patch_ref, t.patch_id, t.sha256, t.files, t.added, t.removed
from pull_requests p left join patches t on (t.pull_uri, t.patch_ref) = (p.pull_uri, p.patch_ref)
"""
ROUND_KEY = ("record_cid", "round", "patch_id")
IS_NEWEST = (
    "n.record_cid is not distinct from a.record_cid and n.round = a.round "
    "and n.patch_id is not distinct from a.patch_id"
)
# Approvals that may bear on a pull request that is not settled. They are joined with the newest rounds in Python: one
# statement of both takes DuckDB 5 ms to plan, two take 3.
UNSETTLED = f"""
select a.*, m.actor_id, m.made_at from approvals a join maintainer_actions m using (action_key)
where a.state = '{IN_FORCE}' or a.reason in ('changed_before', 'changed_after') order by a.approved_at, a.action_key
"""
# Landings of pull requests with an approval, of the approved change or of another one. Every mail of a series must have
# landed, since two rounds may share some. Of a squash only the round is known, so it counts where that round had a
# single patch. A text from which git reads anything else than was read here may have brought more than the approved
# change, whichever commit carries it.
LANDED = f"""
select a.action_key, l.commit_id, a.state = '{IN_FORCE}' and l.landed_at >= a.approved_at as after,
  case l.proof when 'patch_id' then c.patch_id is not distinct from a.patch_id
    when 'series' then list_has_all((
      select list(d.patch_id) from landings o join commits d using (commit_id)
      where o.pull_uri = a.pull_uri and o.branch = l.branch and d.repository_id = a.repository_id), t.series)
    else l.round = a.round and (
      select count(distinct k.patch_id) from pull_rounds r join patches k using (pull_uri, patch_ref)
      where r.pull_uri = a.pull_uri and r.round = a.round) = 1 end as same,
  (select coalesce(bool_and(coalesce(k.git_reading, '') = 'same'), false) from patches k
    where k.pull_uri = a.pull_uri and k.patch_id = a.patch_id) as whole, a.state = '{IN_FORCE}' as in_force
from approvals a join landings l on l.pull_uri = a.pull_uri
left join commits c on c.repository_id = a.repository_id and c.commit_id = l.commit_id
left join patches t on t.pull_uri = a.pull_uri and t.patch_id = a.patch_id
where l.proof in ('patch_id', 'series', 'squash')
  and (a.state in ('{IN_FORCE}', '{MERGED_ELSE}') or a.reason = 'closed')
"""
# Marked as merged, and the mirror was read since: the approved change is not on the target branch.
NOT_ON_BRANCH = f"""
select a.action_key from approvals a join pull_requests p using (pull_uri)
join mirrors m on m.repository_id = a.repository_id
where a.state = '{IN_FORCE}' and p.state = 'merged' and m.read_at > p.state_at
"""
# Approvals of one's own pull request, in any state.
OWN_WORK = f"""
select a.action_key from approvals a join maintainer_actions m using (action_key)
join pull_requests p on p.pull_uri = a.pull_uri and p.author_id = m.actor_id
where a.state <> '{RELEASED}' and a.reason is distinct from '{OWN}'
"""
# Approvals in force of a round that is not the newest any more, or of a pull request that is gone or closed.
OVERTAKEN = f"""
select a.action_key, case when n.pull_uri is null or m.action_key is null then 'gone'
  when not ({IS_NEWEST}) then 'changed_after' else 'closed' end as reason
from approvals a left join ({NEWEST}) n on n.pull_uri = a.pull_uri
left join maintainer_actions m on m.action_key = a.action_key
where a.state = '{IN_FORCE}'
  and (n.pull_uri is null or m.action_key is null or not ({IS_NEWEST}) or n.state not in ('open', 'merged'))
"""


def settle_approvals(store: Store, now: datetime) -> int:
    """Void or fulfil approvals; return how many changed. A merge comes before a later round.

    Work is first looked for outside the writer's transaction, since mostly there is none.
    """
    with store.read() as rows:
        moves = _moves(rows)
    if not moves:
        return 0
    with store.write() as txn:
        moves = _moves(txn)
        for key, (state, reason, evidence) in moves.items():
            txn.execute(
                "update approvals set state = ?, reason = ?, evidence = ?, state_at = ? where action_key = ?",
                [state, reason, evidence, now, key],
            )
        if moves:
            txn.inputs_changed()
    return len(moves)


Move = tuple[str, str | None, str | None]  # state, reason, evidence
Row = dict[str, Any]


def _moves(rows: Rows) -> Mapping[str, Move]:
    """Return the new state of approvals by action key; the first rule that applies to one counts."""
    if not rows.value("select count(*) from approvals"):
        return {}
    moves: dict[str, Move] = {row["action_key"]: (VOIDED, OWN, None) for row in rows.rows(OWN_WORK)}
    landed = [row for row in rows.rows(LANDED) if row["same"] or row["after"]]
    for row in sorted(landed, key=lambda row: (not row["same"], row["commit_id"])):
        if row["same"] and row["whole"]:
            moves.setdefault(row["action_key"], (MERGED, None, row["commit_id"]))
        elif row["in_force"]:
            moves.setdefault(row["action_key"], (MERGED_ELSE, NOT_READ if row["same"] else None, row["commit_id"]))
    for row in rows.rows(NOT_ON_BRANCH):
        moves.setdefault(row["action_key"], (MERGED_ELSE, None, None))
    for row in rows.rows(OVERTAKEN):
        moves.setdefault(row["action_key"], (VOIDED, row["reason"], None))
    return moves


def current_approvals(rows: Rows) -> tuple[list[Row], list[Row]]:
    """Return (approvals in force of the newest round, approvals that a later round voided), one for each pull request.

    A row holds the columns of `approvals`, `actor_id` and `made_at`, and as "newest" the row of NEWEST. Of the first
    kind the earliest counts, until the merge is seen; of the second the latest, while the pull request is open.
    """
    approvals = rows.rows(UNSETTLED)
    if not approvals:
        return [], []
    uris = sorted({row["pull_uri"] for row in approvals})
    rounds = {row["pull_uri"]: row for row in rows.rows(f"{NEWEST} where list_contains(?, p.pull_uri)", [uris])}
    in_force: dict[str, Row] = {}
    outdated: dict[str, Row] = {}
    for row in approvals:
        newest = rounds.get(row["pull_uri"])
        if newest is None or row["actor_id"] == newest["author_id"]:
            continue
        if all(row[name] == newest[name] for name in ROUND_KEY):
            if row["state"] == IN_FORCE and newest["state"] in ("open", "merged"):
                in_force.setdefault(row["pull_uri"], row | {"newest": newest})
        elif newest["state"] == "open":
            outdated[row["pull_uri"]] = row | {"newest": newest}
    return list(in_force.values()), [row for uri, row in outdated.items() if uri not in in_force]


def read_outdated_pulls(rows: Rows) -> set[str]:
    """Return open pull requests that changed after an approval: these are never fast lane.

    An approval of the newest round ends that.
    """
    return {row["pull_uri"] for row in current_approvals(rows)[1]}


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


# Open pull requests that need a person's decision because of an objection; by_maintainer: only a maintainer of its
# repository spoke, in the contributor's name.
OPEN_OBJECTIONS = """
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


def read_open_objections(rows: Rows) -> dict[str, Literal["contributor", "maintainer"]]:
    """Return the side that objects to each open pull request with an open objection, by at-uri."""
    objections = rows.rows(OPEN_OBJECTIONS)
    return {row["pull_uri"]: "maintainer" if row["by_maintainer"] else "contributor" for row in objections}


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
    sql = f"select count(*) from contributors where did = ? and contributor_id in ({LEFT_OUT})"
    return rows.value(sql, [did]) > 0


ERASED = "an erased account"
STANDING = """
select l.*, r.repo_key from lane_closures l anti join lane_openings using (closure_key)
left join repositories r using (repository_id)
where l.known_from <= $now and (l.repository_id = 0 or r.repo_key is not null)
order by l.known_from, l.closure_key
"""
# Every open pull request with its author, and all people through whose vouches its trust may come.
OPEN_PULLS = """
select p.pull_uri, r.repo_key, c.did as author,
  list_concat(coalesce(t.path[:-2], []), (
    select coalesce(list(v.voucher_id), []) from vouches v where v.subject_id = p.author_id and v.kind = 'vouch'
      and v.superseded_at is null and v.seen_at <= $now
  )) as vouchers
from pull_requests p semi join watched_repositories using (repository_id)
join repositories r using (repository_id) join contributors c on c.contributor_id = p.author_id
left join trust t on t.repository_id = p.repository_id and t.contributor_id = p.author_id
where p.state = 'open'
"""


@dataclass(frozen=True, slots=True)
class Closure:
    """A closure of the fast lane for every change that matches all fields; "" in a field matches everything.

    `repository` is a repo_key, `author` and `voucher` are DIDs, with their `name` as shown; `by` is who closed it.
    """

    key: str
    repository: str
    author: str
    voucher: str
    because: str
    by: str
    closed_at: datetime
    name: str = ""

    @property
    def scope(self) -> Literal["site", "repository", "author", "voucher"]:
        """Return the narrowest field that the closure names."""
        return "author" if self.author else "voucher" if self.voucher else "repository" if self.repository else "site"

    def covers(self, repository: str, author: str, vouchers: Collection[str]) -> bool:
        return (
            self.repository in ("", repository)
            and self.author in ("", author)
            and (not self.voucher or self.voucher in vouchers)
        )


def covering_closures(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Iterator[LaneClosed]:
    for closure in closures:
        if closure.covers(repository, author, vouchers):
            yield LaneClosed(closure.scope, closure.by, closure.name or None)


def closed_because(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Reason | None:
    """Return the reason of the first closure that holds for a change; None where the lane is open to it. Pure."""
    first = next(covering_closures(closures, repository, author, vouchers), None)
    return closed_reason(first) if first else None


def read_closures(rows: Rows, now: datetime) -> tuple[Closure, ...]:
    """Return every closure that stands at this moment of the stream, the oldest first."""
    standing = rows.rows(STANDING, {"now": now})
    numbers = {row[name] for row in standing for name in ("author_id", "voucher_id", "actor_id") if row[name]}
    people = People(rows, numbers).persons if numbers else {}

    def did(number: int) -> str:
        return people[number].did if number else ""

    def name(number: int | None) -> str:
        return people[number].name if number else ""

    return tuple(
        Closure(
            row["closure_key"],
            row["repo_key"] or "",
            did(row["author_id"]),
            did(row["voucher_id"]),
            row["because"],
            name(row["actor_id"]) or ERASED,
            row["closed_at"],
            name(row["author_id"]) or name(row["voucher_id"]),
        )
        for row in standing
    )


def read_closed_pulls(rows: Rows, now: datetime) -> dict[str, tuple[LaneClosed, ...]]:
    """Return the closures that hold for each open pull request of a watched repository; {} where nothing is closed."""
    standing = read_closures(rows, now)
    if not standing:
        return {}
    pulls = rows.rows(OPEN_PULLS, {"now": now})
    people = People(rows, (number for row in pulls for number in row["vouchers"])).persons
    return {
        row["pull_uri"]: tuple(
            covering_closures(standing, row["repo_key"], row["author"], {people[n].did for n in row["vouchers"]})
        )
        for row in pulls
    }
