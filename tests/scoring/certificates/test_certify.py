"""Certificates: what they say, what counts for them, how tampering is found, and the attempts of a trained model."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.certificate import (
    FILE_LIMIT,
    REVIEWED,
    Certificate,
    CertificateProblem,
    LaterOutcome,
    NeedRecord,
    Side,
    case_name,
    data_digest,
    decode,
    delta_of_attempt,
    encode,
    name_of,
    to_seconds,
)
from scoring.certificates.issue import Terms, add_later_outcomes, certify, label_for
from scoring.certificates.verify import differences, differences_to_previous, differences_to_store, later_differences
from scoring.dataset.cases import Cases
from scoring.dataset.labels import AuditAnswer, FastLaned, outcomes
from scoring.models.base import Floats
from scoring.models.calibration import CalibrationCases, Platt
from scoring.models.estimators import ShrunkRate
from scoring.training.train import Slice, Trained, attempt, lane_table
from tests.scoring.certificates.certified_cases import MODEL, NOW, TERMS, bytes_and_name, settled
from tests.scoring.dataset.people import DAY, made_up

CERTIFICATE = certify(settled(), TERMS, {}, NOW)
DATA, NAME = bytes_and_name(CERTIFICATE)


def test_a_certificate_says_what_was_measured_and_is_found_true() -> None:
    found = CERTIFICATE.found
    assert (found.threshold, found.why, found.n, found.k, found.authors) == (0.95, "certified", 300, 6, 300)
    assert found.bound <= 0.10
    assert CERTIFICATE.note == REVIEWED
    assert (CERTIFICATE.attempt, CERTIFICATE.delta_spent, CERTIFICATE.previous) == (1, 0.025, None)
    assert CERTIFICATE.expires_at - CERTIFICATE.made_at == timedelta(days=90)
    assert CERTIFICATE.is_valid(NOW)
    assert not CERTIFICATE.is_valid(NOW + timedelta(days=90))
    assert differences(DATA, NAME, NOW) == []
    assert decode(DATA) == CERTIFICATE


def test_the_same_cases_give_the_same_bytes() -> None:
    assert bytes_and_name(certify(settled(), TERMS, {}, NOW)) == (DATA, NAME)


def test_no_address_and_no_person_stands_in_it() -> None:
    assert b"did:" not in DATA
    assert case_name(NOW, "a") != case_name(NOW + timedelta(days=1), "a")


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_one_tampered_byte_is_found(place: int, by: int) -> None:
    tampered = bytearray(DATA)
    tampered[place] ^= by
    assert differences(bytes(tampered), NAME, NOW)
    assert differences(bytes(tampered), name_of(bytes(tampered)), NOW)


def _changed(**changes: Any) -> list[str]:
    data, name = bytes_and_name(msgspec.structs.replace(CERTIFICATE, **changes))
    return differences(data, name, NOW)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"found": {"k": 5.0}}, "It says k = 5.0; recomputed it is 6.0."),
        ({"found": {"threshold": 0.5}}, "It says threshold = 0.5; recomputed it is 0.95."),
        ({"found": {"authors": 301}}, "It says authors = 301; recomputed it is 300."),
        (
            {"found": {"need": NeedRecord(1, 0, None, None, False)}},
            "It says need needed = 1; recomputed it is nothing.",
        ),
        ({"found": {"bound": 0.001}}, "It says bound = 0.001"),
        ({"rule": {"version": "fixed-sequence/9"}}, "It names a version of the rule that is not known here."),
        ({"rule": {"numbers": {"parts": 1}}}, "Its rule has other numbers than that version has."),
        ({"note": ""}, "Its note does not say what its label asks for."),
        ({"label": "clean_as_sent"}, "Its note does not say what its label asks for."),
        ({"delta_spent": 0.05}, "It spent 0.05 of delta, and attempt 1 may not."),
        ({"attempt": 2}, "It spent 0.025 of delta, and attempt 2 may not."),
        ({"data": "00" * 32}, "Its data digest is not that of its cases."),
        ({"cases": CERTIFICATE.cases * 2}, "It has a case twice."),
        ({"expires_at": NOW + timedelta(days=91)}, "It lasts for another time than up to 90 days."),
        ({"made_at": NOW + timedelta(days=1)}, "It was made in the future."),
        ({"window": (NOW - timedelta(days=30), NOW)}, "A case was opened outside its window."),
        ({"window": (NOW, datetime.max)}, "Its window ends after it was made."),
        (
            {"later": (LaterOutcome("00" * 32, 5, 0.0, 1.0),)},
            "Its later outcomes do not follow each other after it was made.",
        ),
    ],
)
def test_whoever_writes_it_anew_with_another_figure_is_found_out(changes: dict[str, Any], sentence: str) -> None:
    whole = {
        name: msgspec.structs.replace(getattr(CERTIFICATE, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    assert any(one.startswith(sentence) for one in _changed(**whole)), _changed(**whole)


def test_cases_that_were_taken_out_are_missed_in_the_figures() -> None:
    fewer = tuple(one for one in CERTIFICATE.cases if not one.bad)
    assert any("recomputed" in one for one in _changed(cases=fewer, data=data_digest(fewer)))


def test_an_expired_one_is_told() -> None:
    assert differences(DATA, NAME, NOW + timedelta(days=90)) == ["It expired on 2026-06-08."]


def test_reordered_keys_and_blanks_are_not_its_form() -> None:
    loose = msgspec.json.decode(DATA)
    for data in (msgspec.json.format(DATA), msgspec.json.encode(dict(reversed(loose.items())))):
        assert differences(data, name_of(data), NOW) == ["It is not in canonical form, so somebody wrote it anew."]


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no JSON": lambda: b"\x00\xff" * 100,
    "an array": lambda: b"[]",
    "deep": lambda: b"[" * 1_000_000,
    "deep inside": lambda: DATA.replace(b'"parts":3', b'"parts":' + b"[" * 100_000),
    "NaN": lambda: DATA.replace(b'"bound":', b'"bound":NaN,"x":'),
    "infinite": lambda: DATA.replace(b'"budget":0.1', b'"budget":1e999'),
    "a budget of nearly nothing": lambda: DATA.replace(b'"budget":0.1', b'"budget":5e-324'),
    "a number without end": lambda: DATA.replace(b'"attempt":1', b'"attempt":' + b"9" * 10_000),
    "another zone": lambda: DATA.replace(b'"2026-03-10T12:30:00"', b'"2026-03-10T12:30:00Z"'),
    "the end of the calendar": lambda: DATA.replace(b'"2026-03-10T12:30:00"', b'"9999-12-31T23:59:59"'),
    "a key too many": lambda: DATA.replace(b'"attempt":1', b'"attempt":1,"more":1'),
    "half a file": lambda: DATA[: len(DATA) // 2],
    "too large": lambda: b" " * (FILE_LIMIT + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_told_in_sentences_and_breaks_nothing(name: str) -> None:
    data = HOSTILE[name]()
    found = differences(data, name_of(data), NOW)
    assert found
    assert all(sentence.isprintable() and len(sentence) < 400 for sentence in found)


def test_no_case_at_all_is_an_attempt_that_certifies_nothing() -> None:
    empty = certify(settled(0), TERMS, {}, NOW)
    assert (empty.found.threshold, empty.found.why) == (None, "too_few")
    assert differences(*bytes_and_name(empty), NOW) == []
    assert not empty.is_valid(NOW)


def test_push_holders_their_own_old_ones_and_those_without_a_score_never_count() -> None:
    scores, push_holder = np.full(300, 0.95), np.zeros(300, dtype=bool)
    scores[:10], push_holder[10:30] = np.nan, True
    opened_at = settled().opened_at.copy()
    opened_at[30:35] -= np.timedelta64(800, "D")
    made = certify(settled(scores=scores, push_holder=push_holder, opened_at=opened_at), TERMS, {}, NOW)
    assert made.found.n == 265


def test_a_model_has_one_attempt_a_calendar_month() -> None:
    with pytest.raises(CertificateProblem, match="had its attempt in March 2026"):
        certify(settled(), TERMS, {NAME: CERTIFICATE}, NOW + timedelta(days=20))
    other = certify(settled(), replace(TERMS, model="cd" * 32), {NAME: CERTIFICATE}, NOW)
    assert (other.attempt, other.previous) == (2, NAME)


def test_delta_is_spent_over_all_attempts_of_all_models_together() -> None:
    before: dict[str, Certificate] = {}
    for month in range(1, 8):
        made = certify(settled(), TERMS, before, datetime(2026, month, 15))
        before[bytes_and_name(made)[1]] = made
    assert [one.attempt for one in before.values()] == list(range(1, 8))
    assert sum(one.delta_spent for one in before.values()) < TERMS.delta
    assert sum(delta_of_attempt(1.0, attempt) for attempt in range(1, 10_000)) < 1


def test_a_later_attempt_has_to_show_more() -> None:
    lone, before = settled(95, bad=np.zeros(95)), certify(settled(95), TERMS, {}, datetime(2026, 2, 1))
    for number in range(2, 60):
        before = msgspec.structs.replace(before, attempt=number)
    assert certify(lone, TERMS, {}, NOW).found.threshold == 0.95
    assert certify(lone, TERMS, {"x": before}, NOW).found.threshold is None


def test_a_successor_adds_what_became_known_later_and_nothing_else() -> None:
    rows = [LaterOutcome("11" * 32, to_seconds(NOW) + 60, 1.0, 0.2)]
    more = add_later_outcomes(CERTIFICATE, NAME, rows)
    data, name = bytes_and_name(more)
    assert differences(data, name, NOW + timedelta(hours=1)) == []
    assert differences_to_previous(more, CERTIFICATE) == []
    assert (
        differences_to_previous(
            add_later_outcomes(more, name, [LaterOutcome("22" * 32, to_seconds(NOW) + 90, 0.0, 1.0)]), more
        )
        == []
    )
    forged = msgspec.structs.replace(more, budget=0.5)
    assert differences_to_previous(forged, CERTIFICATE) == ["It changed budget of the certificate that it extends."]
    assert differences_to_previous(more, more) == ["It does not keep the later outcomes that were there before."]


def test_a_successor_is_no_attempt() -> None:
    more = add_later_outcomes(CERTIFICATE, NAME, [LaterOutcome("11" * 32, to_seconds(NOW) + 60, 1.0, 0.2)])
    following = certify(settled(), TERMS, {NAME: CERTIFICATE, "11" * 32: more}, NOW + timedelta(days=40))
    assert (following.attempt, following.previous) == (2, NAME)
    assert differences_to_previous(following, CERTIFICATE) == []


def test_the_store_may_say_otherwise_and_need_not_have_every_case() -> None:
    keys = settled().keys
    facts: dict[str, tuple[bool | None, int, bool]] = {
        key: (at % 50 == 7, at, False) for at, key in enumerate(keys[:200])
    }
    assert differences_to_store(CERTIFICATE, facts) == ([], 200)
    assert differences_to_store(CERTIFICATE, facts | {keys[0]: (None, 0, False)}) == ([], 200)
    for fact, sentence in (
        ((True, 0, False), "counts as clean, and the store says bad."),
        ((False, 0, True), "is by somebody with push access; those never count."),
    ):
        (found,), _ = differences_to_store(CERTIFICATE, facts | {keys[0]: fact})
        assert found.endswith(sentence)


def test_two_authors_who_were_made_one_and_one_who_was_made_two_are_found() -> None:
    one = certify(settled(authors=np.arange(300) // 2), TERMS, {}, NOW)
    facts: dict[str, tuple[bool | None, int, bool]] = {key: (None, at, False) for at, key in enumerate(settled().keys)}
    assert len(differences_to_store(one, facts)[0]) == 150
    merged = {key: (None, at // 2, False) for key, (_, at, _) in facts.items()}
    assert len(differences_to_store(CERTIFICATE, merged)[0]) == 150


def test_it_promises_clean_as_sent_once_enough_are_known() -> None:
    assert (label_for(199), label_for(200), label_for(0, "label_merge")) == (
        "label_clean",
        "clean_as_sent",
        "label_merge",
    )
    assert certify(settled(), replace(TERMS, label="clean_as_sent"), {}, NOW).note == ""


@pytest.mark.parametrize("days", [0, 91])
def test_terms_that_make_no_sense_are_refused(days: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 90 days"):
        certify(settled(), replace(TERMS, days=days), {}, NOW)
    assert CERTIFICATE.model == MODEL
    assert encode(CERTIFICATE) == DATA


LOW = certify(settled(scores=np.where(np.arange(300) % 20 == 3, 0.2, 0.95)), replace(TERMS, side="low"), {}, NOW)


def test_a_certificate_of_t_low_counts_the_clean_ones_that_it_sends_to_a_person() -> None:
    found = LOW.found
    assert (found.threshold, found.n, found.k, found.authors) == (0.5, 294, 15, 294)
    assert found.share == pytest.approx(15 / 300)
    assert found.bound <= 0.10
    assert "people were told that they score low" in LOW.note
    assert differences(*bytes_and_name(LOW), NOW) == []


def test_people_without_a_record_are_in_no_certificate_of_t_low() -> None:
    recorded = np.arange(300) < 200
    low = certify(settled(recorded=recorded), replace(TERMS, side="low"), {}, NOW)
    assert len(low.cases) == 200
    assert len(certify(settled(recorded=recorded), TERMS, {}, NOW).cases) == 300


def test_one_side_cannot_be_passed_off_as_the_other() -> None:
    data, name = bytes_and_name(msgspec.structs.replace(LOW, side="high"))
    assert any("recomputed" in one for one in differences(data, name, NOW))


def test_each_side_has_its_own_attempt_a_month_and_its_own_delta() -> None:
    low = certify(settled(), replace(TERMS, side="low"), {NAME: CERTIFICATE}, NOW)
    assert (low.attempt, low.previous) == (1, None)
    with pytest.raises(CertificateProblem, match="had its attempt at T_LOW in March 2026"):
        certify(settled(), replace(TERMS, side="low"), {"11" * 32: low}, NOW)


def test_a_certificate_names_by_which_definition_a_case_is_clean() -> None:
    data, name = bytes_and_name(msgspec.structs.replace(CERTIFICATE, definition="label_merge"))
    assert "It counts by another label than the one that it names." in differences(data, name, NOW)


def test_a_later_outcome_is_compared_with_the_store() -> None:
    row = LaterOutcome(case_name(NOW, "a"), to_seconds(NOW) + 60, 1.0, 0.2)
    more = add_later_outcomes(CERTIFICATE, NAME, [row])
    assert later_differences(more, {"a": (to_seconds(NOW) + 60, True, 0.2)}) == []
    assert later_differences(more, {}) == []
    for told in ((to_seconds(NOW) + 60, False, 0.2), (to_seconds(NOW), True, 0.2), (to_seconds(NOW) + 60, True, 1.0)):
        assert len(later_differences(more, {"a": told})) == 1
    twice = add_later_outcomes(more, NAME, [row])
    assert "It has a later outcome twice." in differences(*bytes_and_name(twice), NOW + timedelta(hours=1))


OWN_MODEL = "cd" * 32
LABEL = "label_merge"


def own_cases() -> Cases:
    """Half a year of a store's own cases, all settled by now."""
    made = made_up(n=400, authors=200, years=0.5)
    return replace(made, keys=np.array([f"at://did:plc:a/pull/{one}" for one in range(len(made))], dtype=np.object_))


