"""The worth of an attestation of jurisdiction at a moment: from when, until when, and for whom."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.pipeline.circumstances import STALE, AcceptedIssuers, CheckedAttestation, State, attestation_state
from tests.ingest.stream.frames import ANA, MARA

NOW = datetime(2026, 9, 21, 15)
SINCE, UNTIL = NOW - timedelta(days=1), NOW + timedelta(days=30)
ISSUER = "did:plc:" + "i" * 24
OURS = AcceptedIssuers(frozenset({ISSUER}), frozenset({"example.org"}))
PROVEN = CheckedAttestation("proven", ISSUER, SINCE, UNTIL, NOW)
TICK = timedelta(microseconds=1)


def state(*attestations: CheckedAttestation, did: str = MARA, stands: bool = False, now: datetime = NOW) -> State:
    return attestation_state(did, attestations, OURS, stands, now)


def test_an_attestation_holds_from_its_first_moment_and_ends_with_its_last() -> None:
    always = replace(PROVEN, checked_at=UNTIL)
    assert state(always, now=SINCE - TICK) == "missing"
    assert state(always, now=SINCE) == "valid"
    assert state(always, now=UNTIL - TICK) == "valid"
    assert state(always, now=UNTIL) == "expired"


def test_a_proof_that_could_not_be_renewed_for_a_week_proves_nothing() -> None:
    assert state(PROVEN, now=NOW + STALE) == "valid"
    assert state(PROVEN, now=NOW + STALE + TICK) == "unverifiable"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (replace(PROVEN, proof="revoked"), "revoked"),
        (replace(PROVEN, withdrawn=True), "revoked"),
        (replace(PROVEN, proof="unverifiable"), "unverifiable"),
        (replace(PROVEN, proof="unverifiable", issuer=None), "unverifiable"),
        (replace(PROVEN, issuer=ANA), "missing"),
        (replace(PROVEN, issuer="did:web:hr.example.org"), "valid"),
        (replace(PROVEN, issuer="did:web:example.org.evil.example"), "missing"),
        (replace(PROVEN, issuer="did:web:notexample.org"), "missing"),
        (replace(PROVEN, valid_until=None), "unverifiable"),
    ],
)
def test_what_each_record_is_worth(one: CheckedAttestation, expected: State) -> None:
    assert state(one) == expected


def test_nothing_is_missing_and_of_several_the_valid_one_counts() -> None:
    revoked, expired = replace(PROVEN, proof="revoked"), replace(PROVEN, valid_until=NOW)
    assert state() == "missing"
    assert state(revoked, expired, PROVEN) == "valid"
    assert state(expired, revoked) == "revoked"


def test_an_accepted_organisation_needs_no_word_of_others_and_a_did_web_needs_its_document() -> None:
    assert state(did=ISSUER) == "valid"
    assert state(did="did:web:example.org", stands=True) == "valid"
    assert state(did="did:web:mara.example.org", stands=True) == "valid"
    assert state(did="did:web:mara.example.org") == "unverifiable"
    assert state(did="did:web:mara.example.org%3A8443", stands=True) == "valid"
    assert state(did="did:web:example.com", stands=True) == "missing"
    assert state(did=MARA, stands=True) == "missing"


def test_nobody_attests_themselves() -> None:
    """An issuer who is the author needs no attestation; where the maintainers accept nobody, nothing is valid."""
    nobody = AcceptedIssuers(frozenset(), frozenset())
    assert attestation_state(MARA, [replace(PROVEN, issuer=MARA)], nobody, True, NOW) == "missing"


ANY = st.builds(
    CheckedAttestation,
    st.sampled_from(["proven", "revoked", "unverifiable", "other"]),
    st.sampled_from([None, ISSUER, ANA, MARA]),
    st.sampled_from([None, SINCE, UNTIL]),
    st.sampled_from([None, SINCE, UNTIL]),
    st.sampled_from([NOW, NOW - 2 * STALE]),
    st.booleans(),
)


@given(st.lists(ANY, max_size=4))
def test_only_a_proven_standing_fresh_record_of_an_accepted_issuer_is_ever_valid(
    records: list[CheckedAttestation],
) -> None:
    good = any(
        one.proof == "proven"
        and one.issuer == ISSUER
        and not one.withdrawn
        and one.checked_at == NOW
        and (one.valid_from, one.valid_until) == (SINCE, UNTIL)
        for one in records
    )
    assert (state(*records) == "valid") == good


@pytest.mark.parametrize("escaped", ["%2F", "%2f", "%3F", "%23", "%40", "%5C", "%00"])
def test_a_did_web_with_an_escaped_separator_lies_on_no_domain(escaped: str) -> None:
    assert OURS.lies_on_a_domain("did:web:works.example.org")
    assert not OURS.lies_on_a_domain(f"did:web:evil.test{escaped}.example.org")
    assert not OURS.lies_on_a_domain(f"did:web:evil.test{escaped}x.example.org")
