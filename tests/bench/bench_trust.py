"""Run times of structural trust on random graphs: `python -m tests.bench.bench_trust`, with DATA_ROOT a marked folder.

One line of JSON for each measure; seconds of wall time, the best of three. Goals: first passage and EigenTrust at most
.2 s each at 20,000 people / 100,000 vouches, first passage 3 s at 100,000 / 500,000; at most 50 ms a seed set after one
vouch; and at 1,000,000 / 10,000,000, once the matrix is in memory, 1 s and a fifth of igraph's personalised PageRank.
"""

import json
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import igraph
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph  # noqa: F401

from ingest.store.database import Store
from scoring.config.policy import Parameters, Policy
from scoring.trust.first_passage import (
    eigentrust,
    first_passage,
    passage_along,
    transfers_within,
)
from scoring.trust.graph import Edges, Network, prepare
from scoring.trust.incremental import SeedSetTrust, replace_vouches
from scoring.trust.table import read_graph
from tests.scoring.trust.graphs import strongest_paths
from trustsite.settings import DATA_ROOT

FLOW = Parameters()
SIZES = ((20_000, 100_000), (100_000, 500_000))
LARGE = (1_000_000, 10_000_000)
WORLD = """
insert into contributors
  select 'did:plc:' || lpad(i::varchar, 24, '0'), i, null, null, false, null, null, 'active', null
  from range(1, {people} + 1) t(i);
insert into vouches
  select 1 + floor({people} * random() ** 4), 1 + floor({people} * random() ** 4), 'vouch', null, '[]', null,
    timestamp '2026-01-01' + to_minutes(i), timestamp '2026-01-01' + to_minutes(i), null, null, i
  from range({vouches}) t(i);
"""


def popular_graph(size: int, vouches: int, activity: int = 4) -> Edges:
    """Vouches between people some of whom are far more active (the more, the higher `activity`) and better known."""
    draw = np.random.default_rng(size)
    voucher, subject = ((draw.random(vouches) ** power * size).astype(np.int64) for power in (activity, 4))
    return Edges(voucher, subject, draw.uniform(0.2, 1.0, vouches))


def large_network() -> tuple[Network, np.ndarray]:
    """The large graph and 50 seeds drawn from everybody.

    Activity 2 makes its busiest person vouch for 10,000 others (4 would make it 316,000); the best known one has
    270,000 vouchers. All weights are 1: so igraph may take its faster way.
    """
    edges = popular_graph(*LARGE, activity=2)
    seeds = np.random.default_rng(1).choice(LARGE[0], 50, replace=False)
    return prepare(Edges(edges.voucher, edges.subject, np.ones(LARGE[1])), LARGE[0]), seeds


