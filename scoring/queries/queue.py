"""Reads the queue and the aggregates from a snapshot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ingest.records.watched import find_repository
from ingest.store.transaction import Rows
from scoring.explain.decided import SETTLES_CLAIM, ChangeOutline, decided, explain
from scoring.explain.sentences import would_change
from scoring.explain.what_would_change import own_change
from scoring.gate.decide import read_inputs
from scoring.pipeline.interventions import current_approvals
from scoring.pipeline.stored import CLAIMS, People, read_thresholds, read_verdict, verdict_evidence
from scoring.queries.audited import is_drawn, seal
from scoring.queries.changes import COUNTED, DRAWN, SEALED, WOULD_MERGE, answers, pull_labels, standing_findings
from scoring.queries.queue_order import Positions, Waiting, explain_places, order_lane
from scoring.queries.types import (
    IS_NAMED,
    AuditAnswer,
    GroupKey,
    Place,
    Queue,
    QueueGroup,
    QueueQuery,
    QueueRow,
    QueueSort,
    named_by,
    pull_label,
)

# Planning is most of the time of these statements (0.7 ms for each join), so repositories are looked up in Python.
# What the audit drew waits for a review like any other: a heading would tell its lane, and nothing is wrong with it.
# Webhooks tell that lane, which no answer changes.
TOLD_LANE = f"case when c.own then 'own' when {DRAWN} then 'normal_queue' else c.lane end"
# The one place that tells the fast lane from what only would be in it, for every count, list and filter.
FAST = """case when c.repository_id in (select repository_id from repository_settings where not shadow) then 'fast_lane'
  else 'would_be_fast_lane' end"""
# Once somebody answered, it stands where it was drawn from, or flagged where they would not merge it.
KEY = f"""case when c.own then 'own' when not {DRAWN} then case c.lane when 'fast_lane' then {FAST} else c.lane end else
  case {WOULD_MERGE} when true then {FAST} when false then 'needs_human' else 'normal_queue' end end"""
LANE_KEYS: tuple[GroupKey, ...] = get_args(GroupKey)[:-1]  # all groups but that of push-holders' own
# The author has the next word where somebody who may push had the last one, after the newest round, or asked here for
# changes to that round. A round that is dated ahead counts from when it was seen, else it would have the last word.
# A request is read once it cannot be undone any more: an answer here that is older answers another one. Of two words of
# one moment, as on a recording whose clock stands, the one that asks is the last.
ON_AUTHOR = """
select pull_uri from (
  select p.pull_uri, m.written_at as said_at, m.author_id <> p.author_id as asks
  from comments m join pull_requests p on p.pull_uri = m.subject_uri
  join pull_rounds r on r.pull_uri = p.pull_uri and r.round = p.round and r.patch_ref = p.patch_ref
  left join own_people o on o.repository_id = p.repository_id and o.contributor_id = m.author_id
  where p.state = 'open' and m.deleted_at is null and (m.author_id = p.author_id or o.contributor_id is not null)
    and m.written_at > least(coalesce(r.created_at, r.seen_at), r.seen_at)
  union all
  select p.pull_uri, m.known_from, m.kind = 'request_changes'
  from maintainer_actions m join pull_requests p on p.pull_uri = m.pull_uri and p.round = m.round
  left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
  where p.state = 'open' and m.kind in ('request_changes', 'answer') and m.patch_id is not distinct from k.patch_id
    and (m.kind = 'answer' or not exists (
      from maintainer_actions l where l.pull_uri = m.pull_uri and (l.kind = 'release' and l.made_at > m.made_at
        or l.kind = 'answer' and l.made_at > m.made_at + interval 10 seconds)))
) group by pull_uri having arg_max(asks, 2 * epoch_us(said_at) + asks::int)
"""
# Somebody asked here for changes and did not take that back. Where it is not the author's turn, they did as asked.
REQUESTED = """
select pull_uri from maintainer_actions m where kind = 'request_changes' and not exists (
  from maintainer_actions l where l.pull_uri = m.pull_uri and l.kind = 'release' and l.made_at > m.made_at)
