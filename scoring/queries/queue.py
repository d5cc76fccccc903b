"""Read the queue from a snapshot.

For a pull request drawn for audit nothing of the decision is shown before somebody answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ingest.records.watched import find_repository
from ingest.store.transaction import Rows
from scoring.explain.decided import CHANGE_CLAUSES, CLAUSES, ChangeOutline, decided, joined
from scoring.explain.sentences import explain, would_change
from scoring.explain.what_would_change import own_change
from scoring.gate.decide import read_inputs
from scoring.pipeline.interventions import current_approvals
from scoring.pipeline.stored import CLAIMS, People, read_thresholds, read_verdict, verdict_evidence
from scoring.queries.changes import COUNTED, DRAWN, SEALED, WOULD_MERGE, answers, pull_labels, standing_findings
from scoring.queries.queue_order import Positions, Waiting, order_lane
from scoring.queries.types import (
    AuditAnswer,
    DueAudit,
    GroupKey,
    Queue,
    QueueGroup,
    QueueQuery,
    QueueRow,
    QueueSort,
)
from scoring.types import Estimate, Lane, Reason, Verdict

DRAWN_CLAUSE = CHANGE_CLAUSES["audit_drawn"]({})
ASKED = f"{DRAWN_CLAUSE} Read it as it was sent, then answer"
PASSED, FAILED = "Audit passed", "Audit failed: not to be merged as sent"
UNKNOWN = Estimate(None, 0.0, 1.0, 0)
CHANCE_HIDDEN = "Chance hidden until an audit is answered"


def is_drawn(verdict: Verdict) -> bool:
    return any(reason.code == "audit_drawn" for reason in verdict.reasons)


def seal(row: QueueRow, answer: AuditAnswer | None) -> QueueRow:
    """Return the row with the answer, or, without one, without everything that its decision reveals.

    Only the reason for the draw stays: its odds are the same for every change.
    """
    if answer is not None:
        outcome = FAILED if not answer.would_merge else f"{PASSED}, but tests fail" if row.ci == "failed" else PASSED
        sentence = joined([outcome, *row.sentence.split("; ")[1:]])
        return replace(row, audited=answer, decided=outcome, decided_exact=outcome, sentence=sentence)
    draw_reason = next(reason for reason in row.verdict.reasons if reason.code == "audit_drawn")
    return replace(
        row,
        verdict=Verdict(Lane.NEEDS_HUMAN, UNKNOWN, (Reason(draw_reason.code, draw_reason.params),), ()),
        structural_trust=0.0,
        eigentrust=0.0,
        content_risk=None,
        path=(),
        sentence=ASKED,
        decided=DRAWN_CLAUSE,
        decided_exact=DRAWN_CLAUSE,
        would_change="",
        would_help="",
        is_sealed=True,
        borrowed_from=None,
    )


def hide_row(row: QueueRow, audit: DueAudit) -> QueueRow:
    """Return the row without its author's chance; its lane stays, since it depends on the change too."""
    if row.is_sealed:
        return row
    revealing = [reason for reason in row.verdict.reasons if "probability" in reason.params]
    clauses = {CLAUSES[reason.code](reason.params).lower() for reason in revealing}
    cause = CHANCE_HIDDEN if row.decided.lower() in clauses else row.decided
    rest = [part for part in row.sentence.split("; ")[1:] if part.lower() not in clauses]
    reasons = tuple(reason for reason in row.verdict.reasons if reason not in revealing)
    return replace(
        row,
        verdict=Verdict(row.verdict.lane, UNKNOWN, reasons, ()),
        decided=cause,
        decided_exact=cause,
        sentence=joined([cause, *rest]),
        would_change="",
        borrowed_from=None,
        hidden_by=audit,
    )


