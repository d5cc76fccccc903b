"""An engine or a machine of it that dies in the middle of a job: nothing is lost, and nothing else comes out."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest.cluster import engine
from ingest.cluster.engine import ClusterProblem, connected
from ingest.store.database import Store
from scoring.cluster.job import run_trust
from scoring.dataset.dataset import build_slices
from tests.conftest import PROVE, Count, missing
from tests.engines import sail, sail_process, spark
from tests.scoring.cluster.compare import differing, of_file, single
from tests.scoring.cluster.world import POLICY, everything_filled, prepared, run_job
from tests.scoring.dataset.test_around import NOW
from tests.sources import PROJECT


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = everything_filled(tmp_path)
    yield found
    found.close()


def test_after_the_death_of_an_engine_another_one_does_what_was_left(
    store: Store, tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRIES", count(1, engine.RETRIES))  # five to one that is dead take 17 s
    with store.read() as rows:
        with sail_process(tmp_path) as (address, process), pytest.raises(ClusterProblem, match="The cluster gave up: "):
            run_job(
                rows,
                tmp_path / "job",
                lambda: connected(address),
                tell=lambda words: process.kill() if words == "by author" else None,
            )
        assert not (tmp_path / "job" / "features.parquet").exists()
        with sail(tmp_path) as other:
            told = run_job(rows, tmp_path / "job", lambda: connected(other))
        assert "by repository" not in told
        prepared(rows)
        assert differing(single(rows), of_file(tmp_path / "job" / "features.parquet")) == 0


if PROVE:

    @pytest.mark.scale
    def test_a_real_spark_gives_the_one_query_also_when_a_machine_of_it_dies(store: Store, tmp_path: Path) -> None:
        """SPARK_HOME is a Spark 4.2 with its Connect server, as the package pyspark has in its own environment."""
        if not (home := os.environ.get("SPARK_HOME")):
            missing("REQUIRE_SPARK", "SPARK_HOME names no Spark 4")
        with store.read() as rows, spark(tmp_path, Path(home)) as (address, workers):
            run_job(rows, tmp_path / "whole", lambda: connected(address))
            killed: list[str] = []

            def kill(words: str) -> None:
                if words == "by author":
                    workers[0].kill()
                    killed.append(words)

            run_job(rows, tmp_path / "killed", lambda: connected(address), tell=kill)
            assert killed
            prepared(rows)
            assert differing(single(rows), of_file(tmp_path / "whole" / "features.parquet")) == 0
            results = [(tmp_path / job / "features.parquet").read_bytes() for job in ("whole", "killed")]
            assert results[0] == results[1]

    @pytest.mark.scale
    def test_a_real_spark_gives_the_trust_of_one_machine(store: Store, tmp_path: Path) -> None:
        if not (home := os.environ.get("SPARK_HOME")):
            missing("REQUIRE_SPARK", "SPARK_HOME names no Spark 4")
        (tmp_path / "job").mkdir()
        with store.read() as rows, spark(tmp_path, Path(home), PROJECT) as (address, _):
            run_trust(rows, tmp_path / "job", lambda: connected(address), POLICY, NOW, lambda words: None)
            build_slices(rows, NOW, POLICY)
            ours = rows.columns("select * from trust_slices order by repository_id, as_of, contributor_id")
        given = pq.read_table(tmp_path / "job" / "slices.parquet")
        assert len(given) > 20
        for name in ("repository_id", "contributor_id", "as_of", "structural_trust"):
            assert np.array_equal(np.ma.filled(ours[name]), given[name].to_numpy()), name
        shares = np.ma.filled(ours["eigentrust"], np.nan)
        assert np.array_equal(shares, given["eigentrust"].to_numpy(), equal_nan=True)
