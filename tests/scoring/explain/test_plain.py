"""Words without thresholds, words that are read aloud, and names of findings."""

import re
from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.decided import CLAUSES
from scoring.explain.findings import LONGEST_NAME, RULES, SCANNERS, finding_name
from scoring.explain.reasons import FLAG_NAMES
from scoring.explain.sentences import (
    ANY_OTHER,
    OWN_SENTENCES,
    PLAIN_SENTENCES,
    SENTENCES,
    THRESHOLD_PARAMS,
    own_sentence,
    plain_notice,
    plain_sentence,
)
from scoring.explain.spoken import HELD, NO_PROBABILITY, SAMPLED, briefing, calibrated
from scoring.gate.conditions import STRENGTH
from scoring.scanners import scanners
from scoring.scanners._rules import rules
from scoring.scanners.bandit_checks import CHECKS
from scoring.scanners.build_paths import TOLD
from scoring.types import Estimate, Lane, Param, Reason, Verdict


class Watched(Mapping[str, Param]):
    """Parameters of any name, which remember the names that were asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Param:
        self.asked.add(name)
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.asked)

    def __len__(self) -> int:
        return len(self.asked)


def test_what_an_author_is_told_speaks_to_them_and_names_no_threshold() -> None:
    for code, sentence in SENTENCES.items():
        params = Watched()
        words = OWN_SENTENCES[code](params) if code in OWN_SENTENCES else PLAIN_SENTENCES.get(code) or sentence(params)
        assert not params.asked & THRESHOLD_PARAMS, code
        spoken_about = r"\b(?:you trust|about them|for them|theirs?|(?:this|the) contributor)\b"
        assert not re.search(spoken_about, words), words
        assert own_sentence(Reason(code, dict.fromkeys(params.asked, 1))) == words


def test_every_reason_that_names_a_threshold_has_words_without_one() -> None:
    for code, sentence in SENTENCES.items():
        params = Watched()
        sentence(params)
        assert not params.asked & THRESHOLD_PARAMS or code in PLAIN_SENTENCES, f"give {code} a line in PLAIN_SENTENCES"


def test_the_one_line_of_a_row_never_names_a_threshold() -> None:
    for code, clause in CLAUSES.items():
        params = Watched()
        clause(params)
        assert not params.asked & THRESHOLD_PARAMS, code


def test_plain_words_hold_no_figure() -> None:
    words = [plain_sentence(Reason(code, {})) for code in PLAIN_SENTENCES]
    assert [line for line in words if any(character.isdigit() for character in line)] == []


def test_a_code_without_plain_words_that_carries_a_threshold_stays_general() -> None:
    assert plain_sentence(Reason("made_later", {"t_high": 0.8713})) == ANY_OTHER
    assert "made_later" in plain_sentence(Reason("made_later", {"count": 3}))


def test_a_lane_that_is_open_and_certified_says_nothing() -> None:
    assert plain_notice(True, "") == ""
    assert "shut" in plain_notice(False, "The fast lane is shut: 59 are needed.")
    assert "by hand" in plain_notice(True, "The threshold 0.90 was set by hand.")


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


KNOWN = [
    *(("dangerous", rule.id) for rule in rules()),
    *(("bandit", check) for check in CHECKS),
    *(("build_paths", kind) for kind in TOLD),
    *(("build_paths", f"more-{kind}") for kind in TOLD),
    *RULES,
    *((scanner, "anything") for scanner in SCANNERS),
]


def test_every_rule_has_a_name_of_its_own_that_is_short() -> None:
    for scanner, rule in KNOWN:
        name = finding_name(scanner, rule, "security")
        assert name not in FLAG_NAMES.values() or scanner == "secrets", (scanner, rule)
        assert name[0].isupper(), (scanner, rule)
        assert len(name) <= LONGEST_NAME, (scanner, rule)
        assert name.lower() not in ("addressed", "dangerous", scanner), (scanner, rule)


def test_every_scanner_is_named_by_the_table() -> None:
    assert set(scanners()) <= {*SCANNERS, *(scanner for scanner, _ in RULES), "bandit"}


def test_a_rule_of_another_version_is_named_by_the_kind_of_its_flag() -> None:
    assert finding_name("dangerous", "python-never-heard-of", "subtle_bug") == "Possible bug"
    assert finding_name("no-such-scanner", "x", "no-such-kind") == "Needs a close look"


def test_the_same_fault_has_one_name_in_every_language() -> None:
    assert {finding_name("dangerous", f"{one}-tls-unverified", "security") for one in ("go", "python", "shell")} == {
        "TLS check turned off"
    }
