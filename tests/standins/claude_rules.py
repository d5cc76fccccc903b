"""Refusals of the real Anthropic API that a review can meet: headers, fields, sampling, schemas, thinking.

Pure functions. Sources: the migration note of API version 2026-10-21, the pages of models and of structured output.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VERSIONS = ("2023-06-01", "2026-10-21")
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
BODY_LIMIT = 32 * 1024 * 1024
SHARED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
)
CREATE = SHARED | {"max_tokens", "stream", "stop_sequences", "metadata", "service_tier", "speed"}
BLOCK = frozenset({"type", "text", "cache_control", "citations"})
TOOL = frozenset({"name", "description", "input_schema", "strict", "type", "cache_control"})
CHOICE = {
    "tool": frozenset({"type", "name", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "none": frozenset({"type"}),
}
KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf"}
    | {"$ref", "$defs", "description", "title", "format", "minItems", "default"}
)
FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
CACHE_MARKS = 4


@dataclass(frozen=True, slots=True)
class Model:
    """One model as the API knows it. `sampling` false: a temperature other than 1 is a 400 under every version."""

    id: str
    name: str
    max_output: int
    cache_floor: int
    context: int
    sampling: bool
    manual_thinking: bool
    lifecycle: str = "active"
    retires_at: str | None = None


MODELS = {
    model.id: model
    for model in (
        Model("claude-sonnet-4-6", "Claude Sonnet 4.6", 128_000, 1_024, 1_000_000, True, True),
        Model("claude-haiku-4-5-20251001", "Claude Haiku 4.5", 64_000, 4_096, 200_000, True, True),
        Model("claude-opus-4-8", "Claude Opus 4.8", 128_000, 1_024, 1_000_000, False, False),
        Model("claude-sonnet-5-5", "Claude Sonnet 5.5", 128_000, 1_024, 1_000_000, False, False),
        Model(
            "claude-sonnet-4-5-20250929",
            "Claude Sonnet 4.5",
            64_000,
            1_024,
            200_000,
            True,
            True,
            "deprecated",
            "2026-11-30T00:00:00Z",
        ),
    )
}


class Refusal(Exception):
    """The API's own words for why not, with status and type."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def check_headers(headers: Mapping[str, str], key: str) -> str:
    """The API version asked for; Refusal for a wrong key and a missing or unknown version."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    if key not in (bearer, headers.get("x-api-key", "")):
        raise Refusal("invalid x-api-key", 401, "authentication_error")
    version = headers.get("anthropic-version")
    if version is None:
        raise Refusal("anthropic-version: header is required")
    if version not in VERSIONS:
        raise Refusal(f'anthropic-version: "{version}" is not a valid version')
    return version


def read_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a request; Refusal for anything else."""
    if len(data) > BODY_LIMIT:
        raise Refusal("Request exceeds the maximum size", 413, "request_too_large")
    try:
        body = json.loads(data)
    except ValueError as problem:
        raise Refusal("The request body is not valid JSON") from problem
    if not isinstance(body, dict):
        raise Refusal("Input should be an object")
    return body


def check_message(body: Mapping[str, Any], version: str, counts: bool) -> Model:
    """The model of a request to /v1/messages, or to its count_tokens; Refusal for what that would refuse."""
    fields = SHARED if counts else CREATE
    if version == "2023-06-01" and not counts:
        fields |= SAMPLING
    _only(body, fields, "")
    model = MODELS.get(str(body.get("model")))
    if model is None:
        raise Refusal(f"model: {body.get('model')}", 404, "not_found_error")
    if not counts:
        _check_length(body, model)
        _check_sampling(body, model)
    _check_content(body)
    _check_tools(body)
    _check_thinking(body, model)
    return model


def _only(given: Mapping[str, Any], known: frozenset[str], place: str) -> None:
    for name in given:
        if name not in known:
            raise Refusal(f"{place}{name}: Extra inputs are not permitted")


def _check_length(body: Mapping[str, Any], model: Model) -> None:
    length = body.get("max_tokens")
    if length is None:
        raise Refusal("max_tokens: Field required")
    if not isinstance(length, int) or not 0 <= length <= model.max_output:
        raise Refusal(f"max_tokens: {length} > {model.max_output}, which is the maximum for {model.id}")


def _check_sampling(body: Mapping[str, Any], model: Model) -> None:
    for name in sorted(SAMPLING & body.keys()):
        if not model.sampling and body[name] != 1:
            raise Refusal(f"`{name}` is deprecated for this model")
    if "haiku-4-5" in model.id and {"temperature", "top_p"} <= body.keys():
        raise Refusal("`temperature` and `top_p` cannot both be specified for this model.")


def _check_content(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages: at least one message is required")
    marks = 0
    for number, message in enumerate(messages):
        _only(message, frozenset({"role", "content"}), f"messages.{number}.")
        marks += _check_blocks(message.get("content"), f"messages.{number}.content")
    marks += _check_blocks(body.get("system", "system"), "system")
    if marks > CACHE_MARKS:
        raise Refusal(f"A maximum of {CACHE_MARKS} blocks with cache_control may be provided. Found {marks}.")


def _check_blocks(content: Any, place: str) -> int:
    """Return how many of the blocks mark the cache."""
    if isinstance(content, str):
        return 0
    if not isinstance(content, list):
        raise Refusal(f"{place}: Input should be a valid list")
    for number, block in enumerate(content):
        if block.get("type") != "text":
            raise Refusal(f"{place}.{number}.type: Input tag is not one of the expected tags")
        _only(block, BLOCK, f"{place}.{number}.text.")
        if not block.get("text", "").strip():
            raise Refusal(f"{place}.{number}: text content blocks must contain non-whitespace text")
    return sum("cache_control" in block for block in content)


def _check_tools(body: Mapping[str, Any]) -> None:
    names = []
    for number, tool in enumerate(body.get("tools", [])):
        _only(tool, TOOL, f"tools.{number}.custom.")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            raise Refusal(f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool.get("strict"):
            for problem in schema_problems(tool["input_schema"]):
                raise Refusal(f"tools.{number}.custom.input_schema: {problem}")
        names.append(tool["name"])
    choice = body.get("tool_choice")
    if choice is None:
        return
    if choice.get("type") not in CHOICE:
        raise Refusal("tool_choice: Input tag is not one of the expected tags")
    _only(choice, CHOICE[choice["type"]], f"tool_choice.{choice['type']}.")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise Refusal(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_thinking(body: Mapping[str, Any], model: Model) -> None:
    kind = body.get("thinking", {}).get("type", "disabled")
    if kind == "enabled" and not model.manual_thinking:
        raise Refusal('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".')
    if kind == "enabled" and body.get("tool_choice", {}).get("type") in ("tool", "any"):
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")


def schema_problems(schema: Any) -> Iterator[str]:
    """Yield what a strict grammar does not take of a JSON schema, in the order in which it is met."""
    if not isinstance(schema, dict):
        yield "Input should be an object"
        return
    odd = sorted(schema.keys() - KEYWORDS)
    if odd:
        yield f"For '{schema.get('type', 'any')}' type, properties {', '.join(odd)} are not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
    if schema.get("minItems", 0) not in (0, 1):
        yield "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
    if schema.get("format", "uri") not in FORMATS:
        yield f"For 'string' type, 'format' '{schema['format']}' is not supported"
    below = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    below += [*schema.get("anyOf", []), *schema.get("allOf", []), *([schema["items"]] if "items" in schema else [])]
    for part in below:
        yield from schema_problems(part)
