"""Any history in any number of shards gives the features of the one query: the tasks alone, without an engine."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.cluster.engine import Task
from ingest.store.transaction import Rows
from scoring.cluster.features import export, tasks
from scoring.dataset.dataset import prepare_slices
from tests.conftest import count
from tests.scoring.cluster.compare import differing, plain, single
from tests.scoring.dataset.past_projects import EMPTY, Case, case, histories, known_people, place


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    with known_people(tmp_path_factory.mktemp("shards")) as found:
        yield found


def spread(rows: pa.Table, column: str, task: Task) -> pa.Table:
    """What the task makes of the rows of each shard, the last shard first."""
    shards = sorted(rows[column].unique().drop_null().to_pylist(), reverse=True)
    return pa.concat_tables([task(rows.filter(pc.field(column) == shard)) for shard in shards])


def beside(rows: pa.Table, projects: pa.Table) -> pa.Table:
    """The rows with the columns of their repository, where they are cases that have any."""
    places = {key: place for place, key in enumerate(projects["key"].to_pylist())}
    taken = pa.array([places.get(key) for key in rows["key"].to_pylist()], pa.int64())
    for name in projects.column_names[1:]:
        rows = rows.append_column(name, projects[name].take(taken))
    return rows


def exported_rows(rows: Rows, cases: list[Case], shards: int) -> pa.Table:
    """What a job over this history exports."""
    place(rows, cases)
    prepare_slices(rows)
    rows.rows(EMPTY)
    with tempfile.TemporaryDirectory() as folder:
        export(rows, Path(folder) / "rows.parquet", shards)
        return pq.read_table(Path(folder) / "rows.parquet")


def differing_values(rows: Rows, cases: list[Case], shards: int) -> int:
    exported = exported_rows(rows, cases, shards)
    by_repository, by_author = tasks()
    cases_alone = exported.filter(pc.field("of_table") == "cases")
    joined = beside(exported, spread(cases_alone, "repository_shard", by_repository))
    found = spread(joined, "author_shard", by_author).sort_by("key")
    return differing(single(rows), plain({name: found[name].to_numpy() for name in found.column_names}))


@settings(max_examples=count(6, 300))
@given(cases=histories(), shards=st.integers(1, 5))
def test_any_history_in_any_number_of_shards_gives_the_features_of_the_one_query(
    rows: Rows, cases: list[Case], shards: int
) -> None:
    assert differing_values(rows, cases, shards) == 0


@given(cases=histories(), shards=st.integers(1, 5))
def test_no_shard_holds_more_than_its_part_and_the_last_author_or_repository_that_went_in(
    rows: Rows, cases: list[Case], shards: int
) -> None:
    placed = exported_rows(rows, cases, shards).filter(pc.field("of_table") == "cases").to_pylist()
    for column, of in (("author_shard", "of_author"), ("repository_shard", "of_repository")):
        held = Counter(row[column] for row in placed)
        largest = max(Counter(row[of] for row in placed).values(), default=0)
        assert held.keys() <= set(range(shards))
        assert max(held.values(), default=0) <= len(placed) / shards + largest


def test_openings_at_one_microsecond_count_each_other_also_where_a_shard_has_only_one_of_them(rows: Rows) -> None:
    people = range(1, 9)
    twins = [case(3, author, 10 + author % 2, merged_at=4) for author in people for _ in range(1 + author % 2)]
    assert differing_values(rows, [*twins, case(3, 1), case(4, 1), *(case(9, author) for author in people)], 4) == 0
