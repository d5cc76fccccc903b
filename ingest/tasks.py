"""Huey tasks of the ingest hops. Each finds its work by asking the tables, so a lost task loses nothing."""

import time
from datetime import timedelta
from typing import Any

from huey import crontab
from huey.api import Task
from huey.signals import SIGNAL_ERROR, SIGNAL_INTERRUPTED

from ingest.erasure import erase
from ingest.errors import StoreProblem
from ingest.git.followups import mine_followups
from ingest.git.history import read_history
from ingest.git.landings import find_landings
from ingest.git.mirror import fetch_mirrors
from ingest.lookups.attestations import fetch_attestations
from ingest.lookups.engine import forget_future
from ingest.lookups.people import fetch_identities, fetch_profiles, fetch_push_holders, want_profile
from ingest.lookups.pull_numbers import read_pages
from ingest.lookups.rounds import compare_kept, fetch_patches, fetch_runs
from ingest.records import watched
from ingest.records.derive import derive
from ingest.records.pull_state import settle, settle_changed
from ingest.store.archive import archive
from ingest.stream.reread_letters import read_due_frames
from ingest.worker.jobs import JOBS, JobProblem
from ingest.worker.runtime import current, huey


@huey.task()
def derive_events() -> None:
    """Work off the event log, and let go of dead letters where there are too many."""
    runtime = current()
    if derive(runtime.store) + runtime.letters.keep():
        runtime.changed("derive_events")


@huey.task()
def ask_network() -> None:
    """Ask knots, PLC directory, handle domains and data servers what is due.

    Patches and CI only once the stream has caught up and every state is settled: else each one that was ever open
    would be asked for, and which ones would depend on how the stream was cut into batches.
    """
    runtime = current()
    store, fetcher, wall = runtime.store, runtime.fetcher, runtime.store.wall
    caught_up = not runtime.behind()
    found = watched.watch_everything(store, runtime.clock.now()) if runtime.watch_everything else 0
    found += fetch_push_holders(store, fetcher, wall, runtime.clock.now)
    found += fetch_identities(store, fetcher, runtime.plc_url, wall)
    if caught_up:
        settle_changed(store)
        now = runtime.clock.now()
        since = now - timedelta(days=runtime.followed_days)
        found += fetch_patches(store, fetcher, runtime.diff_folder, runtime.patch_limit, wall, since)
        found += compare_kept(store, fetcher, runtime.diff_folder)
        found += fetch_runs(store, fetcher, runtime.diff_folder, now, wall)
    found += fetch_attestations(store, fetcher, runtime.plc_url, runtime.clock.now(), wall)
    found += fetch_profiles(store, fetcher, runtime.bluesky_api, runtime.clock.now(), wall)
    if found:
        runtime.changed("ask_network")


@huey.task()
def follow_mirrors() -> None:
    """Bring the mirrors of watched repositories up to date: what landed, and what became of it.

    A hop of its own, since a first clone may take ten minutes and nothing else is to wait for it.
    """
    runtime = current()
    if runtime.behind():
        return
    store, fetcher, folder, now = runtime.store, runtime.fetcher, runtime.mirror_folder, runtime.clock.now
    found = fetch_mirrors(store, fetcher, folder, runtime.mirror_limits, store.wall, now)
    found += read_history(store, fetcher, folder, now)
    found += find_landings(store, fetcher, folder, runtime.diff_folder)
    settle(store)
    found += mine_followups(store, fetcher, folder, now, runtime.window_days)
    if found:
        runtime.changed("follow_mirrors")


@huey.task()
def look_at_person(did: str) -> None:
    """Somebody looks at a person: ask for what they declare of themselves elsewhere, where that is old or missing."""
    runtime = current()
    if want_profile(runtime.store, did, runtime.store.wall):
        runtime.changed("load")


@huey.periodic_task(crontab(minute="*"))
@huey.lock_task("number_pulls")
def number_pulls() -> None:
    """Once a minute look for the numbers of pull requests on the forge's site, for half a minute or so."""
    runtime = current()
    if runtime.appview_url and read_pages(runtime.store, runtime.fetcher, runtime.appview_url):
        runtime.changed("number_pulls")


@huey.task()
def run_job(name: str, arguments: dict[str, Any], reply: str) -> None:
    """Do what a command handed over; progress and outcome are put under `reply` for who asked."""
    runtime = current()
    try:
        done = JOBS[name](runtime, arguments, lambda told: huey.put(reply, {"progress": told}))
        with runtime.store.publishing:  # no stream brings it again if the log of changes is damaged before a publish
            runtime.store.checkpoint()
        huey.put(reply, {"done": done})
    except (JobProblem, StoreProblem) as problem:
        huey.put(reply, {"problem": str(problem)})
    runtime.changed("job")


@huey.signal(SIGNAL_ERROR, SIGNAL_INTERRUPTED)
def tell_of_failed_job(signal: str, task: Task, error: BaseException | None = None) -> None:
    """Tell who asked for a job that it ended by an error in the program, or with the worker."""
    if not isinstance(task, run_job.task_class):
        return
    job, _, reply = task.args
    if error is None:
        problem = f"The worker stopped in the middle of {job}: start it, then run this again."
    else:
        problem = (
            f"The worker failed at {job} by an error in the program ({type(error).__name__}): see the worker's log."
        )
    huey.put(reply, {"problem": problem})


@huey.periodic_task(crontab(minute="*/10"))
def archive_events() -> None:
    """Move what is old out of the store, so that its file, which every publish copies, stays small."""
    runtime = current()
    moved = archive(runtime.store, runtime.staging_folder, runtime.event_days, runtime.event_rows, runtime.clock.now())
    if moved:
        runtime.changed("archive_events")


@huey.task()
def erase_deleted() -> None:
    """Erase whoever's account is gone, and remove the bytes once they have waited a day."""
    runtime = current()
    if erase.erase_due(runtime.store, runtime.clock.now(), runtime.folders):
        runtime.changed("erase_deleted")
    erase.finish_due(runtime.store, runtime.folders)


@huey.periodic_task(crontab(minute="17"))
def drop_old_diffs() -> None:
    """Once an hour let go of diffs that are older than DIFF_DAYS, and of files that no row names."""
    runtime = current()
    erase.drop_old_diffs(runtime.store, runtime.diff_folder, runtime.clock.now(), runtime.diff_days)
    erase.drop_stray_diffs(runtime.store, runtime.diff_folder, time.time())


@huey.periodic_task(crontab(minute="*"))
def sweep() -> None:
    """Once a minute wake every hop: work that a kill or a failure left behind is found by asking the tables."""
    runtime = current()
    forget_future(runtime.store, runtime.store.wall())
    read_due_frames(runtime.store)
    runtime.changed("sweep")
