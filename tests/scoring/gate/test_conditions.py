"""Conditions of the fast lane besides P(clean) and content risk: each alone shuts it, none ever opens it."""

from dataclasses import fields, replace
from itertools import pairwise
from math import nextafter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.decided import explain
from scoring.explain.sentences import SENTENCES, sentence, would_change
from scoring.gate.conditions import CHECKS, STRENGTH, TO_A_PERSON, lane_conditions
from scoring.gate.decide import NO_CHANGE, ORDINARY, decide, decide_change, judge_change
from scoring.thresholds import CONDITIONS, PEER_WEIGHT, Condition, Thresholds
from scoring.types import (
    AccountChange,
    Attestation,
    Circumstances,
    Content,
    Draw,
    Evidence,
    Lane,
    LaneClosed,
    PeerFlag,
    Reason,
    Signing,
)
from tests.scoring.gate.test_gate import BETTER, CLEAR, KNOWN, OPEN, contents, estimate, evidences

OWN = replace(OPEN, certified=False)
MOVED = AccountChange("author", "pds_moves", 13)
CLOSED = (
    LaneClosed("site", "ana.test"),
    LaneClosed("repository", "ana.test"),
    LaneClosed("author", "ana.test", "mara.test"),
    LaneClosed("voucher", "ana.test", "ben.test"),
)
FLAG = PeerFlag("other.test", "at://did:plc:other/org.sunstead.assessment/x", PEER_WEIGHT, 40)
SENSITIVE = replace(ORDINARY, tier="sensitive", attestation="valid")


def lane_and_codes(
    around: Circumstances = ORDINARY,
    content: Content | None = CLEAR,
    evidence: Evidence = KNOWN,
    thresholds: Thresholds = OPEN,
) -> tuple[Lane, list[str]]:
    lane, reasons = lane_conditions(Lane.FAST_LANE, evidence, content, around, thresholds)
    return lane, [reason.code for reason in reasons]


# Everything that alone shuts the lane: what is changed, the code that says so, the condition that can be switched off.
ALONE: list[tuple[dict[str, Any], str, Condition | None]] = [
    ({"evidence": replace(KNOWN, structural_trust=0.0)}, "no_trust_path", None),
    ({"evidence": replace(KNOWN, structural_trust=nextafter(0.5, 0))}, "trust_too_low", None),
    ({"evidence": replace(KNOWN, one_account=True)}, "one_account_path", None),
    ({"content": replace(CLEAR, has_verdict=False, missing="refused")}, "no_content_verdict", "verdict"),
    ({"content": replace(CLEAR, coverage=nextafter(1.0, 0))}, "content_partly_read", "coverage"),
    ({"around": replace(ORDINARY, newest_round=1)}, "newer_round", "newest_round"),
    ({"around": replace(ORDINARY, newest_round=None)}, "round_unknown", "newest_round"),
    ({"around": replace(ORDINARY, judged_round=None)}, "round_unknown", "newest_round"),
    ({"around": replace(ORDINARY, account_changes=(MOVED,))}, "account_changed", "account_changes"),
    ({"around": replace(ORDINARY, account_changes=None)}, "account_unknown", "account_changes"),
    ({"around": replace(ORDINARY, silent_days=90)}, "back_from_silence", "silence"),
    ({"around": replace(ORDINARY, silent_days=None)}, "never_seen_before", "silence"),
    ({"around": replace(ORDINARY, signing=Signing("unsigned", 38, 40))}, "signature_missing", "signing"),
    ({"around": replace(ORDINARY, signing=Signing("unknown_key", 38, 40))}, "signing_key_unknown", "signing"),
    ({"around": replace(ORDINARY, signing=Signing("new_key", 38, 40, 1))}, "signing_key_new", "signing"),
    ({"around": replace(ORDINARY, signing=Signing("unchecked", 38, 40))}, "signature_unchecked", "signing"),
    ({"around": replace(ORDINARY, touched=("ci",))}, "never_fast_path", "never_fast_paths"),
    ({"around": replace(ORDINARY, touched=None)}, "paths_unknown", "never_fast_paths"),
    ({"around": replace(ORDINARY, pending=("identity",))}, "enrichment_pending", "enrichment"),
    ({"around": replace(ORDINARY, pending=None)}, "enrichment_unknown", "enrichment"),
    ({"around": replace(SENSITIVE, attestation="not_asked")}, "attestation_missing", "tier"),
    ({"around": replace(SENSITIVE, attestation="missing")}, "attestation_missing", "tier"),
    ({"around": replace(SENSITIVE, attestation="expired")}, "attestation_expired", "tier"),
    ({"around": replace(SENSITIVE, attestation="revoked")}, "attestation_revoked", "tier"),
    ({"around": replace(SENSITIVE, attestation="unverifiable")}, "attestation_unverifiable", "tier"),
    *(({"around": replace(ORDINARY, closures=(one,))}, "lane_closed", None) for one in CLOSED),
    ({"around": replace(ORDINARY, closures=None)}, "closures_unknown", None),
    ({"around": replace(ORDINARY, objected=True)}, "objection_open", None),
    ({"around": replace(ORDINARY, objected=None)}, "people_unknown", None),
    ({"around": replace(ORDINARY, outdated=True)}, "approved_before", None),
    ({"around": replace(ORDINARY, outdated=None)}, "people_unknown", None),
    ({"around": replace(ORDINARY, tests_failed=True)}, "tests_failed", None),
    ({"around": replace(ORDINARY, peer_flags=(FLAG,))}, "peer_flagged", None),
    ({"around": replace(ORDINARY, draw=None)}, "audit_not_drawn", "audit"),
    ({"around": replace(ORDINARY, draw=Draw(True, 0.05))}, "audit_drawn", "audit"),
]


