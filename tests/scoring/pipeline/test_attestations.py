"""Attestations of jurisdiction: the state of one at a moment, and what a sensitive repository makes of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.lookups.attestations import fetch_attestations
from scoring.config.repository import DEFAULTS
from scoring.handlers.settings import write_settings
from scoring.pipeline.circumstances import (
    STALE,
    AcceptedIssuers,
    CheckedAttestation,
    State,
    attestation_state,
    read_attestation_states,
)
from tests.ingest.atproto.signed import SignedAccount, SignedNetwork, Signer
from tests.ingest.stream.frames import ANA, CREATED, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result, prepared
from tests.scoring.small import feed, take

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


KIND, SAID = "org.sunstead.jurisdictionAttestation", "org.sunstead.jurisdictionStatement"


def said(subject: str = MARA, **changes: object) -> dict[str, Any]:
    told = {"subject": subject, "statement": "Works in CH", "validFrom": f"{SINCE.isoformat()}Z"}
    return told | {"validUntil": f"{UNTIL.isoformat()}Z", "createdAt": CREATED} | changes


def frames_of_it() -> Frames:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "offered")
    frames.commit(MARA, KIND, "acme", said(issuer=ISSUER))
    return frames


def fill(result: Result) -> None:
    """Take those in, into a sensitive repository that accepts one issuer."""
    take(result, frames_of_it())
    after = replace(DEFAULTS, version=1, tier="sensitive", accepted_issuers=(ISSUER,))
    write_settings(result.store, REPO, after, at(9))


class Sensitive:
    """Mara's pull request in a sensitive repository that accepts one issuer, her record, and the network behind."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.mara = SignedAccount(MARA, Signer("mara"), {f"{KIND}/acme": said(issuer=ISSUER)})
        self.issuer = SignedAccount(ISSUER, Signer("issuer"), {f"{SAID}/{MARA}": said()})
        self.network = SignedNetwork({MARA: self.mara, ISSUER: self.issuer})
        self.frames = frames_of_it()

    def more(self, write: Any) -> None:
        """Frames that follow on those before."""
        before = len(self.frames)
        write(self.frames)
        feed(self.result, self.frames[before:])

    def ask(self, now: datetime = NOW) -> int:
        return fetch_attestations(self.result.store, self.network.fetcher(), "https://plc.directory", now, lambda: now)

    def state(self, now: datetime = NOW) -> State:
        with self.result.reading() as rows:
            (found,) = read_attestation_states(rows, now).values()
        return found

    def asked(self, now: datetime = NOW) -> State:
        self.ask(now)
        return self.state(now)


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Sensitive]:
    with prepared(tmp_path, fill) as result:
        yield Sensitive(result)


def test_a_record_that_both_repositories_prove_is_valid_and_asked_about_once(world: Sensitive) -> None:
    assert world.state() == "unverifiable", "nobody has looked yet"
    world.result.judge()
    assert world.ask() == 1
    assert world.state() == "valid"
    assert world.result.judge() > 0, "a state that changed is decided anew"
    assert world.ask() == 0
    assert world.ask(NOW + timedelta(hours=6)) == 1


def decided(world: Sensitive) -> tuple[str, set[str]]:
    """Lane and reason codes of mara's pull request as it is decided now."""
    with world.result.store.write() as txn:
        txn.inputs_changed()
    world.result.judge(NOW)
    row = world.result.pull(pull_uri(MARA, "offered"))
    assert row is not None
    return row.verdict.lane.value, {reason.code for reason in row.verdict.reasons}


def test_without_a_valid_attestation_a_person_decides_and_the_reason_says_which(world: Sensitive) -> None:
    lane, reasons = decided(world)
    assert (lane, "attestation_unverifiable" in reasons) == ("needs_human", True)
    world.ask()
    lane, reasons = decided(world)
    assert lane == "normal_queue"
    assert not any(code.startswith("attestation") for code in reasons)
    world.more(lambda frames: frames.delete(ISSUER, SAID, MARA))
    world.issuer.records[f"{SAID}/{MARA}"] |= {"revoked": True}
    world.ask(NOW + timedelta(hours=6))
    assert "attestation_revoked" in decided(world)[1]
    write_settings(world.result.store, REPO, replace(DEFAULTS, version=2), at(9))
    lane, reasons = decided(world)
    assert (lane, any(code.startswith("attestation") for code in reasons)) == ("normal_queue", False)


def test_in_the_tier_public_nobody_is_asked_for_anything(world: Sensitive) -> None:
    write_settings(world.result.store, REPO, replace(DEFAULTS, version=2), at(9))
    assert world.ask() == 0
    with world.result.reading() as rows:
        assert read_attestation_states(rows, NOW) == {}


def test_no_decision_outlives_an_attestation_that_ends_though_nothing_else_happens(world: Sensitive) -> None:
    ends = NOW + timedelta(hours=1)
    told = f"{ends.isoformat()}Z"
    world.mara.records[f"{KIND}/acme"]["validUntil"] = told
    world.issuer.records[f"{SAID}/{MARA}"]["validUntil"] = told
    assert world.asked() == "valid"
    lane, reasons = decided(world)
    assert (lane, "attestation_expired" in reasons) == ("normal_queue", False)
    assert world.result.judge(ends - TICK) == 0, "it holds still"
    assert world.result.judge(ends) > 0
    row = world.result.pull(pull_uri(MARA, "offered"))
    assert row is not None
    assert (row.verdict.lane, row.verdict.reasons[0].code) == ("needs_human", "attestation_expired")
    assert world.result.judge(ends + TICK) == 0


