"""Reviews by the real SDK over a loopback stand-in: two passes whose risk only rises, paid once and cut to size."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scoring.review.anthropic_client import OUTPUT_TOKENS
from scoring.review.cache import MemoryLedger
from scoring.review.costs import Call
from scoring.review.deterministic import assess
from scoring.review.reviewer import is_hard, prompt_version
from scoring.types import Severity
from tests.scoring.review.reviewing import (
    HAIKU,
    OPUS,
    PRICES,
    SONNET,
    USAGE,
    a_case,
    a_change,
    a_file,
    a_finding,
    a_flag,
    a_reviewer,
    reviewed,
    says,
    worded,
)
from tests.standins.claude import CALM, Answer, ClaudeStandIn, message


@pytest.fixture(name="claude")
def claude_fixture() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn() as claude:
        yield claude


def test_a_change_with_words_is_read_in_two_passes(claude: ClaudeStandIn) -> None:
    review = a_reviewer(claude).review(worded(), Call.CLAUDE)
    first, second = (request.told for request in claude.messages)
    assert "Faster pears" not in json.dumps(first)
    assert "Faster pears" in json.dumps(second)
    assert (review.state, review.reviewer, review.coverage) == ("content verdict", SONNET, 1.0)
    assert (review.model, review.prompt_version, review.temperature_sent) == (SONNET, prompt_version(), 0.0)
    assert review.assessment.summary == CALM["summary"]


def test_a_bare_diff_is_read_in_one_pass(claude: ClaudeStandIn) -> None:
    a_reviewer(claude).review(a_case(), Call.CLAUDE)
    assert len(claude.messages) == 1


@pytest.mark.parametrize(
    ("call", "state", "reason"),
    [
        (Call.NOBODY, "no content verdict", "review_off"),
        (Call.DETERMINISTIC, "content verdict", None),
        (Call.MISSING, "no content verdict", "over_budget"),
    ],
)
def test_no_model_is_asked_where_the_gate_says_so_and_the_findings_count_all_the_same(
    claude: ClaudeStandIn, call: Call, state: str, reason: str | None
) -> None:
    review = a_reviewer(claude).review(a_case(a_change(), a_finding(Severity.HIGH)), call)
    assert (review.reviewer, review.state, review.reason, review.model) == ("deterministic", state, reason, None)
    assert (review.assessment.content_risk, review.assessment.review_recommended) == (0.8, True)
    assert claude.requests == []


def test_code_that_no_rule_reads_has_a_verdict_only_where_a_model_read_all_of_it(claude: ClaudeStandIn) -> None:
    case = a_case(a_change(a_file("src/pear.hs")))
    alone = a_reviewer(claude).review(case, Call.DETERMINISTIC)
    assert (alone.state, alone.reason) == ("no content verdict", "no_rules:Haskell")
    read = a_reviewer(claude).review(case, Call.CLAUDE)
    assert (read.state, read.reason, read.model) == ("content verdict", None, SONNET)
    many = a_change(*(a_file(f"src/{number}.hs", ["x = pear"] * 200) for number in range(20)))
    cut = a_reviewer(claude, input_tokens=6_000).review(a_case(many), Call.CLAUDE)
    assert (cut.state, cut.reason) == ("no content verdict", "no_rules:Haskell")


def test_the_request_forces_one_strict_tool_and_nothing_a_model_would_refuse(claude: ClaudeStandIn) -> None:
    reviewed(claude)
    told = claude.messages[0].told
    assert told["tool_choice"] == {"type": "tool", "name": "report_assessment", "disable_parallel_tool_use": True}
    assert [tool["strict"] for tool in told["tools"]] == [True]
    assert "thinking" not in told
    assert told["max_tokens"] == OUTPUT_TOKENS


def test_temperature_0_goes_to_the_models_that_take_one_and_under_the_version_that_does(claude: ClaudeStandIn) -> None:
    ordinary = reviewed(claude)
    hard = a_reviewer(claude).review(a_case(a_change(), a_finding(Severity.MED, "security")), Call.CLAUDE)
    sent = [
        (ask.told["model"], ask.told.get("temperature"), ask.headers["anthropic-version"]) for ask in claude.messages
    ]
    assert sent == [(SONNET, 0.0, "2023-06-01"), (OPUS, None, "2026-10-21")]
    assert (ordinary.temperature_sent, hard.temperature_sent) == (0.0, None)


def test_flags_come_back_at_their_lines_and_unresolved_ones_are_kept(claude: ClaudeStandIn) -> None:
    review = reviewed(claude, says(flags=[a_flag("F1:L1"), a_flag("F7:L3", says="See https://evil.example now")]))
    assert [flag.location for flag in review.assessment.flags] == ["src/pear.py:1", "not found in the change: F7:L3"]
    assert review.assessment.flags[1].explanation == "See (link to evil.example) now"


def test_the_second_pass_can_raise_and_not_lower(claude: ClaudeStandIn) -> None:
    claude.script(says(content_risk=0.3, summary="Broken."), says(content_risk=0.15, summary="All is well."))
    review = a_reviewer(claude).review(worded(), Call.CLAUDE)
    assert (review.assessment.content_risk, review.assessment.summary) == (0.3, "Broken.")
    claude.script(says(content_risk=0.1), says(content_risk=0.6, flags=[a_flag("title", kind="intent_mismatch")]))
    review = a_reviewer(claude).review(worded(), Call.CLAUDE)
    assert review.assessment.content_risk == 0.6
    assert [flag.location for flag in review.assessment.flags] == ["title"]


def test_a_calm_model_does_not_lower_what_the_findings_say(claude: ClaudeStandIn) -> None:
    found = a_finding(Severity.HIGH)
    review = a_reviewer(claude).review(a_case(a_change(), found), Call.CLAUDE)
    assert review.assessment.content_risk == assess(a_change(), [found]).content_risk == 0.8


def test_a_diff_beyond_the_budget_of_tokens_is_cut_and_says_so(claude: ClaudeStandIn) -> None:
    change = a_change(*(a_file(f"src/{number}.py", ["x = 'pear'"] * 200) for number in range(20)), a_file("ci/.ci/run"))
    review = a_reviewer(claude, input_tokens=6_000).review(a_case(change), Call.CLAUDE)
    assert 0 < review.coverage < 0.5
    assert "ci/.ci/run" not in review.left_out
    assert len(review.left_out) > 10
    assert review.assessment.review_recommended
    assert review.assessment.content_risk >= 0.4
    told = next(flag for flag in review.assessment.flags if flag.type == "oversized")
    assert "was not given all of src/" in told.explanation
    counted = [request.told for request in claude.requests if request.path.endswith("count_tokens")]
    assert len(counted) > 1
    assert claude.messages[0].told["messages"] == counted[-1]["messages"], "what was counted is what was sent"


def test_a_change_that_cannot_be_cut_to_size_is_too_large(claude: ClaudeStandIn) -> None:
    assert reviewed(claude, input_tokens=500).reason == "too_large"
    assert claude.messages == []


def test_coverage_of_reading_and_of_sending_multiply(claude: ClaudeStandIn) -> None:
    review = a_reviewer(claude).review(a_case(a_change(coverage=0.5)), Call.CLAUDE)
    assert review.coverage == 0.5
    assert review.assessment.review_recommended


def test_the_same_content_is_paid_once_and_each_change_keeps_its_own_findings(claude: ClaudeStandIn) -> None:
    reviewer = a_reviewer(claude)
    first = reviewer.review(a_case(), Call.CLAUDE)
    about = a_finding(Severity.HIGH, source=("commit_author", "other-person"))
    again = reviewer.review(a_case(a_change(), about), Call.CLAUDE)
    assert len(claude.messages) == 1
    assert (first.dollars > 0, again.dollars) == (True, 0.0)
    assert (first.assessment.content_risk, again.assessment.content_risk) == (CALM["content_risk"], 0.8)


def test_a_failed_reading_is_not_kept(claude: ClaudeStandIn) -> None:
    reviewer = a_reviewer(claude)
    claude.script(message(SONNET, None, USAGE, "refusal"))
    assert reviewer.review(a_case(), Call.CLAUDE).state == "no content verdict"
    assert reviewer.review(a_case(), Call.CLAUDE).state == "content verdict"


def test_no_dollar_is_spent_that_the_day_does_not_have(claude: ClaudeStandIn) -> None:
    review = reviewed(claude, ledger=MemoryLedger(0.05))
    assert (review.state, review.reason) == ("no content verdict", "over_budget")
    assert claude.messages == []
    assert a_reviewer(claude).review(a_case(), Call.MISSING).reason == "over_budget"


def test_the_second_pass_reads_the_diff_from_the_cache_and_that_is_cheaper(claude: ClaudeStandIn) -> None:
    change = a_change(a_file("src/a.py", [f"x = {number}" for number in range(900)]))
    review = a_reviewer(claude).review(worded(change), Call.CLAUDE)
    assert review.usage is not None
    assert review.usage.cache_read_tokens == review.usage.cache_write_tokens > 3_000
    assert review.dollars == pytest.approx(PRICES[SONNET].dollars(review.usage))
    twice = replace(review.usage, input_tokens=2 * review.usage.cache_read_tokens, cache_write_tokens=0)
    assert review.dollars < PRICES[SONNET].dollars(replace(twice, cache_read_tokens=0))
    assert "cache_control" not in json.dumps(claude.messages[0].told["system"]), "too short to be kept by itself"


def test_the_small_model_spares_the_full_reading_only_where_nothing_is_in_doubt(claude: ClaudeStandIn) -> None:
    review = a_reviewer(claude, screens=True).review(a_case(), Call.SCREEN)
    assert (review.reviewer, [ask.told["model"] for ask in claude.messages]) == (HAIKU, [HAIKU])


@pytest.mark.parametrize(
    "doubt",
    [
        says(content_risk=0.4),
        says(flags=[a_flag()]),
        says(review_recommended=True),
        message(SONNET, None, USAGE, "refusal"),
    ],
)
def test_any_doubt_of_the_small_model_asks_for_the_full_reading_and_is_not_lost(
    claude: ClaudeStandIn, doubt: Answer
) -> None:
    claude.script(doubt)
    review = a_reviewer(claude, screens=True).review(a_case(), Call.SCREEN)
    assert [ask.told["model"] for ask in claude.messages] == [HAIKU, SONNET]
    assert (review.reviewer, review.state) == (SONNET, "content verdict")
    assert review.assessment.review_recommended


def test_without_a_small_model_screening_is_the_full_reading(claude: ClaudeStandIn) -> None:
    assert a_reviewer(claude).review(a_case(), Call.SCREEN).reviewer == SONNET


def test_hard_cases_are_those_with_findings_of_security_and_much_of_what_runs_with_rights() -> None:
    assert is_hard(a_case(a_change(), a_finding(Severity.MED, "security")))
    assert not is_hard(a_case(a_change(), a_finding(Severity.LOW, "security")))
    assert not is_hard(a_case(a_change(), a_finding(Severity.HIGH, "license")))
    assert is_hard(a_case(a_change(a_file("src/login.py", ["x"] * 50))))
    assert not is_hard(a_case(a_change(a_file("src/login.py", ["x"] * 49), a_file("src/pear.py", ["x"] * 900))))
