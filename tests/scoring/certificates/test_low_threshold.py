"""T_LOW bothers people with no more clean work than its budget, on histories whose truth is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.sample_size import Need, say_low_need
from scoring.certificates.threshold import DEFAULT, choose_low
from scoring.thresholds import items_needed
from tests.conftest import Count
from tests.scoring.certificates.histories import World

YEAR = np.datetime64("2025-01-01")


@pytest.fixture(scope="module")
def clustered() -> World:
    """Half of all is bad; authors differ by an sd of 1 in log-odds."""
    return World(1.0, base=0.0)


def cases(scores: Any, bad: Any, authors: Any = None, days: int = 364) -> ScoredCases:
    """Cases spread evenly over a year, each by another author unless told."""
    count = len(scores)
    moments = YEAR + (np.arange(count) * days * 86_400 // max(count - 1, 1)).astype("m8[s]")
    return ScoredCases.of(scores, bad, np.arange(count) if authors is None else authors, moments)


def mixed(count: int = 1200) -> ScoredCases:
    """A third scores .1 and is bad, a third .2 of which 1 in 100 is clean, a third .9 and is clean."""
    score = np.tile([0.1, 0.2, 0.9], count // 3)
    return cases(score, (score < 0.5) & (np.arange(count) % 300 != 1))


# Of 20 histories that break the budget with a chance of .05 each, more than 4 do so once in 400 runs.
@pytest.mark.parametrize(("sizes", "skew"), [((1000, 100), 1.0), ((2000, 300), 2.0), ((2000, 100), 3.0)])
def test_the_budget_is_kept_where_authors_are_clusters(
    clustered: World, count: Count, sizes: tuple[int, int], skew: float
) -> None:
    histories, draw, really = count(20, 400), np.random.default_rng(7), list[float]()
    for _ in range(histories):
        threshold = choose_low(clustered.history(draw, *sizes, skew), 0.10, 0.05).threshold
        really.append(0.0 if threshold is None else clustered.clean_below(threshold))
    assert np.mean(np.array(really) > 0.10) <= (0.05 if histories == 400 else 0.20)
    assert skew > 1 or np.mean(really) > 0.02, "it is of use: most of what it may send it sends"


def test_with_too_little_data_nothing_is_certified(clustered: World, count: Count) -> None:
    draw = np.random.default_rng(11)
    for _ in range(count(20, 400)):
        choice = choose_low(clustered.history(draw, 50, 50), 0.05, 0.05)
        assert (choice.threshold, choice.why) == (None, "too_few")


def test_it_is_the_highest_below_which_little_clean_work_lies() -> None:
    choice = choose_low(mixed(), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (0.5, "certified")
    assert (choice.n, choice.k) == (404, 4)
    assert choice.share == pytest.approx(2 / 3)
    assert choice.bound <= 0.05
    stricter = choose_low(mixed(), 0.02, 0.05)
    assert (stricter.threshold, stricter.k) == (0.2, 0.0)


def test_it_is_never_above_one_half() -> None:
    choice = choose_low(cases(np.full(400, 0.9), np.zeros(400)), 0.05, 0.05)
    assert choice.threshold == 0.5


def test_where_much_clean_work_scores_lowest_nothing_is_certified() -> None:
    choice = choose_low(cases(np.zeros(400), np.zeros(400)), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "above_budget")


def test_what_went_wrong_in_the_last_third_lowers_it() -> None:
    score = np.where(np.arange(1500) % 10 == 0, 0.3, 0.9)
    score[:1000] = 0.9
    steady = choose_low(cases(score, np.zeros(1500)), 0.05, 0.05, replace(DEFAULT, parts=1))
    assert steady.threshold == 0.5
    assert choose_low(cases(score, np.zeros(1500)), 0.05, 0.05).threshold == 0.3


def test_few_people_certify_by_one_pull_request_of_each() -> None:
    authors = np.arange(2900) % 29
    assert choose_low(cases(np.full(2900, 0.9), np.zeros(2900), authors), 0.10, 0.05).threshold == 0.5
    refused = choose_low(cases(np.full(2900, 0.9), np.zeros(2900), authors), 0.05, 0.05)
    assert (refused.why, refused.need) == ("too_few_authors", Need(59, 29, authors=True))
    assert say_low_need(Need(59, 29, authors=True)) == (
        "clean pull requests of 59 people with a record are needed; those so far are of 29"
    )


@pytest.mark.parametrize("count", [0, 1, 58])
def test_too_few_say_how_many_are_missing(count: int) -> None:
    choice = choose_low(cases(np.full(count, 0.9), np.zeros(count)), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "too_few")
    assert choice.need is not None
    assert (choice.need.needed, choice.need.have) == (items_needed(0.05, 0.05), count)
    assert say_low_need(choice.need).startswith(
        f"59 settled clean pull requests of people with a record are needed, {count}"
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_larger_budget_never_certifies_a_lower_threshold(seed: int) -> None:
    draw = np.random.default_rng(seed)
    budget, scores = draw.uniform(0.01, 0.3), draw.random(300)
    history = cases(scores, draw.random(300) > scores, draw.integers(0, 120, 300))
    small, large = (choose_low(history, one, 0.05).threshold or 0.0 for one in (budget, 1.5 * budget))
    assert small <= large
