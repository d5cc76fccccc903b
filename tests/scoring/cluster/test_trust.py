"""Trust of spread seed sets is that of one machine, in every bit, and features take it over."""

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.cluster.engine import ClusterProblem, connected
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.cluster.job import NOTHING_LEFT, run_trust
from scoring.cluster.trust import COMPUTED, GRAPHS, check, map_graph, write_graph
from scoring.dataset.dataset import build_slices
from scoring.trust.table import read_graph, site_share
from tests.engines import sail
from tests.scoring.cluster.compare import differing, of_file, single
from tests.scoring.cluster.world import POLICY, everything_filled, no_cluster, prepared, run_job
from tests.scoring.dataset.test_around import NOW
from tests.sources import PROJECT
from tests.stores import fresh_store

SLICES = "select * from trust_slices order by repository_id, as_of, contributor_id"
# A web of vouches over a year, some of them denounces, and seeds of twenty repositories: more than one task has here.
VOUCHES = """
insert into vouches by name
select '[]' as evidences, 1 + i % 12 as voucher_id, 1 + (i * 7 + i // 12) % 12 as subject_id,
  case when i % 9 = 0 then 'denounce' else 'vouch' end as kind,
  timestamp '2025-01-02' + to_days(i * 5) as seen_at, seen_at as written_at, 100 + i as event_seq
from range(60) t(i) where voucher_id <> subject_id;
insert into seeds select 100 + i, 1 + i % 12, 'owner' from range(20) t(i)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = everything_filled(tmp_path_factory.mktemp("world"))
    with found.write() as txn:
        for statement in VOUCHES.split(";\n"):
            txn.execute(statement)
    yield found
    found.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sail(tmp_path_factory.mktemp("engine"), project=PROJECT) as address:
        yield address


def run(rows: Rows, folder: Path, connect: Any, stop_at: str = "never") -> list[str]:
    told: list[str] = []

    def note(words: str) -> None:
        told.append(words)
        if stop_at in words:
            raise KeyboardInterrupt

    run_trust(rows, folder, connect, POLICY, NOW, note)
    return told


@pytest.fixture(scope="module", autouse=True)
def few_sets_a_task() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("scoring.cluster.trust.SETS_A_TASK", 15)
        yield


@pytest.fixture(scope="module")
def done(store: Store, engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    with store.read() as rows:
        run(rows, folder, lambda: connected(engine))
    return folder


def test_slices_of_spread_seed_sets_are_those_of_one_machine_in_every_bit(rows: Rows, done: Path) -> None:
    build_slices(rows, NOW, POLICY)
    ours = rows.columns(SLICES)
    table = pq.read_table(done / "slices.parquet")
    assert len(table) == len(ours["contributor_id"]) > 1_000
    assert np.count_nonzero(ours["eigentrust"]) > 100, "of the site"
    for name in ("repository_id", "contributor_id", "as_of", "structural_trust", "trusted_denouncers"):
        assert np.array_equal(np.ma.filled(ours[name]), table[name].to_numpy()), name
    for name in ("eigentrust", "distance"):
        filled = np.ma.filled(ours[name].astype(float), np.nan)
        assert np.array_equal(filled, table[name].to_numpy().astype(float), equal_nan=True), name


def test_features_take_the_trust_that_the_cluster_computed(
    rows: Rows, engine: str, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(done, tmp_path / "job")
    with monkeypatch.context() as alone:
        alone.delattr("scoring.cluster.job.build_slices")
        run_job(rows, tmp_path / "job", lambda: connected(engine))
    prepared(rows)
    assert differing(single(rows), of_file(tmp_path / "job" / "features.parquet")) == 0


def test_a_finished_job_asks_no_cluster_and_keeps_no_graph(rows: Rows, done: Path) -> None:
    before = (done / "slices.parquet").stat().st_mtime_ns
    assert run(rows, done, no_cluster) == [NOTHING_LEFT]
    assert (done / "slices.parquet").stat().st_mtime_ns == before
    assert {path.name for path in done.iterdir()} == {"job.json", ".lock", "wanted.parquet", "slices.parquet"}


@pytest.mark.parametrize("step", ["are wanted", "computed here as well"])
def test_a_job_that_was_cut_off_goes_on_and_gives_the_same_bytes(
    rows: Rows, engine: str, done: Path, tmp_path: Path, step: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(rows, tmp_path, lambda: connected(engine), step)
    told = run(rows, tmp_path, no_cluster if step != "are wanted" else lambda: connected(engine))
    assert not [words for words in told if "are wanted" in words]
    assert (tmp_path / "slices.parquet").read_bytes() == (done / "slices.parquet").read_bytes()


def test_slices_that_are_missing_or_differ_in_a_bit_are_not_taken_over(rows: Rows, engine: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(rows, tmp_path, lambda: connected(engine), "computed here as well")
    given = pq.read_table(tmp_path / COMPUTED)
    first = pq.read_table(tmp_path / "wanted.parquet").to_pylist()[0]

    def rewrite(table: pa.Table) -> None:
        shutil.rmtree(tmp_path / COMPUTED)
        (tmp_path / COMPUTED).mkdir()
        pq.write_table(table, tmp_path / COMPUTED / "part.parquet")

    is_first = [
        (row["repository_id"], row["as_of"]) == (first["repository_id"], first["as_of"]) for row in given.to_pylist()
    ]
    rewrite(given.filter(pa.array([not one for one in is_first])))
    with pytest.raises(ClusterProblem, match=r"gave \d+ slices of \d+: none is taken over"):
        check(rows, tmp_path, POLICY)
    rewrite(pa.concat_tables([given, given.slice(0, 1)]))
    with pytest.raises(ClusterProblem, match="none is taken over"):
        check(rows, tmp_path, POLICY)
    trust = given["structural_trust"].to_numpy().copy()
    place = is_first.index(True)
    trust[place] = np.nextafter(trust[place], 0)
    column = given.column_names.index("structural_trust")
    rewrite(given.set_column(column, "structural_trust", pa.array(trust)))
    with pytest.raises(ClusterProblem, match="computes other trust than this machine"):
        check(rows, tmp_path, POLICY)


def test_no_name_and_no_key_of_the_audit_is_in_what_the_cluster_sees(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(ClusterProblem, match="Nothing answers"):
        run(rows, tmp_path, lambda: connected("sc://127.0.0.1:1"))
    assert (tmp_path / GRAPHS / "0" / "vouches.weight.npy").exists()
    told = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"did:" not in told
    assert json.loads((tmp_path / "job.json").read_text()).keys() == {"as_of", "rules"}


def test_a_graph_that_was_written_is_mapped_as_it_was(rows: Rows, tmp_path: Path) -> None:
    graph = read_graph(rows, datetime(2025, 9, 1), POLICY)
    write_graph(graph, tmp_path)
    mapped, share = map_graph(str(tmp_path))
    assert isinstance(mapped.vouches.weight, np.memmap)
    assert np.array_equal(mapped.vouches.weight, graph.vouches.weight)
    assert np.array_equal(mapped.denounces.starts, graph.denounces.starts)
    assert np.array_equal(mapped.position, graph.position)
    assert np.array_equal(mapped.site, graph.site)
    assert np.array_equal(share, site_share(graph))


def test_where_nobody_vouches_that_is_one_sentence(tmp_path: Path) -> None:
    empty = fresh_store(tmp_path / "trust.duckdb")
    (tmp_path / "job").mkdir()
    with empty.read() as rows, pytest.raises(ClusterProblem, match="there is no trust to compute"):
        run(rows, tmp_path / "job", no_cluster)
    empty.close()
