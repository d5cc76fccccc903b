"""Calls the Anthropic API through its SDK: one strict tool, bounded, retried here and nowhere else.

The SDK's own retries are off: it sleeps for as long as a Retry-After says, up to 49 days, and its retries would
multiply with those of a queue. Importing it takes a second, so it is imported where a call is made.

Listeners in this process count and trace the calls. They receive figures alone, never the text that was sent or
answered, so they cannot leak the contents of a diff.

The HTTP transport bounds each response in seconds and bytes. A read timeout alone bounds nothing: a peer that sends a
byte every nine seconds never meets one of ten. Importing that client costs .3 s (httpx2), so the SDK's client is
imported where a call is made.
"""

import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import httpx2

from scoring.review.costs import Capability, Usage, capability
from scoring.review.schema import (
    TOOL,
    Assessment,
    Message,
    ModelInfo,
    NoAnswer,
    Tokens,
    decode_response,
    plain_text,
    read_assessment,
    reason_for_status,
    tool_schema,
)

if TYPE_CHECKING:
    from anthropic import Anthropic, APIConnectionError, APIStatusError

FROM_LEDGER = "found"  # the ledger held the reading, and nobody was asked


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call. `outcome` is 'answered', the reason of a NoAnswer, 'failed' (our own error), or FROM_LEDGER.

    `began` is in unix seconds; `seconds` count every attempt and the waits between them. `usage` is what was billed, as
    far as anybody says. `temperature` None: the request named none.
    """

    operation: Literal["chat", "count_tokens"]
    model: str
    began: float
    seconds: float
    attempts: int
    outcome: str
    usage: Usage
    temperature: float | None = None
    output_limit: int | None = None


Listener = Callable[[ModelCall], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Report each call of this process to `listener`, on the calling thread: it must be quick and never fail."""
    _listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    _listeners.remove(listener)


def notify_listeners(call: ModelCall) -> None:
    for listener in tuple(_listeners):
        listener(call)


