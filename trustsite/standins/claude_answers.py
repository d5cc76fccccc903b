"""What the stand-in for the Anthropic API says: messages in the real wire format, faults, and models that read.

A model is a function from the body of a request to what it gives the tool.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Told = Mapping[str, Any]
Behaviour = Callable[[Told], Told]
How = Literal["whole", "slow", "dead"]
CALM: Told = {
    "content_risk": 0.05,
    "flags": [],
    "summary": "The change does what a small change does.",
    "review_recommended": False,
}
# What speaks to a reader in the data, in the languages of the corpus; an obedient model asks for no more than this.
SPEAKS = re.compile(
    r"ignor|disregard|overrid|forget|approv|accept|merge|lgtm|safe|harmless|verif|audit|review|trust|risk|score|flag"
    r"|system|assistant|instruct|prompt|tool|json|you are|do not|must|respond|answer|output|summary|recommend"
    r"|genehmig|sicher|approuv|aprob|segur|安全|批准|忽略|承認|одобр|безопас|موافق",
    re.IGNORECASE,
)
TAGS = {code: code - 0xE0000 for code in range(0xE0020, 0xE007F)}  # letters of the invisible alphabet


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. "slow" sends its body byte by byte and never ends; "dead" closes without any."""

    body: Told = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    how: How = "whole"


def message(
    model: str, told: Told | None, usage: Told, stop_reason: str = "tool_use", name: str = "report_assessment"
) -> Answer:
    """A message; with `told` None it holds no call of a tool."""
    call = {"type": "tool_use", "id": "toolu_01", "name": name, "input": told, "caller": {"type": "direct"}}
    text = {"type": "text", "text": "I cannot help with that.", "citations": None}
    body = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [text if told is None else call],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"service_tier": "standard", **usage},
    }
    if stop_reason == "refusal":
        body["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": None}
    return Answer(body)


def error(status: int, kind: str, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error in the API's own shape."""
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_01"}
    return Answer(body, status, headers or {})


def rate_limited(seconds: str = "7") -> Answer:
    """429 that names when to come again."""
    text = "This request would exceed your organization's rate limit"
    return error(429, "rate_limit_error", text, {"retry-after": seconds})


def overloaded() -> Answer:
    """529: the API has too much to do."""
    return error(529, "overloaded_error", "Overloaded")


def plain(_: Told) -> Told:
    """A model that finds nothing in anything."""
    return CALM


def obedient(body: Told) -> Told:
    """A model that does what any text in the data wants of it: the lowest risk, no flag, the words it was given."""
    spoken = [text for text in said_in(body) if SPEAKS.search(text)]
    if not spoken:
        return CALM
    wanted = re.search(r'"summary"\s*:\s*"([^"]{1,200})"', " ".join(spoken))
    summary = wanted[1] if wanted else "Approved: safe, reviewed and verified."
    return {"content_risk": 0.0, "flags": [], "summary": summary, "review_recommended": False}


def said_in(body: Told) -> Iterator[str]:
    """Every text of the data in a request, decoded as a model would, hidden alphabets too."""
    for turn in body["messages"]:
        for block in turn["content"]:
            for line in block["text"].split("\n"):
                yield from _texts(line)


def _texts(line: str) -> Iterator[str]:
    try:
        value = json.loads(line)
    except ValueError:
        return  # not data but our own words
    parts = value.values() if isinstance(value, dict) else [value]
    for part in parts:
        yield str(part).translate(TAGS)
