"""Features that a cluster computed are those of the one query, whatever happens on the way."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.cluster.engine import ClusterProblem, connected, task_of
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.cluster.features import check, export
from scoring.cluster.job import JOB, LOCK, finished, read_job
from scoring.dataset.dataset import NAMES
from tests.engines import sail
from tests.scoring.cluster.compare import differing, of_file, single
from tests.scoring.cluster.world import POLICY, everything_filled, no_cluster, prepared, run_job


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = everything_filled(tmp_path_factory.mktemp("world"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sail(tmp_path_factory.mktemp("engine")) as address:
        yield address


@pytest.fixture(scope="module")
def done(store: Store, engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished job."""
    folder = tmp_path_factory.mktemp("job")
    with store.read() as rows:
        run_job(rows, folder, lambda: connected(engine))
    return folder


@pytest.fixture
def computed(store: Store, engine: str, tmp_path: Path) -> Path:
    """The folder of a job that the cluster finished and that nobody has checked."""

    def stop(words: str) -> None:
        if "computed here as well" in words:
            raise KeyboardInterrupt

    with store.read() as rows, pytest.raises(KeyboardInterrupt):
        run_job(rows, tmp_path / "job", lambda: connected(engine), tell=stop)
    return tmp_path / "job"


def test_every_table_of_the_world_is_filled_and_openings_share_a_microsecond(rows: Rows, tmp_path: Path) -> None:
    prepared(rows)
    export(rows, tmp_path / "rows.parquet", 3)
    told = pq.read_table(tmp_path / "rows.parquet")["of_table"].value_counts().to_pylist()
    counts = {one["values"]: one["counts"] for one in told}
    assert counts.keys() == {
        "cases",
        "ci_runs",
        "comments",
        "contributors",
        "signals",
        "slice_dates",
        "trust_slices",
    }
    assert min(counts.values()) >= 10
    assert rows.value("select count(*) - count(distinct opened_at) from cases") > 0
    columns = single(rows)
    assert {name for name in NAMES if not np.isfinite(columns[name]).any()} == {"binary_files"}


def test_the_cluster_gives_the_one_query_in_every_value(rows: Rows, done: Path) -> None:
    prepared(rows)
    assert differing(single(rows), of_file(done / "features.parquet")) == 0


def test_a_finished_job_asks_no_cluster_and_changes_nothing(rows: Rows, done: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in done.iterdir()}
    assert run_job(rows, done, no_cluster) == ["The job is finished: nothing was done."]
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in done.iterdir() if path.name != LOCK}
    assert after == {path: told for path, told in before.items() if path.name != LOCK}


def test_nothing_but_the_result_is_left(done: Path) -> None:
    assert {path.name for path in done.iterdir()} == {JOB, LOCK, "features.parquet"}


@pytest.mark.parametrize("step", ["by repository", "by author", "computed here as well"])
def test_a_job_that_was_cut_off_goes_on_where_it_was_and_gives_the_same_bytes(
    rows: Rows, engine: str, done: Path, tmp_path: Path, step: str
) -> None:
    def stop(words: str) -> None:
        if step in words:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(rows, tmp_path / "job", lambda: connected(engine), shards=5, tell=stop)
    told = run_job(rows, tmp_path / "job", lambda: connected(engine), shards=9)
    assert "Cases and trust are read." not in told
    assert ("by repository" in told) == (step == "by repository")
    assert (tmp_path / "job" / "features.parquet").read_bytes() == (done / "features.parquet").read_bytes()


def test_half_a_step_is_no_step(rows: Rows, engine: str, done: Path, tmp_path: Path) -> None:
    def stop(words: str) -> None:
        if words == "by author":
            raise KeyboardInterrupt

    job = tmp_path / "job"
    with pytest.raises(KeyboardInterrupt):
        run_job(rows, job, lambda: connected(engine), tell=stop)
    shutil.move(job / "projects", job / "projects.part")
    (job / "projects.part" / "part-of-another-try.parquet").write_bytes(b"half")
    run_job(rows, job, lambda: connected(engine))
    assert (job / "features.parquet").read_bytes() == (done / "features.parquet").read_bytes()


