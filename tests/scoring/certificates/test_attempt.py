"""An attempt to certify counts what people judged, with the score that the gate would have had at opening."""

from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import numpy as np
import pytest

from scoring.certificates.certificate import Certificate, CertificateProblem, Side, case_name
from scoring.certificates.issue import Terms
from scoring.certificates.verify import differences
from scoring.dataset.cases import Cases
from scoring.dataset.labels import AuditAnswer, FastLaned, outcomes
from scoring.models.base import Floats
from scoring.models.calibration import CalibrationCases, Platt
from scoring.models.estimators import ShrunkRate
from scoring.training.train import Trained, attempt, lane_table
from tests.scoring.certificates.certified_cases import bytes_and_name
from tests.scoring.dataset.people import DAY, made_up

MODEL = "cd" * 32
LABEL = "label_merge"


def own_cases() -> Cases:
    """Half a year of a store's own cases, all settled by now."""
    made = made_up(n=400, authors=200, years=0.5)
    return replace(made, keys=np.array([f"at://did:plc:a/pull/{one}" for one in range(len(made))], dtype=np.object_))


CASES = own_cases()
NOW = cast(datetime, (CASES.opened_at[-1] + 100 * DAY).astype("datetime64[s]").item())


def scope(told: Floats) -> Trained:
    """What training left of one scope; only what every case was told counts here."""
    empty = np.zeros(0)
    return Trained(
        ShrunkRate(),
        Platt(1.0, 0.0),
        cast(Any, None),
        {},
        (),
        CalibrationCases(empty, empty, empty, empty.astype(int)),
        told,
    )


def made(
    cases: Cases = CASES,
    change: float = 0.9,
    person: float = 0.9,
    audited: dict[str, AuditAnswer] | None = None,
    waved: set[str] | None = None,
    before: dict[str, Certificate] | None = None,
    now: datetime = NOW,
    side: Side = "high",
) -> Certificate:
    trained = {"change": scope(np.full(len(cases), change)), "person": scope(np.full(len(cases), person))}
    lane = FastLaned(audited or {}, waved or set())
    return attempt(cases, trained, Terms(0.4, 0.05, LABEL, MODEL, 90, side), lane, before or {}, now)


def test_what_it_counts_are_settled_cases_of_people_who_may_not_push() -> None:
    found = made()
    assert len(found.cases) == np.count_nonzero(~CASES.push_holder)
    assert found.label == LABEL
    assert differences(*bytes_and_name(found), NOW) == []


def test_of_a_change_and_its_author_the_lower_probability_counts() -> None:
    assert {one.score for one in made(change=0.95, person=0.8).cases} == {8000}
    assert {one.score for one in made(change=0.7, person=0.8).cases} == {7000}


def test_what_the_lane_let_through_counts_only_where_it_was_audited_and_then_for_its_odds() -> None:
    first, second = (str(key) for key in CASES.keys[~CASES.push_holder][:2])
    answers = {first: AuditAnswer(0.25, True, NOW)}
    found = {one.name: (one.odds, one.bad) for one in made(audited=answers, waved={first, second}).cases}
    assert found[case_name(NOW, first)] == (0.25, 1.0)
    assert case_name(NOW, second) not in found


def test_what_a_person_answered_in_the_audit_stands_before_what_was_mined() -> None:
    keys = [str(key) for key in CASES.keys[~CASES.push_holder]]
    for bad in (True, False):
        found = made(audited={key: AuditAnswer(1.0, bad, NOW) for key in keys})
        assert {one.bad for one in found.cases} == {float(bad)}


def test_t_low_counts_only_people_with_a_record_and_the_label_of_the_model() -> None:
    high, low = made(), made(side="low")
    assert (low.side, low.label, low.definition) == ("low", LABEL, LABEL)
    assert {one.name for one in low.cases} < {one.name for one in high.cases}
    firsts = np.unique(CASES.authors, return_index=True)[1]
    newcomers = {case_name(NOW, str(CASES.keys[at])) for at in firsts}
    assert not newcomers & {one.name for one in low.cases}
    assert differences(*bytes_and_name(low), NOW) == []


def test_a_side_has_attempts_of_its_own() -> None:
    first = made()
    second = made(side="low", before={bytes_and_name(first)[1]: first})
    assert (second.attempt, second.previous) == (1, None)


def test_the_table_of_thresholds_counts_what_a_certificate_counts_and_names_nobody() -> None:
    trained = {"change": scope(np.linspace(0.1, 0.9, len(CASES))), "person": scope(np.ones(len(CASES)))}
    kept = lane_table(CASES, trained, Terms(0.4, 0.05, LABEL, MODEL), FastLaned(), NOW)
    assert (kept.sizes[-1], kept.model, kept.label) == (len(made().cases), MODEL, LABEL)
    assert list(kept.thresholds) == sorted(kept.thresholds, reverse=True)
    assert kept.bad[-1] == pytest.approx(sum(one.bad for one in made().cases))
    assert kept.newcomers is not None
    assert kept.everybody is not None
    assert 0 < kept.newcomers.cases < kept.sizes[-1] < kept.everybody.cases
    assert kept.newcomers.let_through[0] == kept.newcomers.cases, "with a model every newcomer has a score"


def test_what_still_waits_counts_as_bad_by_the_chance_that_nobody_will_merge_it() -> None:
    soon = cast(datetime, (CASES.opened_at[-1] + DAY).astype("datetime64[s]").item())
    open_then = ~CASES.push_holder & ~(CASES.merged_at <= np.datetime64(soon, "us"))
    waiting = {case_name(soon, str(key)) for key in CASES.keys[open_then]}
    bad = [one.bad for one in made(now=soon).cases if one.name in waiting]
    assert len(bad) == np.count_nonzero(open_then)
    assert any(0 < one < 1 for one in bad)


def test_with_enough_of_them_the_promise_is_clean_as_sent() -> None:
    clean = outcomes(CASES, LABEL).clean == 1
    sent = replace(CASES, as_sent=np.where(clean, np.arange(len(CASES)) % 2, -1).astype(np.int8))
    assert np.count_nonzero(clean) > 200
    found = made(sent)
    assert found.label == "clean_as_sent"
    assert sum(one.bad for one in found.cases) > sum(one.bad for one in made().cases)


def test_an_imported_history_says_nothing_of_what_was_sent() -> None:
    clean = outcomes(CASES, LABEL).clean == 1
    both = replace(
        CASES,
        as_sent=np.where(clean, 1, -1).astype(np.int8),
        keys=np.array([key if clean[at] else f"old#{at}" for at, key in enumerate(CASES.keys)], dtype=np.object_),
    )
    assert {one.bad for one in made(both).cases} == {0.0}


def test_a_model_has_one_attempt_a_month() -> None:
    first = made()
    with pytest.raises(CertificateProblem, match="one a calendar month"):
        made(before={bytes_and_name(first)[1]: first})
