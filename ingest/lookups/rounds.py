"""Look up the rounds of pull requests: the text of the change, and how CI ran on it.

The text is fetched from its reference, or read from the record, and stored. CI is asked from the spindle that the
repository's own record names. A run has three results: passed, failed, or never ran. "Never ran" says nothing against
the change: perhaps nobody with push rights let it run, or a bare patch has no commit to run. If a spindle cannot be
asked, no row is written.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import DAY, doubled
from ingest.errors import FetchProblem
from ingest.git.apply_check import GitReading, compare_with_git
from ingest.git.history import closing
from ingest.git.patch import Patch, PatchProblem, load_patch, read_patch, store_patch, unpack
from ingest.git.process import Watch, program
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.forge import Pipeline, blob, compare, is_commit, pipelines
from ingest.store.archive import read_log
from ingest.store.database import Store
from ingest.store.long_texts import LongTexts, TextLost
from ingest.store.transaction import Rows, Transaction

SETTLED = 500  # newest merges that are young enough to be watched for follow-ups
EARLIER = 20  # newest earlier pull requests of one person
FOR_MODELS = 3  # the rank of a text that nobody decides about: git need not read it as well, 33 ms each
COMPARE_SECONDS = 10.0  # in one turn for stored patches that git has not read yet: some 300
UNANSWERED = 2  # patches without an answer in one turn: each may take the 20 s after which git is given up

# First the newest rounds of open pull requests in watched repositories, then those of merges there that are still
# watched for follow-ups, then earlier pull requests, anywhere, of people who have an open one there. Then the first
# round of everything that was ever offered there, whatever became of it: models learn from these.
# The subject also names the pull request: otherwise a stranger who cites somebody's blob could spoil its look-up.
# Older records carry the patch in their own text, which the log has; the look-up then only reads it.
# Commits are compared on the target repository's knot, which its owner chose. A fork's knot is its author's choice, and
# nothing would prove that its answer is the content of the commits.
DUE_PATCHES = f"""
with offered as (
  select pull_uri, author_id, repository_id, patch_ref, record_cid, state, state_at, merged_at, opened_at, seen_at,
    w.repository_id is not null as watched
  from pull_requests left join watched_repositories w using (repository_id)
  where deleted_at is null and patch_ref is not null
), asking as (
  select distinct author_id from offered where watched and state = 'open'
), wanted as (
  select pull_uri, patch_ref, 0 as rank from offered where watched and state = 'open'
  union all select pull_uri, patch_ref, 1 from (
    select pull_uri, patch_ref, coalesce(merged_at, state_at, opened_at) as settled from offered
    where watched and state = 'merged' and settled >= $settled_since order by settled desc, pull_uri limit $most_settled
  )
  union all select pull_uri, patch_ref, 2 from (
    select pull_uri, patch_ref from offered semi join asking using (author_id)
    qualify row_number() over (partition by author_id order by opened_at desc, pull_uri) <= $most_earlier
  )
  union all select pull_uri, patch_ref, {FOR_MODELS} from unread_rounds where not is_stored
)
select p.pull_uri || ' ' || w.patch_ref as subject, p.pull_uri, w.patch_ref, c.did, c.pds, r.knot,
  coalesce((select min(alias) from repository_aliases a where a.repository_id = r.repository_id and alias like 'did:%'),
    r.repo_key) as repository,
  w.patch_ref like 'inline:%' as needs_record, p.record_cid,
  case when not (p.watched and exists (from push_holders h where h.repository_id = p.repository_id
    and h.contributor_id = p.author_id and h.held_until is null)) then c.did end as payer,
  w.rank, p.seen_at as since, coalesce(f.attempts, 0) as attempts
from offered p
join (select pull_uri, patch_ref, min(rank) as rank from wanted group by all) w on w.pull_uri = p.pull_uri
join contributors c on c.contributor_id = p.author_id
left join repositories r on r.repository_id = p.repository_id
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = w.patch_ref
left join fetches f on f.kind = 'patch' and f.subject = p.pull_uri || ' ' || w.patch_ref
where (f.subject is null or f.due_clock <= $wall) and k.pull_uri is null
  and (w.patch_ref like 'blob:%' and c.pds is not null or w.patch_ref like 'inline:%'
    or w.patch_ref like 'compare:%' and r.knot is not null)
