"""From a frame to its row on a page: `python -m tests.bench.bench_decisions [PEOPLE [PULLS [FRAMES [BURST [TIMES]]]]]`.

One line of JSON: median and worst seconds from the moment a frame of a new pull request goes out over a loopback
Jetstream until its page answers over HTTP with the deterministic review in it, and seconds until a burst is decided,
reviewed and published. Worker and web are processes of their own; DATA_ROOT is a folder with room, made where missing.

TIMES puts so many copies of what the recording left beside it and fills the event log (tests/bench/filled_store.py):
`2000 500 20 200 30` is a store of about 500 MB with 62,000 people, 15,500 pull requests and 40 watched repositories.
Both processes then start anew, so the first frame is the first of a worker that begins on a filled store.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.filled_store import fill
from tests.trustsite.demo.live_site import LiveSite, decided, live_site
from tests.waiting import wait_for
from trustsite.settings import DATA_ROOT

DEFAULTS = (20_000, 5_000, 20, 200, 0)
COPIED_REPOSITORIES = 9  # times those of the recording
RECORDS = 980_000  # small records of a network: together with the others just below EVENT_ROWS


def prepare(root: Path, people: int, pulls: int, news: int, times: int) -> None:
    """Make the store that is measured: what the recording leaves, copied, with everybody judged."""
    with live_site(root, people, pulls, news):
        pass
    fill(root / "duckdb" / "trust.duckdb", times, COPIED_REPOSITORIES, RECORDS)
    with live_site(root, people, pulls, news):
        pass


def measure(site: LiveSite, frames: int, burst: int) -> dict[str, object]:
    """Seconds of so many frames one by one, and of the others at once."""
    taken = [round(site.seconds_until_shown(number), 2) for number in range(frames)]
    news = site.uris[frames:]
    began = time.monotonic()
    site.release(frames + burst)
    wait_for(lambda: decided(site.root, news) == burst, 300)
    return {
        "store_mb": (site.root / "duckdb" / "trust.duckdb").stat().st_size // 1_000_000,
        "median_s": statistics.median(taken),
        "first_s": taken[0],
        "worst_s": max(taken),
        "taken_s": taken,
        "burst": burst,
        "burst_s": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Print the figures."""
    given = [int(argument) for argument in sys.argv[1:]]
    people, pulls, frames, burst, times = (*given, *DEFAULTS[len(given) :])
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        root, began = Path(folder) / "site", time.monotonic()
        if times:
            prepare(root, people, pulls, frames + burst, times)
        with live_site(root, people, pulls, frames + burst) as site:
            figures: dict[str, object] = {"people": people * (times + 1), "pulls": pulls * (times + 1)}
            figures |= {"prepared_s": round(time.monotonic() - began), "load": round(os.getloadavg()[0], 1)}
            figures |= measure(site, frames, burst)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
