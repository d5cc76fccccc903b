"""Run times of structural trust, EigenTrust and paths on random graphs: `python -m tests.bench.bench_trust`.

One line of JSON for each size; seconds of wall time, the best of three. Goals: first passage at most .2 s at
20,000 people / 100,000 vouches and 3 s at 100,000 / 500,000; paths at most 1 s at 20,000 / 100,000.
"""

import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from scoring.eigentrust import eigentrust
from scoring.graph import Edges
from scoring.paths import strongest_paths
from scoring.trust import Parameters, first_passage

SIZES = ((20_000, 100_000), (100_000, 500_000))


def popular_graph(size: int, vouches: int) -> Edges:
    """Vouches between people some of whom are far more active and far better known than most."""
    draw = np.random.default_rng(size)
    voucher, subject = ((draw.random(vouches) ** 4 * size).astype(np.int64) for _ in range(2))
    return Edges(voucher, subject, draw.uniform(0.2, 1.0, vouches))


def seconds(task: Callable[[], object]) -> float:
    """The shortest of three runs."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return round(min(times), 4)


def main() -> None:
    """Print the figures."""
    flow, seeds = Parameters(), np.arange(50)
    for size, vouches in SIZES:
        edges = popular_graph(size, vouches)
        once = first_passage(edges, seeds, size, flow)
        figures = {
            "people": size,
            "vouches": vouches,
            "reached": int((once.distance > 0).sum()),
            "first_passage_s": seconds(partial(first_passage, edges, seeds, size, flow)),
            "eigentrust_s": seconds(partial(eigentrust, edges, seeds, size)),
            "strongest_paths_s": seconds(partial(strongest_paths, edges, seeds, size, flow)),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
