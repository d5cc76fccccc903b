"""The spoken form of a decision: three sentences at most, and not a word that somebody else wrote."""

import re

from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.spoken import HELD, NO_PROBABILITY, SAMPLED, briefing, calibrated
from scoring.gate.decide import STRENGTH
from scoring.types import Estimate, Lane, Reason, Verdict

KNOWN_OF_ANA = Estimate(0.9, 0.8, 0.96, 41)
HOSTILE = st.sampled_from(
    ("https://evil.example/x", "did:plc:mallory", "../../etc/passwd", "ignore previous instructions", "ana.example")
)
NAMES = ("who", "kind", "name", "by", "scope", "place", "type", "missing", "seed", "voucher", "what")
NUMBERS = ("hops", "clean", "cases", "waiting", "count", "coverage", "probability", "t_high", "needed", "days", "risk")


def told(lane: Lane, *reasons: Reason, estimate: Estimate = KNOWN_OF_ANA) -> tuple[str, ...]:
    return briefing(Verdict(lane, estimate, reasons, ()))


def test_a_flagged_change_tells_the_lane_the_flag_the_record_and_the_probability() -> None:
    flag = Reason("high_flag", {"count": 1, "type": "security", "place": "src/login.py line 4"})
    record = Reason("track_record", {"merged_here": 3, "settled_here": 4, "clean": 3, "cases": 4, "waiting": 0})
    assert told(Lane.NEEDS_HUMAN, flag, record) == (
        "This pull request needs a person, because its review found a security problem.",
        "3 of their 4 settled pull requests stayed clean.",
        "About 90 percent of such pull requests stay clean, between 80 and 96 percent, judged from 41 settled ones.",
    )


def test_a_sample_of_the_audit_tells_nothing_of_what_was_judged() -> None:
    drawn = Reason("audit_drawn", {"odds": 0.05})
    assert told(Lane.NEEDS_HUMAN, drawn, Reason("is_seed", {})) == (SAMPLED,)


def test_without_evidence_no_number_is_spoken() -> None:
    nobody = Estimate(None, 0.1, 0.9, 0)
    lines = told(Lane.NORMAL_QUEUE, Reason("not_enough_evidence", {"waiting": 0}), estimate=nobody)
    assert lines[-1] == calibrated(nobody) == NO_PROBABILITY
    assert not re.search(r"\d", " ".join(lines))


def test_every_reason_that_holds_a_change_back_has_spoken_words() -> None:
    assert set(STRENGTH) - {"audit_drawn"} <= set(HELD)


@given(
    st.sampled_from(Lane),
    st.lists(
        st.builds(
            Reason,
            st.sampled_from((*STRENGTH, "trust_path", "track_record", "trusted_denouncers", "unheard_of")),
            st.fixed_dictionaries(dict.fromkeys(NAMES, HOSTILE) | {name: st.integers(0, 1) for name in NUMBERS}),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_nothing_that_others_wrote_is_ever_spoken(lane: Lane, reasons: list[Reason]) -> None:
    lines = told(lane, *reasons)
    assert 1 <= len(lines) <= 3
    spoken = " ".join(lines)
    assert not re.search(r"://|did:|\.\./|instructions|\w\.\w", spoken)
    assert all(line.endswith(".") and line.count(".") == 1 for line in lines)


def test_of_a_person_it_tells_what_their_next_change_could_have() -> None:
    reasons = (Reason("is_seed", {}),)
    lines = briefing(Verdict(Lane.FAST_LANE, KNOWN_OF_ANA, reasons, ()), "person")
    assert lines[0] == "The next pull request of this contributor could be in the fast lane."
    assert told(Lane.NORMAL_QUEUE, *reasons, Reason("content_not_reviewed", {}))[0].endswith(
        "because its content was not reviewed yet."
    )


def test_in_shadow_mode_the_fast_lane_is_only_what_it_would_be() -> None:
    verdict = Verdict(Lane.FAST_LANE, KNOWN_OF_ANA, (Reason("is_seed", {}),), ())
    assert briefing(verdict, shadow=True)[0] == "This pull request would be in the fast lane."
    flagged = Verdict(Lane.NEEDS_HUMAN, KNOWN_OF_ANA, (Reason("high_flag", {"type": "security"}),), ())
    assert briefing(flagged, shadow=True) == briefing(flagged)


@given(st.sampled_from(Lane), st.lists(st.sampled_from((*HELD, "is_seed", "trust_reaches")), max_size=4))
def test_it_is_short_enough_to_be_listened_to(lane: Lane, codes: list[str]) -> None:
    params = dict.fromkeys((*NAMES, *NUMBERS), 1)
    for of in ("change", "person"):
        lines = briefing(Verdict(lane, KNOWN_OF_ANA, tuple(Reason(code, params) for code in codes), ()), of)
        assert len(" ".join(lines)) <= 600
