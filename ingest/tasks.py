"""Huey tasks of the ingest hops. Each finds its work by asking the tables, so a lost task loses nothing."""

from huey import crontab

from ingest import backfill, enrich, watch
from ingest.derive import derive
from ingest.queue import huey
from ingest.runtime import current
from ingest.settle import settle
from ingest.store import StoreProblem


@huey.task()
def derive_events() -> None:
    """Work off the event log."""
    runtime = current()
    if derive(runtime.store):
        runtime.changed("derive_events")


@huey.task()
def ask_network() -> None:
    """Ask knots, PLC directory, handle domains and data servers what is due.

    Patches only once the stream has caught up and every state is settled: else each pull request that was ever open
    would be asked for, and which ones would depend on how the stream was cut into batches.
    """
    runtime = current()
    store, fetcher, wall = runtime.store, runtime.fetcher, runtime.store.wall
    caught_up = not runtime.behind()
    found = watch.watch_everything(store, runtime.clock.now()) if runtime.watch_everything else 0
    found += enrich.fetch_push_holders(store, fetcher, wall)
    found += enrich.fetch_identities(store, fetcher, runtime.plc_url, wall)
    if caught_up:
        settle(store)
        found += enrich.fetch_patches(store, fetcher, runtime.diff_folder, runtime.patch_limit, wall)
    if found:
        runtime.changed("ask_network")


@huey.task()
def add_maintainer(did: str, repositories: list[str], reply: str) -> None:
    """Record a maintainer and the repositories to watch; the outcome is put under `reply` for who asked."""
    runtime = current()
    try:
        names = backfill.make_known(runtime.store, runtime.fetcher, runtime.plc_url, runtime.clock, repositories)
        keys = watch.add_maintainer(runtime.store, did, names, runtime.clock.now())
        huey.put(reply, {"done": keys})
    except (watch.UnknownRepository, StoreProblem) as problem:
        huey.put(reply, {"problem": str(problem)})
    runtime.changed("add_maintainer")


@huey.periodic_task(crontab(minute="*"))
def sweep() -> None:
    """Once a minute wake every hop: work that a kill or a failure left behind is found by asking the tables."""
    current().changed("sweep")
