"""The starter model orders what nobody knows anything of, says that it is borrowed, and touches nothing else."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.history_import.pulls import import_past
from ingest.store.database import StreamClock
from scoring.certificates.lane_curve import FILE as CURVE_FILE
from scoring.config.policy import FILE, Policy
from scoring.dataset.dataset import add_features, build_cases, read_cases
from scoring.models.serving import LABEL
from scoring.models.starter import ALONE, LARGEST, WEIGHED, StarterFile, StarterProblem, parse_starter, read_columns
from scoring.models.storage import save_model, serve
from scoring.pipeline.score import score
from scoring.queries import read
from scoring.training.starter import History, curve_record, read_history, record_of, text_of
from tests.pipeline import Result
from tests.scoring.models.test_serving import made_up_model
from tests.scoring.pipeline.offered_world import offered_world
from tests.stores import fresh_store

BORROWED = ("borrowed", "borrowed_from")
FOREIGN = "was made with other features"
CUT = "is cut or was changed"
values = st.one_of(st.just(float("nan")), st.floats(-1e12, 1e12))


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The starter file with a change."""
    record = json.loads(FILE.read_bytes())
    change(record)
    return json.dumps(record).encode()


@pytest.fixture(scope="module")
def starter() -> Any:
    return parse_starter(FILE.read_bytes())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        yield result


def judged(world: Result, policy: Policy) -> dict[str, dict[str, Any]]:
    """The decisions of a pass, by address."""
    score(world.store, StreamClock(world.store), policy)
    with world.store.read() as rows:
        return {row["pull_uri"]: row for row in rows.rows("select * from current_decisions order by pull_uri")}


