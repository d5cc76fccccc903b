"""Measures merges as weak vouches on the replayed history: `python -m tests.bench.bench_merges`.

One line of JSON for each weight and cap. For every pull request by somebody who may not push, the trust of its
repository's seeds in its author as of the end of the month before: `coverage` is the share with any trust, `auc` how
well trust alone tells clean from not clean, `covered_auc` the same among those with any, `merged_auc` merged or not,
`newcomers` the coverage of people without a settled pull request. With the replay's own vouches (which were derived
from second merges), and without any, as in a network where nobody vouches yet. Outcomes are those of `pulls.parquet`.
"""

import json
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import rankdata

from ingest.records import watched
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.pipeline.rebuild import _read_seed_sets
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Floats
from scoring.trust.table import read_graph
from tests.pipeline import Result, opened
from tests.sources import PROJECT
from trustsite.settings import DATA_ROOT
from trustsite.standins import StandIns
from trustsite.standins.recording import open_recording

REPLAY = PROJECT.parent / "shared" / "data" / "replay"
SETTINGS = ((0.0, 0.0), (0.02, 0.1), (0.05, 0.3), (0.1, 0.3), (0.1, 1.0), (0.3, 0.3))
LAST = datetime(2026, 1, 1)
ASKED = """
select p.pull_uri, p.author_id, p.repository_id, p.opened_at,
  not exists (from labels l where l.author_id = p.author_id and l.known_from < p.opened_at) as newcomer
from pull_requests p anti join push_holders h on h.repository_id = p.repository_id and h.contributor_id = p.author_id
order by p.opened_at
"""


def month_before(moment: datetime) -> datetime:
    """The end of the month before."""
    return datetime(moment.year, moment.month, 1) - timedelta(microseconds=1)


def trust_when_asked(rows: Rows, policy: Policy) -> Iterator[float]:
    """Trust in the author of each pull request of ASKED, in order."""
    sets, month, graph = _read_seed_sets(rows), None, None
    trust: dict[int, Floats] = {}
    for pull in rows.rows(ASKED):
        if graph is None or month_before(pull["opened_at"]) != month:
            month = month_before(pull["opened_at"])
            graph, trust = read_graph(rows, month, policy), {}
        number = pull["repository_id"]
        if number not in trust:
            size = len(graph.contributor_ids)
            trust[number] = first_passage(graph.edges, graph.places(sets[number]), size, policy.parameters).trust
        yield float(trust[number][graph.position[pull["author_id"]]])


def area(trust: Floats, good: np.ndarray) -> float:
    """AUC, ties counted half."""
    ranks, wins = rankdata(trust), int(good.sum())
    pairs = wins * (len(good) - wins)
    return round(float((ranks[good].sum() - wins * (wins + 1) / 2) / pairs), 3) if pairs else float("nan")


def told(rows: Rows) -> dict[str, np.ndarray]:
    """What became of each pull request of ASKED."""
    table = pq.read_table(REPLAY / "pulls.parquet").to_pylist()
    outcome = {row["uri"]: row for row in table}
    asked = rows.rows(ASKED)
    return {
        "clean": np.array([bool(outcome[row["pull_uri"]]["label_clean_fix"]) for row in asked]),
        "merged": np.array([bool(outcome[row["pull_uri"]]["label_merge"]) for row in asked]),
        "newcomer": np.array([row["newcomer"] for row in asked]),
    }


def fill(result: Result) -> None:
    """The replay, loaded and judged once."""
    recording = open_recording(REPLAY)
    with StandIns(recording) as peers:
        result.feed(recording.frames)
        watched.watch_everything(result.store, LAST)
        result.ask(peers)
        result.judge()


def main() -> None:
    """Print the figures."""
    if not REPLAY.is_dir():
        print(json.dumps({"skipped": "the recorded history is not beside this clone"}))
        return
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder, opened(Path(folder)) as result:
        fill(result)
        for vouches in ("replayed", "none"):
            if vouches == "none":
                with result.store.write() as txn:
                    txn.execute("delete from vouches")
            with result.store.read() as rows:
                known = told(rows)
                for weight, cap in SETTINGS:
                    policy = Policy(merge_weight=weight, merge_cap=cap)
                    trust = np.fromiter(trust_when_asked(rows, policy), dtype=np.float64)
                    print(json.dumps({"vouches": vouches, "weight": weight, "cap": cap} | figures(trust, known)))


def figures(trust: Floats, known: dict[str, np.ndarray]) -> dict[str, float]:
    """Coverage and skill."""
    some = trust > 0
    return {
        "pulls": len(trust),
        "coverage": round(float(some.mean()), 3),
        "newcomers": round(float(some[known["newcomer"]].mean()), 3),
        "auc": area(trust, known["clean"]),
        "covered_auc": area(trust[some], known["clean"][some]),
        "merged_auc": area(trust, known["merged"]),
    }


if __name__ == "__main__":
    main()
