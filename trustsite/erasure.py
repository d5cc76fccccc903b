"""Where a person may be told of besides the store: the drive's folders, and the web process's own tables."""

from django.conf import settings
from django.db import DatabaseError, connection

from ingest.erase import Folders
from ingest.mentions import Names
from ingest.unopened import StoreProblem
from triage import erasure as accounts


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
