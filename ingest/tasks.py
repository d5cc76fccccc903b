"""Huey tasks of the ingest hops. Each finds its work by asking the tables, so a lost task loses nothing."""

from huey import crontab

from ingest import enrich, watch
from ingest.derive import derive
from ingest.queue import huey
from ingest.runtime import current
from ingest.store import StoreProblem


@huey.task()
def derive_events() -> None:
    """Work off the event log."""
    runtime = current()
    with runtime.lock("derive"):
        while derive(runtime.store):
            if runtime.watch_everything:
                watch.watch_everything(runtime.store, runtime.clock.now())
            runtime.changed("derive_events")


@huey.task()
def ask_network() -> None:
    """Ask knots, PLC directory, handle domains and data servers what is due; patches once the stream has caught up."""
    runtime = current()
    store, fetcher, wall = runtime.store, runtime.fetcher, runtime.store.wall
    with runtime.lock("network"):
        found = enrich.fetch_push_holders(store, fetcher, wall)
        found += enrich.fetch_identities(store, fetcher, runtime.plc_url, wall)
        if not runtime.behind():
            found += enrich.fetch_patches(store, fetcher, runtime.diff_folder, runtime.patch_limit, wall)
    if found:
        runtime.changed("ask_network")


@huey.task()
def add_maintainer(did: str, repositories: list[str], reply: str) -> None:
    """Record a maintainer and the repositories to watch; the outcome is put under `reply` for who asked."""
    runtime = current()
    try:
        keys = watch.add_maintainer(runtime.store, did, repositories, runtime.clock.now())
        huey.put(reply, {"done": keys})
    except (watch.UnknownRepository, StoreProblem) as problem:
        huey.put(reply, {"problem": str(problem)})
    runtime.changed("add_maintainer")


@huey.periodic_task(crontab(minute="*"))
def sweep() -> None:
    """Once a minute wake every hop: work that a kill or a failure left behind is found by asking the tables."""
    current().changed("sweep")