@pytest.mark.parametrize(("changed", "code", "name"), ALONE)
def test_each_condition_alone_shuts_the_lane_and_says_so(
    changed: dict[str, Any], code: str, name: Condition | None
) -> None:
    wanted = Lane.NEEDS_HUMAN if code in TO_A_PERSON else Lane.NORMAL_QUEUE
    assert lane_and_codes(**changed) == (wanted, [code])
    if name is not None:
        without = replace(OPEN, conditions=tuple(one for one in CONDITIONS if one != name))
        assert lane_and_codes(**changed, thresholds=without) == (Lane.FAST_LANE, [])


@pytest.mark.parametrize(
    "around",
    [
        ORDINARY,
        SENSITIVE,
        replace(ORDINARY, attestation="missing"),
        replace(ORDINARY, account_changes=(replace(MOVED, days=14),)),
        replace(ORDINARY, silent_days=89),
        replace(ORDINARY, judged_round=3, newest_round=3),
        replace(ORDINARY, draw=Draw(False, 0.05)),
    ],
)
def test_what_meets_every_condition_keeps_its_lane(around: Circumstances) -> None:
    assert lane_and_codes(around) == (Lane.FAST_LANE, [])


@pytest.mark.parametrize(("days", "lane"), [(13, Lane.NORMAL_QUEUE), (14, Lane.FAST_LANE), (15, Lane.FAST_LANE)])
@pytest.mark.parametrize("who", ["author", "seed", "voucher"])
def test_a_change_of_an_account_counts_for_fourteen_days(who: Any, days: int, lane: Lane) -> None:
    changed = replace(ORDINARY, account_changes=(AccountChange(who, "key_rotations", days, "ana.test"),))
    assert lane_and_codes(changed)[0] is lane


@pytest.mark.parametrize(("days", "lane"), [(89, Lane.FAST_LANE), (90, Lane.NORMAL_QUEUE), (91, Lane.NORMAL_QUEUE)])
def test_ninety_days_of_silence_are_too_many(days: int, lane: Lane) -> None:
    assert lane_and_codes(replace(ORDINARY, silent_days=days))[0] is lane


@pytest.mark.parametrize(
    ("lacks", "moved", "days", "is_told"),
    [
        ("unsigned", True, 30, True),
        ("unknown_key", True, 31, True),
        ("new_key", True, 90, True),
        ("unsigned", True, 29, False),
        ("unsigned", True, None, False),
        ("unsigned", False, 90, False),
        (None, False, 90, False),
    ],
)
def test_another_time_zone_counts_only_beside_another_key_after_a_silence(
    lacks: Any, moved: bool, days: int | None, is_told: bool
) -> None:
    signing = None if lacks is None else Signing(lacks, 38, 40, 1 if lacks == "new_key" else None, moved)
    without_silence = replace(OPEN, conditions=tuple(name for name in CONDITIONS if name != "silence"))
    codes = lane_and_codes(replace(ORDINARY, signing=signing, silent_days=days), thresholds=without_silence)[1]
    assert ("returned_differently" in codes) is is_told
    assert (codes[:1] == ["returned_differently"]) is is_told