def test_a_proof_that_nobody_renewed_ends_a_decision_too(world: Sensitive) -> None:
    assert world.asked() == "valid"
    decided(world)
    world.result.judge(NOW + STALE)  # the pass of that day
    assert world.state(NOW + STALE) == "valid"
    assert world.result.judge(NOW + STALE + TICK) > 0
    assert world.result.judge(NOW + STALE + 2 * TICK) == 0


def test_an_attestation_that_ends_is_looked_at_again_before_six_hours(world: Sensitive) -> None:
    ends = NOW + timedelta(hours=1)
    told = f"{ends.isoformat()}Z"
    world.mara.records[f"{KIND}/acme"]["validUntil"] = told
    world.issuer.records[f"{SAID}/{MARA}"]["validUntil"] = told
    assert world.asked() == "valid"
    world.result.judge()
    assert world.state(ends - TICK) == "valid"
    assert world.asked(ends) == "expired"
    assert world.result.judge() > 0


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"revoked": True}, "revoked"),
        ({"statement": "Works elsewhere"}, "unverifiable"),
        ({"validUntil": "2030-01-01T00:00:00Z"}, "unverifiable"),
        ({"subject": ANA}, "unverifiable"),
    ],
)
def test_the_issuers_own_words_decide(world: Sensitive, changed: dict[str, object], expected: State) -> None:
    world.issuer.records[f"{SAID}/{MARA}"] |= changed
    assert world.asked() == expected


def test_what_the_issuer_deleted_is_revoked_and_what_the_stream_tells_of_it_counts_at_once(world: Sensitive) -> None:
    world.more(lambda frames: frames.commit(ISSUER, SAID, MARA, said()))
    assert world.asked() == "valid"
    world.more(lambda frames: frames.delete(ISSUER, SAID, MARA))
    assert world.state() == "revoked"
    world.issuer.records.clear()
    assert world.ask() == 1
    assert world.state() == "revoked"
    assert world.ask() == 0


def test_what_the_contributor_took_back_is_revoked(world: Sensitive) -> None:
    assert world.asked() == "valid"
    world.more(lambda frames: frames.delete(MARA, KIND, "acme"))
    assert world.state() == "revoked"


def test_a_record_that_was_taken_back_unproven_was_never_there(world: Sensitive) -> None:
    world.more(lambda frames: frames.delete(MARA, KIND, "acme"))
    assert world.state() == "missing"


def test_somebody_elses_record_copied_into_ones_own_repository_is_worth_nothing(world: Sensitive) -> None:
    world.issuer.records = {f"{SAID}/{ANA}": said(ANA)}
    world.mara.records[f"{KIND}/acme"] = said(ANA, issuer=ISSUER)
    assert world.asked() == "unverifiable"
    world.mara.records[f"{KIND}/acme"] = said(MARA, issuer=ISSUER)
    later = NOW + timedelta(hours=6)
    assert world.asked(later) == "revoked", "the issuer says nothing of mara"


def test_a_repository_that_another_key_signed_proves_nothing(world: Sensitive) -> None:
    world.network.sent[MARA] = world.mara.proof(Signer("mallory"))
    assert world.asked() == "unverifiable"
    world.network.sent = {ISSUER: world.issuer.proof(Signer("mara"))}
    assert world.asked(NOW + timedelta(hours=6)) == "unverifiable"
    world.network.sent = {ISSUER: world.mara.proof()}
    assert world.asked(NOW + timedelta(hours=12)) == "unverifiable"


@pytest.mark.parametrize("issuer", [MARA, MALLORY, "nobody", None, 7])
def test_an_issuer_whom_nobody_accepts_is_no_issuer(world: Sensitive, issuer: object) -> None:
    world.network = SignedNetwork(
        {MARA: world.mara, MALLORY: SignedAccount(MALLORY, Signer("m"), {f"{SAID}/{MARA}": said()})}
    )
    world.mara.records[f"{KIND}/acme"] = said(issuer=issuer)
    assert world.asked() in ("missing", "unverifiable")


def test_what_was_proven_outlives_a_server_that_is_down_for_days_and_no_longer(world: Sensitive) -> None:
    assert world.asked() == "valid"
    world.network.down = {ISSUER}
    for hours in (6, 12, 24, 48):
        assert world.asked(NOW + timedelta(hours=hours)) == "valid"
    assert world.asked(NOW + STALE + TICK) == "unverifiable"


def test_a_record_that_was_written_anew_is_checked_at_once_and_unknown_where_nobody_answers(world: Sensitive) -> None:
    assert world.asked() == "valid"
    world.network.down = {MARA}
    world.more(lambda frames: frames.commit(MARA, KIND, "acme", said(issuer=ISSUER, statement="Works in DE"), "update"))
    assert world.ask() == 1
    assert world.state() == "unverifiable"
    assert world.ask() == 0, "a server that is down is left alone"


def test_a_flood_of_records_is_cut(world: Sensitive) -> None:
    def write(frames: Frames) -> None:
        for number in range(30):
            frames.commit(MARA, KIND, f"flood{number}", said(issuer=ISSUER))

    world.more(write)
    assert world.ask() == 10