"""

RECORDS = """
select n.uri, max_by(e.body, e.event_seq) as body
from {events} e join (select unnest(?) as uri, unnest(?) as did, unnest(?) as cid) n on (e.did, e.cid) = (n.did, n.cid)
where 'at://' || e.did || '/' || e.collection || '/' || e.rkey = n.uri group by n.uri
"""

# Stored texts of what is open or approved that git has not answered about yet; without a file there is nothing to
# compare.
NOT_COMPARED = """
select k.sha256, any_value(k.state) as state, coalesce(any_value(f.attempts), 0) as attempts
from patches k join pull_requests p using (pull_uri)
left join fetches f on f.kind = 'git_reading' and f.subject = k.sha256
where k.git_reading is null and k.sha256 is not null and (f.subject is null or f.due_clock <= ?)
  and (p.state = 'open' or p.pull_uri in (select pull_uri from approvals))
group by k.sha256 order by attempts, max(p.seen_at) desc, k.sha256 limit 500
"""
COMPARED = "update patches set git_reading = ?, git_line = ? where sha256 = ? and git_reading is null"


def due_patches(settled_since: datetime) -> Due:
    """Return the patches that are due; for merged pull requests only those settled since this time."""
    return Due(DUE_PATCHES, {"settled_since": settled_since, "most_settled": SETTLED, "most_earlier": EARLIER})


def add_records(rows: Rows, chunk: list[dict[str, Any]]) -> None:
    """Give each row with `needs_record` the text of its pull request's record in the log; give the others None."""
    needing = [row for row in chunk if row["needs_record"]]
    columns = [[row[name] for row in needing] for name in ("pull_uri", "did", "record_cid")]
    body_by_uri = {row["uri"]: row["body"] for row in read_log(rows, RECORDS, columns)} if needing else {}
    for row in chunk:
        row["record"] = body_by_uri.get(row["pull_uri"]) if row["needs_record"] else None


def logged_fields(record: str | None, texts: LongTexts) -> dict[str, Any]:
    """Return the fields of a record from `add_records`; an empty dict if it can no longer be read."""
    try:
        return msgspec.json.decode(texts.read(record or "{}"), type=dict[str, Any])
    except (msgspec.MsgspecError, TextLost):
        return {}


def fetch_patches(
    store: Store, fetcher: Fetcher, folder: Path, limit: int, wall: Wall, settled_since: datetime = datetime.max
) -> int:
    """Fetch or read the patches that are due, and store them; return how many were due."""

    def ask(row: Row) -> Row:
        try:
            data = _fetch_patch_bytes(fetcher, row, limit, store.long_texts)
        except FetchProblem as problem:
            if not problem.too_large:
                raise
            return _patch_row(row, Patch("", "oversized", None, 0, 0, 0), None, folder)
        patch = read_patch(data, limit)
        if patch.state == "oversized":  # a text that was cut is not compared
            return _patch_row(row, patch, GitReading("refused"), folder)
        is_judged = row["rank"] < FOR_MODELS
        reading = compare_with_git(unpack(data, limit)[0], closing(fetcher)) if is_judged else None
        return _patch_row(row, patch, reading, folder)

    return fetch(store, fetcher, wall, Kind("patch", due_patches(settled_since), ask, _write_patches, fill=add_records))


def _fetch_patch_bytes(fetcher: Fetcher, row: Row, limit: int, texts: LongTexts) -> bytes:
    """Return the patch that a round's reference names. Raises FetchProblem."""
    kind, _, name = row["patch_ref"].partition(":")
    if kind == "inline":
        patch = logged_fields(row["record"], texts).get("patch")
        if not isinstance(patch, str):
            raise FetchProblem("the record that carried the patch is not in the log any more")
        return patch.encode(errors="replace")
    if kind == "compare":
        base, _, head = name.partition("..")
        return compare(fetcher, row["knot"], row["repository"], base, head, limit)
    return blob(fetcher, row["pds"], row["did"], name, limit)


