"""Server time of the pages that stay open all day, on a full store: `python -m tests.bench.bench_pages [SETS [PULLS]]`.

One line of JSON a page: the median of 20 requests in milliseconds of wall and of CPU time, the first request after a
new snapshot (nothing of it is kept yet), the CPU time of that one where the snapshot was prepared before, as the site
does once any request has met it, kilobytes sent, and the median of an empty Django page behind the same
middleware. Goals at 5,000 open pull requests and 100,000 contributors: 50 ms and 150 kB for the queue's first page,
20 ms for a row that opens, 100 ms for the dashboard.

SETS copies of the simulated network's 50 people, PULLS of which bring their 51 open pull requests.
"""

import json
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import django
from django.conf import settings

from ingest.store.snapshots import Snapshot, publish
from scoring.handlers.settings import switch_shadow
from scoring.queries import read
from scoring.thresholds import Thresholds
from tests.bench.filled_store import fill
from tests.pipeline import UNAUDITED, opened, run
from trustsite.world import build_world

if TYPE_CHECKING:
    from django.test import Client

DEFAULTS = (2_130, 99)
REPOSITORIES, RECORDS, TIMES = 9, 100_000, 20
POLICY = replace(UNAUDITED, thresholds=Thresholds(t_high=0.8))
HTMX = {"HX-Request": "true"}


class Page(NamedTuple):
    """What is asked, and of what htmx tells where it asks."""

    name: str
    address: str
    headers: dict[str, str]


def fill_site(folder: Path, sets: int, pulls: int) -> Path:
    """Publish the store that is read; the folder of its snapshots."""
    world = build_world()
    with run(world.recording, folder, world.watched.values(), [world.cast["ana"]], world.stages):
        pass
    fill(folder / "trust.duckdb", sets, REPOSITORIES, RECORDS, pulls)
    with opened(folder, POLICY) as result:
        for key in world.watched.values():
            switch_shadow(result.store, key, False, result.value("select max(seen_at) from pull_requests"))
        result.judge()
        publish(result.store, folder / "snapshots")
    return folder / "snapshots"


def signed_in() -> "Client":
    """A maintainer of the whole site, who is offered every button."""
    from django.test import Client

    from triage.models import Maintainer, Person

    person, _ = Person.objects.get_or_create(did="did:plc:viewerviewerviewerviewer")
    Maintainer.objects.get_or_create(person=person, repo_key="", role="maintainer")
    client = Client()
    client.force_login(person)
    return client


def forget() -> None:
    """Forget what is kept of the newest snapshot, as a newer one makes the site do."""
    from ingest.store.snapshots import PerSnapshot
    from scoring.pipeline import stored
    from scoring.queries import rounds
    from scoring.queries.people import trust
    from triage import context
    from triage.presenters.queue import queue as as_shown

    context._newest = None
    as_shown._queues, as_shown._approved, as_shown._changed = PerSnapshot(), PerSnapshot(), PerSnapshot()
    rounds._repositories, trust._graphs = PerSnapshot(), PerSnapshot(1)
    stored._cached_people = PerSnapshot(stored.CACHED_PEOPLE)
    for key in list(trust._kept):  # of a snapshot before
        trust._kept[(0, *key[1:])] = trust._kept.pop(key)


def addresses(client: "Client") -> list[Page]:
    """The pages, with a row and a person that the queue shows."""
    shown = client.get("/").content.decode()
    link = re.findall(r'hx-get="(/\?open=[^"]*)"', shown)[0]
    row = {"HX-Target": "open", "HX-Current-URL": "http://testserver/"}
    pull = f"/pull/{unquote(link.partition('=')[2])}"
    person = re.findall(r"at://(did:[^/]*)/", pull)[0]
    return [
        Page("an empty Django page", "/empty", {}),
        Page("queue, first page", "/", {}),
        Page("queue, a filter by htmx", "/?bucket=normal_queue", HTMX),
        Page("queue, a search by htmx", "/?q=cache", HTMX),
        Page("queue, a row opens", unescape(link), HTMX | row),
        Page("pull request", pull, {}),
        Page("dashboard", "/dashboard", {}),
        Page("leaderboard", "/leaderboard", {}),
        Page("contributor", f"/c/{person}", {}),
    ]


def measured(client: "Client", page: Page) -> dict[str, object]:
    """The figures of one page."""
    forget()
    took: list[tuple[float, float]] = []
    sent = 0
    for _ in range(TIMES + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = client.get(page.address, headers=page.headers)
        took.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
        assert answer.status_code == 200, page
        sent = len(answer.content)
    walls, cpus = zip(*took[1:], strict=True)
    median = {"wall_ms": statistics.median(walls), "cpu_ms": statistics.median(cpus)}
    median |= {"first_ms": took[0][0], "prepared_cpu_ms": prepared(client, page)}
    told = {name: round(value, 1) for name, value in median.items()}
    return {"page": page.name, **told, "kb": round(sent / 1000, 1)}


def prepared(client: "Client", page: Page) -> float:
    """Milliseconds of CPU of the first request after a new snapshot that was prepared."""
    from triage.http_cache import prepare
    from triage.middleware import snapshot_reader

    forget()
    with snapshot_reader().pin() as snapshot:
        assert snapshot is not None
        prepare(snapshot)
    began = time.process_time()
    client.get(page.address, headers=page.headers)
    return (time.process_time() - began) * 1000


def size_of(snapshot: Snapshot) -> dict[str, object]:
    """How much the store holds."""
    board = read.dashboard(snapshot)
    return {"open": sum(board.lanes.values()) + board.own, "contributors": board.contributors, "vouches": board.vouches}


def main() -> None:
    """Fill, then print the figures."""
    given = [int(argument) for argument in sys.argv[1:]]
    sets, pulls = (*given, *DEFAULTS[len(given) :])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    django.setup()
    from django.core.management import call_command

    from triage.middleware import snapshot_reader

    call_command("migrate", verbosity=0, interactive=False)
    with tempfile.TemporaryDirectory(dir=settings.ROOT) as folder:
        began = time.monotonic()
        settings.SNAPSHOT_DIR = fill_site(Path(folder), sets, pulls)
        settings.STREAM_CLOCK, settings.ALLOWED_HOSTS, settings.ROOT_URLCONF = True, ["*"], "tests.bench.empty_page"
        with snapshot_reader().pin() as snapshot:
            assert snapshot is not None
            print(json.dumps(size_of(snapshot) | {"prepared_s": round(time.monotonic() - began)}), flush=True)
        client = signed_in()
        for page in addresses(client):
            print(json.dumps(measured(client, page)), flush=True)


if __name__ == "__main__":
    main()
