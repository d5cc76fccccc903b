"""Cases that the lane let through teach only by the audit: unheard ones are gone, answers weigh 1 / odds."""

from datetime import datetime
from typing import cast

import numpy as np
import pytest

from scoring.dataset.cases import Cases
from scoring.dataset.labels import AuditAnswer, FastLaned, known_by, outcomes
from scoring.models.registry import make_estimator
from scoring.training.rolling_origin import Past
from tests.scoring.dataset.people import made_up

CASES = made_up()
END = CASES.observed_until.max()
FIRST, SECOND, THIRD = (str(key) for key in CASES.keys[:3])
BEFORE, AFTER = END - np.timedelta64(1, "D"), END + np.timedelta64(1, "D")
LABEL = "label_merge"


def lane(known_from: np.datetime64 = BEFORE, odds: float = 0.25, bad: bool = True) -> FastLaned:
    """Two were let through, of which the first was answered."""
    return FastLaned({FIRST: AuditAnswer(odds, bad, cast(datetime, known_from.item()))}, {FIRST, SECOND})


def rows_of(past: Past, place: int) -> list[tuple[int, float]]:
    known = past.at(END)
    return [(int(known.target[at]), float(known.weight[at])) for at in np.flatnonzero(known.positions == place)]


def test_an_answer_stands_for_as_many_as_its_odds_say_and_silence_for_nothing() -> None:
    past = Past(CASES, LABEL, lane())
    assert rows_of(past, 0) == [(0, 4.0)]
    assert rows_of(past, 1) == []
    assert rows_of(past, 2) == rows_of(Past(CASES, LABEL), 2)


def test_an_answer_that_came_later_is_not_known_yet() -> None:
    assert rows_of(Past(CASES, LABEL, lane(AFTER)), 0) == []


def test_without_a_lane_nothing_changes() -> None:
    plain = known_by(CASES, LABEL, END)
    assert all(np.array_equal(one, other) for one, other in zip(plain, Past(CASES, LABEL).at(END), strict=True))


@pytest.mark.parametrize("bad", [True, False])
def test_judging_takes_the_answer_and_leaves_out_what_went_unheard(bad: bool) -> None:
    came = Past(CASES, LABEL, lane(bad=bad)).observed()
    assert came[:2].tolist() == [int(not bad), -1]
    assert np.array_equal(came[2:], outcomes(CASES, LABEL).clean[2:])


def hidden_faults(draw: np.random.Generator) -> tuple[Cases, FastLaned, FastLaned]:
    """Everything was let through; one in five is bad and surfaces in two of five cases. A tenth is audited."""
    bad = draw.random(len(CASES)) < 0.2
    audited = np.flatnonzero(draw.random(len(CASES)) < 0.1)
    told = {str(CASES.keys[at]): AuditAnswer(0.1, bool(bad[at]), cast(datetime, BEFORE.item())) for at in audited}
    everything = {str(key) for key in CASES.keys}
    never = np.full(len(CASES), np.datetime64("NaT", "us"))
    surfaced = bad & (draw.random(len(CASES)) < 0.4)
    later = CASES.opened_at + np.timedelta64(1, "h")
    merged = {"merged_at": later, "refused_at": never, "reverted_at": np.where(surfaced, later, never)}
    cases = CASES.select(np.arange(len(CASES)))
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