"""
# One statement of narrow columns for all groups: 5,000 rows take as long as wide ones of a page.
LISTED = f"""
select c.pull_uri, {KEY} as key, {SEALED} as sealed, list_contains(?, c.pull_uri) as voided, {{where}} as narrowed,
  list_contains(?, c.repository_id) as shut,
  count(*) over (partition by c.contributor_id, coalesce(p.title, p.pull_uri)) as alike,
  dense_rank() over (order by c.contributor_id, c.repository_id, coalesce(p.title, p.pull_uri)) as series,
  c.contributor_id in (select c.contributor_id from current_decisions c where {SEALED}) as hidden,
  coalesce(c.probability, c.borrowed, 'nan') as chance, c.probability is null as borrowed,
  coalesce(c.content_risk, 'nan') as risk,
  coalesce(datesub('day', p.seen_at, (select max(as_of) from current_scores)), 0)::double as waited, p.opened_at,
  coalesce(f.settled_here, 0) = 0 as first_timer,
  c.pull_uri in ({ON_AUTHOR}) or p.merge_proof is not distinct from 'unverified' as on_author,
  c.pull_uri in ({REQUESTED}) as requested
from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
left join features f on f.contributor_id = c.contributor_id and f.repository_id = c.repository_id
where not list_contains(?, c.pull_uri) and c.repository_id in (select repository_id from watched_repositories)
order by c.pull_uri
"""
# A request for changes is a verdict too: each round that somebody asked to change counts once.
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
    """One group of the queue: how many are in it, and in order the at-uris of those that the query asks for.

    `alike` counts those in the inbox with the author and title of each; `places` says why a part of them stands there.
    The oldest ones, and `longest`, are of those that wait for a maintainer.
    """

    everything: int
    uris: Sequence[str]
    alike: Sequence[int]
    places: Callable[[slice], list[Place]]
    oldest: datetime | None
    oldest_first_timer: datetime | None
    longest: str | None


def queue(rows: Rows, query: QueueQuery) -> Queue:
    """Open pull requests of watched repositories for one query, grouped by lane; own ones last.

    What is approved and not merged yet is left out; what changed after an approval or a request comes first.
    """
    watched = _watched(rows)
    groups = _listed(rows, query, watched)
    found = _page(rows, query, groups, watched)
    counts = {key: group.everything for key, group in groups.items()}
    return Queue(
        counts={lane: counts.get(lane, 0) for lane in LANE_KEYS},
        own_count=counts.get("own", 0),
        groups=tuple(_group(key, group, found) for key, group in groups.items() if group.uris),
        repositories=tuple(sorted(((one.key, one.name) for one in watched.values()), key=lambda one: one[::-1])),
    )


def longest_waiting(rows: Rows, query: QueueQuery) -> str | None:
    """The at-uri of what has waited longest for a maintainer, push-holders' own apart; None where nothing waits."""
    groups = _listed(rows, query, _watched(rows)).items()
    found = [(group.oldest, group.longest) for key, group in groups if key != "own" and group.oldest]
    return min(found, key=itemgetter(0))[1] if found else None  # of the same age the first in the inbox


def queue_order(rows: Rows, query: QueueQuery) -> tuple[str, ...]:
    """The at-uris of all of them in the order in which `queue` shows them, whatever page the query names."""
    return tuple(uri for group in _listed(rows, query, _watched(rows)).values() for uri in group.uris)


def _listed(rows: Rows, query: QueueQuery, watched: Watched) -> dict[GroupKey, Listed]:
    """The groups in the order of the page."""
    where, params = _queue_filter(query, watched)
    standing, voided = current_approvals(rows)
    approved, changed = ([row["pull_uri"] for row in found] for found in (standing, voided))
    sql = LISTED.replace("{where}", where)  # KEY holds braces of its own
    columns = rows.columns(sql, [changed, *params, _shut(query, watched), [*approved, *query.snoozed]])
    keys = np.where(columns["shut"] & (columns["key"] == "fast_lane"), "would_be_fast_lane", columns["key"])
    verdicts = rows.value(DECIDED, {"watched": list(watched)}) + sum(
        row["newest"]["state"] == "open" for row in standing
    )
    waiting = Waiting(
        # Nobody reads off its place what is sealed, or the chance of an author whose audit is due.
        chance=np.where(columns["hidden"], np.nan, columns["chance"]),
        risk=np.where(columns["sealed"], np.nan, columns["risk"]),
        changed=columns["voided"] | (columns["requested"] & ~columns["on_author"]),
        **{name: columns[name] for name in ("waited", "opened_at", "first_timer", "on_author", "series")},
    )
    of_group = {key: np.flatnonzero(columns["narrowed"] & (keys == key)) for key in get_args(GroupKey)}
    return {
        key: _lane(
            columns,
            waiting,
            which if query.bucket in (None, key) else which[:0],
            len(which),
            query.sort,
            verdicts,
        )
        for key, which in of_group.items()
        if len(which)
    }


