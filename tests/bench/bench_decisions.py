"""From a frame to its row on a page: `python -m tests.bench.bench_decisions [PEOPLE [PULLS [FRAMES [BURST]]]]`.

One line of JSON: median and worst seconds from the moment a frame of a new pull request goes out over a loopback
Jetstream until its page answers over HTTP with the deterministic review in it, and seconds until a burst is decided,
reviewed and published. Worker and web are processes of their own; DATA_ROOT is a folder with room, made where missing.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.trustsite.live_site import decided, live_site
from tests.waiting import wait_for
from trustsite.settings import DATA_ROOT

DEFAULTS = (20_000, 5_000, 20, 200)


def main() -> None:
    """Print the figures."""
    given = [int(argument) for argument in sys.argv[1:]]
    people, pulls, frames, burst = (*given, *DEFAULTS[len(given) :])
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        root = Path(folder) / "site"
        with live_site(root, people, pulls, frames + burst) as site:
            taken = [round(site.seconds_until_shown(number), 2) for number in range(frames)]
            news = site.uris[frames:]
            began = time.monotonic()
            site.release(frames + burst)
            wait_for(lambda: decided(root, news) == burst, 300)
            figures = {
                "people": people,
                "pulls": pulls,
                "store_mb": (root / "duckdb" / "trust.duckdb").stat().st_size // 1_000_000,
                "median_s": statistics.median(taken),
                "worst_s": max(taken),
                "taken_s": taken,
                "burst": burst,
                "burst_s": round(time.monotonic() - began, 1),
            }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