CASES = own_cases()
CERTIFIED_AT = cast(datetime, (CASES.opened_at[-1] + 100 * DAY).astype("datetime64[s]").item())


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
        (),
        Slice(told >= 0, empty, empty.astype(int)),
    )


def made(
    cases: Cases = CASES,
    change: float = 0.9,
    person: float = 0.9,
    audited: dict[str, AuditAnswer] | None = None,
    waved: set[str] | None = None,
    before: dict[str, Certificate] | None = None,
    now: datetime = CERTIFIED_AT,
    side: Side = "high",
) -> Certificate:
    trained = {"change": scope(np.full(len(cases), change)), "person": scope(np.full(len(cases), person))}
    lane = FastLaned(audited or {}, waved or set())
    return attempt(cases, trained, Terms(0.4, 0.05, LABEL, OWN_MODEL, 90, side), lane, before or {}, now)


def test_what_it_counts_are_settled_cases_of_people_who_may_not_push() -> None:
    found = made()
    assert len(found.cases) == np.count_nonzero(~CASES.push_holder)
    assert found.label == LABEL
    assert differences(*bytes_and_name(found), CERTIFIED_AT) == []


def test_of_a_change_and_its_author_the_lower_probability_counts() -> None:
    assert {one.score for one in made(change=0.95, person=0.8).cases} == {8000}
    assert {one.score for one in made(change=0.7, person=0.8).cases} == {7000}


