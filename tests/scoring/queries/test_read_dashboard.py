"""The dashboard's backlog and answers, and the cases for the next training."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scipy.special import bdtr

from ingest.history_import.pulls import import_past
from ingest.store.database import Store
from scoring.config.policy import Policy
from scoring.dataset.dataset import read_material
from scoring.models.serving import LABEL
from scoring.queries import read
from scoring.queries.dashboard import first_month, median_of
from scoring.queries.progress import TrainingNeed, training_need
from scoring.training.process import ENDED, STARTED
from scoring.training.train import train
from tests.ingest.history_import.past import DAY, WATCHED, past, write
from tests.ingest.stream.frames import ANA, CREATED, MARA, REPO, SEED, SOURCE, STRANGER, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import take
from tests.stores import fresh_store
from triage.charts.backlog import FEW

COMMENT = "sh.tangled.repo.pull.comment"
OPENED = datetime(2026, 9, 21, 14)
NOW = OPENED + timedelta(days=1)


def world(result: Result, *after: tuple[str, str]) -> None:
    """Mara offers two, ana and seed one each; then these people comment on or merge mara's first, in this order."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for author, key in ((MARA, "first"), (MARA, "second"), (ANA, "third"), (SEED, "own")):
        frames.pull(author, key)
    for actor, what in after:
        if what == "comment":
            body = {"pull": pull_uri(MARA, "first"), "body": "Thank you.", "createdAt": CREATED}
            frames.commit(actor, COMMENT, f"note{len(frames)}", body)
        elif what == "merged their own":
            frames.status(actor, pull_uri(actor, "own"), "merged", rkey="own-merged")
        else:
            frames.status(actor, pull_uri(MARA, "first"), what)
    take(result, frames)


def told(tmp_path: Path, *after: tuple[str, str]) -> tuple[read.Answers, read.Answers]:
    with opened(tmp_path) as result:
        world(result, *after)
        with result.reading() as rows:
            return read.answers(rows, NOW)


def test_who_waits_is_named_and_what_people_who_may_push_sent_is_in_no_count(tmp_path: Path) -> None:
    newcomers, regulars = told(tmp_path)
    assert (newcomers.waiting, regulars.waiting) == (3, 0)
    assert newcomers.since == OPENED
    assert newcomers.uri in {pull_uri(MARA, "first"), pull_uri(MARA, "second"), pull_uri(ANA, "third")}
    assert newcomers.author
    assert newcomers.all is None
    assert not newcomers.has_comments


@pytest.mark.parametrize("actor", [STRANGER, MARA])
def test_a_comment_by_somebody_who_may_not_push_is_no_answer(tmp_path: Path, actor: str) -> None:
    newcomers, _ = told(tmp_path, (actor, "comment"))
    assert newcomers.waiting == 3
    assert newcomers.months == ()
    assert newcomers.has_comments


@pytest.mark.parametrize("what", ["comment", "merged", "closed"])
def test_a_comment_a_merge_and_a_close_by_somebody_who_may_push_are_answers(tmp_path: Path, what: str) -> None:
    newcomers, _ = told(tmp_path, (SEED, what))
    assert newcomers.waiting == 2
    assert [(month.month, month.n) for month in newcomers.months] == [(datetime(2026, 9, 1), 1)]
    assert newcomers.all is not None
    assert 0 <= newcomers.all.low <= newcomers.all.median <= newcomers.all.high < 1


def test_each_week_ends_with_what_was_open_then(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        world(result, (SEED, "merged"), (SEED, "merged their own"))
        with result.reading() as rows:
            weeks = read.weeks(rows, NOW)
            later = read.weeks(rows, NOW + timedelta(weeks=1))
            assert read.weeks(rows, NOW, REPO) == weeks
            assert read.answers(rows, NOW, REPO) == read.answers(rows, NOW)
            for other in (f"{REPO}x", "' or '' = '"):
                assert read.weeks(rows, NOW, other) == ()
                assert [one.waiting for one in read.answers(rows, NOW, other)] == [0, 0]
            assert read.settled(rows, read.SettledQuery()).total == weeks[-1].decided + 1, "the list has their own too"
    assert len(weeks) == 13
    assert [(week.open, week.came, week.decided) for week in weeks[-2:]] == [(0, 0, 0), (2, 3, 1)]
    assert [(week.open, week.came, week.decided) for week in later[-2:]] == [(2, 3, 1), (2, 0, 0)]


def test_a_median_lies_within_its_interval_in_95_of_100_samples() -> None:
    """By the binomial law of how many of n samples fall below the true median, for every n that a page draws."""
    month = datetime(2026, 9, 1)
    for count in range(FEW, 102):
        found = median_of(month, [float(place) for place in range(count)])
        below, above = int(found.low), int(found.high)
        assert found.low <= found.median <= found.high
        assert bdtr(above, count, 0.5) - bdtr(below, count, 0.5) >= 0.95, count
    assert bdtr(FEW - 2, FEW - 1, 0.5) - bdtr(0, FEW - 1, 0.5) < 0.95, "one fewer has no such interval"


@pytest.mark.parametrize(("now", "first"), [((2026, 11, 30), (2026, 6, 1)), ((2026, 3, 1), (2025, 10, 1))])
def test_six_months_are_the_one_under_way_and_five_before(
    now: tuple[int, int, int], first: tuple[int, int, int]
) -> None:
    assert first_month(datetime(*now, 13)) == datetime(*first)


TRAINED_AT = datetime(2026, 11, 20)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    """An empty store that is bound to a stream."""
    with closing(fresh_store(tmp_path / "store" / "trust.duckdb")) as store:
        store.bind(SOURCE)
        yield store


def need(store: Store, folder: Path, days: int = 7) -> TrainingNeed:
    with store.read() as rows:
        return training_need(rows, TRAINED_AT, folder, days, 14)


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
        trained = train(read_material(rows, TRAINED_AT, Policy()), LABEL, TRAINED_AT, 2, 0)
    assert {(one.decision.n, one.decision.authors) for one in trained.values()} == {(3, 2)}, "as training counts"


@pytest.mark.parametrize(
    ("began", "ended", "due"),
    [
        (None, None, None),
        (timedelta(days=2), None, None),
        (timedelta(days=2), timedelta(days=1), TRAINED_AT + timedelta(days=5)),
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
            moment = TRAINED_AT.replace(tzinfo=UTC).timestamp() - before.total_seconds()
            os.utime(tmp_path / name, (moment, moment))
    assert need(store, tmp_path).due == due