def _lane(
    columns: Mapping[str, NDArray[Any]],
    waiting: Waiting,
    which: Positions,
    everything: int,
    sort: QueueSort,
    verdicts: int,
) -> Listed:
    """The rows of one lane in order."""
    asked = waiting.select(which)
    ages = asked.opened_at.astype("datetime64[us]")
    order = order_lane(asked, sort, verdicts)
    uris, alike = (columns[name][which[order]].tolist() for name in ("pull_uri", "alike"))
    waits = ~asked.on_author
    waiting_ages = ages[waits], ages[waits & asked.first_timer]
    oldest, oldest_first_timer = (some.min().item() if len(some) else None for some in waiting_ages)
    longest = columns["pull_uri"][which[waits][ages[waits].argmin()]] if oldest else None
    places = partial(explain_places, asked, order, columns["borrowed"][which], sort, verdicts)
    return Listed(everything, uris, alike, places, oldest, oldest_first_timer, longest)


def _shut(query: QueueQuery, watched: Watched) -> list[int]:
    return [number for number, one in watched.items() if one.key in query.shut]


def _watched(rows: Rows) -> Watched:
    return {row["repository_id"]: Repository(row["repo_key"], row["name"], row["shadow"]) for row in rows.rows(WATCHED)}


def repository_names(rows: Rows) -> dict[str, str]:
    """The watched repositories: their names by repo_key."""
    return {one.key: one.name for one in _watched(rows).values()}


def _queue_filter(query: QueueQuery, watched: Watched) -> Clause:
    """Return what narrows all groups alike: by repository, words (title, person, file) and the rows asked for."""
    clauses = ["list_contains(?, c.repository_id)"]
    params: list[object] = [list(watched)]
    if query.repository:
        clauses.append("list_contains(?, c.repository_id)")
        params.append([number for number, one in watched.items() if one.key == query.repository])
    if query.only is not None:
        clauses.append("list_contains(?, c.pull_uri)")
        params.append(list(query.only))
    if query.since is not None:
        clauses.append("p.opened_at >= ? and not c.own")
        params.append(query.since)
    if query.text:
        clauses.append(
            f"({IS_NAMED} or contains(lower(p.title), lower(?)) or list_contains(?, c.repository_id) or "
            "exists (from touched_files t where t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref and "
            "contains(lower(array_to_string(t.paths, chr(10))), lower(?))) or "
            "c.contributor_id in (select contributor_id from contributors where did = ? or handle_verified and "
            "contains(lower(handle), lower(?))))"
        )
        named = [number for number, one in watched.items() if query.text.lower() in one.name.lower()]
        params += [*named_by(query.text), query.text, named, *[query.text] * 3]
    return " and ".join(clauses), params