def seconds(task: Callable[[], object], runs: int = 3) -> float:
    """The shortest of a few runs."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return round(min(times), 4)


def cpu_seconds(task: Callable[[], object]) -> float:
    """Processor time of one run: what a machine that does nothing else would take."""
    started = time.process_time()
    task()
    return round(time.process_time() - started, 3)


def peak_mb() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure_runs(size: int, vouches: int) -> dict[str, object]:
    """Each measure from edges as they come, and first passage once the edges are prepared."""
    edges, seeds = popular_graph(size, vouches), np.arange(50)
    network = prepare(edges, size)
    return {
        "people": size,
        "vouches": vouches,
        "reached": int((first_passage(edges, seeds, size, FLOW).distance > 0).sum()),
        "first_passage_s": seconds(partial(first_passage, edges, seeds, size, FLOW)),
        "first_passage_prepared_s": seconds(lambda: passage_along(transfers_within(network, seeds, FLOW), FLOW)),
        "eigentrust_s": seconds(partial(eigentrust, edges, seeds, size)),
        "strongest_paths_s": seconds(partial(strongest_paths, edges, seeds, size, FLOW)),
    }


def measure_updates(size: int, vouches: int, sets: int = 50, rounds: int = 10) -> dict[str, object]:
    """What one more vouch costs each of 50 seed sets of five, the share of working it into the network included."""
    draw, network = np.random.default_rng(2), prepare(popular_graph(size, vouches), size)
    silence = prepare(Edges(*(np.zeros(0, dtype=np.int64) for _ in range(2)), np.zeros(0)), size)
    standings = [
        SeedSetTrust.compute(network, silence, draw.choice(size // 4, 5, replace=False), FLOW) for _ in range(sets)
    ]
    spent, again, busy = [], 0, time.process_time()
    for _ in range(rounds):
        voucher, subject = draw.choice(network.voucher, 1), draw.choice(size, 1)
        row = network.places(voucher)
        said = Edges(
            np.append(network.voucher[row], voucher),
            np.append(network.subject[row], subject),
            np.append(network.weight[row], 1.0),
        )
        started = time.perf_counter()
        network = replace_vouches(network, voucher, said)
        share = (time.perf_counter() - started) / sets
        for place, standing in enumerate(standings):
            started = time.perf_counter()
            standings[place] = standing.after(network, silence, voucher)
            spent.append(share + time.perf_counter() - started)
            again += standings[place] is not standing
    told = {"mean": np.mean(spent), "median": np.median(spent), "worst": np.max(spent)}
    figures: dict[str, object] = {"seed_sets": sets, "run_again": round(again / len(spent), 2)}
    figures["update_cpu_ms"] = round(1000 * (time.process_time() - busy) / len(spent), 2)
    return figures | {f"update_{name}_ms": round(1000 * float(value), 2) for name, value in told.items()}


def measure_reading(size: int, vouches: int) -> dict[str, object]:
    """Reading the edges from DuckDB, people numbered and weights decayed, and preparing them."""
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb")
        with store.write() as txn:
            for statement in WORLD.format(people=size, vouches=vouches).split(";\n"):
                if statement.strip():
                    txn.execute(statement)
        with store.read() as rows:
            read = partial(read_graph, rows, datetime(2027, 1, 1), Policy(half_life_days=365.0))
            edges, spent = read().edges, seconds(read)
        store.close()
    return {"people": size, "vouches": vouches, "read_s": spent, "prepare_s": seconds(partial(prepare, edges, size))}


def measure_large() -> tuple[dict[str, object], np.ndarray]:
    """First passage and EigenTrust at a million people; the shares of EigenTrust, to compare."""
    started = time.perf_counter()
    network, seeds = large_network()
    figures: dict[str, object] = {"people": LARGE[0], "vouches": len(network.subject)}
    figures["make_and_prepare_s"] = round(time.perf_counter() - started, 2)

    def run() -> object:
        return passage_along(transfers_within(network, seeds, FLOW), FLOW)

    figures |= {"first_passage_s": seconds(run), "first_passage_cpu_s": cpu_seconds(run)}
    figures["first_passage_peak_mb"] = peak_mb()
    walk = partial(eigentrust, Edges(network.voucher, network.subject, network.weight), seeds, network.size)
    figures["eigentrust_s"] = seconds(walk, runs=2)
    figures |= {"eigentrust_cpu_s": cpu_seconds(walk), "eigentrust_peak_mb": peak_mb()}
    return figures, walk()


def measure_igraph() -> tuple[dict[str, object], np.ndarray]:
    """igraph's personalised PageRank on the same graph."""
    network, seeds = large_network()
    started = time.perf_counter()
    pairs = np.column_stack([network.voucher, network.subject])
    graph = igraph.Graph(n=network.size, edges=pairs, directed=True)
    figures: dict[str, object] = {"igraph_build_s": round(time.perf_counter() - started, 2)}
    run = partial(graph.personalized_pagerank, damping=0.85, reset_vertices=seeds.tolist())
    figures |= {"igraph_s": seconds(run, runs=2), "igraph_cpu_s": cpu_seconds(run), "igraph_peak_mb": peak_mb()}
    return figures, np.array(run())


def main() -> None:
    """Print the figures."""
    for size, vouches in SIZES:
        print(json.dumps(measure_runs(size, vouches)), flush=True)
    print(json.dumps(measure_updates(*SIZES[0])), flush=True)
    print(json.dumps(measure_reading(*SIZES[0])), flush=True)
    # Each in a process of its own, so that the peak of memory is its own.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as alone:
        (ours, shares), (theirs, ranks) = (alone.submit(task).result() for task in (measure_large, measure_igraph))
    print(json.dumps(ours | theirs | {"difference_l1": float(np.abs(shares - ranks).sum())}))


if __name__ == "__main__":
    main()