def without(decisions: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisions without what only orders them."""
    return [{name: value for name, value in row.items() if name not in BORROWED} for row in decisions.values()]


def test_every_lane_reason_and_probability_is_the_same_with_a_starter_and_without(world: Result) -> None:
    plain = judged(world, Policy())
    with world.store.read() as rows:
        people = rows.rows("select * from current_scores order by contributor_id, repository_id")
        logged = rows.rows("select * from scores order by score_id")
    lent = judged(world, replace(Policy(), starter=FILE))
    assert all(0 < row["borrowed"] < 1 and row["borrowed_from"] == 11 for row in lent.values())
    assert without(lent) == without(plain)
    with world.store.read() as rows:
        assert rows.rows("select * from current_scores order by contributor_id, repository_id") == people
        assert rows.rows("select * from scores order by score_id") == logged
    assert all(row["borrowed"] is row["borrowed_from"] is None for row in plain.values())


def test_with_a_model_of_ones_own_nothing_is_borrowed_any_more(world: Result, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    policy = replace(Policy(), starter=FILE, models=folder)
    assert all(row["borrowed"] for row in judged(world, policy).values())
    serve(folder, LABEL, save_model(folder, made_up_model(1), ""))
    assert all(row["borrowed"] is row["borrowed_from"] is None for row in judged(world, policy).values())


def test_what_has_no_number_stands_in_the_borrowed_order_and_says_so(world: Result) -> None:
    judged(world, replace(Policy(), starter=FILE))
    with world.store.write() as txn:
        uris = [row["pull_uri"] for row in txn.rows("select pull_uri from current_decisions order by pull_uri")]
        for uri, lent, own in zip(uris, (0.7, 0.2, 0.9), (None, None, 0.5), strict=True):
            told = {"uri": uri, "lent": lent, "own": own}
            txn.execute(
                "update current_decisions set borrowed = $lent, probability = $own, lane = 'normal_queue', own = false "
                "where pull_uri = $uri", told,
            )  # fmt: skip
    with world.store.read() as rows:
        found = read.queue(rows, read.QueueQuery(sort="lowest")).groups[0].rows
        oldest = read.queue(rows, read.QueueQuery(sort="oldest")).groups[0].rows
    assert [row.uri for row in found] == [uris[1], uris[2], uris[0]]
    assert [row.borrowed_from for row in found] == [11, None, 11], "one with a number of its own borrows nothing"
    assert [row.opened_at for row in oldest] == sorted(row.opened_at for row in oldest)


def test_the_place_of_what_the_audit_drew_tells_nothing(world: Result) -> None:
    judged(world, replace(Policy(), starter=FILE))
    drawn = json.dumps([{"code": "audit_drawn", "params": {"share": 0.05, "first": 60}}], separators=(",", ":"))
    with world.store.write() as txn:
        uri = txn.value("select min(pull_uri) from current_decisions")
        txn.execute("update current_decisions set probability = null, own = false, lane = 'normal_queue'")
        txn.execute("update current_decisions set reasons = ? where pull_uri = ?", [drawn, uri])
    orders = []
    for lent in (0.01, 0.99):
        with world.store.write() as txn:
            txn.execute("update current_decisions set borrowed = ? where pull_uri = ?", [lent, uri])
        with world.store.read() as rows:
            found = [row for group in read.queue(rows, read.QueueQuery(sort="lowest")).groups for row in group.rows]
        sealed = next(row for row in found if row.uri == uri)
        assert sealed.is_sealed
        assert sealed.borrowed_from is None
        orders.append([row.uri for row in found])
    assert orders[0] == orders[1]


def test_whoever_may_push_has_no_borrowed_place(world: Result) -> None:
    with world.store.write() as txn:
        txn.execute(
            "insert into push_holders select repository_id, min(author_id), 'collaborator', 'knot', null, null "
            "from pull_requests group by 1"
        )
    decisions = judged(world, replace(Policy(), starter=FILE)).values()
    assert {row["own"] for row in decisions} == {True, False}
    assert all(row["own"] == (row["borrowed"] is None) for row in decisions)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", CUT),
        (b"{", CUT),
        (b"[" * 60_000, CUT),
        (b"\xff\xfe", CUT),
        (b"[]", CUT),
        (b"7", CUT),
        (FILE.read_bytes()[:-300], CUT),
        (changed(lambda record: record.pop("model")), CUT),
        (changed(lambda record: record["model"]["whole"]["scales"]["mean"].pop()), CUT),
        (changed(lambda record: record["model"]["whole"]["scales"].update(median=[float("nan")] * 10)), CUT),
        (changed(lambda record: record["model"]["whole"].update(coefficients=[float("inf")] * 11)), CUT),
        (changed(lambda record: record["features"].pop()), FOREIGN),
        (changed(lambda record: record.update(format=2)), FOREIGN),
        (changed(lambda record: record["provenance"].update(projects="eleven")), "from how many projects"),
        (changed(lambda record: record["provenance"].update(projects=0)), "from how many projects"),
        (changed(lambda record: record["model"].update(without=record["model"]["whole"])), "raise their own place"),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(data: bytes, why: str) -> None:
    with pytest.raises(StarterProblem, match=why):
        parse_starter(data)


def test_the_queue_goes_on_without_a_file_that_is_absent_or_damaged_and_says_so_once(
    world: Result, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "starter.json"
    borrowing = StarterFile(path)
    policy = replace(Policy(), starter=path)
    with caplog.at_level(logging.WARNING, "scoring.models.starter"):
        assert all(row["borrowed"] is None for row in judged(world, policy).values())
        assert "cannot be read (No such file or directory)" in caplog.text
        caplog.clear()
        path.write_bytes(b"{")
        assert [borrowing.starter(), borrowing.starter()] == [None, None]
        assert caplog.text.count("Nothing is borrowed for the order of the queue: the starter file is cut") == 1
        path.write_bytes(b" " * (LARGEST + 1))
        assert borrowing.starter() is None
        path.write_bytes(FILE.read_bytes())
    assert borrowing.starter() is not None
    assert all(row["borrowed"] for row in judged(world, policy).values()), "a file that is put right serves"


def test_a_file_that_did_not_change_is_not_made_anew(tmp_path: Path) -> None:
    borrowing = StarterFile(FILE)
    assert borrowing.starter() is borrowing.starter()


@given(known=st.lists(values, min_size=2, max_size=2), moved=st.lists(values, min_size=len(ALONE), max_size=len(ALONE)))
def test_what_a_person_moves_alone_lifts_nothing_above_what_their_record_says(
    starter: Any, known: list[float], moved: list[float]
) -> None:
    record = dict(zip((name for name in WEIGHED if name not in ALONE), known, strict=True))
    columns = {name: np.array([value]) for name, value in (record | dict(zip(ALONE, moved, strict=True))).items()}
    assert starter.values(columns) <= starter.model.without.predict_proba(columns)[:, 1]


@given(count=st.integers(0, 50))
def test_one_more_merge_in_the_record_never_lowers_its_ceiling(starter: Any, count: int) -> None:
    columns = {"merged_here": np.array([count, count + 1.0]), "refused_here": np.zeros(2)}
    low, high = starter.model.without.predict_proba(columns)[:, 1]
    assert low <= high


@pytest.fixture(scope="module")
def made(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Any, Any, set[str]]:
    """The real history as it is learned from, our columns, those of features.sql, and every name in it."""
    now = datetime(2027, 1, 1)
    store = fresh_store(tmp_path_factory.mktemp("starter") / "past.duckdb", wall=lambda: now)
    import_past(store, shared / "data" / "pr_history.parquet", None, "file")
    with store.read() as rows:
        build_cases(rows, now, 14)
        cases = add_features(rows, read_cases(rows))
        ours = read_columns(rows, [str(key) for key in cases.keys])[1]
        names = {
            str(value)
            for row in rows.rows("select distinct repository, author_id from imported_pulls")
            for value in row.values()
        }
        history = read_history(rows)
    store.close()
    return history, ours, cases.features, names


def test_both_files_are_what_the_public_history_gives(made: Any) -> None:
    digest = json.loads(FILE.read_bytes())["provenance"]["sha256"]
    assert text_of(record_of(made[0], digest, 0)) == FILE.read_text()
    assert text_of(curve_record(made[0], digest)) == CURVE_FILE.read_text()


def test_the_columns_are_those_that_models_weigh(made: Any) -> None:
    _, ours, features, _ = made
    for name in WEIGHED:
        assert np.array_equal(ours[name], features[name], equal_nan=True), name


def test_no_person_and_no_repository_is_in_the_file(shared: Path, made: Any) -> None:
    import pyarrow.parquet as parquet

    columns = ["repo", "author", "fork_owner", "head_sha", "base_sha", "merge_sha"]
    table = parquet.read_table(shared / "data" / "pr_history.parquet", columns=columns)
    names = {str(name) for column in table.columns for name in column.unique().to_pylist() if name} | made[3]
    names |= {part for name in names for part in name.split("/")} - {"requests"}  # which is a word here
    for text in (FILE.read_text(), CURVE_FILE.read_text()):
        assert not [name for name in names if len(name) > 4 and name in text]
        assert "did:" not in text
        assert "/" not in text


def test_the_file_is_small_and_says_where_it_comes_from() -> None:
    assert FILE.stat().st_size < 8_000
    provenance = json.loads(FILE.read_bytes())["provenance"]
    assert (provenance["projects"], provenance["label"]) == (11, LABEL)


def test_the_order_is_better_than_that_of_the_record_in_every_project_it_has_not_seen_and_the_file_says_how_much() -> (
    None
):
    told = json.loads(FILE.read_bytes())["on_projects_not_seen"]
    assert len(told["by_project"]) == 11
    assert told["auc"] > 0.67
    assert told["auc"] > told["record_auc"] + 0.05
    for one in told["by_project"]:
        assert one["auc"] > max(one["record_auc"], 0.59)
        assert one["auc_95"][0] < one["auc"] < one["auc_95"][1]
