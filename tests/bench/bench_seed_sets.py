"""Run times of a pass over many seed sets: `python -m tests.bench.bench_seed_sets [SETS]`, DATA_ROOT a marked folder.

A line of JSON for one seed set, then one for each pass: the first over 1,000 watched repositories with three
maintainers each, drawn from everybody, 100,000 people, 1,000,000 vouches and 10,000 open pull requests, and those after
one more vouch: by somebody without any vouch, by somebody drawn, and by a seed. Seconds of wall time and of CPU, the
part of it up to the written rows of `trust`, how many rows were written, how many there are, and the most memory held.
Goals: 60 s and 2 GB; 2 s.
"""

import json
import resource
import sys
import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ingest.store.database import Store
from scoring.config.policy import Policy
from scoring.trust.bounded import prepare_incoming
from scoring.trust.graph import Edges, prepare
from scoring.trust.table import Graph, few_columns, passage_columns, site_share
from tests.bench.bench_scoring import NEW, NOW, judged, vouch
from tests.bench.bench_trust import cpu_seconds, popular_graph
from trustsite.settings import DATA_ROOT

PEOPLE, VOUCHES, PULLS, MAINTAINERS = 100_000, 1_000_000, 10_000, 3
SETTING = (
    """insert into contributors select 'did:plc:p' || i, i, null, null, false, null, null, 'active', null
    from range(1, $people + 1) t(i)""",
    """insert into repositories (repo_key, repository_id, owner_id) select 'did:plc:r' || i, i, null
    from range(1, $sets + 1) t(i)""",
    "insert into watched_repositories select i, 'off', timestamp '2026-01-01' from range(1, $sets + 1) t(i)",
)
GIVEN = """
insert into vouches by name select voucher + 1 as voucher_id, subject + 1 as subject_id, 'vouch' as kind,
  '[]' as evidences,
  timestamp '2026-06-01 12:00' - to_hours(row_number() over () % 26000) as written_at, written_at as seen_at,
  row_number() over () as event_seq
from (select distinct voucher, subject from incoming where voucher <> subject order by all)
"""
OFFERED = """
insert into pull_requests by name select 'at://did:plc:p' || author || '/sh.tangled.repo.pull/' || number as pull_uri,
  author as author_id, repository as repository_id, 'A change' as title, '' as body, 'rounds' as record_form,
  0 as round, 1 as round_count, timestamp '2026-05-01' as opened_at, opened_at as seen_at, opened_at as changed_at,
  'open' as state
from incoming
"""


def fill(store: Store, sets: int) -> None:
    """The graph of bench_trust as records, aged up to three years; maintainers and authors drawn from everybody."""
    edges, draw = popular_graph(PEOPLE, VOUCHES), np.random.default_rng(26)
    numbers, everybody = np.arange(1, sets + 1), np.arange(1, PEOPLE + 1)
    maintainers = np.concatenate([draw.choice(everybody, MAINTAINERS, replace=False) for _ in numbers])
    pulls = {"number": np.arange(PULLS), "author": draw.choice(everybody, PULLS)}
    with store.write() as txn:
        for statement in SETTING:
            names = {"people": PEOPLE, "sets": sets}
            txn.execute(statement, {name: value for name, value in names.items() if f"${name}" in statement})
        seats = {"contributor_id": maintainers, "repository_id": np.repeat(numbers, MAINTAINERS)}
        with txn.registered(pa.table(seats)):
            txn.execute("insert into maintainers by name select * from incoming")
        with txn.registered(pa.table({"voucher": edges.voucher, "subject": edges.subject})):
            txn.execute(GIVEN)
        with txn.registered(pa.table(pulls | {"repository": draw.choice(numbers, PULLS)})):
            txn.execute(OFFERED)
        txn.inputs_changed()


def measure_one_set(sets: int = 10) -> dict[str, object]:
    """Milliseconds of CPU of a seed set drawn from everybody: ten people's first passage, everybody's; of the walk."""
    size, draw, policy, none = PEOPLE, np.random.default_rng(4), Policy(), np.zeros(0, dtype=np.int64)
    numbers, silence = np.arange(size), Edges(none, none, np.zeros(0))
    vouches = prepare(popular_graph(size, VOUCHES), size)
    graph = Graph(numbers, numbers, vouches, prepare(silence, size), silence, silence, numbers[:MAINTAINERS])
    incoming = prepare_incoming(graph.vouches, graph.denounces, policy.parameters)
    spent = dict.fromkeys(("few_ms", "everybody_ms", "walk_ms"), 0.0)
    few_columns(graph, incoming, [0], [1], policy)  # what is imported at the first call does not count
    for _ in range(sets):
        seeds, people = draw.choice(size, MAINTAINERS, replace=False), draw.choice(size, 10, replace=False)
        spent["few_ms"] += cpu_seconds(partial(few_columns, graph, incoming, seeds.tolist(), people.tolist(), policy))
        spent["everybody_ms"] += cpu_seconds(partial(passage_columns, graph, seeds.tolist(), policy))
        spent["walk_ms"] += cpu_seconds(partial(site_share, graph))
    return {name: round(1000 * seconds / sets, 1) for name, seconds in spent.items()}


def main() -> None:
    """Print the figures."""
    print(json.dumps(measure_one_set()), flush=True)
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb", memory_mb=400)
        fill(store, sets)
        tell("first", store, 0)
        with store.read() as rows:
            seed = rows.value("select min(contributor_id) from maintainers")
        with store.write() as txn:
            txn.execute(NEW, [PEOPLE + 1, PEOPLE + 1])
        for minutes, (name, voucher) in enumerate((("stranger", PEOPLE + 1), ("drawn", 54_321), ("seed", seed)), 1):
            vouch(store, voucher, 77_777 + minutes, NOW + timedelta(seconds=minutes * 60 - 1))
            tell(name, store, minutes)
        store.close()


def tell(name: str, store: Store, minutes: int) -> None:
    """Print the figures of one pass, with what `trust` holds then and the most memory held so far."""
    figures = {"pass": name} | judged(store, minutes)
    with store.read() as rows:
        held = rows.rows("select count(distinct repository_id) as sets, count(*) as rows from trust")[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures | held | {"peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