# Planning takes most of the time of these statements (0.7 ms for each join), so repositories are looked up in Python. A
# drawn pull request is listed with those that wait for a review: its group must not reveal its lane, and nothing is
# wrong with it. Webhooks send that lane, which no answer changes.
TOLD_LANE = f"case when c.own then 'own' when {DRAWN} then 'normal_queue' else c.lane end"
# After an answer it is in the fast lane, from which it was drawn, or flagged where they would not merge it.
KEY = f"""case when c.own then 'own' when not {DRAWN} then c.lane else
  case {WOULD_MERGE} when true then 'fast_lane' when false then 'needs_human' else 'normal_queue' end end"""
# It is the author's turn where somebody who may push spoke last, after the newest round, or asked here for changes to
# that round. A round dated in the future counts from when it was seen; otherwise it would always be the last word.
ON_AUTHOR = """
select pull_uri from (
  select p.pull_uri, m.written_at as said_at, m.author_id <> p.author_id as asks
  from comments m join pull_requests p on p.pull_uri = m.subject_uri
  join pull_rounds r on r.pull_uri = p.pull_uri and r.round = p.round and r.patch_ref = p.patch_ref
  left join own_people o on o.repository_id = p.repository_id and o.contributor_id = m.author_id
  where p.state = 'open' and m.deleted_at is null and (m.author_id = p.author_id or o.contributor_id is not null)
    and m.written_at > least(coalesce(r.created_at, r.seen_at), r.seen_at)
  union all
  select p.pull_uri, m.known_from, true
  from maintainer_actions m join pull_requests p on p.pull_uri = m.pull_uri and p.round = m.round
  left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
  where p.state = 'open' and m.kind = 'request_changes' and m.patch_id is not distinct from k.patch_id
    and not exists (
      from maintainer_actions l where l.kind = 'release' and l.pull_uri = m.pull_uri and l.made_at > m.made_at)
) group by pull_uri having arg_max(asks, said_at)
"""
# One statement of narrow columns for all groups: 5,000 rows take as long as one page of wide rows.
LISTED = f"""
select c.pull_uri, {KEY} as key, {SEALED} as sealed, list_contains(?, c.pull_uri) as changed, {{where}} as narrowed,
  list_contains(?, c.repository_id) as shadow,
  c.contributor_id in (select c.contributor_id from current_decisions c where {SEALED}) as hidden,
  coalesce(c.probability, c.borrowed, 'nan') as chance, coalesce(c.content_risk, 'nan') as risk,
  coalesce(date_diff('day', p.seen_at, (select max(as_of) from current_scores)), 0)::double as waited, p.opened_at,
  coalesce(f.settled_here, 0) = 0 as first_timer,
  c.pull_uri in ({ON_AUTHOR}) as on_author, coalesce(r.state = 'failed', false) as failed
from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
left join ci_runs r on r.pull_uri = c.pull_uri and r.patch_ref = p.patch_ref
left join features f on f.contributor_id = c.contributor_id and f.repository_id = c.repository_id
where not list_contains(?, c.pull_uri)
order by c.pull_uri
"""
# A request for changes is a verdict too: each round with such a request counts once.
DECIDED = """
select (select count(*) from pull_requests where state <> 'open' and list_contains($watched, repository_id)) + (
  select count(distinct (pull_uri, round, patch_id)) from maintainer_actions
  where kind = 'request_changes' and list_contains($watched, repository_id))
"""
DECISIONS = f"""
select c.*, p.title, p.opened_at, p.merge_proof, k.files, k.added, k.removed, t.distance,
  coalesce(t.path, []) as path, coalesce(t.path_merges, []) as path_merges,
  g.number, g.url, r.state as ci,
  (select count(*) from comments m where m.subject_uri = c.pull_uri and {COUNTED}) as comments
from current_decisions c
join pull_requests p on p.pull_uri = c.pull_uri
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join trust t on t.contributor_id = c.contributor_id and t.repository_id = c.repository_id
left join pull_pages g on g.pull_uri = c.pull_uri
left join ci_runs r on r.pull_uri = c.pull_uri and r.patch_ref = p.patch_ref
"""
WATCHED = """
select repository_id, repo_key, coalesce(r.name, r.repo_key) as name, coalesce(x.shadow, true) as shadow
from repositories r semi join watched_repositories using (repository_id)
left join repository_settings x using (repository_id)
"""
Clause = tuple[str, list[object]]