TOOL_TEXT = "Report the structured risk assessment of this pull request."
OUTPUT_TOKENS = 8_000  # of one answer: 60 flags of 100 tokens, and the rest
WAITS = (1.0, 4.0, 15.0)  # seconds before each further attempt, where the answer names none
LONGEST_WAIT = 60.0
RETRIED = frozenset({"rate_limited", "overloaded", "server_error", "unreachable", "timeout"})
BILLED = frozenset({"unreachable", "timeout"})  # the model may have read the request all the same
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """Access to the API. `seconds` limits one attempt, `attempts` the tries of one call."""

    api_key: str
    base_url: str = "https://api.anthropic.com"
    seconds: float = 120.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the user's turn; `cached` asks the API to cache the prompt up to its end."""

    text: str
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one model. `nonces` are the marks around the data; no honest answer repeats them."""

    model: str
    system: str
    blocks: tuple[Block, ...]
    nonces: tuple[str, ...] = ()

    @property
    def capability(self) -> Capability:
        return capability(self.model)


@dataclass(slots=True)
class _Tally:
    """Attempts and usage of one call so far."""

    attempts: int = 0
    usage: Usage = field(default_factory=Usage)


class Claude:
    """The reviewing models behind one key. `sleep` waits between attempts; tests pass one that returns at once.

    `told` hears of every question that was asked for a review, once it is over.
    """

    def __init__(self, access: Access, sleep: Callable[[float], None], listener: Listener = notify_listeners) -> None:
        self._access, self._sleep, self._listener = access, sleep, listener

    @property
    def attempts(self) -> int:
        return self._access.attempts

    def report_cache_hit(self, model: str) -> None:
        """Report that the ledger held this model's reading, so the model was not asked."""
        self._listener(ModelCall("chat", model, time.time(), 0.0, 0, FROM_LEDGER, Usage()))

    def count_tokens(self, request: Request) -> int:
        """Return the input tokens of the request as this model counts them; this is free. Raises NoAnswer."""
        body = {name: value for name, value in _request_arguments(request).items() if name != "max_tokens"}
        headers = {"anthropic-version": request.capability.api_version}
        with self._client() as client, self._reported("count_tokens", request) as tally:
            count_call = client.messages.with_raw_response.count_tokens
            response, _ = self._call_with_retries(lambda: count_call(**body, extra_headers=headers).read(), tally)
            return decode_response(response, Tokens).input_tokens

    def ask(self, request: Request, tokens: int) -> tuple[Assessment, Usage]:
        """Return the checked assessment and its usage; `tokens` are the counted input. Raises NoAnswer.

        An attempt that died on the way and an answer that cannot be read count as `tokens` of input: nobody says
        whether they were billed.
        """
        model_capability = request.capability
        sampling = {} if model_capability.temperature is None else {"temperature": model_capability.temperature}
        headers = {"anthropic-version": model_capability.api_version}
        with self._client() as client, self._reported("chat", request) as tally:
            create = client.messages.with_raw_response.create
            response, lost_usage = self._call_with_retries(
                lambda: create(**_request_arguments(request), extra_body=sampling, extra_headers=headers).read(),
                tally,
                tokens,
            )
            tally.usage = lost_usage + Usage(input_tokens=tokens)
            try:
                message = decode_response(response, Message)
                tally.usage = lost_usage + message.usage.usage
                return read_assessment(message, request.nonces), tally.usage
            except NoAnswer as problem:
                problem.usage = tally.usage
                raise

    def look_up(self, model: str) -> ModelInfo:
        """Return the API's description of a model. Raises NoAnswer."""
        with self._client() as client:
            response, _ = self._call_with_retries(
                lambda: client.models.with_raw_response.retrieve(model).read(), _Tally()
            )
        return decode_response(response, ModelInfo)

    @contextmanager
    def _reported(self, operation: Literal["chat", "count_tokens"], request: Request) -> Generator[_Tally]:
        """Yield a tally and report the call when the block ends, also by an exception."""
        tally, outcome = _Tally(), "failed"
        began, start = time.time(), time.monotonic()
        try:
            yield tally
            outcome = "answered"
        except NoAnswer as problem:
            outcome, tally.usage = problem.reason, problem.usage
            raise
        finally:
            output_limit = OUTPUT_TOKENS if operation == "chat" else None
            seconds, temperature = time.monotonic() - start, request.capability.temperature
            self._listener(
                ModelCall(
                    operation,
                    request.model,
                    began,
                    seconds,
                    tally.attempts,
                    outcome,
                    tally.usage,
                    temperature,
                    output_limit,
                )
            )

    def _client(self) -> "Anthropic":
        from anthropic import Anthropic, Timeout
        from httpx2 import Client

        access = self._access
        return Anthropic(
            api_key=access.api_key,
            base_url=access.base_url,
            max_retries=0,
            timeout=Timeout(access.seconds, connect=min(CONNECT_SECONDS, access.seconds)),
            open_telemetry=False,  # else variables of the environment could have it record what is sent
            http_client=Client(transport=BoundedTransport(access.seconds), follow_redirects=False, trust_env=False),
        )

    def _call_with_retries(self, call: Callable[[], T], tally: _Tally, tokens: int = 0) -> tuple[T, Usage]:
        """Call, retry where that can help, and return the result and the usage of lost attempts. Raises NoAnswer."""
        from anthropic import APIConnectionError, APIStatusError

        lost_usage = Usage()
        for attempt in range(1, self._access.attempts + 1):
            tally.attempts = attempt
            try:
                return call(), lost_usage
            except (APIStatusError, APIConnectionError) as error:
                problem, wait = _no_answer_from(error), _seconds_to_wait(error, attempt)
                if problem.reason in BILLED:
                    lost_usage += Usage(input_tokens=tokens)
                if attempt == self._access.attempts or problem.reason not in RETRIED or wait > LONGEST_WAIT:
                    problem.usage = lost_usage
                    raise problem from error
            self._sleep(wait)
        raise ValueError("a call needs at least one attempt")