def compare_kept(store: Store, fetcher: Fetcher, folder: Path) -> int:
    """Compare stored patches, newest first, with git's reading where git has not answered yet; return how many.

    An older version stored them, or git was missing. A patch without an answer is tried again later, each time after
    twice as long, and one turn ends after two of them.
    """
    deadline, now = time.monotonic() + COMPARE_SECONDS, store.wall()
    with store.read() as rows:
        waiting = rows.rows(NOT_COMPARED, [now])
    readings: dict[str, GitReading] = {}
    unanswered: list[Row] = []
    for row in waiting:
        if time.monotonic() > deadline or len(unanswered) == UNANSWERED:
            break
        reading = _read_stored_patch(row, folder, closing(fetcher))
        if reading is not None:
            readings[row["sha256"]] = reading
        elif fetcher.closed or not _has_git():
            break
        else:
            unanswered.append(row)
    if readings or unanswered:
        with store.write() as txn:
            _write_readings(txn, readings)
            txn.upsert("fetches", [_retry_row(row, store.wall()) for row in unanswered])
    return len(readings)


def _has_git() -> bool:
    try:
        return bool(program())
    except FetchProblem:
        return False


def _write_readings(txn: Transaction, readings: Mapping[str, GitReading]) -> None:
    for sha256, reading in readings.items():
        txn.execute(COMPARED, [reading.state, reading.line, sha256])
    if readings:
        txn.execute("delete from fetches where kind = 'git_reading' and subject in (select unnest(?))", [[*readings]])
        txn.inputs_changed()


def _retry_row(row: Row, now: datetime) -> dict[str, object]:
    """Return the row of `fetches` with the time at which git reads this text again."""
    attempts = row["attempts"] + 1
    return {
        "kind": "git_reading",
        "subject": row["sha256"],
        "outcome": "failed",
        "reason": "git gave no answer about this text",
        "attempts": attempts,
        "due_clock": now + doubled(attempts),
        "fetched_clock": now,
    }


def _read_stored_patch(row: Row, folder: Path, watch: Watch) -> GitReading | None:
    """Return git's reading of a stored text. A text that was cut or is missing counts as one that git refuses."""
    if row["state"] == "oversized":
        return GitReading("refused")
    try:
        return compare_with_git(load_patch(folder, row["sha256"]).encode(), watch)
    except PatchProblem:
        return GitReading("refused")


def _patch_row(row: Row, patch: Patch, reading: GitReading | None, folder: Path) -> dict[str, object]:
    """Store the text of a patch and return its row of `patches`."""
    return {
        "pull_uri": row["pull_uri"],
        "patch_ref": row["patch_ref"],
        "patch_id": patch.patch_id,
        "sha256": store_patch(folder, patch.text),
        "bytes": len(patch.text.encode()),
        "files": patch.files,
        "added": patch.added,
        "removed": patch.removed,
        "state": patch.state,
        "proves": patch.proves,
        "series": list(patch.series),
        "change_ids": list(patch.change_ids),
        "git_reading": reading.state if reading else None,
        "git_line": reading.line if reading else None,
    }


def _write_patches(txn: Transaction, results: Sequence[Found[Row]]) -> None:
    rows = [result.answer for result in results if not isinstance(result.answer, FetchProblem)]
    txn.upsert("patches", rows)
    if rows:
        txn.inputs_changed()


EARLY = timedelta(minutes=1)  # a spindle's clock may be this far behind the stream's
FINAL = ("passed", "failed")
DUE_RUNS = """
select p.pull_uri || ' ' || p.patch_ref as subject, p.pull_uri, p.patch_ref, r.spindle, k.sha256,
  coalesce((select min(alias) from repository_aliases a where a.repository_id = r.repository_id and alias like 'did:%'),
    r.repo_key) as repository,
  p.record_form in ('flat', 'target') as needs_record, p.record_cid, c.did,
  (select min(seen_at) from pull_rounds o where o.pull_uri = p.pull_uri and o.patch_ref = p.patch_ref
    and o.witnessed) as offered_at,
  c.did as payer, 0 as rank, p.seen_at as since, coalesce(f.attempts, 0) as attempts
from pull_requests p
join watched_repositories using (repository_id)
join repositories r using (repository_id)
join contributors c on c.contributor_id = p.author_id
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join fetches f on f.kind = 'ci' and f.subject = p.pull_uri || ' ' || p.patch_ref
where (f.subject is null or f.due_clock <= $wall) and p.state = 'open' and p.deleted_at is null and r.spindle <> ''
  and (p.patch_ref like 'compare:%' or k.sha256 is not null)
"""
_MAIL = re.compile(r"^From ([0-9a-f]{40}|[0-9a-f]{64}) ", re.MULTILINE)


@dataclass(frozen=True)
class _Run:
    commit: str  # empty where the round names none
    state: str
    workflows: tuple[tuple[str, str], ...] = ()


