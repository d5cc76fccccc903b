"""Times pages and JSON while the worker ingests at full speed: `python -m tests.bench.bench_serving`.

Reports; the test of the same name in tests/trustsite asserts that every answer is 200.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from tests.trustsite.busy import busy_site, get

REQUESTS, PULLS = 500, 100_000


def main() -> None:
    """500 requests each, one after another, on one connection a request."""
    with tempfile.TemporaryDirectory() as folder, busy_site(Path(folder), PULLS) as (port, did):
        for name, path in (("/score/{did}", f"/score/{did}"), ("/", "/")):
            took = [_timed(port, path) for _ in range(REQUESTS)]
            median, slow = np.percentile(took, [50, 99])
            print(f"{name}: {REQUESTS} answers, p50 {median:.1f} ms, p99 {slow:.1f} ms, longest {max(took):.0f} ms")


def _timed(port: int, path: str) -> float:
    began = time.perf_counter()
    status, _ = get(port, path)
    assert status == 200
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
