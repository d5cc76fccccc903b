"""Where a person may be told of besides the store: the drive's folders, and the web process's own tables.

What commands learn from: a file of past pull requests, or the newest snapshot.

What a backfill asks, from the settings.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection

from ingest.backfill.account import Sources
from ingest.clock import Clock, wall_now
from ingest.erasure.erase import Folders
from ingest.errors import StoreProblem
from ingest.history_import.files import PastProblem
from ingest.http.fetcher import Fetcher
from ingest.records.registry import build_registry
from ingest.store.snapshots import SnapshotReader
from ingest.store.tombstones import Names
from scoring.config.policy import policy_from_settings
from scoring.dataset.dataset import Material, material_of_file, read_material
from triage.services import erasure as accounts


def folders_from_settings() -> Folders:
    """Where a person may be told of besides the store."""
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
    """Take the person out of the web process's tables; a site where nobody signed in yet has none."""
    try:
        if "triage_person" not in connection.introspection.table_names():
            return 0
        gone = accounts.forget_account(names.did, names.handle)
        accounts.clear_traces()
        return gone
    except DatabaseError as problem:
        raise StoreProblem(f"the accounts of this site could not be searched ({problem}): run this again") from problem
    finally:
        connection.close()  # the worker's threads come and go


def material_of(file: Path | None) -> Material:
    """CommandError, in one sentence, where there is nothing to read."""
    policy = policy_from_settings()
    if file is not None:
        if not file.is_file():
            raise CommandError(f"{file} does not exist: name a file.", returncode=2)
        try:
            return material_of_file(file, settings.STAGING_DIR, wall_now(), policy)
        except PastProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            raise CommandError("Nothing was published yet: run the worker first, or name a FILE.", returncode=2)
        return read_material(snapshot, wall_now(), policy)


def starter_of(file: Path, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The starter file of a file of past pull requests, and its curve; CommandError, in one sentence, where there is
    none."""
    from scoring.models.base import FitProblem
    from scoring.training.starter import starter_of_file

    if not file.is_file():
        raise CommandError(f"{file} does not exist: name a file.", returncode=2)
    try:
        return starter_of_file(file, settings.STAGING_DIR, wall_now(), seed)
    except (FitProblem, PastProblem) as problem:
        raise CommandError(f"{str(problem).rstrip('.')}.", returncode=2) from problem


def sources(fetcher: Fetcher, clock: Clock) -> Sources:
    """The hosts that know which accounts keep our records, and every collection that is read."""
    return Sources(
        fetcher=fetcher,
        plc_url=settings.PLC_URL,
        hosts=tuple(settings.BACKFILL_HOSTS),
        collections=tuple(build_registry(settings.LEXICON_AUTHORITY).kinds),
        staging_dir=settings.STAGING_DIR,
        clock=clock,
    )
