"""The queue and the aggregates, read from a snapshot."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ingest.clock import from_microseconds
from ingest.store import Rows
from scoring.answers import Bin, Dashboard, GroupKey, Queue, QueueGroup, QueueQuery, QueueRow, QueueSort
from scoring.explain import explain, lane_notice, would_change
from scoring.features import evidence
from scoring.gate import Thresholds
from scoring.shaping import EVIDENCE_COLUMNS, EVIDENCE_JOINS, People, read_thresholds, read_verdict
from scoring.verdict import Lane

DECISIONS = f"""
select c.*, p.title, p.opened_at, r.repo_key, r.name as repository_name, k.files, k.added, k.removed, {EVIDENCE_COLUMNS}
from current_decisions c
join pull_requests p using (pull_uri)
join repositories r on r.repository_id = c.repository_id
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
{EVIDENCE_JOINS}
"""
QUEUE_ORDER: Mapping[QueueSort, str] = {
    "lowest": "c.probability asc nulls last, p.opened_at, c.pull_uri",
    "oldest": "p.opened_at, c.pull_uri",
    "newest": "p.opened_at desc, c.pull_uri",
}


def queue(rows: Rows, query: QueueQuery) -> Queue:
    """Open pull requests of watched repositories for one query, grouped by lane; own ones last."""
    keyed = "select case when own then 'own' else lane end as key, count(*) as n from current_decisions group by all"
    numbers = {row["key"]: row["n"] for row in rows.rows(keyed)}
    where, params = _queue_filter(query)
    found = _queue_rows(rows, f"{DECISIONS} where {where} order by {QUEUE_ORDER[query.sort]}", params)
    watched = rows.rows(
        "select repo_key, coalesce(name, repo_key) as name from repositories "
        "semi join watched_repositories using (repository_id) order by name, repo_key"
    )
    return Queue(
        counts={lane: numbers.get(str(lane), 0) for lane in Lane},
        own_count=numbers.get("own", 0),
        groups=tuple(_group(key, found) for key in get_args(GroupKey) if any(_group_key(row) == key for row in found)),
        repositories=tuple((row["repo_key"], row["name"]) for row in watched),
    )


def _queue_filter(query: QueueQuery) -> tuple[str, list[object]]:
    clauses, params = ["true"], []
    if query.bucket:
        clauses.append("c.lane = ? and not c.own")
        params.append(str(query.bucket))
    if query.repository:
        clauses.append("r.repo_key = ?")
        params.append(query.repository)
    if query.text:
        clauses.append(
            "(contains(lower(p.title), lower(?)) or contains(lower(r.name), lower(?)) or c.contributor_id in (select "
            "contributor_id from contributors where did = ? or handle_verified and contains(lower(handle), lower(?))))"
        )
        params += [query.text] * 4
    return " and ".join(clauses), params


def _group_key(row: QueueRow) -> str:
    return "own" if row.own else str(row.verdict.lane)


def _group(key: GroupKey, found: Sequence[QueueRow]) -> QueueGroup:
    rows = tuple(row for row in found if _group_key(row) == key)
    first_timers = [row.opened_at for row in rows if row.first_timer]
    oldest = min(row.opened_at for row in rows)
    return QueueGroup(key, rows, oldest, min(first_timers, default=None))


def pull(rows: Rows, uri: str) -> QueueRow | None:
    """One open pull request of a watched repository."""
    found = _queue_rows(rows, f"{DECISIONS} where c.pull_uri = ?", [uri])
    return found[0] if found else None


def _queue_rows(rows: Rows, sql: str, params: Sequence[object]) -> list[QueueRow]:
    found = rows.rows(sql, params)
    people = People(rows, (number for row in found for number in (row["contributor_id"], *row["path"])))
    return [_queue_row(row, people) for row in found]


def _queue_row(row: Mapping[str, Any], people: People) -> QueueRow:
    verdict, known = read_verdict(row), evidence(row, people.names)
    name = row["repository_name"] or row["repo_key"]
    return QueueRow(
        uri=row["pull_uri"],
        title=row["title"] or "(no title)",
        label=f"{name} · {row['pull_uri'][-5:]}",
        repository_key=row["repo_key"],
        repository_name=name,
        author=people.persons[row["contributor_id"]],
        own=row["own"],
        first_timer=not row["settled_here"],
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
        path=people.path(row["path"]),
        sentence=explain(verdict, known),
        would_change=would_change(verdict, known, read_thresholds(row)),
        as_of=row["as_of"],
        model_version=row["model_version"],
    )


def dashboard(rows: Rows) -> Dashboard:
    """The aggregates."""
    open_pulls = rows.rows("select lane, count(*) as n from current_decisions where not own group by lane")
    lanes = {row["lane"]: row["n"] for row in open_pulls}
    counted = rows.rows(
        "select least(floor(probability * 10), 9)::integer as bin, count(*) as n from current_scores "
        "where repository_id = 0 and probability is not null group by bin"
    )
    bins = {row["bin"]: row["n"] for row in counted}
    scored = rows.value("select count(*) from current_scores where repository_id = 0")
    cursor = rows.value("select max(cursor_us) from ingest_state")
    thresholds = _site_thresholds(rows)

    def count(table: str) -> int:
        return rows.value(f"select count(*) from {table}")

    return Dashboard(
        lanes={lane: lanes.get(str(lane), 0) for lane in Lane},
        own=count("current_decisions where own"),
        histogram=tuple(Bin(n / 10, (n + 1) / 10, bins.get(n, 0)) for n in range(10)),
        scored=scored,
        not_enough_evidence=scored - sum(bins.values()),
        contributors=count("contributors where first_seen_at is not null"),
        vouches=count("vouches where superseded_at is null and kind = 'vouch'"),
        denounces=count("vouches where superseded_at is null and kind = 'denounce'"),
        seeds=count("seeds where repository_id = 0"),
        events=count("events"),
        pull_requests=count("pull_requests"),
        repositories=count("repositories where owner_id is not null"),
        watched=count("watched_repositories"),
        dead_letters=count("dead_letters"),
        dropped_strangers=rows.value("select coalesce(sum(dropped_strangers), 0)::bigint from ingest_state"),
        newest_event_at=from_microseconds(cursor) if cursor else None,
        t_low=thresholds.t_low,
        t_high=thresholds.t_high,
        lane_notice=lane_notice(thresholds),
    )


def _site_thresholds(rows: Rows) -> Thresholds:
    """The thresholds of the newest pass; the defaults before the first one."""
    row = rows.row("select thresholds from current_scores limit 1")
    return read_thresholds(row) if row else Thresholds()
