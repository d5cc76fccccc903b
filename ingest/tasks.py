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
from ingest.lookups.declared.facts import REGISTRIES, withdraw_all
from ingest.lookups.declared.people import Signers, fetch_declared, fetch_footprints
from ingest.lookups.declared.registries import Registries, fetch_registries
from ingest.lookups.declared.upstreams import fetch_upstreams
from ingest.lookups.engine import forget_future
from ingest.lookups.peers import fetch_peer_assessments
from ingest.lookups.people import fetch_identities, fetch_profiles, fetch_push_holders, want_person
from ingest.lookups.pull_numbers import read_pages
from ingest.lookups.rounds import compare_kept, fetch_patches, fetch_runs
from ingest.lookups.signatures import fetch_signatures, forget_signatures
from ingest.records import watched
from ingest.records.derive import derive
from ingest.records.pull_state import settle, settle_changed
from ingest.store.archive import archive
from ingest.stream.reread_letters import read_due_frames
from ingest.worker.jobs import JOBS, JobProblem
from ingest.worker.runtime import Runtime, current, huey


@huey.task()
def derive_events() -> None:
    """Process the event log, and drop dead letters if there are too many."""
    runtime = current()
    if derive(runtime.store) + runtime.letters.keep():
        runtime.changed("derive_events")


@huey.task()
def ask_network() -> None:
    """Ask knots, PLC directory, handle domains and data servers about everything that is due.

    Patches and CI only once the stream has caught up and every state is settled: otherwise each pull request that was
    ever open would be fetched, and the cut of the stream into batches would decide which ones.
    """
    runtime = current()
    store, fetcher, wall = runtime.store, runtime.fetcher, runtime.store.wall
    caught_up = not runtime.behind()
    asked_count = watched.watch_everything(store, runtime.clock.now()) if runtime.watch_everything else 0
    asked_count += fetch_push_holders(store, fetcher, wall, runtime.clock.now)
    asked_count += fetch_identities(store, fetcher, runtime.plc_url, wall)
    if caught_up:
        settle_changed(store)
        now = runtime.clock.now()
        settled_since = now - timedelta(days=runtime.followed_days)
        asked_count += fetch_patches(store, fetcher, runtime.diff_folder, runtime.patch_limit, wall, settled_since)
        asked_count += compare_kept(store, fetcher, runtime.diff_folder)
        asked_count += fetch_runs(store, fetcher, runtime.diff_folder, now, wall)
    asked_count += fetch_attestations(store, fetcher, runtime.plc_url, runtime.clock.now(), wall)
    asked_count += fetch_peer_assessments(store, fetcher, runtime.plc_url, runtime.clock.now(), wall)
    asked_count += fetch_profiles(store, fetcher, runtime.bluesky_api, runtime.clock.now(), wall)
    asked_count += _ask_declared(runtime)
    if asked_count:
        runtime.changed("ask_network")


def _ask_declared(runtime: Runtime) -> int:
    """Ask about what people declare beyond the forge, and drop what no longer stands; return how many that were."""
    store, fetcher, now, wall = runtime.store, runtime.fetcher, runtime.clock.now(), runtime.store.wall
    if not runtime.ask_declared:
        return withdraw_all(store)
    signers = Signers(runtime.claim_signers, runtime.plc_url)
    asked_count = fetch_declared(store, fetcher, signers, now, wall)
    asked_count += fetch_footprints(store, fetcher, now, wall)
    if runtime.ask_registries:
        asked_count += fetch_upstreams(store, fetcher, now, wall)
        return asked_count + fetch_registries(store, Registries(fetcher, runtime.contact, now), wall)
    return asked_count + withdraw_all(store, REGISTRIES)


@huey.task()
def follow_mirrors() -> None:
    """Update the mirrors of watched repositories: landed commits, and what happened to them later.

    This is a hop of its own, since a first clone may take ten minutes and nothing else should wait for it.
    """
    runtime = current()
    if runtime.behind():
        return
    store, fetcher, folder, now = runtime.store, runtime.fetcher, runtime.mirror_folder, runtime.clock.now
    changes = fetch_mirrors(store, fetcher, folder, runtime.mirror_limits, store.wall, now)
    changes += read_history(store, fetcher, folder, now)
    changes += _check_signatures(runtime)
    changes += find_landings(store, fetcher, folder, runtime.diff_folder)
    settle(store)
    changes += mine_followups(store, fetcher, folder, now, runtime.window_days)
    if changes:
        runtime.changed("follow_mirrors")


def _check_signatures(runtime: Runtime) -> int:
    """Read the signatures of open rounds, or forget all where no condition of the fast lane asks for them."""
    store = runtime.store
    if not runtime.check_signatures:
        return forget_signatures(store)
    return fetch_signatures(store, runtime.fetcher, runtime.mirror_folder, store.wall)


@huey.task()
def look_at_person(did: str) -> None:
    """Fetch what a person declares elsewhere because somebody opened their page, if it is old or missing."""
    runtime = current()
    if runtime.ask_declared and want_person(runtime.store, did, runtime.store.wall):
        runtime.changed("load")


@huey.periodic_task(crontab(minute="*"))
@huey.lock_task("number_pulls")
def number_pulls() -> None:
    """Look for the numbers of pull requests on the forge's site, once a minute for about half a minute."""
    runtime = current()
    if runtime.appview_url and read_pages(runtime.store, runtime.fetcher, runtime.appview_url):
        runtime.changed("number_pulls")


@huey.task()
def run_job(name: str, arguments: dict[str, Any], reply: str) -> None:
    """Run a job from a command; progress and outcome are stored under `reply` for the command."""
    runtime = current()
    try:
        result = JOBS[name](runtime, arguments, lambda progress: huey.put(reply, {"progress": progress}))
        with runtime.store.publishing:  # no stream brings it again if the WAL is damaged before a publish
            runtime.store.checkpoint()
        huey.put(reply, {"done": result})
    except (JobProblem, StoreProblem) as problem:
        huey.put(reply, {"problem": str(problem)})
    runtime.changed("job")


@huey.signal(SIGNAL_ERROR, SIGNAL_INTERRUPTED)
def tell_of_failed_job(signal: str, task: Task, error: BaseException | None = None) -> None:
    """Report to the command that its job ended by an error in the program, or with the worker."""
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
    """Move old events out of the store, so that its file, which every publish copies, stays small."""
    runtime = current()
    moved = archive(runtime.store, runtime.staging_folder, runtime.event_days, runtime.event_rows, runtime.clock.now())
    if moved:
        runtime.changed("archive_events")


@huey.task()
def erase_deleted() -> None:
    """Erase people whose account is gone, and remove the bytes once they have waited a day."""
    runtime = current()
    if erase.erase_due(runtime.store, runtime.clock.now(), runtime.folders):
        runtime.changed("erase_deleted")
    erase.finish_due(runtime.store, runtime.folders)


@huey.periodic_task(crontab(minute="17"))
def drop_old_diffs() -> None:
    """Drop diffs that are older than DIFF_DAYS, and files that no row names, once an hour."""
    runtime = current()
    erase.drop_old_diffs(runtime.store, runtime.diff_folder, runtime.clock.now(), runtime.diff_days)
    erase.drop_stray_diffs(runtime.store, runtime.diff_folder, time.time())


@huey.periodic_task(crontab(minute="*"))
def sweep() -> None:
    """Wake every hop once a minute: it finds work that a kill or a failure left behind by asking the tables."""
    runtime = current()
    forget_future(runtime.store, runtime.store.wall())
    read_due_frames(runtime.store)
    runtime.changed("sweep")
