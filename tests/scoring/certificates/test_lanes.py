"""Every lane at once: the running sums are what counting each lane by itself gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.lane_counts import ScoredCases, count_clean_below, count_lanes, count_parts

MOMENT = np.datetime64("2025-01-01")
CASE = st.tuples(
    st.integers(0, 10).map(lambda tenth: tenth / 10),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.integers(-2, 3),
    st.sampled_from([0.5, 1.0, 4.0]),
)


def judged(cases: list[tuple[float, float, int, float]]) -> ScoredCases:
    """One a day."""
    scores, bad, authors, weights = zip(*cases, strict=True)
    return ScoredCases.of(scores, bad, authors, MOMENT + np.arange(len(cases)), weights)


@given(st.lists(CASE, min_size=1, max_size=30))
def test_a_lane_is_counted_as_if_it_were_the_only_one(cases: list[tuple[float, float, int, float]]) -> None:
    lanes = count_lanes(judged(cases))
    assert lanes.thresholds.tolist() == sorted({score for score, *_ in cases}, reverse=True)
    for at, threshold in enumerate(lanes.thresholds):
        inside = np.array([case for case in cases if case[0] >= threshold])
        weight, bad, who = inside[:, 3], inside[:, 1], inside[:, 2]
        rate = (weight @ bad) / weight.sum()
        sums = [(weight * (bad - rate))[who == one].sum() for one in set(who)]
        people = np.array([weight[who == one].sum() for one in set(who)])
        spread = np.square(sums).sum() / weight.sum() ** 2 * len(people) / max(len(people) - 1, 1)
        assert (lanes.sizes[at], lanes.authors[at]) == (pytest.approx(weight.sum()), len(people))
        assert lanes.rates[at] == pytest.approx(rate)
        assert lanes.spread[at] == pytest.approx(spread, abs=1e-9)
        assert lanes.people[at] == pytest.approx(people.sum() ** 2 / np.square(people).sum())
        assert lanes.counts[at] == pytest.approx(min(weight.sum(), weight.sum() ** 2 / np.square(weight).sum()))


@given(st.lists(CASE, min_size=1, max_size=30), st.integers(0, 2**40))
def test_each_author_gives_one_case_of_the_lane(cases: list[tuple[float, float, int, float]], seed: int) -> None:
    lanes = count_lanes(judged(cases), seed)
    for at, threshold in enumerate(lanes.thresholds):
        inside = [case for case in cases if case[0] >= threshold]
        each = [{bad for _, bad, who, _ in inside if who == one} for one in {case[2] for case in inside}]
        assert sum(map(min, each)) - 1e-9 <= lanes.picked_bad[at] <= sum(map(max, each)) + 1e-9


def test_which_case_an_author_gives_is_drawn_by_weight() -> None:
    one = judged([(0.9, 1.0, 7, 3.0), (0.9, 0.0, 7, 1.0)])
    drawn = [count_lanes(one, seed).picked_bad[0] for seed in range(800)]
    assert 0.69 < np.mean(drawn) < 0.81


def test_the_draw_is_the_same_in_every_version_of_every_library() -> None:
    cases = judged([(0.9, float(at % 2), at // 4, 1.0) for at in range(40)])
    assert [count_lanes(cases, seed).picked_bad[0] for seed in range(8)] == [4, 6, 4, 7, 6, 6, 6, 4]


def test_parts_hold_the_same_number_of_cases_the_oldest_first() -> None:
    cases = judged([(0.9, float(at < 3), at, 1.0) for at in range(9)])
    lanes = count_lanes(cases)
    assert [(part.counts.tolist(), part.rates.tolist()) for part in count_parts(cases, lanes, 3)] == [
        ([3.0], [1.0]),
        ([3.0], [0.0]),
        ([3.0], [0.0]),
    ]


def test_a_part_without_a_case_in_the_lane_counts_none() -> None:
    cases = judged([(0.2, 0.0, 0, 1.0), (0.9, 0.0, 1, 1.0)])
    first, second = count_parts(cases, count_lanes(cases), 2)
    assert (first.counts.tolist(), second.counts.tolist()) == ([0.0, 1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scores", [float("nan"), 0.5]),
        ("scores", [1.5, 0.5]),
        ("bad", [2, 0]),
        ("weights", [0, 1]),
        ("weights", [float("inf"), 1]),
        ("opened_at", ["NaT", "2025-01-01"]),
        ("authors", [1, 2, 3]),
    ],
)
def test_columns_that_make_no_sense_are_refused(name: str, wrong: list[object]) -> None:
    columns = {"scores": [0.5, 0.6], "bad": [0, 1], "authors": [1, 2], "opened_at": [MOMENT, MOMENT], "weights": [1, 1]}
    with pytest.raises(ValueError, match=r"must|needs"):
        ScoredCases.of(**columns | {name: wrong})


@given(st.lists(CASE, min_size=1, max_size=30).filter(lambda cases: any(case[1] < 1 for case in cases)))
def test_the_clean_ones_below_a_threshold_are_counted_as_if_it_were_the_only_one(
    cases: list[tuple[float, float, int, float]],
) -> None:
    lanes = count_clean_below(judged(cases), 1.0)
    clean = np.array([(score, who, weight * (1 - bad)) for score, bad, who, weight in cases if bad < 1])
    total, people = clean[:, 2].sum(), sorted(set(clean[:, 1]))
    of_each = np.array([clean[clean[:, 1] == one, 2].sum() for one in people])
    for threshold in (0.0001, 0.3, 0.3001, 0.75, 1.0):
        at = round(threshold * 10_000) - 1
        below = np.where(clean[:, 0] < threshold - 1e-9, clean[:, 2], 0.0)
        rate = below.sum() / total
        sums = [below[clean[:, 1] == one].sum() - rate * size for one, size in zip(people, of_each, strict=True)]
        spread = np.square(sums).sum() / total**2 * len(people) / max(len(people) - 1, 1)
        assert lanes.thresholds[at] == threshold
        assert (lanes.rates[at], lanes.spread[at]) == (pytest.approx(rate), pytest.approx(spread, abs=1e-9))
        assert (lanes.sizes[at], lanes.authors[at]) == (pytest.approx(total), len(people))
        assert lanes.people[at] == pytest.approx(total**2 / np.square(of_each).sum())
        assert 0 <= lanes.picked_bad[at] <= len({who for score, who, _ in clean if score < threshold - 1e-9})
    assert lanes.picked_bad[-1] <= len(people)


def test_of_each_author_one_clean_case_is_drawn() -> None:
    lanes = count_clean_below(
        judged([(0.1, 0.0, 1, 1.0), (0.2, 0.0, 1, 1.0), (0.4, 0.0, 2, 1.0), (0.3, 1.0, 3, 1.0)]), 0.5
    )
    assert lanes.picked_bad[[0, 1500, 2500, 4999]].tolist() in ([0, 1, 1, 2], [0, 0, 1, 2])
    assert set(lanes.authors.tolist()) == {2}
