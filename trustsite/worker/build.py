"""Builds from the settings what the worker needs: places that erasure searches, hosts that a backfill asks."""

from django.conf import settings
from django.db import DatabaseError, connection

from ingest.backfill.account import Sources
from ingest.clock import Clock
from ingest.erasure.erase import Folders
from ingest.errors import StoreProblem
from ingest.http.fetcher import Fetcher
from ingest.records.registry import build_registry
from ingest.store.tombstones import Names
from triage.services import erasure as accounts


def folders_from_settings() -> Folders:
    """Return where a person may be told of besides the store."""
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
