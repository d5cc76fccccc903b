"""The shape of a review of one change for every reviewer; Claude's tool schema is derived from it.

A strict tool schema supports no minimum, maximum or length: descriptions state the bounds, and this module checks them.

Answers of the Anthropic API are read strictly: anything but one complete assessment raises NoAnswer.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from ingest.json_decoding import decode_json
from ingest.store.long_texts import fitting
from scoring.review.costs import Usage
from scoring.types import FlagType, Severity

LOCATION_LENGTH = 300  # characters
EXPLANATION_LENGTH = 1200
SUMMARY_LENGTH = 900
FLAGS_LIMIT = 60
FLAGS_BYTES = 10_000  # of one reading's flags as JSON: a column holds two readings and their omitted files
DETERMINISTIC = "deterministic"  # the reviewer that is no model

State = Literal["content verdict", "no content verdict"]
# A link that a browser, a mail program or a person could follow.
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.|\b(?:mailto|javascript|data|tel):(?=\S))\S*", re.IGNORECASE)
_HOST = re.compile(r"(?:[^/@]*@)?(?:www\.)?((?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,20})(?::\d*)?(?:[/?#,;)].*)?", re.DOTALL)
# Formatting (bidirectional marks, tags, zero widths), surrogates, private and unassigned characters.
_UNSEEN = {"Cf", "Cs", "Co", "Cn"}
_BREAKS = {"Cc", "Zl", "Zp"}


class Flag(BaseModel):
    """One problem at one place of the change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: FlagType
    severity: Annotated[Severity, WithJsonSchema({"type": "string", "enum": [one.value for one in Severity]})]
    location: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LOCATION_LENGTH,
            description="file id and line id as given, such as F2:L14 or F2:L14-L18; F2 for a whole file; or title, "
            "description, discussion",
        ),
    ]
    explanation: Annotated[
        str,
        Field(
            min_length=1,
            max_length=EXPLANATION_LENGTH,
            description="what is wrong there and what to look at, in one or two plain sentences",
        ),
    ]


class Assessment(BaseModel):
    """The structured risk assessment of one pull request's content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    content_risk: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            allow_inf_nan=False,
            description="0.0 is clearly safe or trivial, 1.0 is clearly broken or dangerous",
        ),
    ]
    flags: Annotated[tuple[Flag, ...], Field(max_length=FLAGS_LIMIT)]
    summary: Annotated[
        str,
        Field(
            min_length=1,
            max_length=SUMMARY_LENGTH,
            description="one to three plain sentences, fit to read aloud to a maintainer",
        ),
    ]
    review_recommended: Annotated[bool, Field(description="whether a person should read this change")]


@dataclass(frozen=True, slots=True)
class Review:
    """The final result on one change.

    `reviewer` is DETERMINISTIC or the id of the reading model. `coverage` is the share in [0, 1] of the changed lines
    that every reader read; `left_out` names files that the model was not given. `state` is "no content verdict" if a
    wanted reading is missing, with its code in `reason`; such a change cannot enter the fast lane. `dollars` is the
    cost of the calls. The later fields are None if no model was asked; `temperature_sent` is None also if the model
    takes no temperature.
    """

    assessment: Assessment
    reviewer: str
    coverage: float
    state: State = "content verdict"
    reason: str | None = None
    left_out: tuple[str, ...] = ()
    dollars: float = 0.0
    model: str | None = None
    prompt_version: str | None = None
    temperature_sent: float | None = None
    usage: Usage | None = None


def tool_schema() -> dict[str, Any]:
    """Return the JSON schema of an Assessment for a strict tool; imports the SDK, which takes a second."""
    from anthropic import transform_schema

    return transform_schema(Assessment)


def plain_text(text: str, limit: int) -> str:
    """Return outside text as one line of at most `limit` characters without links or unprintable characters.

    Of a link its host is named. It stays untrusted: pages must escape it.
    """
    categories = ((character, unicodedata.category(character)) for character in text)
    visible_text = "".join(
        " " if category in _BREAKS else character for character, category in categories if category not in _UNSEEN
    )
    line = " ".join(_LINK.sub(_linked_host, visible_text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _linked_host(link: re.Match[str]) -> str:
    """Say where a link leads, in words that are no link; of what names no plain host only that it was one."""
    found = _HOST.fullmatch(link[0].lower().rpartition("://")[2] if link[0].count("://") == 1 else link[0].lower())
    return f"(link to {found[1]})" if found and "www." not in found[1] else "(link removed)"


def tidy_assessment(assessment: Assessment) -> Assessment:
    """Return the assessment with plain texts and the strongest flags that fit into FLAGS_BYTES.

    A placeholder replaces a text that would be empty.
    """
    strongest = sorted(assessment.flags, key=lambda flag: tuple(Severity).index(flag.severity), reverse=True)
    flags = [
        flag.model_copy(update={"explanation": _plain_or_placeholder(flag.explanation, EXPLANATION_LENGTH)})
        for flag in strongest
    ]
    kept_count = len(fitting((flag.model_dump(mode="json") for flag in flags), FLAGS_BYTES))
    updates = {"flags": tuple(flags[:kept_count]), "summary": _plain_or_placeholder(assessment.summary, SUMMARY_LENGTH)}
    return assessment.model_copy(update=updates)


def _plain_or_placeholder(text: str, limit: int) -> str:
    return plain_text(text, limit) or "(nothing readable was said)"


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
