"""Jobs that a command hands to the owner of the store, by name: plain values in, plain values out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from ingest.backfill.owners import OwnerProblem, find_owned, make_known
from ingest.backfill.runs import begin
from ingest.backup.manifest import copy_state
from ingest.erasure import erase
from ingest.history_import import pulls
from ingest.history_import.files import PastProblem
from ingest.lookups import osv
from ingest.records import watched
from ingest.store.snapshots import PublishProblem, publish
from ingest.stream.reread_letters import retry_dead_letters
from ingest.worker.runtime import Runtime

Values = Mapping[str, Any]
Job = Callable[[Runtime, Values, Callable[[Values], None]], Values]  # its third argument shows progress


class JobProblem(Exception):
    """The job could not be done; the message is one sentence with the remedy."""


def _add_maintainer(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Record the maintainer `did` and watch the `repositories` that they judge for.

    Returns the repositories' `keys`, and `records`, the at-uris of the records that describe them.
    """
    store, clock = runtime.store, runtime.clock
    names = make_known(store, runtime.backfill, arguments["repositories"], lambda step: show({"step": step}))
    keys = watched.add_maintainer(store, arguments["did"], names, clock.now())
    return {"keys": keys, "records": watched.records_of(store, keys)}


def _find_owned(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Return the repositories of `who`, a handle or DID, as JSON values of `ingest.backfill.owners.Owner`."""
    owner = find_owned(runtime.store, runtime.backfill, arguments["who"], lambda step: show({"step": step}))
    return msgspec.to_builtins(asdict(owner))


def _begin_backfill(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Enter a backfill of `dids` and `collections` by hand for the backfill's own thread; return its `run`."""
    return {"run": begin(runtime.store, "by_hand", arguments["dids"], arguments["collections"])}


def _erase(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Erase `did` to the last byte; return how many `rows`, `files` and `others` went, and sentences as `kept`."""
    store, folders = runtime.store, runtime.folders
    try:
        show({"step": "Files and tables are searched."})
        erased = erase.erase(store, arguments["did"], "by_request", runtime.clock.now(), folders)
        show({"step": "The store is written anew; older snapshots go."})
        erase.finish(store, folders)
    except PublishProblem as problem:
        raise JobProblem(f"{problem}. Run this again: it goes on from here.") from problem
    return {"rows": erased.rows, "files": erased.files, "others": erased.others, "kept": list(erased.kept)}


def _retry_dead_letters(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Read every dead letter again; return how many were `read`, `applied`, and are `left`."""
    return msgspec.structs.asdict(retry_dead_letters(runtime.store))


def _import_osv(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Import `source`, a folder or zip file of OSV records, with `replace`; return the counts."""
    imported = osv.import_osv(
        runtime.store,
        Path(arguments["source"]),
        arguments["replace"],
        lambda read: show({"step": f"{read} records read."}),
    )
    return asdict(imported) | {"read": imported.read}


def _import_history(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Import `path` with `identities` (or None) under `source`; return the counts of ingest/history_import/pulls.py."""
    identities = Path(arguments["identities"]) if arguments["identities"] else None
    path, source = Path(arguments["path"]), arguments["source"]
    return asdict(
        pulls.import_past(runtime.store, path, identities, source, lambda read: show({"step": f"{read} rows read."}))
    )


def _remove_history(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Remove the imported history `source`; return how many pull requests were `removed`."""
    return {"removed": pulls.remove_past(runtime.store, arguments["source"])}


def _set_review(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Set the `review` of `repositories` from now on; return the repositories' `keys`."""
    return {"keys": watched.set_review(runtime.store, arguments["repositories"], arguments["review"])}


def _copy_state(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Copy `accounts` (a SQLite file) and the store to `folder`; return the values of ingest/backup/manifest.py."""
    return copy_state(
        runtime.store, Path(arguments["accounts"]), Path(arguments["folder"]), lambda step: show({"step": step})
    )


def _compact(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
    """Rewrite the store, compare it row by row, and publish it; return its bytes `before` and `after`."""
    store = runtime.store
    try:
        with store.publishing:
            store.checkpoint()
            before = store.path.stat().st_size
            show({"step": "The store is written anew and compared."})
            store.compact(checked=True)
            publish(store, runtime.folders.snapshots)
    except PublishProblem as problem:
        raise JobProblem(f"The store is compact, but not published yet: {problem}.") from problem
    return {"before": before, "after": store.path.stat().st_size}


def _with_job_problems(job: Job) -> Job:
    """Return the job with its known problems turned into JobProblem."""

    def run(runtime: Runtime, arguments: Values, show: Callable[[Values], None]) -> Values:
        try:
            return job(runtime, arguments, show)
        except (OwnerProblem, PastProblem, osv.ImportProblem, watched.UnknownRepository) as problem:
            raise JobProblem(str(problem)) from problem

    return run


_JOBS: Mapping[str, Job] = {
    "add_maintainer": _add_maintainer,
    "begin_backfill": _begin_backfill,
    "compact": _compact,
    "copy_state": _copy_state,
    "erase": _erase,
    "find_owned": _find_owned,
    "import_history": _import_history,
    "import_osv": _import_osv,
    "remove_history": _remove_history,
    "retry_dead_letters": _retry_dead_letters,
    "set_review": _set_review,
}
JOBS = {name: _with_job_problems(job) for name, job in _JOBS.items()}
