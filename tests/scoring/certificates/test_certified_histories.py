"""A certified budget is kept where customs drift, one author sends a burst, and refusals are known after 194 days."""

from datetime import datetime

import numpy as np
import pytest

from scoring.certificates.issue import bad_shares
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.threshold import choose_threshold
from scoring.dataset.cases import Cases
from tests.conftest import Count
from tests.scoring.certificates.histories import World

BUDGET, DELTA = 0.10, 0.05
NOW = datetime(2027, 1, 1)  # two years after a history began
NEVER = np.datetime64("NaT", "us")
DAY = np.timedelta64(1, "D")


def broken(world: World, histories: list[ScoredCases]) -> tuple[float, float]:
    """The share of histories whose certified lane really breaks the budget, and the mean share of the lane."""
    choices = [choose_threshold(history, BUDGET, DELTA).threshold for history in histories]
    lanes = [(0.0, 0.0) if threshold is None else world.lane(threshold) for threshold in choices]
    return float(np.mean([rate > BUDGET for rate, _ in lanes])), float(np.mean([share for _, share in lanes]))


def most(histories: int) -> float:
    """Of 20 histories that break the budget with a chance of .05 each, more than 4 do so once in 400 runs."""
    return DELTA if histories >= 400 else 0.20


@pytest.mark.parametrize("drift", [1.0, -1.0])
def test_where_customs_drift_the_year_keeps_the_budget(count: Count, drift: float) -> None:
    world, draw, histories = World(1.0, drift=drift), np.random.default_rng(21), count(20, 400)
    rate, share = broken(world, [world.history(draw, 2000, 300) for _ in range(histories)])
    assert rate <= most(histories)
    assert share > 0.02


@pytest.mark.parametrize("burst", [0.1, 0.3])
def test_where_one_author_sends_a_burst_the_budget_is_kept(count: Count, burst: float) -> None:
    world, draw, histories = World(1.0), np.random.default_rng(22), count(20, 400)
    rate, share = broken(world, [world.history(draw, 2000, 300, burst=burst) for _ in range(histories)])
    assert rate <= most(histories)
    assert share > 0.02


def test_where_refusals_are_known_after_194_days_the_budget_is_kept(count: Count) -> None:
    world, draw, histories = World(1.0), np.random.default_rng(23), count(20, 400)
    rate, share = broken(world, [as_known(draw, world.history(draw, 4000, 300, days=730)) for _ in range(histories)])
    assert rate <= most(histories)
    assert share > 0.02


def as_known(draw: np.random.Generator, history: ScoredCases) -> ScoredCases:
    """The last year of a history of two as an attempt sees it: merges after some days, refusals after 194."""
    history = history.select(np.argsort(history.opened_at, kind="stable"))
    count, opened, bad = len(history), history.opened_at, history.bad == 1
    cases = Cases(
        keys=np.array([f"case {place}" for place in range(count)], dtype=np.object_),
        authors=history.authors,
        repositories=np.zeros(count, np.int64),
        push_holder=np.zeros(count, np.bool_),
        opened_at=opened,
        observed_until=np.full(count, np.datetime64(NOW, "us")),
        merged_at=np.where(bad, NEVER, opened + (draw.exponential(10, count) * 86_400e6).astype("m8[us]")),
        refused_at=np.where(bad, opened + 194 * DAY, NEVER),
        as_sent=np.full(count, -1, np.int8),
        features={},
        **{name: np.full(count, NEVER) for name in ("reverted_at", "patched_at", "patched_fix_at", "failed_at")},
    )
    told = bad_shares(cases, "label_merge", "label_merge", {}, NOW)
    recent = ~np.isnan(told) & (opened >= np.datetime64(NOW) - 365 * DAY)
    return ScoredCases.of(history.scores[recent], told[recent], history.authors[recent], opened[recent])
