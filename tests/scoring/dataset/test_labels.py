"""Labels: what became of each pull request, from when that was known, and what may be learned before."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.dataset.cases import LABELS, Cases, LabelName
from scoring.dataset.labels import (
    HOURS,
    NEVER,
    WeightedLabels,
    arrivals_by,
    as_known,
    chance_of_quiet,
    clean_as_sent,
    known_by,
    outcomes,
    settled,
)
from tests.conftest import count
from tests.scoring.dataset.made import DAY, EVENTS, day, make_cases, simulate

CASES = {
    "merged and quiet": ({"merged_at": 1}, (1, 1, 1)),
    "refused": ({"refused_at": 30}, (0, 0, 0)),
    "still open": ({}, (-1, -1, -1)),
    "reverted": ({"merged_at": 1, "reverted_at": 3}, (1, 0, 0)),
    "reverted after years": ({"merged_at": 1, "reverted_at": 900}, (1, 0, 0)),
    "patched": ({"merged_at": 1, "patched_at": 3}, (1, 1, 0)),
    "fixed": ({"merged_at": 1, "patched_at": 3, "patched_fix_at": 4}, (1, 0, 0)),
    "failing again": ({"merged_at": 5, "failed_at": 2}, (1, 0, 0)),
    "failing again, open": ({"failed_at": 2}, (-1, 0, 0)),
    "refused, then merged": ({"refused_at": 181, "merged_at": 300}, (1, 1, 1)),
    "merged, window open": ({"merged_at": 1, "watched": 10}, (1, -1, -1)),
    "patched, window open": ({"merged_at": 1, "patched_at": 5, "watched": 10}, (1, -1, 0)),
    "merged after it was watched": ({"merged_at": 20, "watched": 10}, (-1, -1, -1)),
}


@pytest.mark.parametrize("case", CASES)
def test_three_labels_stand_side_by_side(case: str) -> None:
    row, expected = CASES[case]
    assert tuple(int(outcomes(make_cases([row]), label).clean[0]) for label in LABELS) == expected


KNOWN: dict[str, tuple[LabelName, dict[str, float], float]] = {
    "a merge at once": ("label_merge", {"merged_at": 1}, 1),
    "clean when the window ends": ("label_clean", {"merged_at": 1}, 15),
    "a refusal when it came": ("label_clean", {"refused_at": 181}, 181),
    "the first trouble": ("label_clean", {"merged_at": 1, "reverted_at": 9, "patched_at": 3}, 3),
    "trouble never before its merge": ("label_clean", {"merged_at": 5, "patched_at": 3}, 5),
    "failing checks before the merge": ("label_clean", {"merged_at": 5, "failed_at": 2}, 2),
}


@pytest.mark.parametrize("case", KNOWN)
def test_each_label_is_known_from_a_moment(case: str) -> None:
    label, row, expected = KNOWN[case]
    assert outcomes(make_cases([row]), label).known_from[0] == day(expected)


def test_the_window_is_as_long_as_the_setting_says() -> None:
    cases = make_cases([{"merged_at": 1, "watched": 10}])
    assert outcomes(cases, "label_clean", 5).clean[0] == 1
    assert outcomes(cases, "label_clean", 5).known_from[0] == day(6)
    assert outcomes(cases, "label_clean", 10).clean[0] == -1


@pytest.mark.parametrize(("as_sent", "expected"), [(1, 1), (0, 0), (-1, -1)])
def test_clean_as_sent_asks_that_the_first_round_was_merged(as_sent: int, expected: int) -> None:
    found = clean_as_sent(make_cases([{"merged_at": 1, "as_sent": as_sent}]), "label_clean")
    assert found.clean[0] == expected
    assert np.isnat(found.known_from[0]) == (expected < 0)
    if as_sent == 0:
        assert found.known_from[0] == day(1), "another round was merged: that is known at once"


def test_clean_as_sent_knows_of_refusals_and_troubles_whatever_was_sent() -> None:
    rows = [{"refused_at": 3}, {"merged_at": 1, "patched_at": 2}, {"failed_at": 1, "merged_at": 2, "as_sent": 0}]
    found = clean_as_sent(make_cases(rows), "label_clean")
    assert found.clean.tolist() == [0, 0, 0]
    assert set(found.known_from) == {day(3), day(2), day(1)}


def test_only_what_was_watched_for_194_days_is_judged() -> None:
    cases = make_cases([{"opened": 0}, {"opened": 6}, {"opened": 6.01}], watched=200)
    assert settled(cases).tolist() == [True, True, False]
    assert settled(cases, days=0).all()


def test_no_case_at_all_is_no_trouble() -> None:
    empty = make_cases([])
    for label in LABELS:
        assert len(outcomes(empty, label).clean) == len(clean_as_sent(empty, label).clean) == 0
        assert [len(column) for column in known_by(empty, label, day(5))] == [0, 0, 0]


moments = st.floats(0, 400)
rows_of_cases = st.lists(
    st.fixed_dictionaries(
        {"opened": st.floats(0, 300)},
        optional=dict.fromkeys(EVENTS, moments)
        | {"holder": st.sampled_from([0, 1]), "as_sent": st.sampled_from([-1, 0, 1]), "watched": st.floats(300, 700)},
    ),
    min_size=1,
    max_size=8,
)


def shifted(rows: list[dict[str, float]]) -> Cases:
    """Events count from the opening, so that none lies before it."""
    return make_cases([{name: v + row["opened"] if name in EVENTS else v for name, v in row.items()} for row in rows])


@given(rows_of_cases, st.sampled_from(LABELS))
def test_nothing_is_known_before_it_happened_or_after_it_was_watched(
    rows: list[dict[str, float]], label: LabelName
) -> None:
    cases = shifted(rows)
    for found in (outcomes(cases, label), clean_as_sent(cases, label)):
        known = found.clean >= 0
        assert (np.isnat(found.known_from) == ~known).all()
        assert (found.known_from[known] >= cases.opened_at[known]).all()
        assert (found.known_from[known] <= cases.observed_until[known]).all()
        good = found.clean == 1
        wait = 0 * DAY if label == "label_merge" else 14 * DAY
        assert (found.known_from[good] >= cases.merged_at[good] + wait).all()


def same(one: WeightedLabels, other: WeightedLabels) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(rows_of_cases, st.sampled_from(LABELS), moments)
def test_deleting_what_happened_later_changes_nothing_known(
    rows: list[dict[str, float]], label: LabelName, moment: float
) -> None:
    cases, as_of = shifted(rows), day(moment)
    events = {name: np.where(getattr(cases, name) <= as_of, getattr(cases, name), NEVER) for name in EVENTS}
    forgetful = replace(
        cases, **events, observed_until=np.maximum(cases.opened_at, np.minimum(cases.observed_until, as_of))
    )
    assert same(known_by(cases, label, as_of), known_by(forgetful, label, as_of))
    opened_by_then = forgetful.select(forgetful.opened_at <= as_of)
    assert same(known_by(cases, label, as_of), known_by(opened_by_then, label, as_of))


@given(rows_of_cases, st.sampled_from(LABELS), moments)
def test_each_case_weighs_1_in_all_and_what_is_known_has_one_row(
    rows: list[dict[str, float]], label: LabelName, moment: float
) -> None:
    cases, as_of = shifted(rows), day(moment)
    known = known_by(cases, label, as_of)
    opened = int((cases.opened_at <= as_of).sum())
    assert ((known.weight > 0) & (known.weight <= 1)).all()
    assert np.allclose(np.bincount(known.positions, known.weight, minlength=opened), 1)
    assert len(set(known.positions.tolist())) == opened
    told = outcomes(as_known(cases, as_of), label).clean
    for position, target, weight in zip(*known, strict=True):
        assert told[position] < 0 or (target == told[position] and weight == 1)


@pytest.mark.parametrize("label", LABELS)
def test_survival_weights_are_unbiased_where_what_is_known_so_far_is_not(label: LabelName) -> None:
    """Of everything opened in the last 180 days, seen in the middle of its life, against what became of it."""
    weighted, naive, truth = [], [], []
    for seed in range(count(4, 40)):
        cases, as_of = simulate(3_000, seed), day(400)
        known = known_by(cases, label, as_of)
        chance = np.bincount(known.positions, known.weight * known.target)
        recent = cases.opened_at[: len(chance)] > as_of - 180 * DAY
        so_far = outcomes(as_known(cases, as_of), label).clean[recent]
        weighted.append(chance[recent].mean())
        naive.append((so_far[so_far >= 0] == 1).mean())
        truth.append((outcomes(cases, label).clean[: len(chance)][recent] == 1).mean())
    assert np.mean(weighted) == pytest.approx(np.mean(truth), abs=0.015)
    assert abs(np.mean(naive) - np.mean(truth)) > 0.1


def test_push_holders_wait_by_a_curve_of_their_own() -> None:
    arrivals = arrivals_by(simulate(3_000, 1), "label_merge", day(400))
    others, holders = arrivals.later[:, 24 * 40]
    assert holders < 0.1 < others, "after 40 days a push-holder's is as good as refused"
    few = arrivals_by(simulate(300, 1), "label_merge", day(400))
    assert np.array_equal(few.later[0], few.later[1]), "of 100 push-holders nothing is estimated apart"


def test_the_chance_to_be_merged_later_is_what_a_count_by_hand_says() -> None:
    rows = [{"merged_at": 1}, {"merged_at": 10}, {"refused_at": 5}, {"merged_at": 3, "reverted_at": 4}]
    cases = make_cases(rows)
    arrivals = arrivals_by(cases, "label_clean", day(1_000))
    wait = np.array([0.5, 2, 4, 7, 11, np.nan]) * 24
    assert arrivals.chance(wait, np.zeros(6, np.bool_)) == pytest.approx([2 / 4, 1 / 3, 1 / 2, 1, 0, 0])


def test_a_merge_that_stays_quiet_for_longer_has_the_better_chance() -> None:
    troubled = np.array([1.0, 50.0, np.nan, np.nan, np.nan])
    watched = np.array([400.0, 400.0, 400.0, 30.0, np.nan])
    assert chance_of_quiet(troubled, watched, 336) == pytest.approx([1, 1, 1, 1 / 2, 1])


def test_a_wait_longer_than_the_curve_ends_with_it() -> None:
    cases = make_cases([{"merged_at": HOURS / 24 + 100}, {"opened": 1}])
    known = known_by(cases, "label_merge", day(HOURS / 24 + 50))
    assert known.target.tolist() == [0, 0]


@pytest.mark.parametrize("rows", [[{"merged_at": 1}] * 5, [{"refused_at": 1}] * 5, [{}] * 5])
@pytest.mark.parametrize("label", LABELS)
def test_a_history_of_one_outcome_or_none_gives_weights_that_are_numbers(
    rows: list[dict[str, float]], label: LabelName
) -> None:
    assert np.isfinite(known_by(make_cases(rows), label, day(2)).weight).all()
