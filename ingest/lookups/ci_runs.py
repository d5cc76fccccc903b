"""CI results of open pull requests: asked of the spindle that the repository's own record names.

Three-valued: a run that passed, one that failed, and none at all, which says nothing against the change (nobody with
push right may have let it run, and a bare patch has no commit to run). A spindle that cannot be asked leaves no row.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import DAY
from ingest.errors import FetchProblem
from ingest.git.patches import PatchProblem, load_patch
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.forge import Pipeline, is_commit, pipelines
from ingest.lookups.patches import add_records, logged_fields
from ingest.store.database import Store
from ingest.store.long_texts import LongTexts
from ingest.store.transaction import Transaction

EARLY = timedelta(minutes=1)  # a spindle's clock may be that far behind the stream's
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
    """Learn how CI stands on the newest round of open pull requests; returns how many were asked about.

    A run under way, and one that never began, is asked for again after a minute, then twice as long each time up to
    6 hours; a finished one, which somebody may start anew, daily.
    """

    def ask(row: Row) -> _Run:
        commit = _head(row, folder, store.long_texts)
        if commit is None:
            return _Run("", "never_ran")
        told = pipelines(fetcher, row["spindle"], row["repository"], commit)
        mine = [one for one in told if _is_for(one, row)]
        newest = max(mine, key=lambda one: one.created_at or datetime.min, default=None)
        return _Run(commit, state_of(newest.workflows), newest.workflows) if newest else _Run(commit, "never_ran")

    def write(txn: Transaction, found: Sequence[Found[_Run]]) -> None:
        _write_runs(txn, found, now)

    return fetch(store, fetcher, wall, Kind("ci", Due(DUE_RUNS), ask, write, _note, add_records))


def state_of(workflows: Sequence[tuple[str, str]]) -> str:
    """'failed' where any workflow did, 'running' while any may yet, 'passed' where one did, else 'never_ran'.

    A cancelled workflow says nothing; a status that is not known counts as still running.
    """
    statuses = {status for _, status in workflows}
    if statuses & {"failed", "timeout"}:
        return "failed"
    if statuses - {"success", "cancelled"}:
        return "running"
    return "passed" if "success" in statuses else "never_ran"


def _note(run: _Run) -> Note:
    return Note(again=DAY) if run.state in FINAL else Note(unfinished=bool(run.commit))


def _is_for(pipeline: Pipeline, row: Row) -> bool:
    """Return whether a run is about this round: anybody can write another's commit into a patch or a record.

    So a run counts that was started for this pull request, and not before the round was seen. One that names no pull
    request counts where the patch itself was made from its commit by the repository's own knot.
    """
    compared = row["patch_ref"].startswith("compare:")
    if pipeline.pull is None or compared:
        return compared and pipeline.pull in (None, row["pull_uri"])
    if pipeline.pull != row["pull_uri"]:
        return False
    return row["offered_at"] is None or (pipeline.created_at or datetime.min) >= row["offered_at"] - EARLY


def _head(row: Row, folder: Path, texts: LongTexts) -> str | None:
    """The commit that a round ends with, by full name; None where it names none. Raises FetchProblem."""
    kind, _, name = row["patch_ref"].partition(":")
    if kind == "compare":
        head = name.partition("..")[2]
        return head if is_commit(head) else None
    if said := _source_commit(logged_fields(row["record"], texts)):
        return said
    try:
        mails = _MAIL.findall(load_patch(folder, row["sha256"]))
    except PatchProblem as problem:
        raise FetchProblem(str(problem)) from problem
    return mails[-1] if mails else None


def _source_commit(record: Mapping[str, Any]) -> str | None:
    """`source.sha` of an older record."""
    source = record.get("source")
    said = source.get("sha") if isinstance(source, dict) else None
    return said if isinstance(said, str) and is_commit(said) else None


def _write_runs(txn: Transaction, found: Sequence[Found[_Run]], now: datetime) -> None:
    uris = [one.row["pull_uri"] for one in found]
    listed = txn.rows("select * from ci_runs where pull_uri in (select unnest(?))", [uris])
    known = {(row["pull_uri"], row["patch_ref"]): {**row, "observed_at": now} for row in listed}
    rows = [_run_row(one.row, one.answer, now) for one in found if isinstance(one.answer, _Run)]
    changed = [row for row in rows if known.get((row["pull_uri"], row["patch_ref"])) != row]
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
