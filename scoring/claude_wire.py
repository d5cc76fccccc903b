"""The HTTP client of the SDK on a leash: every answer ends after so many seconds and bytes, however it is served.

A read timeout alone bounds nothing: a peer that sends a byte every nine seconds never meets one of ten. Importing this
module costs .3 s (httpx2), so it is imported where a call is made.
"""

import socket
import ssl
import threading
from functools import cache
from typing import Any

import httpx2

CONNECT_SECONDS = 5.0
ANSWER_LIMIT = 2_000_000  # bytes; the longest assessment is below 100,000


@cache
def _authorities() -> ssl.SSLContext:
    """The certificates that a host is checked against, read once: that takes 29 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class Leash(httpx2.BaseTransport):
    """One request at a time, each over a connection of its own, read whole within `seconds`."""

    def __init__(self, seconds: float, limit: int = ANSWER_LIMIT) -> None:
        self._seconds, self._limit = seconds, limit
        single = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.HTTPTransport(verify=_authorities(), trust_env=False, limits=single)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer with its body; ReadTimeout after the time, RemoteProtocolError for what is too long or packed."""
        rope = _Rope()
        request.headers["accept-encoding"] = "identity"
        request.extensions = {**request.extensions, "trace": rope.note}
        timer = threading.Timer(self._seconds, rope.cut)
        timer.daemon = True
        timer.start()
        try:
            answer = self._inner.handle_request(request)
            return self._whole(answer, request)
        except httpx2.TransportError as problem:
            if rope.was_cut:
                raise httpx2.ReadTimeout(f"no whole answer within {self._seconds:g} s", request=request) from problem
            raise
        finally:
            timer.cancel()

    def _whole(self, answer: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
        try:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise httpx2.RemoteProtocolError("a packed answer was not asked for", request=request)
            body = bytearray()
            for piece in answer.iter_raw():
                body += piece
                if len(body) > self._limit:
                    raise httpx2.RemoteProtocolError(f"an answer of over {self._limit} bytes", request=request)
        finally:
            answer.close()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=bytes(body), request=request)

    def close(self) -> None:
        """Let go of the connections."""
        self._inner.close()


class _Rope:
    """The socket of the request under way, which another thread may shut down."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.was_cut = False

    def note(self, event: str, told: dict[str, Any]) -> None:
        """Take the newest socket: TLS wraps the one that was connected."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = told["return_value"].get_extra_info("socket")
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