def test_an_operators_own_threshold_opens_the_lane_unless_a_certificate_is_asked_for() -> None:
    assert lane_and_codes(thresholds=OWN) == (Lane.FAST_LANE, [])
    strict = replace(OWN, conditions=(*CONDITIONS, "certificate"))
    assert lane_and_codes(thresholds=strict) == (Lane.NORMAL_QUEUE, ["certificate_required"])
    assert lane_and_codes(thresholds=replace(strict, certified=True)) == (Lane.FAST_LANE, [])


def test_nobody_having_looked_is_never_fast_lane() -> None:
    assert Circumstances().draw is None
    lane, codes = lane_and_codes(Circumstances())
    assert lane is Lane.NORMAL_QUEUE
    unknown = {"round_unknown", "account_unknown", "never_seen_before", "paths_unknown", "enrichment_unknown"}
    assert set(codes) == unknown | {"closures_unknown", "people_unknown"}


def test_only_what_is_fast_laned_otherwise_is_drawn_for_the_audit() -> None:
    drawn = replace(ORDINARY, draw=Draw(True, 1.0), silent_days=100)
    assert lane_and_codes(drawn) == (Lane.NORMAL_QUEUE, ["back_from_silence"])
    assert lane_conditions(Lane.NORMAL_QUEUE, KNOWN, CLEAR, replace(drawn, silent_days=0), OPEN)[1] == ()


def test_all_that_holds_a_change_back_is_listed_strongest_first() -> None:
    poor = Content(risk=0.3, recommended=True, coverage=0.5, has_verdict=False)
    around = replace(SENSITIVE, attestation="expired", silent_days=200, touched=("ci", "binary"), pending=("ci",))
    lane, reasons = decide_change(KNOWN, estimate(0.5), poor, around, OPEN)
    assert lane is Lane.NEEDS_HUMAN
    assert [reason.code for reason in reasons if reason.code in STRENGTH] == [
        *("attestation_expired", "below_fast_lane", "back_from_silence", "never_fast_path"),
        *("no_content_verdict", "content_partly_read", "content_risk_above", "review_recommended"),
        "enrichment_pending",
    ]


def test_every_condition_is_a_setting_with_a_check() -> None:
    assert {*CHECKS, "audit"} == set(get_args(Condition))
    assert set(CONDITIONS) == set(get_args(Condition)) - {"certificate"}
    assert set(STRENGTH) <= set(SENTENCES)
    assert len(STRENGTH) == len(set(STRENGTH))


KINDS = ("key_rotations", "pds_moves", "handle_changes", "recoveries", "returns", "identity", "tombstoned", "new kind")
TOLD = [
    *(replace(ORDINARY, account_changes=(AccountChange("author", kind, 1),)) for kind in KINDS),
    *(
        replace(ORDINARY, account_changes=(AccountChange(who, "returns", 0, "ana.test"),))
        for who in ("seed", "voucher")
    ),
    *(replace(ORDINARY, touched=(kind,)) for kind in ("ci", "binary", "path:docs/*.md", "unheard")),
    replace(ORDINARY, touched=("ci", "path:x", "build")),
    *(replace(ORDINARY, closures=(one,)) for one in CLOSED),
    replace(ORDINARY, newest_round=4),
    *(replace(ORDINARY, pending=(what,)) for what in ("identity", "patch", "ci", "push_holders")),
    *(replace(SENSITIVE, attestation=state) for state in get_args(Attestation)),
    replace(ORDINARY, draw=Draw(True, 0.05)),
    replace(ORDINARY, silent_days=400),
    Circumstances(),
]


@pytest.mark.parametrize("around", TOLD)
def test_each_condition_is_told_in_whole_plain_sentences(around: Circumstances) -> None:
    verdict = judge_change(replace(KNOWN, clean=90), CLEAR, around, OWN, 0.55, 5.0)
    for written in [*map(sentence, verdict.reasons), would_change(verdict, KNOWN, OWN)]:
        assert written[0].isupper() or written[0].isdigit()
        assert written.endswith(".")
        assert not [gap for gap in ("{", "}", "None", "  ", "nan", "_") if gap in written], written
    assert not explain(verdict, KNOWN).endswith(".")