class Repository(NamedTuple):
    """A watched repository, and whether it is in shadow mode."""

    key: str
    name: str
    shadow: bool


Watched = Mapping[int, Repository]


class Listed(NamedTuple):
    """One group of the queue: its size, and in order the at-uris that the query asks for.

    `watched` counts the hypothetical fast-lane rows.
    """

    everything: int
    watched: int
    uris: Sequence[str]
    oldest: datetime | None
    oldest_first_timer: datetime | None


def queue(rows: Rows, query: QueueQuery) -> Queue:
    """Return the open pull requests of watched repositories for one query, grouped by lane; own ones last.

    Approved ones that are not merged yet are omitted; those that changed after an approval come first in their group.
    """
    watched = _watched_repositories(rows)
    groups = _list_groups(rows, query, watched)
    page_rows = _page(rows, query, groups, watched)
    counts = {key: group.everything for key, group in groups.items()}
    return Queue(
        counts={lane: counts.get(str(lane), 0) for lane in Lane},
        own_count=counts.get("own", 0),
        groups=tuple(_group(key, group, page_rows) for key, group in groups.items() if group.uris),
        repositories=tuple(
            sorted(
                ((repository.key, repository.name) for repository in watched.values()),
                key=lambda repository: repository[::-1],
            )
        ),
        watched=groups["fast_lane"].watched if "fast_lane" in groups else 0,
    )


def queue_order(rows: Rows, query: QueueQuery) -> tuple[str, ...]:
    """Return all at-uris in the order of `queue`, regardless of the query's page."""
    return tuple(uri for group in _list_groups(rows, query, _watched_repositories(rows)).values() for uri in group.uris)


def _list_groups(rows: Rows, query: QueueQuery, watched: Watched) -> dict[GroupKey, Listed]:
    """Return the groups in the order of the page."""
    where, params = _filter_clause(query, watched)
    in_force, voided = current_approvals(rows)
    approved, changed = ([row["pull_uri"] for row in approvals] for approvals in (in_force, voided))
    sql = LISTED.replace("{where}", where)  # not `format`: KEY contains braces
    shadowed = [number for number, one in watched.items() if one.shadow]
    columns = rows.columns(sql, [changed, *params, shadowed, [*approved, *query.snoozed]])
    verdicts = rows.value(DECIDED, {"watched": list(watched)}) + sum(
        row["newest"]["state"] == "open" for row in in_force
    )
    waiting = Waiting(
        # The order must not reveal sealed values, or the chance of an author whose audit is due.
        chance=np.where(columns["hidden"], np.nan, columns["chance"]),
        risk=np.where(columns["sealed"], np.nan, columns["risk"]),
        **{name: columns[name] for name in ("waited", "opened_at", "first_timer", "changed", "on_author")},
    )
    positions = {key: np.flatnonzero(columns["narrowed"] & (columns["key"] == key)) for key in get_args(GroupKey)}
    # People go through the fast lane quickly, so rows that make them stop come after the rest, and hypothetical
    # fast-lane rows come last.
    is_fast = columns["key"] == "fast_lane"
    watched_only = columns["shadow"] & is_fast
    demoted = 2 * watched_only + (columns["failed"] & is_fast & (query.sort == "need"))
    return {
        key: _order_group(
            columns["pull_uri"],
            waiting,
            rows_of_key if query.bucket in (None, key) else rows_of_key[:0],
            (len(rows_of_key), int(watched_only[rows_of_key].sum())),
            query.sort,
            verdicts,
            demoted,
        )
        for key, rows_of_key in positions.items()
        if len(rows_of_key)
    }


