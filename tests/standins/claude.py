"""A loopback stand-in for the Anthropic API: messages, count_tokens and models, with the real one's refusals.

It takes what the real SDK sends, remembers every byte of it, answers what it was told to answer next, and else lets a
model of its own read the request.

Answers are messages in the real wire format, faults, and models that read. A model is a function from the body of a
request to what it gives the tool.
"""

import hashlib
import json
import re
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, cast

from tests.standins.claude_rules import MODELS, Model, Refusal, check_headers, check_message, read_body

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


KEY = "sk-ant-stand-in"
LETTERS_A_TOKEN = 4
OUTPUT_TOKENS = 100


@dataclass(frozen=True, slots=True)
class Captured:
    """One request as it came over the wire; names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        """The body as JSON."""
        return json.loads(self.body)


class ClaudeStandIn:
    """Serves on 127.0.0.1 while the context is open. `behaviour` is the model that reads what nobody scripted."""

    def __init__(self, behaviour: Behaviour = plain) -> None:
        self.behaviour = behaviour
        self.requests: list[Captured] = []
        self._script: list[Answer] = []
        self._cached: set[str] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """http://127.0.0.1:<port>"""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def messages(self) -> list[Captured]:
        """The requests for a message, in order."""
        return [request for request in self.requests if request.path == "/v1/messages"]

    def script(self, *answers: Answer) -> None:
        """Answer the next requests for a message with these, in order."""
        self._script += answers

    def usage(self, told: Mapping[str, Any], model: Model) -> dict[str, int]:
        """Tokens of a request, with what the cache kept of an earlier one."""
        tokens, prefix, digest = _tokens(told), *_prefix(told)
        if prefix < model.cache_floor:
            return {"input_tokens": tokens, "output_tokens": OUTPUT_TOKENS}
        with self._lock:
            known = digest in self._cached
            self._cached.add(digest)
        kept = "cache_read_input_tokens" if known else "cache_creation_input_tokens"
        return {"input_tokens": tokens - prefix, kept: prefix, "output_tokens": OUTPUT_TOKENS}

    def answer(self, request: Captured) -> Answer:
        """Return what the API answers; remembers the request."""
        with self._lock:
            self.requests.append(request)
        try:
            version = check_headers(request.headers, KEY)
            if request.method == "GET":
                return _models(request.path)
            return self._answer_post(request, version)
        except Refusal as refusal:
            return error(refusal.status, refusal.kind, str(refusal))

    def _answer_post(self, request: Captured, version: str) -> Answer:
        counts = request.path == "/v1/messages/count_tokens"
        if not counts and request.path != "/v1/messages":
            raise Refusal("Not found", 404, "not_found_error")
        told = read_body(request.body)
        model = check_message(told, version, counts)
        if counts:
            return Answer({"input_tokens": _tokens(told)})
        with self._lock:
            scripted = self._script.pop(0) if self._script else None
        return scripted or message(model.id, self.behaviour(told), self.usage(told, model))

    def wait_for_end(self, seconds: float) -> bool:
        """Return whether the stand-in is closing, after at most so many seconds."""
        return self._closing.wait(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _tokens(told: Mapping[str, Any]) -> int:
    parts = [told.get("system"), told.get("tools"), told["messages"]]
    return len(json.dumps(parts, ensure_ascii=False)) // LETTERS_A_TOKEN


def _prefix(told: Mapping[str, Any]) -> tuple[int, str]:
    """Tokens up to the last block that marks the cache, and a hash of them; 0 where none does."""
    blocks = [told["tools"], *told["system"], *(block for turn in told["messages"] for block in turn["content"])]
    marked = [number for number, block in enumerate(blocks) if isinstance(block, dict) and "cache_control" in block]
    text = json.dumps([told["model"], blocks[: marked[-1] + 1]]) if marked else ""
    return len(text) // LETTERS_A_TOKEN, hashlib.sha256(text.encode()).hexdigest()


def _models(path: str) -> Answer:
    if path.partition("?")[0] == "/v1/models":
        data = [_model_info(model) for model in MODELS.values()]
        return Answer({"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]})
    model = MODELS.get(path.removeprefix("/v1/models/"))
    if model is None:
        raise Refusal(f"model: {path.rpartition('/')[2]}", 404, "not_found_error")
    return Answer(_model_info(model))


def _model_info(model: Model) -> dict[str, Any]:
    supported = {"supported": True}
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.name,
        "created_at": "2026-02-17T00:00:00Z",
        "lifecycle": model.lifecycle,
        "deprecated_at": None if model.lifecycle == "active" else "2026-05-30T00:00:00Z",
        "retires_at": model.retires_at,
        "max_input_tokens": model.context,
        "max_tokens": model.max_output,
        "capabilities": {"batch": supported, "structured_outputs": supported, "image_input": supported},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, stand_in: ClaudeStandIn) -> None:
        self.stand_in = stand_in
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that goes away in the middle is its own business.
        if not isinstance(sys.exception(), ConnectionError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond(b"")

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _respond(self, body: bytes) -> None:
        stand_in = cast(_Server, self.server).stand_in
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = stand_in.answer(Captured(self.command, self.path, headers, body))
        if answer.how == "dead":
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = json.dumps(answer.body).encode()
        head = f"HTTP/1.1 {answer.status} {_phrase(answer.status)}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(data)}\r\nrequest-id: req_01\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        self.wfile.write(head.encode() + b"\r\n")
        if answer.how == "slow":
            self._drip(stand_in, data)
        else:
            self.wfile.write(data)

    def _drip(self, stand_in: ClaudeStandIn, data: bytes) -> None:
        """A byte now and then, and never the last one."""
        self.close_connection = True
        for number in range(len(data) - 1):
            self.wfile.write(data[number : number + 1])
            if stand_in.wait_for_end(0.02):
                return

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: whoever asks says what came of it."""


def _phrase(status: int) -> str:
    return "Overloaded" if status == 529 else HTTPStatus(status).phrase
