"""Reads the answers of the Anthropic API strictly: anything but one complete assessment raises NoAnswer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from pydantic import ValidationError

from ingest.json_decoding import decode_json
from scoring.review.costs import Usage
from scoring.review.schema import Assessment, plain_text

TOOL = "report_assessment"
FailureReason = Literal[
    "refused",
    "cut",
    "malformed",
    "out_of_range",
    "echoed_nonce",
    "timeout",
    "unreachable",
    "rate_limited",
    "overloaded",
    "server_error",
    "rejected",
    "no_access",
    "no_such_model",
    "too_large",
    "over_budget",
    "over_repository_budget",
    "over_own_budget",
    "under_way",
    "abandoned",
]
# A later try may succeed after these. What a model refuses or garbles once, it refuses again.
TEMPORARY_REASONS: tuple[FailureReason, ...] = (
    "timeout",
    "unreachable",
    "rate_limited",
    "overloaded",
    "server_error",
    "no_access",
    "no_such_model",
    "under_way",
)
# By HTTP status; any other 4xx is "rejected", any other 5xx "server_error".
STATUS_REASONS: Mapping[int, FailureReason] = {
    401: "no_access",
    402: "no_access",
    403: "no_access",
    404: "no_such_model",
    408: "timeout",
    409: "server_error",
    413: "too_large",
    429: "rate_limited",
    529: "overloaded",
}
CUT_STOP_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})
COMPLETE_STOP_REASONS = frozenset({"tool_use", "end_turn"})  # the model finished its answer
RANGE_ERRORS = frozenset({"greater_than_equal", "less_than_equal", "finite_number", "too_long", "string_too_long"})
T = TypeVar("T")
# Tokens of one call; the limit is far beyond any context window. A number below 0 would refund the day's budget.
Count = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]


class NoAnswer(Exception):
    """A call that gave no content verdict: `reason` is the code, `usage` what the call cost nevertheless."""

    def __init__(self, reason: FailureReason, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason
        self.usage = usage or Usage()


class Tokens(msgspec.Struct):
    """The token counts of a call as the API names them."""

    input_tokens: Count
    output_tokens: Count = 0
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None

    @property
    def usage(self) -> Usage:
        cache_written, cache_read = self.cache_creation_input_tokens or 0, self.cache_read_input_tokens or 0
        return Usage(self.input_tokens, self.output_tokens, cache_written, cache_read)


class _Content(msgspec.Struct):
    type: str
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")


class _Details(msgspec.Struct):
    category: str | None = None


class Message(msgspec.Struct):
    """The fields of a message that are read; others may come."""

    content: list[_Content]
    usage: Tokens
    stop_reason: str | None = None
    stop_details: _Details | None = None


class ModelInfo(msgspec.Struct):
    """A model as the API describes it; `lifecycle` is "active", "deprecated" or "retired"."""

    lifecycle: str
    retires_at: datetime | None = None
    max_input_tokens: int | None = None


def decode_response(body: bytes, shape: type[T]) -> T:
    """Decode a response body into the documented shape. Raises NoAnswer for any other body."""
    try:
        return decode_json(body, shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoAnswer("malformed", "the answer is not in the shape that the API documents") from error


def read_assessment(message: Message, nonces: tuple[str, ...]) -> Assessment:
    """Return the assessment in the single call of the tool.

    Raises NoAnswer unless the message holds exactly one such call, complete and in range.
    """
    usage = message.usage.usage
    if message.stop_reason == "refusal":
        category = message.stop_details.category if message.stop_details else None
        raise NoAnswer("refused", f"the model refused ({plain_text(category or '', 40) or 'no category'})", usage)
    if message.stop_reason in CUT_STOP_REASONS:
        raise NoAnswer("cut", f"the answer was cut ({message.stop_reason})", usage)
    if message.stop_reason not in COMPLETE_STOP_REASONS:
        stop_reason = plain_text(message.stop_reason or "", 40) or "without a reason"
        raise NoAnswer("malformed", f"the answer ended otherwise than a whole one does ({stop_reason})", usage)
    calls = [content for content in message.content if content.type == "tool_use"]
    if len(calls) != 1 or calls[0].name != TOOL:
        raise NoAnswer("malformed", "the answer holds no single call of the tool", usage)
    arguments = bytes(calls[0].input)
    if any(nonce.encode() in arguments.lower() for nonce in nonces):
        raise NoAnswer("echoed_nonce", "the answer repeats the mark around the data", usage)
    try:
        return Assessment.model_validate_json(arguments, strict=True)
    except ValidationError as error:
        error_types = {error_details["type"] for error_details in error.errors(include_input=False)}
        reason: FailureReason = "out_of_range" if error_types <= RANGE_ERRORS else "malformed"
        raise NoAnswer(reason, f"the assessment is not one ({', '.join(sorted(error_types))})", usage) from error


def reason_for_status(status: int) -> FailureReason:
    return STATUS_REASONS.get(status, "server_error" if status >= 500 else "rejected")