def _order_group(
    uris: NDArray[np.object_],
    waiting: Waiting,
    positions: Positions,
    counts: tuple[int, int],
    sort: QueueSort,
    verdicts: int,
    demoted: Positions,
) -> Listed:
    """Return one lane's rows in order, those with a larger number in `demoted` last; `counts` as in Listed."""
    lane_rows = waiting.select(positions)
    ages, is_first_timer = lane_rows.opened_at.astype("datetime64[us]"), lane_rows.first_timer
    order = positions[order_lane(lane_rows, sort, verdicts)]
    ordered = uris[order[np.argsort(demoted[order], kind="stable")]].tolist()
    oldest, oldest_first_timer = (times.min().item() if len(times) else None for times in (ages, ages[is_first_timer]))
    return Listed(*counts, ordered, oldest, oldest_first_timer)


def _watched_repositories(rows: Rows) -> Watched:
    return {row["repository_id"]: Repository(row["repo_key"], row["name"], row["shadow"]) for row in rows.rows(WATCHED)}


def repository_names(rows: Rows) -> dict[str, str]:
    """Return the names of the watched repositories by repo_key."""
    return {one.key: one.name for one in _watched_repositories(rows).values()}


def _filter_clause(query: QueueQuery, watched: Watched) -> Clause:
    """Return the condition on all groups: repository, text and the requested rows."""
    clauses = ["list_contains(?, c.repository_id)"]
    params: list[object] = [list(watched)]
    if query.repository:
        clauses.append("list_contains(?, c.repository_id)")
        params.append([number for number, one in watched.items() if one.key == query.repository])
    if query.only is not None:
        clauses.append("list_contains(?, c.pull_uri)")
        params.append(list(query.only))
    if query.text:
        clauses.append(
            "(contains(lower(p.title), lower(?)) or list_contains(?, c.repository_id) or c.contributor_id in (select "
            "contributor_id from contributors where did = ? or handle_verified and contains(lower(handle), lower(?))))"
        )
        named = [number for number, one in watched.items() if query.text.lower() in one.name.lower()]
        params += [query.text, named, query.text, query.text]
    return " and ".join(clauses), params