def fetch_runs(store: Store, fetcher: Fetcher, folder: Path, now: datetime, wall: Wall) -> int:
    """Fetch the CI runs of the newest round of open pull requests; return how many were asked about.

    A run that is under way or never began is asked about again after a minute, then twice as long each time up to 6
    hours; a finished one, which somebody may start again, daily.
    """

    def ask(row: Row) -> _Run:
        commit = _head_commit(row, folder, store.long_texts)
        if commit is None:
            return _Run("", "never_ran")
        runs = pipelines(fetcher, row["spindle"], row["repository"], commit)
        own_runs = [run for run in runs if _is_about_round(run, row)]
        newest = max(own_runs, key=lambda run: run.created_at or datetime.min, default=None)
        return _Run(commit, state_of(newest.workflows), newest.workflows) if newest else _Run(commit, "never_ran")

    kind = Kind("ci", Due(DUE_RUNS), ask, lambda txn, results: _write_runs(txn, results, now), _note, add_records)
    return fetch(store, fetcher, wall, kind)


def state_of(workflows: Sequence[tuple[str, str]]) -> str:
    """Return 'failed' if any workflow failed, 'running' if any may still run, 'passed' if one passed, else 'never_ran'.

    A cancelled workflow does not count; an unknown status counts as still running.
    """
    statuses = {status for _, status in workflows}
    if statuses & {"failed", "timeout"}:
        return "failed"
    if statuses - {"success", "cancelled"}:
        return "running"
    return "passed" if "success" in statuses else "never_ran"


def _note(run: _Run) -> Note:
    return Note(again=DAY) if run.state in FINAL else Note(unfinished=bool(run.commit))


def _is_about_round(pipeline: Pipeline, row: Row) -> bool:
    """Return True if a run is about this round. Anybody can write another's commit into a patch or a record.

    So a run counts if it was started for this pull request, and not before the round was seen. A run that names no pull
    request counts if the repository's own knot made the patch from its commit.
    """
    compared = row["patch_ref"].startswith("compare:")
    if pipeline.pull is None or compared:
        return compared and pipeline.pull in (None, row["pull_uri"])
    if pipeline.pull != row["pull_uri"]:
        return False
    return row["offered_at"] is None or (pipeline.created_at or datetime.min) >= row["offered_at"] - EARLY


def _head_commit(row: Row, folder: Path, texts: LongTexts) -> str | None:
    """Return the full name of the commit that a round ends with, or None if it names none. Raises FetchProblem."""
    kind, _, name = row["patch_ref"].partition(":")
    if kind == "compare":
        head = name.partition("..")[2]
        return head if is_commit(head) else None
    if source_commit := _read_source_commit(logged_fields(row["record"], texts)):
        return source_commit
    try:
        mails = _MAIL.findall(load_patch(folder, row["sha256"]))
    except PatchProblem as problem:
        raise FetchProblem(str(problem)) from problem
    return mails[-1] if mails else None


def _read_source_commit(record: Mapping[str, Any]) -> str | None:
    """Return `source.sha` of an older record."""
    source = record.get("source")
    commit = source.get("sha") if isinstance(source, dict) else None
    return commit if isinstance(commit, str) and is_commit(commit) else None


def _write_runs(txn: Transaction, results: Sequence[Found[_Run]], now: datetime) -> None:
    uris = [result.row["pull_uri"] for result in results]
    stored_rows = txn.rows("select * from ci_runs where pull_uri in (select unnest(?))", [uris])
    stored = {(row["pull_uri"], row["patch_ref"]): {**row, "observed_at": now} for row in stored_rows}
    rows = [_run_row(result.row, result.answer, now) for result in results if isinstance(result.answer, _Run)]
    changed = [row for row in rows if stored.get((row["pull_uri"], row["patch_ref"])) != row]
    txn.upsert("ci_runs", changed)
    if changed:
        txn.inputs_changed()


def _run_row(row: Row, run: _Run, now: datetime) -> dict[str, Any]:
    workflows = [{"name": name, "status": status} for name, status in run.workflows]
    return {
        "pull_uri": row["pull_uri"],
        "patch_ref": row["patch_ref"],
        "commit_id": run.commit,
        "state": run.state,
        "workflows": msgspec.json.encode(workflows).decode(),
        "observed_at": now,
    }
