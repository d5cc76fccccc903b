"""The count of what a model can learn from is that of the training, and it ends where the training's does."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ingest.history_import.pulls import import_past
from ingest.store.database import Store
from scoring.config.policy import Policy
from scoring.dataset.dataset import read_material
from scoring.models.serving import LABEL
from scoring.queries.progress import TrainingNeed, training_need
from scoring.training.process import ENDED, STARTED
from scoring.training.train import train
from tests.ingest.history_import.past import DAY, WATCHED, past, write
from tests.ingest.stream.frames import SOURCE
from tests.stores import fresh_store

NOW = datetime(2026, 11, 20)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    """An empty store that is bound to a stream."""
    with closing(fresh_store(tmp_path / "store" / "trust.duckdb")) as store:
        store.bind(SOURCE)
        yield store


def need(store: Store, folder: Path, days: int = 7) -> TrainingNeed:
    with store.read() as rows:
        return training_need(rows, NOW, folder, days, 14)


def test_what_is_open_or_young_or_from_long_ago_is_not_counted(store: Store, tmp_path: Path) -> None:
    assert (need(store, tmp_path).cases, need(store, tmp_path).authors) == (0, 0)
    ripe = {"opened_at": WATCHED - 195 * DAY, "merged_at": WATCHED - 194 * DAY}
    rows = [
        past(1, "merged", **ripe, author="ana"),
        past(2, "closed", opened_at=WATCHED - 200 * DAY, closed_at=WATCHED - 199 * DAY, author="ben"),
        past(3, "merged", **ripe, author="ana"),
        past(4, "open", opened_at=WATCHED - DAY),
        past(5, "merged", opened_at=WATCHED - 193 * DAY, merged_at=WATCHED - 100 * DAY),
        past(6, "merged", opened_at=WATCHED - 8 * 365 * DAY, merged_at=WATCHED - 8 * 365 * DAY + DAY, author="cay"),
    ]
    import_past(store, write(tmp_path / "old.parquet", rows), None, "old")
    assert (need(store, tmp_path).cases, need(store, tmp_path).authors) == (3, 2)
    with store.read() as rows:
        trained = train(read_material(rows, NOW, Policy()), LABEL, NOW, 2, 0)
    assert {(one.decision.n, one.decision.authors) for one in trained.values()} == {(3, 2)}, "as training counts"


@pytest.mark.parametrize(
    ("began", "ended", "due"),
    [
        (None, None, None),
        (timedelta(days=2), None, None),
        (timedelta(days=2), timedelta(days=1), NOW + timedelta(days=5)),
        (timedelta(days=9), timedelta(days=8), None),
    ],
    ids=["never trained", "killed or running", "trained", "overdue"],
)
def test_the_next_training_is_due_as_the_worker_counts(
    store: Store, tmp_path: Path, began: timedelta | None, ended: timedelta | None, due: datetime | None
) -> None:
    for name, before in ((STARTED, began), (ENDED, ended)):
        if before is not None:
            (tmp_path / name).touch()
            moment = NOW.replace(tzinfo=UTC).timestamp() - before.total_seconds()
            os.utime(tmp_path / name, (moment, moment))
    assert need(store, tmp_path).due == due