def _request_arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of the SDK's create, without a field that the model could refuse."""
    schema = tool_schema()
    # A token is about four characters here. A prefix below the floor is not cached, so it gets no marker.
    long_enough = (len(request.system) + len(str(schema))) / 4 >= request.capability.cache_floor
    return {
        "model": request.model,
        "max_tokens": OUTPUT_TOKENS,
        "system": [_text_block(Block(request.system, long_enough))],
        "tools": [{"name": TOOL, "description": TOOL_TEXT, "input_schema": schema, "strict": True}],
        "tool_choice": {"type": "tool", "name": TOOL, "disable_parallel_tool_use": True},
        "messages": [{"role": "user", "content": [_text_block(block) for block in request.blocks]}],
    }


def _text_block(block: Block) -> dict[str, Any]:
    cache_control = {"cache_control": {"type": "ephemeral"}} if block.cached else {}
    return {"type": "text", "text": block.text, **cache_control}


def _no_answer_from(error: "APIStatusError | APIConnectionError") -> NoAnswer:
    from anthropic import APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        kind = plain_text(str(error.type or "no type"), 60)
        return NoAnswer(reason_for_status(error.status_code), f"the API answered {error.status_code} ({kind})")
    if isinstance(error, APITimeoutError):
        return NoAnswer("timeout", "no whole answer came in time")
    return NoAnswer("unreachable", "the connection failed")


def _seconds_to_wait(error: "APIStatusError | APIConnectionError", attempt: int) -> float:
    """Return the seconds to wait after this attempt: those of Retry-After, else more with each attempt."""
    retry_after = math.nan
    response = getattr(error, "response", None)
    if response is not None:
        try:
            retry_after = float(response.headers.get("retry-after", ""))
        except ValueError:  # a date, or nothing: the API names seconds
            retry_after = math.nan
    return retry_after if retry_after >= 0 else WAITS[min(attempt, len(WAITS)) - 1]


CONNECT_SECONDS = 5.0
ANSWER_LIMIT = 2_000_000  # bytes; the longest assessment is below 100,000


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS context with the trusted authorities; read once, since that takes 29 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class BoundedTransport(httpx2.BaseTransport):
    """Sends one request at a time over its own connection and reads the whole response within `seconds`."""

    def __init__(self, seconds: float, limit: int = ANSWER_LIMIT) -> None:
        self._seconds, self._limit = seconds, limit
        single = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.HTTPTransport(verify=_tls_context(), trust_env=False, limits=single)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response. Raises ReadTimeout after `seconds`, RemoteProtocolError for a long or compressed one."""
        connection = _Connection()
        request.headers["accept-encoding"] = "identity"
        request.extensions = {**request.extensions, "trace": connection.note}
        timer = threading.Timer(self._seconds, connection.cut)
        timer.daemon = True
        timer.start()
        try:
            response = self._inner.handle_request(request)
            return self._whole(response, request)
        except httpx2.TransportError as problem:
            if connection.was_cut:
                raise httpx2.ReadTimeout(f"no whole answer within {self._seconds:g} s", request=request) from problem
            raise
        finally:
            timer.cancel()

    def _whole(self, response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise httpx2.RemoteProtocolError("a packed answer was not asked for", request=request)
            body = bytearray()
            for piece in response.iter_raw():
                body += piece
                if len(body) > self._limit:
                    raise httpx2.RemoteProtocolError(f"an answer of over {self._limit} bytes", request=request)
        finally:
            response.close()
        return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)

    def close(self) -> None:
        self._inner.close()


class _Connection:
    """The socket of the current request, which the timer thread may shut down."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.was_cut = False

    def note(self, event: str, details: dict[str, Any]) -> None:
        """Keep the newest socket: TLS wraps the connected one."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = details["return_value"].get_extra_info("socket")
            if self.was_cut:
                self._shut()

    def cut(self) -> None:
        self.was_cut = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # ended by itself meanwhile
                return