def _page(rows: Rows, query: QueueQuery, groups: Mapping[GroupKey, Listed], watched: Watched) -> Sequence[QueueRow]:
    """The rows of the page asked for, in order; of the last page where that one does not exist."""
    cut = slice(None)
    if query.size is not None:
        pages = max((-(-len(group.uris) // query.size) for group in groups.values()), default=1)
        last = min(max(query.page, 1), pages) * query.size
        cut = slice(last - query.size, last)
    facts = {
        uri: {"place": place, "alike": alike}
        for group in groups.values()
        for uri, alike, place in zip(group.uris[cut], group.alike[cut], group.places(cut), strict=True)
    }
    return [replace(row, **facts[row.uri]) for row in pulls(rows, list(facts), watched)]


def lanes(rows: Rows, uris: Sequence[str], query: QueueQuery | None = None) -> dict[str, GroupKey]:
    """Return the group of each of these pull requests that the queue shows in its repositories and for its text."""
    query, watched = query or QueueQuery(), _watched(rows)
    where, params = _queue_filter(query, watched)
    sql = (
        f"select c.pull_uri, c.repository_id, {KEY} as key from current_decisions c "
        f"join pull_requests p on p.pull_uri = c.pull_uri where {where} and list_contains(?, c.pull_uri)"
    )
    found, shut = rows.rows(sql, [*params, uris]), _shut(query, watched)
    would = {row["pull_uri"] for row in found if row["key"] == "fast_lane" and row["repository_id"] in shut}
    return {row["pull_uri"]: "would_be_fast_lane" if row["pull_uri"] in would else row["key"] for row in found}


def opened_since(rows: Rows, moment: datetime, query: QueueQuery | None = None) -> int:
    """Count what the queue shows for its repository and text and came since then, push-holders' own apart."""
    query = replace(query or QueueQuery(), since=moment)
    where, params = _queue_filter(query, _watched(rows))
    sql = (
        "select count(*) from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri "
        f"where {where} and not list_contains(?, c.pull_uri)"
    )
    approved = [row["pull_uri"] for row in current_approvals(rows)[0]]
    return rows.value(sql, [*params, [*approved, *query.snoozed]])


def labels(rows: Rows, uris: Sequence[str]) -> dict[str, str]:
    """Return the short names of these pull requests, as `QueueRow.label`."""
    sql = (
        "select p.pull_uri, p.repository_id, g.number from pull_requests p left join pull_pages g using (pull_uri) "
        "where list_contains(?, p.pull_uri)"
    )
    watched = _watched(rows)
    return {
        row["pull_uri"]: pull_label(watched[row["repository_id"]].name, row["number"], row["pull_uri"])
        for row in rows.rows(sql, [uris])
        if row["repository_id"] in watched
    }


def pulls(rows: Rows, uris: Sequence[str], watched: Watched | None = None) -> tuple[QueueRow, ...]:
    """Those of these pull requests that are open in a watched repository, in the order of `uris`."""
    if not uris:
        return ()
    # A semi join with the parameter's rows comes after the join with all of `trust`: 58 ms instead of 12 for one row.
    sql = f"{DECISIONS} where list_contains(?, c.pull_uri)"
    found = _queue_rows(rows, sql, [list(uris)], watched or _watched(rows))
    by_uri = {row.uri: row for row in found}
    return tuple(by_uri[uri] for uri in uris if uri in by_uri)


def _group(key: GroupKey, listed: Listed, found: Sequence[QueueRow]) -> QueueGroup:
    uris = set(listed.uris)
    rows = tuple(row for row in found if row.uri in uris)
    return QueueGroup(key, rows, len(listed.uris), listed.oldest, listed.oldest_first_timer)


def pull(rows: Rows, uri: str) -> QueueRow | None:
    found = _queue_rows(rows, f"{DECISIONS} where c.pull_uri = ?", [uri], _watched(rows))
    return found[0] if found else None


def unsealed(rows: Rows, uri: str, answer: AuditAnswer) -> QueueRow | None:
    """The same with the answer that somebody gave since this snapshot was made."""
    found = _queue_rows(rows, f"{DECISIONS} where c.pull_uri = ?", [uri], _watched(rows), {uri: answer})
    return found[0] if found else None


# Merges that were taken back, by a commit that mirrors show or by a person's word; one may stand there twice.
REVERTED = """
select pull_uri, known_from from pull_followups
where kind = 'reverted' and pull_uri not in (select pull_uri from marks where outcome = 'clean')
union all select pull_uri, known_from from marks where outcome = 'reverted'
"""
# Of these authors in each repository whether several are open; of them everywhere how many of their merges were taken
# back within 30 days.
_AUTHORS = f"""
with troubles as (
  select author_id, pull_uri from pull_requests join ({REVERTED}) using (pull_uri)
  where list_contains($people, author_id)
    and known_from > (select max(as_of) from current_scores) - interval 30 days
)
select author_id, repository_id, count(*) filter (state = 'open') > 1 as several,
  (select count(distinct pull_uri) from troubles t where t.author_id = p.author_id) as reverted
from pull_requests p where list_contains($people, author_id) group by all
"""


def _queue_rows(
    rows: Rows,
    sql: str,
    params: Sequence[object],
    watched: Watched,
    given: Mapping[str, AuditAnswer] = MappingProxyType({}),
) -> list[QueueRow]:
    found = [row for row in rows.rows(sql, params) if row["repository_id"] in watched]
    people = People(rows, (number for row in found for number in (row["contributor_id"], *row["path"])))
    outlines, turns = _outlines(rows, found, watched), _on_author(rows, found)
    labels = pull_labels(rows, [row["pull_uri"] for row in found])
    made = [_queue_row(row, people, watched[row["repository_id"]], outlines[row["pull_uri"]]) for row in found]
    pairs = zip(made, found, strict=True)
    shown = [
        replace(
            one,
            shadow=outlines[one.uri].shadow,
            on_author=one.uri in turns,
            labels=labels.get(one.uri, ()),
        )
        for one, row in pairs
    ]
    drawn = [row for row, one in zip(found, shown, strict=True) if is_drawn(one.verdict)]
    if not drawn:
        return shown
    told = {**answers(rows, drawn), **given}
    return [seal(one, told.get(one.uri)) if is_drawn(one.verdict) else one for one in shown]


def _on_author(rows: Rows, found: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Those of these rows that wait for their author."""
    if not found:
        return frozenset()
    turns = rows.rows(f"{ON_AUTHOR} and list_contains(?, pull_uri)", [[row["pull_uri"] for row in found]])
    return frozenset(row["pull_uri"] for row in turns)


def _outlines(rows: Rows, found: Sequence[Mapping[str, Any]], watched: Watched) -> dict[str, ChangeOutline]:
    """Return what the reasons of these rows may name of each change."""
    uris = [row["pull_uri"] for row in found]
    findings, authors = standing_findings(rows, uris), _authors(rows, found)
    return {
        row["pull_uri"]: ChangeOutline(
            findings=findings.get(row["pull_uri"], ()),
            files=row["files"] or 0,
            lines=(row["added"] or 0) + (row["removed"] or 0),
            tests_fail=row["ci"] == "failed",
            several_open=authors[row["contributor_id"], row["repository_id"]]["several"],
            shadow=watched[row["repository_id"]].shadow,
            claimed=row["merge_proof"] == "unverified",
            own=row["own"],
            reverted=authors[row["contributor_id"], row["repository_id"]]["reverted"],
        )
        for row in found
    }


def _authors(rows: Rows, found: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the rows of _AUTHORS about the authors of these rows, by author and repository."""
    asked = [row["contributor_id"] for row in found]
    told = rows.rows(_AUTHORS, {"people": asked}) if asked else ()
    return {(row["author_id"], row["repository_id"]): row for row in told}


def _queue_row(row: Mapping[str, Any], people: People, repository: Repository, outline: ChangeOutline) -> QueueRow:
    verdict, path = read_verdict(row), people.path(row["path"])
    known, thresholds = verdict_evidence(row, verdict, path), read_thresholds(row)
    inputs = read_inputs(row["inputs"]) if row["inputs"] else None
    return QueueRow(
        uri=row["pull_uri"],
        title=row["title"] or "(no title)",
        label=pull_label(repository.name, row["number"], row["pull_uri"]),
        page=row["url"],
        repository_key=repository.key,
        repository_name=repository.name,
        author=people.persons[row["contributor_id"]],
        own=row["own"],
        first_timer=not known.settled_here,
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
        sentence=explain(verdict, known, outline),
        decided=decided(verdict, known, outline),
        decided_exact=decided(verdict, known, outline, exact=True),
        would_change=f"{SETTLES_CLAIM if outline.claimed else ''}{would_change(verdict, known, thresholds, inputs)}",
        would_help=own_change(verdict, known, thresholds, inputs),
        as_of=row["as_of"],
        model_version=row["model_version"],
        trust_measure=row["trust_measure"],
        claim=CLAIMS.get(row["merge_proof"], ""),
        lane_start=thresholds.t_high,
        ci=row["ci"],
        comments=row["comments"],
        borrowed_from=row["borrowed_from"] if row["probability"] is None else None,
        graph=row["graph"],
        reverted=outline.reverted,
    )


def repository_key(rows: Rows, name: str) -> str | None:
    """The key of the repository named by its DID, the at-uri of its record or OWNER/NAME; None where there is none."""
    number = find_repository(rows, name)
    return rows.value("select repo_key from repositories where repository_id = ?", [number]) if number else None
