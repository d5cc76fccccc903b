"""Hand work to the owner of the store: the running worker through the queue, or else this process itself.

Values for both come from the settings: the places of the drive's state, the folders that an erasure searches, and the
hosts that a backfill asks.
"""

import logging
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection

from ingest.backfill.account import Sources
from ingest.backup.manifest import Places
from ingest.backup.missing_store import require_store
from ingest.clock import Clock, WallClock
from ingest.erasure.erase import Folders
from ingest.errors import StoreProblem
from ingest.git.mirror import Limits
from ingest.http.fetcher import Fetcher
from ingest.oauth.dpop import DpopSender
from ingest.records.dead_letters import LetterBound
from ingest.records.registry import build_registry
from ingest.store.database import Store
from ingest.store.snapshots import PublishProblem, publish
from ingest.store.tombstones import Names
from ingest.tasks import run_job
from ingest.worker import runtime
from ingest.worker.jobs import JOBS, JobProblem
from ingest.worker.runtime import huey
from triage.access.oauth.sessions import revoke_all_of
from triage.models import OAuthSession
from triage.services import erasure as accounts
from trustsite import drive


def places_from_settings() -> Places:
    return Places(
        root=settings.ROOT,
        store=settings.DUCKDB_PATH,
        accounts=Path(settings.DATABASES["default"]["NAME"]),
        staging=settings.STAGING_DIR,
        diffs=settings.DIFF_CORPUS_DIR,
        models=settings.MODEL_DIR,
        keys=settings.ROOT / "keys",
        snapshots=settings.SNAPSHOT_DIR,
        caches=(settings.MIRROR_DIR, settings.PYG_ROOT),
    )


def folders_from_settings() -> Folders:
    return Folders(
        diffs=settings.DIFF_CORPUS_DIR,
        mirrors=settings.MIRROR_DIR,
        staging=settings.STAGING_DIR,
        models=settings.MODEL_DIR,
        graphs=settings.PYG_ROOT,
        logs=settings.LOG_DIR,
        snapshots=settings.SNAPSHOT_DIR,
        queue=settings.QUEUE_PATH,
        status=settings.STATUS_PATH,
        forget_account=_forget_account,
    )


def _forget_account(names: Names) -> int:
    """Remove the person from the web process's tables; a site where nobody signed in yet has none."""
    try:
        if "triage_person" not in connection.introspection.table_names():
            return 0
        _revoke_sessions(names.did)
        removed = accounts.forget_account(names.did, names.handle)
        accounts.clear_traces()
        return removed
    except DatabaseError as problem:
        raise StoreProblem(f"the accounts of this site could not be searched ({problem}): run this again") from problem
    finally:
        connection.close()  # the worker's threads come and go


def _revoke_sessions(did: str) -> None:
    """Tell the person's own server that their sessions here end, before what it takes to tell it is deleted."""
    if not OAuthSession.objects.filter(person__did=did).exists():
        return
    with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
        revoke_all_of(did, DpopSender(fetcher))


def sources(fetcher: Fetcher, clock: Clock) -> Sources:
    """Return the hosts that list the accounts with our records, and every collection that is read."""
    return Sources(
        fetcher=fetcher,
        plc_url=settings.PLC_URL,
        hosts=tuple(settings.BACKFILL_HOSTS),
        collections=tuple(build_registry(settings.LEXICON_AUTHORITY).kinds),
        staging_dir=settings.STAGING_DIR,
        clock=clock,
    )


log = logging.getLogger(__name__)

REPLY_SECONDS = 60.0
FOLLOWED_DAYS = settings.LABEL_WINDOW_DAYS + 30  # a merge's patch is needed during its window and for late reverts


def open_store() -> Store:
    """Own the store. Raises StoreProblem if that is impossible, or if it is missing and was there before."""
    if settings.PLACE.mode == "drive":
        require_store(settings.DUCKDB_PATH, settings.SNAPSHOT_DIR)
        try:
            drive.require_store_folder(settings.DUCKDB_PATH, settings.PLACE.root)
        except drive.DriveProblem as problem:
            raise StoreProblem(str(problem)) from problem
    return Store.open(
        settings.DUCKDB_PATH,
        registry=build_registry(settings.LEXICON_AUTHORITY, settings.PEERS),
        key=drive.key(settings.ROOT, "tombstones").encode(),
        memory_mb=settings.DUCKDB_MEMORY_MB,
    )


