"""The backlog and the time until people hear back, from a real store: the people counted, and the answers."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from scipy.special import bdtr

from scoring.queries import read
from scoring.queries.dashboard import first_month, median_of
from tests.ingest.stream.frames import ANA, CREATED, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import take
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


@pytest.mark.parametrize("actor", [STRANGER, MARA])
def test_a_comment_by_somebody_who_may_not_push_is_no_answer(tmp_path: Path, actor: str) -> None:
    newcomers, _ = told(tmp_path, (actor, "comment"))
    assert newcomers.waiting == 3
    assert newcomers.months == ()


@pytest.mark.parametrize("what", ["comment", "merged", "closed"])
def test_a_comment_a_merge_and_a_close_by_somebody_who_may_push_are_answers(tmp_path: Path, what: str) -> None:
    newcomers, _ = told(tmp_path, (SEED, what))
    assert newcomers.waiting == 2
    assert [(month.month, month.n) for month in newcomers.months] == [(datetime(2026, 9, 1), 1)]
    assert newcomers.all is not None
    assert 0 <= newcomers.all.low <= newcomers.all.median <= newcomers.all.high < 1


def test_each_week_ends_with_what_was_open_then(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        world(result, (SEED, "merged"))
        with result.reading() as rows:
            weeks = read.weeks(rows, NOW)
            later = read.weeks(rows, NOW + timedelta(weeks=1))
            assert read.weeks(rows, NOW, REPO) == weeks
            assert read.answers(rows, NOW, REPO) == read.answers(rows, NOW)
            for other in (f"{REPO}x", "' or '' = '"):
                assert read.weeks(rows, NOW, other) == ()
                assert [one.waiting for one in read.answers(rows, NOW, other)] == [0, 0]
    assert len(weeks) == 13
    assert [(week.open, week.came, week.decided) for week in weeks[-2:]] == [(0, 0, 0), (2, 3, 1)]
    assert [(week.open, week.came, week.decided) for week in later[-2:]] == [(2, 3, 1), (2, 0, 0)]


def test_nothing_is_fast_lane_to_act_on_while_every_lane_only_watches(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        world(result)
        with result.reading() as rows:
            assert read.actable(rows) == 0


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