def test_what_the_lane_let_through_counts_only_where_it_was_audited_and_then_for_its_odds() -> None:
    first, second = (str(key) for key in CASES.keys[~CASES.push_holder][:2])
    answers = {first: AuditAnswer(0.25, True, CERTIFIED_AT)}
    found = {one.name: (one.odds, one.bad) for one in made(audited=answers, waved={first, second}).cases}
    assert found[case_name(CERTIFIED_AT, first)] == (0.25, 1.0)
    assert case_name(CERTIFIED_AT, second) not in found


def test_what_a_person_answered_in_the_audit_stands_before_what_was_mined() -> None:
    keys = [str(key) for key in CASES.keys[~CASES.push_holder]]
    for bad in (True, False):
        found = made(audited={key: AuditAnswer(1.0, bad, CERTIFIED_AT) for key in keys})
        assert {one.bad for one in found.cases} == {float(bad)}


def test_t_low_counts_only_people_with_a_record_and_the_label_of_the_model() -> None:
    high, low = made(), made(side="low")
    assert (low.side, low.label, low.definition) == ("low", LABEL, LABEL)
    assert {one.name for one in low.cases} < {one.name for one in high.cases}
    firsts = np.unique(CASES.authors, return_index=True)[1]
    newcomers = {case_name(CERTIFIED_AT, str(CASES.keys[at])) for at in firsts}
    assert not newcomers & {one.name for one in low.cases}
    assert differences(*bytes_and_name(low), CERTIFIED_AT) == []


def test_a_side_has_attempts_of_its_own() -> None:
    first = made()
    second = made(side="low", before={bytes_and_name(first)[1]: first})
    assert (second.attempt, second.previous) == (1, None)


def test_the_table_of_thresholds_counts_what_a_certificate_counts_and_names_nobody() -> None:
    trained = {"change": scope(np.linspace(0.1, 0.9, len(CASES))), "person": scope(np.ones(len(CASES)))}
    kept = lane_table(CASES, trained, Terms(0.4, 0.05, LABEL, OWN_MODEL), FastLaned(), CERTIFIED_AT)
    assert (kept.sizes[-1], kept.model, kept.label) == (len(made().cases), OWN_MODEL, LABEL)
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
