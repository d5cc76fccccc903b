"""Labels: three definitions, what is known at a moment, and what the audit answers of the fast lane."""

from dataclasses import replace
from datetime import datetime
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.dataset.cases import LABELS, Cases, LabelName
from scoring.dataset.labels import (
    HOURS,
    NEVER,
    AuditAnswer,
    FastLaned,
    WeightedLabels,
    arrivals_by,
    as_known,
    chance_of_quiet,
    clean_as_sent,
    known_by,
    outcomes,
    settled,
)
from scoring.models.registry import make_estimator
from scoring.training.rolling_origin import Past
from tests.conftest import count
from tests.scoring.dataset.made import DAY, EVENTS, day, make_cases, simulate
from tests.scoring.dataset.people import made_up

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


WAVED_CASES = made_up()
END = WAVED_CASES.observed_until.max()
FIRST, SECOND, THIRD = (str(key) for key in WAVED_CASES.keys[:3])
BEFORE, AFTER = END - np.timedelta64(1, "D"), END + np.timedelta64(1, "D")
LABEL = "label_merge"


def lane(known_from: np.datetime64 = BEFORE, odds: float = 0.25, bad: bool = True) -> FastLaned:
    """Two were let through, of which the first was answered."""
    return FastLaned({FIRST: AuditAnswer(odds, bad, cast(datetime, known_from.item()))}, {FIRST, SECOND})


def rows_of(past: Past, place: int) -> list[tuple[int, float]]:
    known = past.at(END)
    return [(int(known.target[at]), float(known.weight[at])) for at in np.flatnonzero(known.positions == place)]


def test_an_answer_stands_for_as_many_as_its_odds_say_and_silence_for_nothing() -> None:
    past = Past(WAVED_CASES, LABEL, lane())
    assert rows_of(past, 0) == [(0, 4.0)]
    assert rows_of(past, 1) == []
    assert rows_of(past, 2) == rows_of(Past(WAVED_CASES, LABEL), 2)


def test_an_answer_that_came_later_is_not_known_yet() -> None:
    assert rows_of(Past(WAVED_CASES, LABEL, lane(AFTER)), 0) == []


def test_without_a_lane_nothing_changes() -> None:
    plain = known_by(WAVED_CASES, LABEL, END)
    assert all(np.array_equal(one, other) for one, other in zip(plain, Past(WAVED_CASES, LABEL).at(END), strict=True))


@pytest.mark.parametrize("bad", [True, False])
def test_judging_takes_the_answer_and_leaves_out_what_went_unheard(bad: bool) -> None:
    came = Past(WAVED_CASES, LABEL, lane(bad=bad)).observed()
    assert came[:2].tolist() == [int(not bad), -1]
    assert np.array_equal(came[2:], outcomes(WAVED_CASES, LABEL).clean[2:])


def hidden_faults(draw: np.random.Generator) -> tuple[Cases, FastLaned, FastLaned]:
    """Everything was let through; one in five is bad and surfaces in two of five cases. A tenth is audited."""
    bad = draw.random(len(WAVED_CASES)) < 0.2
    audited = np.flatnonzero(draw.random(len(WAVED_CASES)) < 0.1)
    told = {str(WAVED_CASES.keys[at]): AuditAnswer(0.1, bool(bad[at]), cast(datetime, BEFORE.item())) for at in audited}
    everything = {str(key) for key in WAVED_CASES.keys}
    never = np.full(len(WAVED_CASES), np.datetime64("NaT", "us"))
    surfaced = bad & (draw.random(len(WAVED_CASES)) < 0.4)
    later = WAVED_CASES.opened_at + np.timedelta64(1, "h")
    merged = {"merged_at": later, "refused_at": never, "reverted_at": np.where(surfaced, later, never)}
    cases = WAVED_CASES.select(np.arange(len(WAVED_CASES)))
    for name, column in merged.items():
        object.__setattr__(cases, name, column)
    return cases, FastLaned(told, everything), FastLaned()


def test_faults_that_do_not_surface_are_learned_from_the_audit_and_from_nothing_else() -> None:
    """A rate learned from silence is too good by twelve hundredths; by the audit it is right."""
    rates = []
    for seed in range(20):
        cases, heard, silent = hidden_faults(np.random.default_rng(seed))
        fitted = []
        for way in (heard, silent):
            known = Past(cases, "label_clean", way).at(END)
            features = {name: np.zeros(len(known.positions)) for name in ("clean_before", "not_clean_before")}
            model = make_estimator("beta", {}).fit(features, known.target, weights=known.weight)
            fitted.append(float(model.predict_proba(features)[0, 1]))
        rates.append(fitted)
    by_audit, by_silence = np.mean(rates, axis=0)
    assert by_audit == pytest.approx(0.8, abs=0.02)
    assert by_silence > 0.88