def test_no_name_and_no_text_leaves_this_machine(rows: Rows, tmp_path: Path) -> None:
    prepared(rows)
    export(rows, tmp_path / "rows.parquet", 3)
    cells = {
        str(cell) for column in pq.read_table(tmp_path / "rows.parquet").itercolumns() for cell in column.to_pylist()
    }
    assert {"did:plc:3", "did:web:5"} <= cells
    assert not [cell for cell in cells if any(word in cell for word in ("at://", "imported", "mara", "secret"))]
    assert not [cell for cell in cells if cell.startswith("did:") and not cell.rpartition(":")[2].isdecimal()]


def _rewrite(folder: Path, table: pa.Table) -> None:
    shutil.rmtree(folder / "found")
    (folder / "found").mkdir()
    pq.write_table(table, folder / "found" / "part.parquet")


def test_a_row_that_is_missing_or_twice_is_found(rows: Rows, computed: Path) -> None:
    given = pq.read_table(computed / "found")
    cases = len(given)
    for wrong in (given.slice(1), pa.concat_tables([given, given.slice(0, 1)])):
        _rewrite(computed, wrong)
        with pytest.raises(ClusterProblem, match=f"gave {len(wrong)} rows for {cases} pull requests"):
            check(rows, computed)
    _rewrite(computed, pa.concat_tables([given.slice(1), given.slice(1, 1)]))
    with pytest.raises(ClusterProblem, match=f"gave {cases} rows for {cases} pull requests: none is taken over"):
        check(rows, computed)


def test_a_value_that_differs_in_its_last_bit_is_found_and_nothing_is_taken_over(rows: Rows, computed: Path) -> None:
    given = pq.read_table(computed / "found")
    assert check(rows, computed) == len(given)  # twelve authors: all of them are computed anew
    place = given.column_names.index("merge_rate_here")
    moved = given["merge_rate_here"].to_numpy().copy()
    moved[0] = np.nextafter(moved[0], 2)
    _rewrite(computed, given.set_column(place, "merge_rate_here", pa.array(moved)))
    with pytest.raises(ClusterProblem, match="computes other values than this machine"):
        run_job(rows, computed, no_cluster)
    assert not (computed / "features.parquet").exists()


def test_a_machine_with_another_duckdb_gives_nothing(
    rows: Rows, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(duckdb, "__version__", "1.0.0")
        task = task_of(["select 1"])
    with pytest.raises(RuntimeError, match=r"DuckDB 1\.0\.0 is needed here, and this is 2"):
        task(pa.table({"a": [1]}))
    monkeypatch.setattr(duckdb, "__version__", "1.0.0")
    with pytest.raises(ClusterProblem, match="The cluster gave up: "):
        run_job(rows, tmp_path / "job", lambda: connected(engine))
    assert not (tmp_path / "job" / "projects").exists()


def test_two_runs_in_one_folder_do_not_meet(rows: Rows, tmp_path: Path) -> None:
    with (tmp_path / LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ClusterProblem, match="Another process runs the job"):
            run_job(rows, tmp_path, no_cluster)


def test_a_job_of_other_rules_or_one_that_cannot_be_read_is_refused(rows: Rows, done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path, dirs_exist_ok=True)
    assert finished(tmp_path, POLICY)[1] == tmp_path / "features.parquet"
    (tmp_path / JOB).write_text((tmp_path / JOB).read_text().replace('"rules":"', '"rules":"0'))
    with pytest.raises(ClusterProblem, match="another version or other settings"):
        run_job(rows, tmp_path, no_cluster)
    (tmp_path / JOB).write_text("{")
    with pytest.raises(ClusterProblem, match="cannot be read"):
        read_job(tmp_path, POLICY)
    (tmp_path / JOB).unlink()
    with pytest.raises(ClusterProblem, match="holds no finished job"):
        finished(tmp_path, POLICY)
