"""What of a new snapshot is computed before somebody asks for it: the frame, the queue's first page, trust."""

from ingest import preparing
from ingest.snapshot import Snapshot
from scoring.policy import policy_from_settings
from scoring.read import renew
from triage import as_shown
from triage.context import dashboard_of
from triage.middleware import snapshot_reader


def prepare(snapshot: Snapshot) -> None:
    """What every page's frame, the queue as it opens, and the rows of the seed sets that were asked for last take."""
    dashboard_of(snapshot)
    as_shown.prepare(snapshot)
    renew(snapshot, policy_from_settings())


def start_preparing() -> None:
    """Do so for each new snapshot from now on."""
    preparing.start(preparing.Preparer(snapshot_reader(), prepare))
