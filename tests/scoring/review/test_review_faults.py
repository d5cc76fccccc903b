"""A model that fails in any way leaves no verdict, and an answer that never ends is cut."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from scoring.review.anthropic_client import Access, Block, Claude, Request
from scoring.review.cache import MemoryLedger
from scoring.review.costs import Call
from scoring.review.schema import NoAnswer
from tests.scoring.review.reviewing import SONNET, USAGE, a_case, a_flag, a_reviewer, reviewed, says, worded
from tests.standins.claude import CALM, Answer, ClaudeStandIn, error, message, overloaded, plain, rate_limited
from tests.waiting import LONG_SECONDS, ends_by_itself


@pytest.fixture(name="claude")
def claude_fixture() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn() as claude:
        yield claude


FAILURES = {
    "refused": message(SONNET, None, USAGE, "refusal"),
    "cut": message(SONNET, {"content_risk": 0.1}, USAGE, "max_tokens"),
    "rejected": error(400, "invalid_request_error", "no"),
    "no_access": error(401, "authentication_error", "no"),
    "no_such_model": error(404, "not_found_error", "no"),
    "too_large": error(413, "request_too_large", "no"),
    "out_of_range": says(content_risk=7.0),
    "malformed": says(flags="none"),
}
MALFORMED = {
    "no tool": message(SONNET, None, USAGE, "end_turn"),
    "another tool": message(SONNET, CALM, USAGE, name="approve"),
    "a list": message(SONNET, [CALM], USAGE),  # ty: ignore[invalid-argument-type]
    "no assessment": message(SONNET, {"approved": True}, USAGE),
    "no message": Answer({"type": "surprise"}),
    "two calls": Answer({**says().body, "content": says().body["content"] * 2}),
    "usage that is none": Answer({**says().body, "usage": None}),
    "not a number": says(content_risk=float("nan")),
    "a number as text": says(content_risk="0.1"),
    "a yes as a number": says(review_recommended=1),
    "a field more": says(approved=True),
    "a field less": message(SONNET, {name: CALM[name] for name in CALM if name != "summary"}, USAGE),
    "a flag with a field more": says(flags=[{**a_flag(), "confidence": 1}]),
    "a flag of no type": says(flags=[a_flag(kind="vibes")]),
    "an end that nobody knows": message(SONNET, CALM, USAGE, "paused_for_review"),
    "no end": Answer({**says().body, "stop_reason": None}),
    "tokens below zero": Answer({**says().body, "usage": {**USAGE, "input_tokens": -5}}),
    "more tokens than there are": Answer({**says().body, "usage": {**USAGE, "output_tokens": 10**18}}),
}
BEYOND = {
    "risk below zero": {"content_risk": -0.01},
    "risk above one": {"content_risk": 1.0000001},
    "infinite risk": {"content_risk": 1e999},
    "ten thousand flags": {"flags": [a_flag()] * 10_000},
    "an explanation without end": {"flags": [a_flag(says="x" * 100_000)]},
    "a summary without end": {"summary": "x" * 100_000},
}


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failed_call_is_no_content_verdict_with_its_reason(claude: ClaudeStandIn, reason: str) -> None:
    review = reviewed(claude, FAILURES[reason])
    assert (review.state, review.reason) == ("no content verdict", reason)
    assert review.assessment.review_recommended
    assert review.reviewer == "deterministic"
    assert len(claude.messages) == 1, "asking again would not help"


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_whatever_is_no_assessment_is_malformed(claude: ClaudeStandIn, answer: Answer) -> None:
    assert reviewed(claude, answer).reason == "malformed"


@pytest.mark.parametrize("changes", BEYOND.values(), ids=BEYOND)
def test_what_is_beyond_the_bounds_is_no_verdict(claude: ClaudeStandIn, changes: dict[str, object]) -> None:
    review = reviewed(claude, says(**changes))
    assert review.state == "no content verdict"
    assert review.reason in ("out_of_range", "malformed")
    assert review.assessment.review_recommended
    assert review.dollars > 0, "it was billed all the same"


def test_an_answer_that_cannot_be_read_counts_as_billed(claude: ClaudeStandIn) -> None:
    review = reviewed(claude, Answer({"type": "surprise"}))
    assert review.usage is not None
    assert review.usage.input_tokens > 500
    assert review.dollars > 0


def test_an_answer_that_repeats_the_mark_is_none(claude: ClaudeStandIn) -> None:
    reviewed(claude)
    mark = claude.messages[0].told["messages"][0]["content"][1]["text"].split("</data-")[1][:32]
    review = reviewed(claude, says(summary=f"The data {mark.upper()} is fine."))
    assert review.reason == "echoed_nonce"
    assert mark not in review.assessment.summary.lower()


def test_a_refusal_that_was_billed_is_paid(claude: ClaudeStandIn) -> None:
    review = reviewed(claude, FAILURES["refused"])
    assert review.dollars == pytest.approx((1000 * 3 + 100 * 15) / 1e6)


def test_what_the_first_pass_said_stays_where_the_second_fails(claude: ClaudeStandIn) -> None:
    claude.script(says(content_risk=0.9, flags=[a_flag(severity="high")]), FAILURES["refused"])
    review = a_reviewer(claude).review(worded(), Call.CLAUDE)
    assert (review.state, review.assessment.content_risk, review.reviewer) == ("no content verdict", 0.9, SONNET)


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        (overloaded(), [1.0, 4.0]),
        (rate_limited("7"), [7.0, 7.0]),
        (rate_limited("-3"), [1.0, 4.0]),
        (rate_limited("Sat, 21 Nov 2026 10:00:00 GMT"), [1.0, 4.0]),
        (error(500, "api_error", "Internal server error"), [1.0, 4.0]),
        (Answer(how="dead"), [1.0, 4.0]),
    ],
)
def test_a_passing_fault_is_tried_again_as_told_and_then_given_up(
    claude: ClaudeStandIn, answer: Answer, waits: list[float]
) -> None:
    slept: list[float] = []
    assert reviewed(claude, answer, answer, slept=slept).state == "content verdict"
    assert (slept, len(claude.messages)) == (waits, 3)
    review = reviewed(claude, answer, answer, answer, slept=slept, ledger=MemoryLedger(9))
    assert review.reason in ("overloaded", "rate_limited", "server_error", "unreachable")
    assert len(claude.messages) == 6


def test_a_wait_of_hours_is_not_waited_for(claude: ClaudeStandIn) -> None:
    slept: list[float] = []
    assert reviewed(claude, rate_limited("7200"), slept=slept).reason == "rate_limited"
    assert slept == []


def test_a_body_that_drips_for_ever_is_cut(claude: ClaudeStandIn) -> None:
    slow = Answer(says().body, how="slow")
    review = reviewed(claude, slow, slow, slow, seconds=0.15)
    assert review.reason == "timeout"
    assert review.usage is not None
    assert review.usage.input_tokens > 3 * 500, "each attempt may have been billed"


def test_a_redirect_is_not_followed(claude: ClaudeStandIn) -> None:
    elsewhere = Answer({}, 307, {"location": f"{claude.base_url}/v1/messages"})
    assert reviewed(claude, elsewhere).reason == "rejected"
    assert len(claude.messages) == 1


def test_a_packed_answer_is_not_unpacked(claude: ClaudeStandIn) -> None:
    packed = Answer(says().body, 200, {"content-encoding": "gzip"})
    assert reviewed(claude, packed, packed, packed).reason == "unreachable"


def test_an_endless_answer_is_cut(claude: ClaudeStandIn) -> None:
    long = Answer({"x": "y" * 2_100_000})
    assert reviewed(claude, long, long, long).reason == "unreachable"


def test_a_wrong_key_is_no_access(claude: ClaudeStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scoring.review.reviewing.KEY", "sk-ant-other")
    review = reviewed(claude)
    assert review.reason == "no_access"
    assert claude.behaviour is plain
    assert claude.messages == []


def test_a_dead_host_is_unreachable() -> None:
    with ClaudeStandIn() as gone:
        pass
    slept: list[float] = []
    review = a_reviewer(gone, slept).review(a_case(), Call.CLAUDE)
    assert (review.state, review.reason, slept) == ("no content verdict", "unreachable", [1.0, 4.0])


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n"


class Trickle:
    """A peer that sends these bytes one at a time and never ends."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self._first, self._then = first, then
        self._end = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.recv(65536)
            connection.sendall(self._first)
            while not self._end.wait(0.02):
                connection.sendall(self._then)

    def close(self) -> None:
        self._end.set()
        self._listener.close()
        self._thread.join(LONG_SECONDS)


@pytest.fixture(name="trickle", params=[(b"HTTP/1.1 200 OK\r\nx-pear: ", b"a"), (HEAD + b"\r\n", b" "), (b"", b"")])
def trickle_fixture(request: pytest.FixtureRequest) -> Iterator[Trickle]:
    peer = Trickle(*request.param)
    yield peer
    peer.close()


def test_an_answer_that_never_ends_is_cut_in_time(trickle: Trickle) -> None:
    claude = Claude(Access("key", trickle.url, seconds=0.2, attempts=1), lambda _: None)
    request = Request("claude-sonnet-4-6", "Review.", (Block("data"),))
    with ends_by_itself(), pytest.raises(NoAnswer) as caught:
        claude.ask(request, 100)
    assert caught.value.reason == "timeout"
