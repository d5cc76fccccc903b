"""The parts that the worker's tasks use: set once by the worker, found here by every package's tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ingest.backfill.account import Sources
from ingest.clock import Clock
from ingest.erasure.erase import Folders
from ingest.files import require_place
from ingest.git.mirror import Limits
from ingest.http.fetcher import Fetcher
from ingest.records.dead_letters import LetterBound
from ingest.store.database import Store


@dataclass(frozen=True, slots=True)
class Runtime:
    """The worker's store, its way to the network and its clock.

    `behind` says whether the stream is still catching up: what costs look-ups for each open pull request waits for it.
    `changed` says that a hop has written something: the hops that read it are woken, the publisher too. `preparing`
    says that a hop is at work after which judging has more to judge.
    """

    store: Store
    fetcher: Fetcher
    clock: Clock
    plc_url: str
    bluesky_api: str
    appview_url: str | None  # None: pull requests have no number
    ask_advisories: bool  # whether OSV and deps.dev may be told which packages pull requests name
    diff_folder: Path
    patch_limit: int
    mirror_folder: Path
    mirror_limits: Limits
    window_days: int  # a merge whose lines stay quiet that long was clean
    staging_folder: Path
    event_days: float
    event_rows: int
    followed_days: int  # a merge is watched for what follows that long
    diff_days: int
    folders: Folders
    letters: LetterBound
    watch_everything: bool
    backfill: Sources
    behind: Callable[[], bool]
    changed: Callable[[str], None]
    preparing: Callable[[], bool] = lambda: False


_current: list[Runtime] = []


def start(runtime: Runtime) -> None:
    """Make this the runtime of the process."""
    _current[:] = [runtime]


def stop() -> None:
    """No runtime any more."""
    _current.clear()


def current() -> Runtime:
    """The runtime of this process; LookupError outside a worker, StoreProblem while the drive is gone."""
    if not _current:
        raise LookupError("this runs in the worker only")
    require_place(_current[0].store.path)
    return _current[0]
