"""Reaching a cluster: whatever is missing is said in one sentence, at once."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.cluster.engine import ClusterProblem, connected, grouped, task_of, write
from tests.engines import sail
from tests.trustsite.ports import free_port


@pytest.mark.parametrize(
    "address",
    ["", "spark://host:15002", "sc://", "sc://:15002", "host:15002", "sc://host:port", "sc://host:99999", "sc://[host"],
)
def test_an_address_of_another_kind_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(ClusterProblem, match=r"such as sc://spark\.example\.com:15002"), connected(address):
        pass


def test_an_address_is_never_repeated_since_it_may_hold_a_token() -> None:
    for address in ("http://host/;token=secret", f"sc://127.0.0.1:{free_port()}/;token=secret"):
        with pytest.raises(ClusterProblem) as problem, connected(address):
            pass
        assert "secret" not in str(problem.value)


def test_where_nothing_answers_that_is_said_at_once() -> None:
    port = free_port()
    with (
        pytest.raises(ClusterProblem, match=f"Nothing answers at 127.0.0.1:{port}"),
        connected(f"sc://127.0.0.1:{port}"),
    ):
        pass


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with pytest.raises(ClusterProblem, match=r"run pip install -r requirements/cluster\.txt\."), connected("sc://host"):
        pass


def test_a_group_of_more_bytes_than_one_message_of_sail_is_computed(tmp_path: Path) -> None:
    drawn = np.random.default_rng(1).integers(0, 2**62, 800_000)  # 6.4 MB, which no compression makes less
    pq.write_table(pa.table({"place": np.zeros(len(drawn), np.int32), "drawn": drawn}), tmp_path / "rows.parquet")
    totals = task_of(["select count(*) as found, bit_xor(drawn) as mixed from rows"])
    schema = pa.schema({"found": pa.int64(), "mixed": pa.int64()})
    with sail(tmp_path) as address, connected(address) as session:
        frame = session.read.parquet((tmp_path / "rows.parquet").as_uri())
        write(grouped(frame, "place", 1, totals, schema), tmp_path / "found")
    assert pq.read_table(tmp_path / "found").to_pylist() == [
        {"found": len(drawn), "mixed": int(np.bitwise_xor.reduce(drawn))}
    ]