def test_the_words_name_the_account_the_days_and_the_odds() -> None:
    seed = AccountChange("seed", "key_rotations", 3, "ana.test")
    params = lane_conditions(Lane.FAST_LANE, KNOWN, CLEAR, replace(ORDINARY, account_changes=(seed,)), OPEN)[1][0]
    assert sentence(params) == (
        "The account of the seed ana.test, which the trust path needs, got new keys 3 days ago; "
        "fast lane again after 14 days."
    )
    drawn = sentence(Reason("audit_drawn", {"odds": 0.05}))
    assert drawn == "Random audit: read it as if nothing were known.", "its odds would name the lane"
    assert sentence(Reason("never_fast_path", {"kind": "ci", "count": 1})) == (
        "The change touches what runs in CI; a person always reads that."
    )


changes = st.builds(
    AccountChange, st.sampled_from(["author", "seed", "voucher"]), st.sampled_from(KINDS), st.integers(0, 20)
)
arounds = st.builds(
    Circumstances,
    judged_round=st.none() | st.integers(0, 3),
    newest_round=st.none() | st.integers(0, 3),
    pending=st.none() | st.lists(st.sampled_from(["identity", "ci"]), max_size=1).map(tuple),
    account_changes=st.none() | st.lists(changes, max_size=1).map(tuple),
    silent_days=st.none() | st.integers(0, 100),
    touched=st.none() | st.lists(st.sampled_from(["ci", "path:x"]), max_size=1).map(tuple),
    tier=st.sampled_from(["public", "sensitive"]),
    attestation=st.sampled_from(get_args(Attestation)),
    draw=st.none() | st.builds(Draw, st.booleans(), st.floats(0, 1)),
    closures=st.none() | st.sampled_from([(), CLOSED[:1]]),
    objected=st.none() | st.booleans(),
    outdated=st.none() | st.booleans(),
    tests_failed=st.booleans(),
    signing=st.none()
    | st.builds(
        Signing,
        st.sampled_from(["unsigned", "unknown_key", "unchecked"]),
        st.integers(4, 40),
        st.just(40),
        st.none(),
        st.booleans(),
    )
    | st.builds(Signing, st.just("new_key"), st.integers(4, 40), st.just(40), st.integers(0, 29), st.booleans()),
    peer_flags=st.lists(st.builds(PeerFlag, st.text(), st.text(), st.floats(0, 1), st.integers(0)), max_size=2).map(
        tuple
    ),
)
# Mostly ordinary ones with one field of another, so that the fast lane is reached often.
around_one = st.builds(
    lambda name, other: replace(ORDINARY, **{name: getattr(other, name)}),
    st.sampled_from([field.name for field in fields(Circumstances)]),
    arounds,
)
arounds_at_hand = st.just(ORDINARY) | around_one | arounds


def best(lane: Lane) -> int:
    return BETTER.index(lane)


@given(evidences, st.none() | contents, arounds_at_hand, st.floats(0, 1))
def test_the_conditions_only_lower(
    evidence: Evidence, content: Content | None, around: Circumstances, probability: float
) -> None:
    before = decide(evidence, estimate(probability), content, OPEN)[0]
    for lane in Lane:
        assert best(lane_conditions(lane, evidence, content, around, OPEN)[0]) <= best(lane)
    assert best(decide_change(evidence, estimate(probability), content, around, OPEN)[0]) <= best(before)


def test_a_peer_whose_word_weighs_too_little_changes_nothing() -> None:
    light = replace(FLAG, weight=nextafter(PEER_WEIGHT, 0))
    assert lane_and_codes(replace(ORDINARY, peer_flags=(light,))) == (Lane.FAST_LANE, [])
    assert lane_and_codes(replace(ORDINARY, peer_flags=(light, FLAG))) == (Lane.NEEDS_HUMAN, ["peer_flagged"])


def test_what_a_peer_flags_is_drawn_for_the_audit_all_the_same_so_that_its_word_is_tested() -> None:
    around = replace(ORDINARY, peer_flags=(FLAG,), draw=None)
    assert lane_and_codes(around) == (Lane.NEEDS_HUMAN, ["peer_flagged", "audit_not_drawn"])
    around = replace(around, draw=Draw(True, 0.05))
    assert lane_and_codes(around) == (Lane.NEEDS_HUMAN, ["audit_drawn", "peer_flagged"])