def hand_over_job(
    name: str,
    arguments: Mapping[str, Any],
    show: Callable[[Mapping[str, Any]], None] = lambda progress: None,
    silent_seconds: float = REPLY_SECONDS,
) -> Mapping[str, Any]:
    """Let the owner of the store do a job of ingest/worker/jobs.py; return its answer, or raise CommandError.

    `show` gets the job's progress; after `silent_seconds` without progress the job is given up. If no worker runs, this
    process owns the store during the job.
    """
    try:
        store = open_store()
    except StoreProblem as problem:
        if "held by process" not in str(problem):
            raise CommandError(str(problem)) from problem
        return ask_worker(name, arguments, show, silent_seconds)
    fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
    try:
        result = JOBS[name](make_runtime(store, fetcher, WallClock()), arguments, show)
        _publish(store)
        return result
    except (JobProblem, StoreProblem) as problem:
        raise CommandError(str(problem)) from problem
    finally:
        fetcher.close()
        store.close()


def make_runtime(
    store: Store,
    fetcher: Fetcher,
    clock: Clock,
    behind: Callable[[], bool] = lambda: False,
    changed: Callable[[str], None] = lambda hop: None,
    preparing: Callable[[], bool] = lambda: False,
) -> runtime.Runtime:
    return runtime.Runtime(
        store=store,
        fetcher=fetcher,
        clock=clock,
        plc_url=settings.PLC_URL,
        bluesky_api=settings.BLUESKY_API.rstrip("/"),
        appview_url=None if settings.STAND_IN_ORIGIN else settings.APPVIEW_URL.rstrip("/"),
        ask_advisories=settings.ASK_ADVISORIES,
        ask_declared=settings.ASK_DECLARED,
        claim_signers=frozenset(settings.CLAIM_SIGNERS),
        ask_registries=settings.ASK_REGISTRIES,
        check_signatures="signing" in settings.LANE_CONDITIONS,
        contact=settings.OPERATOR_CONTACT or settings.PUBLIC_ORIGIN,
        diff_folder=settings.DIFF_CORPUS_DIR,
        patch_limit=settings.PATCH_LIMIT_BYTES,
        mirror_folder=settings.MIRROR_DIR,
        mirror_limits=Limits(settings.MIRROR_LIMIT_BYTES, settings.MIRRORS_LIMIT_BYTES),
        window_days=settings.LABEL_WINDOW_DAYS,
        staging_folder=settings.STAGING_DIR,
        event_days=settings.EVENT_DAYS,
        event_rows=settings.EVENT_ROWS,
        followed_days=FOLLOWED_DAYS,
        watch_everything=settings.WATCH_EVERYTHING,
        backfill=sources(fetcher, clock),
        diff_days=settings.DIFF_DAYS,
        folders=folders_from_settings(),
        letters=LetterBound(store, settings.DEAD_LETTERS),
        behind=behind,
        changed=changed,
        preparing=preparing,
    )


def _publish(store: Store) -> None:
    """Publish; if that fails, the records stay and the next worker publishes them."""
    try:
        publish(store, settings.SNAPSHOT_DIR)
    except PublishProblem as problem:
        log.warning("Recorded, but not published yet: %s", problem)


def ask_worker(
    name: str,
    arguments: Mapping[str, Any],
    show: Callable[[Mapping[str, Any]], None] = lambda progress: None,
    silent_seconds: float = REPLY_SECONDS,
) -> Mapping[str, Any]:
    """Let the running worker do a job that only it can do; otherwise like `hand_over_job`."""
    try:
        return _queue_and_wait(name, arguments, show, silent_seconds)
    except sqlite3.DatabaseError as problem:  # the queue's file is damaged
        raise CommandError(str(problem)) from problem


def _queue_and_wait(
    name: str, arguments: Mapping[str, Any], show: Callable[[Mapping[str, Any]], None], silent_seconds: float
) -> Mapping[str, Any]:
    reply = f"reply:{uuid.uuid4().hex}"
    run_job(name, dict(arguments), reply)
    deadline = time.monotonic() + silent_seconds
    while time.monotonic() < deadline:
        answer = huey.get(reply) or {}
        if "problem" in answer:
            raise CommandError(answer["problem"])
        if "done" in answer:
            return answer["done"]
        if "progress" in answer:
            show(answer["progress"])
            deadline = time.monotonic() + silent_seconds
        time.sleep(0.1)
    raise CommandError(f"The worker did not answer within {silent_seconds:.0f} s: see its log, then run this again.")
