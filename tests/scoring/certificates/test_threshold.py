"""T_HIGH and T_LOW keep their budgets, also where authors are clusters, and what is missing is said."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.sample_size import Need, say_low_need, say_need
from scoring.certificates.threshold import (
    DEFAULT,
    Choice,
    choose_low,
    choose_threshold,
    loosest,
    plug_in_threshold,
    upper_bound,
)
from scoring.thresholds import items_needed
from tests.conftest import Count
from tests.scoring.certificates.histories import World

PUBLISHED = [
    (0.01, 0.05, 299),
    (0.02, 0.05, 149),
    (0.05, 0.05, 59),
    (0.05, 0.10, 45),
    (0.10, 0.05, 29),
    (0.10, 0.10, 22),
]
YEAR = np.datetime64("2025-01-01")
NOBODY_NEEDED = replace(DEFAULT, few_authors=0, few_people=0)


@pytest.fixture(scope="module")
def clustered() -> World:
    """Authors differ by an sd of 1 in log-odds."""
    return World(1.0)


@pytest.fixture(scope="module")
def independent() -> World:
    """Authors do not differ."""
    return World(0.0)


def cases(scores: Any, bad: Any, authors: Any = None, days: int = 364) -> ScoredCases:
    """Cases spread evenly over a year, each by another author unless told."""
    count = len(scores)
    moments = YEAR + (np.arange(count) * days * 86_400 // max(count - 1, 1)).astype("m8[s]")
    return ScoredCases.of(scores, bad, np.arange(count) if authors is None else authors, moments)


@pytest.mark.parametrize(("budget", "delta", "needed"), PUBLISHED)
def test_the_counts_are_the_published_ones(budget: float, delta: float, needed: int) -> None:
    assert items_needed(budget, delta) == needed


@given(st.floats(0.005, 0.5), st.floats(0.005, 0.5))
def test_one_case_fewer_would_not_certify(budget: float, delta: float) -> None:
    from scipy.stats import beta  # 1.5 s, of which all processes but one are spared

    needed = items_needed(budget, delta)
    assert beta.ppf(1 - delta, 1, needed) <= budget * (1 + 1e-6)
    if needed > 1:
        assert beta.ppf(1 - delta, 1, needed - 1) > budget * (1 - 1e-6)


def test_a_quotient_that_is_a_whole_number_is_not_rounded_up() -> None:
    assert items_needed(0.1, 0.729) == 3
    assert items_needed(0.5, 0.25) == 2


@pytest.mark.parametrize("wrong", [(0.0, 0.05), (1.0, 0.05), (0.05, 0.0), (0.05, 1.0), (float("nan"), 0.05)])
def test_a_budget_that_can_never_or_always_be_kept_is_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        items_needed(*wrong)


@given(st.integers(0, 40), st.integers(1, 400), st.floats(0.001, 0.6))
def test_the_bound_is_that_of_clopper_and_pearson(bad: int, clean: int, delta: float) -> None:
    from scipy.stats import beta  # 1.5 s, of which all processes but one are spared

    bound = upper_bound(np.array([float(bad)]), np.array([float(bad + clean)]), delta)[0]
    assert bound == pytest.approx(beta.ppf(1 - delta, bad + 1, clean), abs=1e-9)


def test_without_a_clean_one_there_is_no_bound() -> None:
    assert upper_bound(np.array([3.0, 0.0]), np.array([3.0, 0.0]), 0.05).tolist() == [1.0, 1.0]


def _broken(
    world: World, budget: float, delta: float, count: int, sizes: tuple[int, int], skew: float = 1.0
) -> tuple[float, float, float]:
    """The share of histories whose budget was broken, the mean true share of the lane, and that of refusals."""
    draw, rates, shares = np.random.default_rng(7), [], []
    for _ in range(count):
        choice = choose_threshold(world.history(draw, *sizes, skew), budget, delta)
        rate, share = (0.0, 0.0) if choice.threshold is None else world.lane(choice.threshold)
        rates.append(rate)
        shares.append(share)
    return float(np.mean(np.array(rates) > budget)), float(np.mean(shares)), float(np.mean(np.array(shares) == 0))


# Of 20 histories that break the budget with a chance of .05 each, more than 4 do so once in 400 runs.
@pytest.mark.parametrize(
    ("sizes", "skew", "budget"),
    [((1000, 100), 1.0, 0.10), ((2000, 300), 1.0, 0.10), ((2000, 300), 2.0, 0.10), ((2000, 100), 3.0, 0.05)],
)
def test_the_budget_is_kept_where_authors_are_clusters(
    clustered: World, count: Count, sizes: tuple[int, int], skew: float, budget: float
) -> None:
    histories = count(20, 400)
    broken, _, _ = _broken(clustered, budget, 0.05, histories, sizes, skew)
    assert broken <= (0.05 if histories == 400 else 0.20)


def test_the_lane_has_most_of_what_the_best_threshold_would_give(independent: World, count: Count) -> None:
    broken, share, refused = _broken(independent, 0.10, 0.05, count(20, 400), (1000, 1000))
    assert share >= 0.60 * independent.best_share(0.10)
    assert (broken <= 0.05, refused <= 0.05) == (True, True)


def test_plain_counts_break_the_budget_more_often_than_not_and_that_is_why(clustered: World, count: Count) -> None:
    draw, histories = np.random.default_rng(7), count(20, 400)
    thresholds = [
        plug_in_threshold(one.scores, one.bad, None, 0.05)
        for one in (clustered.history(draw, 500, 200) for _ in range(histories))
    ]
    broken = [threshold is not None and clustered.lane(threshold)[0] > 0.05 for threshold in thresholds]
    assert np.mean(broken) > 0.35


@given(st.integers(1, 79))
def test_too_few_cases_certify_nothing_even_if_all_are_clean(few: int) -> None:
    choice = choose_threshold(cases(np.full(few, 0.99), np.zeros(few)), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "too_few")
    assert choice.need is not None
    assert choice.need.needed > choice.need.have == few


def test_as_many_clean_cases_as_are_needed_certify() -> None:
    needed = items_needed(0.05, 0.05 / 3)
    choice = choose_threshold(cases(np.full(needed, 0.99), np.zeros(needed)), 0.05, 0.05)
    assert (choice.threshold, choice.why, choice.n, choice.k) == (0.99, "certified", needed, 0)
    assert choice.bound <= 0.05
    assert (choice.share, choice.rate, choice.need) == (1.0, 0.0, None)


def test_nothing_at_all_certifies_nothing() -> None:
    choice = choose_threshold(ScoredCases.of([], [], [], [], None), 0.05, 0.05)
    assert (choice.threshold, choice.why, choice.rate) == (None, "too_few", None)
    assert choice.need == Need(80, 0)


def test_where_every_case_is_bad_no_number_of_them_would_do() -> None:
    choice = choose_threshold(cases(np.full(500, 0.9), np.ones(500)), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "above_budget")
    assert choice.need is not None
    assert choice.need.threshold is None
    assert say_need(choice.need) == (
        "of 500 settled pull requests too many were bad at every score; a certificate needs at least 80 that are all "
        "clean"
    )


def test_one_author_certifies_nothing_however_much_they_send() -> None:
    choice = choose_threshold(cases(np.full(2000, 0.99), np.zeros(2000), np.zeros(2000)), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "too_few_authors")
    assert choice.need == Need(30, 1, 0.99, authors=True)


def test_few_authors_certify_by_one_pull_request_of_each() -> None:
    authors = np.arange(580) % 29
    clean = choose_threshold(cases(np.full(580, 0.99), np.zeros(580), authors), 0.20, 0.05)
    assert (clean.threshold, clean.authors) == (0.99, 29)
    # 5 of the 29 send nothing but bad ones: 17 % of all, too near to 20 % for 29 people.
    mixed = choose_threshold(cases(np.full(580, 0.99), authors < 5, authors), 0.20, 0.05)
    assert (mixed.threshold, mixed.why) == (None, "too_few")


def test_forty_authors_of_whom_one_sends_nearly_all_do_not_count_as_forty() -> None:
    authors = np.concatenate([np.zeros(1000), np.arange(1, 40)])
    choice = choose_threshold(cases(np.full(1039, 0.99), np.zeros(1039), authors), 0.05, 0.05)
    assert (choice.threshold, choice.why) == (None, "too_few_authors")
    assert choice.need == Need(10, 1, 0.99, authors=True)


def test_cases_of_one_author_that_go_together_count_for_fewer() -> None:
    authors, bad = np.arange(1200) % 60, np.zeros(1200)
    bad[authors < 3] = 1  # 5 % of all: three people, all of whose changes are bad
    together = choose_threshold(cases(np.full(1200, 0.9), bad, authors), 0.10, 0.05)
    apart = choose_threshold(cases(np.full(1200, 0.9), np.arange(1200) % 20 == 0), 0.10, 0.05)
    assert (apart.threshold, together.threshold) == (0.9, None)


def test_a_window_whose_last_third_went_bad_certifies_nothing() -> None:
    bad = np.zeros(1500)
    bad[1000::8] = 1  # 12.5 % of the last third, 4.2 % of all
    choice = choose_threshold(cases(np.full(1500, 0.9), bad), 0.10, 0.05)
    assert (choice.threshold, choice.why) == (None, "a_part_is_above")
    assert choose_threshold(cases(np.full(1500, 0.9), bad), 0.10, 0.05, replace(DEFAULT, parts=1)).threshold == 0.9


def test_a_stricter_lane_stands_where_only_it_holds_in_every_third() -> None:
    scores = np.tile([0.95, 0.90], 750)
    bad = (scores == 0.90) & (np.arange(1500) >= 1000) & (np.arange(1500) % 4 == 1)
    choice = choose_threshold(cases(scores, bad), 0.10, 0.05)
    assert choice.threshold == 0.95


def test_testing_ends_at_the_first_threshold_that_breaks_the_budget() -> None:
    scores = np.repeat([0.99, 0.98, 0.50], [400, 400, 5000])
    bad = scores == 0.98  # all of the middle, none of the many below, so that all together would hold again
    loosest = choose_threshold(cases(scores, bad), 0.10, 0.05, replace(DEFAULT, parts=1))
    assert loosest.threshold == 0.99
    assert plug_in_threshold(scores, bad, None, 0.10) == 0.50


def test_a_chance_of_being_bad_counts_as_that_share() -> None:
    choice = choose_threshold(cases(np.full(400, 0.9), np.full(400, 0.02)), 0.10, 0.05)
    assert choice.threshold == 0.9
    assert choice.k == pytest.approx(8.0)


def test_two_rows_of_one_case_count_once() -> None:
    scores, authors = np.full(400, 0.9), np.repeat(np.arange(200), 2)
    moments = YEAR + np.repeat(np.arange(200), 2)
    halves = choose_threshold(
        ScoredCases.of(scores, np.tile([0.0, 1.0], 200), authors, moments, np.tile([0.97, 0.03], 200)), 0.10, 0.05
    )
    assert (halves.n, halves.k) == (pytest.approx(200.0), pytest.approx(6.0))
    assert halves.effective <= 200.0 + 1e-6


def test_an_audited_case_stands_for_all_that_were_not_drawn_and_for_no_more_certainty() -> None:
    few = choose_threshold(
        ScoredCases.of(np.full(60, 0.9), np.zeros(60), np.arange(60), YEAR + np.arange(60), np.full(60, 20.0)),
        0.05,
        0.05,
    )
    assert (few.threshold, few.why) == (None, "too_few")


def test_ties_are_in_the_lane_together() -> None:
    choice = choose_threshold(cases(np.full(300, 0.93456), np.zeros(300)), 0.05, 0.05)
    assert (choice.threshold, choice.share) == (0.9345, 1.0)


def test_the_need_names_the_threshold_that_is_reached_first_and_when() -> None:
    # Half a year with three a week that were all clean, and many lower ones of which a fifth was bad.
    scores, bad = np.repeat([0.95, 0.60], [78, 400]), np.concatenate([np.zeros(78), np.arange(400) % 5 == 0])
    moments = YEAR + np.concatenate([np.arange(78) * 7 // 3, np.arange(400) * 182 // 400])
    order = np.argsort(moments, kind="stable")
    choice = choose_threshold(ScoredCases.of(scores[order], bad[order], order, moments[order], None), 0.05, 0.05)
    assert choice.why == "too_few"
    need = choice.need
    assert need is not None
    assert (need.threshold, need.have) == (0.95, 78)
    assert need.weeks == pytest.approx((need.needed - 78) / 3, abs=2)
    assert say_need(need) == (
        f"{need.needed} settled pull requests at 95 % or above are needed, 78 so far, about {need.weeks} weeks"
    )


def test_a_pace_that_no_window_ever_holds_is_said() -> None:
    choice = choose_threshold(cases(np.full(20, 0.95), np.zeros(20)), 0.05, 0.05)
    assert choice.need is not None
    assert choice.need.weeks is None
    assert say_need(choice.need).endswith("20 so far, at this pace it will not be reached")


def test_the_same_cases_give_the_same_choice(clustered: World) -> None:
    one = clustered.history(np.random.default_rng(3), 600, 60)
    assert choose_threshold(one, 0.10, 0.10) == choose_threshold(one, 0.10, 0.10)
    for rule in (DEFAULT, NOBODY_NEEDED):
        assert loosest(one, 0.10, 0.10, rule) == choose_threshold(one, 0.10, 0.10, rule).threshold
    assert loosest(one.select(np.arange(0)), 0.10, 0.10) is None
    shuffled = one.select(np.random.default_rng(4).permutation(600))
    found = choose_threshold(shuffled, 0.10, 0.10, NOBODY_NEEDED)
    _assert_equal(found, choose_threshold(one, 0.10, 0.10, NOBODY_NEEDED))


def _assert_equal(one: Choice, other: Choice) -> None:
    assert (one.threshold, one.why, one.n, one.authors) == (other.threshold, other.why, other.n, other.authors)
    assert one.bound == pytest.approx(other.bound)


@pytest.fixture(scope="module")
def clustered_below() -> World:
    """Half of all is bad; authors differ by an sd of 1 in log-odds."""
    return World(1.0, base=0.0)


def mixed(count: int = 1200) -> ScoredCases:
    """A third scores .1 and is bad, a third .2 of which 1 in 100 is clean, a third .9 and is clean."""
    score = np.tile([0.1, 0.2, 0.9], count // 3)
    return cases(score, (score < 0.5) & (np.arange(count) % 300 != 1))


# Of 20 histories that break the budget with a chance of .05 each, more than 4 do so once in 400 runs.
@pytest.mark.parametrize(("sizes", "skew"), [((1000, 100), 1.0), ((2000, 300), 2.0), ((2000, 100), 3.0)])
def test_t_low_keeps_its_budget_where_authors_are_clusters(
    clustered_below: World, count: Count, sizes: tuple[int, int], skew: float
) -> None:
    histories, draw, really = count(20, 400), np.random.default_rng(7), list[float]()
    for _ in range(histories):
        threshold = choose_low(clustered_below.history(draw, *sizes, skew), 0.10, 0.05).threshold
        really.append(0.0 if threshold is None else clustered_below.clean_below(threshold))
    assert np.mean(np.array(really) > 0.10) <= (0.05 if histories == 400 else 0.20)
    assert skew > 1 or np.mean(really) > 0.02, "it is of use: most of what it may send it sends"


def test_with_too_little_data_nothing_is_certified(clustered_below: World, count: Count) -> None:
    draw = np.random.default_rng(11)
    for _ in range(count(20, 400)):
        choice = choose_low(clustered_below.history(draw, 50, 50), 0.05, 0.05)
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