@given(evidences, contents, arounds_at_hand, st.floats(0, 1), st.floats(0, 1))
def test_more_risk_or_less_trust_never_improves_a_lane(
    evidence: Evidence, content: Content, around: Circumstances, more: float, less: float
) -> None:
    riskier = replace(content, risk=max(content.risk, more), high_flags=content.high_flags + 1)
    weaker = replace(evidence, structural_trust=evidence.structural_trust * less)
    worst = [(evidence, content), (evidence, riskier), (weaker, riskier)]
    lanes = [judge_change(person, change, around, OPEN, 0.55, 5.0).lane for person, change in worst]
    assert all(best(after) <= best(before) for before, after in pairwise(lanes))


@given(evidences, st.none() | contents | st.just(NO_CHANGE), arounds_at_hand, st.floats(0, nextafter(0.9, 0)))
def test_no_content_ever_moves_anybody_below_the_threshold_into_the_fast_lane(
    evidence: Evidence, content: Content | None, around: Circumstances, probability: float
) -> None:
    assert decide_change(evidence, estimate(probability), content, around, OPEN)[0] is not Lane.FAST_LANE


@given(evidences, contents, arounds_at_hand)
def test_what_is_fast_laned_meets_everything_that_was_asked(
    evidence: Evidence, content: Content, around: Circumstances
) -> None:
    if judge_change(evidence, content, around, OPEN, 0.95, 5.0).lane is not Lane.FAST_LANE:
        return
    assert evidence.structural_trust >= 0.5
    assert not evidence.one_account
    assert content.coverage == 1
    assert content.has_verdict
    assert around.judged_round is not None
    assert around.newest_round is not None
    assert around.newest_round <= around.judged_round
    assert around.pending == ()
    assert around.touched == ()
    assert around.account_changes is not None
    assert all(change.days >= 14 for change in around.account_changes)
    assert around.silent_days is not None
    assert around.silent_days < 90
    assert around.tier == "public" or around.attestation == "valid"
    assert around.draw is not None
    assert not around.draw.drawn
    assert around.closures == ()
    assert (around.objected, around.outdated, around.tests_failed) == (False, False, False)


# Whatever nobody looked at, and what of a person or a change may be unknown. Most people have no habit of signing.
UNKNOWN = [
    field.name
    for field in fields(Circumstances)
    if getattr(Circumstances(), field.name) is None and field.name != "signing"
]


@given(evidences, contents, st.floats(0.9, 1))
def test_missing_anything_never_leads_to_the_fast_lane(
    evidence: Evidence, content: Content, probability: float
) -> None:
    trusted = replace(KNOWN, clean=evidence.clean, waiting=evidence.waiting)
    sure = estimate(probability)
    assert decide_change(trusted, sure, CLEAR, ORDINARY, OPEN)[0] is Lane.FAST_LANE, "else this would prove nothing"
    for around in (replace(ORDINARY, **{name: None}) for name in UNKNOWN):
        assert decide_change(trusted, sure, CLEAR, around, OPEN)[0] is Lane.NORMAL_QUEUE
        assert decide_change(evidence, sure, content, around, OPEN)[0] is not Lane.FAST_LANE
    for person, one, change, thresholds in (
        (trusted, sure, None, OPEN),
        (trusted, estimate(None), CLEAR, OPEN),
        (replace(trusted, structural_trust=0.0), sure, CLEAR, OPEN),
        (trusted, sure, replace(CLEAR, has_verdict=False), OPEN),
        (trusted, sure, CLEAR, replace(OPEN, t_high=None)),
        (trusted, sure, CLEAR, replace(OPEN, conditions=(*CONDITIONS, "certificate"), certified=False)),
    ):
        assert decide_change(person, one, change, ORDINARY, thresholds)[0] is Lane.NORMAL_QUEUE
        assert decide_change(evidence, one, change and content, Circumstances(), thresholds)[0] is not Lane.FAST_LANE


def test_every_circumstance_that_can_be_unknown_is_asked_about() -> None:
    # Unknown, these say 'public', 'not_asked', which counts as missing, and False, beside a pending look-up of CI; no
    # site has to have peers. A round that was not looked at yet lacks its signatures, as "unchecked".
    kept = {"tier", "attestation", "tests_failed", "peer_flags", "signing"}
    assert set(UNKNOWN) == {field.name for field in fields(Circumstances)} - kept