def _page(rows: Rows, query: QueueQuery, groups: Mapping[GroupKey, Listed], watched: Watched) -> Sequence[QueueRow]:
    """Return the rows of the requested page, in order; of the last page where it does not exist."""
    page_slice = slice(None)
    if query.size is not None:
        pages = max((-(-len(group.uris) // query.size) for group in groups.values()), default=1)
        last = min(max(query.page, 1), pages) * query.size
        page_slice = slice(last - query.size, last)
    return pulls(rows, [uri for group in groups.values() for uri in group.uris[page_slice]], watched)


def lanes(rows: Rows, uris: Sequence[str], query: QueueQuery | None = None) -> dict[str, GroupKey]:
    """Return the group of each of these pull requests that the queue shows for the query's repositories and text."""
    where, params = _filter_clause(query or QueueQuery(), _watched_repositories(rows))
    sql = (
        f"select c.pull_uri, {KEY} as key from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri "
        f"where {where} and list_contains(?, c.pull_uri)"
    )
    return {row["pull_uri"]: row["key"] for row in rows.rows(sql, [*params, uris])}


def opened_since(rows: Rows, moment: datetime, query: QueueQuery | None = None) -> int:
    """Count the queue's rows for the query's repository and text opened since then, push-holders' own apart."""
    where, params = _filter_clause(query or QueueQuery(), _watched_repositories(rows))
    sql = (
        "select count(*) from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri "
        f"where {where} and not c.own and p.opened_at >= ? and not list_contains(?, c.pull_uri)"
    )
    return rows.value(sql, [*params, moment, list((query or QueueQuery()).snoozed)])


def labels(rows: Rows, uris: Sequence[str]) -> dict[str, str]:
    """Return the short names of these pull requests, as in `QueueRow.label`."""
    sql = (
        "select p.pull_uri, p.repository_id, g.number from pull_requests p left join pull_pages g using (pull_uri) "
        "where list_contains(?, p.pull_uri)"
    )
    watched = _watched_repositories(rows)
    return {
        row["pull_uri"]: _label(watched[row["repository_id"]].name, row)
        for row in rows.rows(sql, [uris])
        if row["repository_id"] in watched
    }


def _label(name: str, row: Mapping[str, Any]) -> str:
    return f"{name} #{row['number']}" if row["number"] else f"{name} · {row['pull_uri'][-5:]}"


def pulls(rows: Rows, uris: Sequence[str], watched: Watched | None = None) -> tuple[QueueRow, ...]:
    """Return those of these pull requests that are open in a watched repository, in the order of `uris`."""
    if not uris:
        return ()
    sql = f"{DECISIONS} where c.pull_uri in (select unnest(?))"
    queue_rows = _queue_rows(rows, sql, [list(uris)], watched or _watched_repositories(rows))
    by_uri = {row.uri: row for row in queue_rows}
    return tuple(by_uri[uri] for uri in uris if uri in by_uri)


def _group(key: GroupKey, listed: Listed, page_rows: Sequence[QueueRow]) -> QueueGroup:
    rows = tuple(row for row in page_rows if _group_key(row) == key)
    return QueueGroup(key, rows, len(listed.uris), listed.oldest, listed.oldest_first_timer)


def _group_key(row: QueueRow) -> str:
    """Return the key of a row's group, by the rule of KEY."""
    lane = Lane.NORMAL_QUEUE if row.is_sealed else row.verdict.lane
    if row.audited:
        lane = Lane.FAST_LANE if row.audited.would_merge else Lane.NEEDS_HUMAN
    return "own" if row.own else str(lane)


def pull(rows: Rows, uri: str) -> QueueRow | None:
    queue_rows = _queue_rows(rows, f"{DECISIONS} where c.pull_uri = ?", [uri], _watched_repositories(rows))
    return queue_rows[0] if queue_rows else None


def unsealed(rows: Rows, uri: str, answer: AuditAnswer) -> QueueRow | None:
    """Return the row with an answer that was given after this snapshot was made."""
    queue_rows = _queue_rows(
        rows, f"{DECISIONS} where c.pull_uri = ?", [uri], _watched_repositories(rows), {uri: answer}
    )
    return queue_rows[0] if queue_rows else None


_SEVERAL_OPEN = """
select author_id, repository_id from pull_requests
where state = 'open' and list_contains(?, author_id) group by all having count(*) > 1
"""


def _queue_rows(
    rows: Rows,
    sql: str,
    params: Sequence[object],
    watched: Watched,
    new_answers: Mapping[str, AuditAnswer] = MappingProxyType({}),
) -> list[QueueRow]:
    decisions = [row for row in rows.rows(sql, params) if row["repository_id"] in watched]
    people = People(rows, (number for row in decisions for number in (row["contributor_id"], *row["path"])))
    outlines, turns = _outlines(rows, decisions, watched), _on_author(rows, decisions)
    labels = pull_labels(rows, [row["pull_uri"] for row in decisions])
    unfinished = [
        _queue_row(row, people, watched[row["repository_id"]], outlines[row["pull_uri"]]) for row in decisions
    ]
    pairs = zip(unfinished, decisions, strict=True)
    queue_rows = [
        replace(
            row_out,
            shadow=outlines[row_out.uri].shadow,
            on_author=row_out.uri in turns,
            labels=labels.get(row_out.uri, ()),
        )
        for row_out, row in pairs
    ]
    drawn_rows = [row for row, row_out in zip(decisions, queue_rows, strict=True) if is_drawn(row_out.verdict)]
    if not drawn_rows:
        return queue_rows
    all_answers = {**answers(rows, drawn_rows), **new_answers}
    return [
        seal(row_out, all_answers.get(row_out.uri)) if is_drawn(row_out.verdict) else row_out for row_out in queue_rows
    ]


def _on_author(rows: Rows, decisions: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the at-uris of rows that wait for their author."""
    if not decisions:
        return frozenset()
    turns = rows.rows(f"{ON_AUTHOR} and list_contains(?, pull_uri)", [[row["pull_uri"] for row in decisions]])
    return frozenset(row["pull_uri"] for row in turns)


def _outlines(rows: Rows, decisions: Sequence[Mapping[str, Any]], watched: Watched) -> dict[str, ChangeOutline]:
    """Return the facts of each change that its reasons may name."""
    uris = [row["pull_uri"] for row in decisions]
    findings, several = standing_findings(rows, uris), _several_open(rows, decisions)
    return {
        row["pull_uri"]: ChangeOutline(
            findings=findings.get(row["pull_uri"], ()),
            files=row["files"] or 0,
            lines=(row["added"] or 0) + (row["removed"] or 0),
            tests_fail=row["ci"] == "failed",
            several_open=(row["contributor_id"], row["repository_id"]) in several,
            shadow=watched[row["repository_id"]].shadow,
            claimed=row["merge_proof"] in CLAIMS,
        )
        for row in decisions
    }


def _several_open(rows: Rows, decisions: Sequence[Mapping[str, Any]]) -> set[tuple[int, int]]:
    """Return the authors of these rows, with the repository, who have several pull requests open there."""
    authors = [row["contributor_id"] for row in decisions]
    several = rows.rows(_SEVERAL_OPEN, [authors]) if authors else ()
    return {(row["author_id"], row["repository_id"]) for row in several}


def _queue_row(row: Mapping[str, Any], people: People, repository: Repository, outline: ChangeOutline) -> QueueRow:
    verdict, path = read_verdict(row), people.path(row["path"])
    evidence, thresholds = verdict_evidence(row, verdict, path), read_thresholds(row)
    inputs = read_inputs(row["inputs"]) if row["inputs"] else None
    return QueueRow(
        uri=row["pull_uri"],
        title=row["title"] or "(no title)",
        label=_label(repository.name, row),
        page=row["url"],
        repository_key=repository.key,
        repository_name=repository.name,
        author=people.persons[row["contributor_id"]],
        own=row["own"],
        first_timer=not evidence.settled_here,
        opened_at=row["opened_at"],
        round=row["round"],
        record_cid=row["record_cid"],
        patch_id=row["patch_id"],
        files=row["files"],
        added=row["added"],
        removed=row["removed"],
        verdict=verdict,
        structural_trust=row["structural_trust"],
        eigentrust=row["eigentrust"],
        content_risk=row["content_risk"],
        path=path,
        sentence=explain(verdict, evidence, outline),
        decided=decided(verdict, evidence, outline),
        decided_exact=decided(verdict, evidence, outline, exact=True),
        would_change=would_change(verdict, evidence, thresholds, inputs),
        would_help=own_change(verdict, evidence, thresholds, inputs),
        as_of=row["as_of"],
        model_version=row["model_version"],
        trust_measure=row["trust_measure"],
        claim=CLAIMS.get(row["merge_proof"], ""),
        lane_start=thresholds.t_high,
        ci=row["ci"],
        comments=row["comments"],
        borrowed_from=row["borrowed_from"] if row["probability"] is None else None,
    )


def repository_key(rows: Rows, name: str) -> str | None:
    """Return the key of the repository named by its DID, the at-uri of its record or OWNER/NAME.

    None where there is none.
    """
    number = find_repository(rows, name)
    return rows.value("select repo_key from repositories where repository_id = ?", [number]) if number else None
