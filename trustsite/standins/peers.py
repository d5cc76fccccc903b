"""A loopback HTTP server that answers for every host the system asks: PLC directory, PDS, handle domains, knots."""

import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, cast
from urllib.parse import parse_qs, unquote, urlsplit

from trustsite.standins.answers import Answer, Network, Query, osv_answer, xrpc_error
from trustsite.standins.recording import Recording

Fault = int | Literal["hang", "close"]
# Host, path, query, body and bearer token to a status and a body; None for an unknown method, status 0 for silence.
Procedures = Callable[[str, str, Query, bytes, str], tuple[int, Any] | None]


class Peers:
    """Answer on 127.0.0.1 for every host, chosen by Host header and path, as the real ones would.

    `released` returns how many frames are out: a PDS lists no record of a frame that is still held back.
    """

    def __init__(self, recording: Recording, released: Callable[[], int] | None = None) -> None:
        count = len(recording.frames)
        self.network = Network(recording, released or (lambda: count))
        self.procedures: Procedures = lambda *_: None  # tests set this to let people write here
        self._faults: dict[str, Fault] = {}
        self._rates: dict[str, _Rate] = {}
        self._healed = threading.Condition()
        self._closing = False
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def origin(self) -> str:
        """Return the address for every request, with the original Host header and path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, host: str, fault: Fault | None) -> None:
        """Make `host` answer with that status, hang, or close without an answer; None heals it."""
        with self._healed:
            if fault is None:
                self._faults.pop(host.lower(), None)
            else:
                self._faults[host.lower()] = fault
            self._healed.notify_all()

    def fault(self, host: str) -> Fault | None:
        """Return the fault of `host`; a hang waits here until it is healed and then closes."""
        with self._healed:
            fault = self._faults.get(host)
            if fault == "hang":
                self._healed.wait_for(lambda: self._closing or self._faults.get(host) != "hang")
                return "close"
            return fault

    def throttle(self, host: str, a_second: int) -> None:
        """Make `host` answer this many requests a second, and 429 with Retry-After to the others."""
        with self._healed:
            self._rates[host.lower()] = _Rate(a_second)

    def refuses(self, host: str) -> bool:
        """Return True if a request to `host` now is one too many."""
        with self._healed:
            rate = self._rates.get(host)
            return rate is not None and rate.is_over(time.monotonic())

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        with self._healed:
            self._closing = True
            self._healed.notify_all()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.cut_connections()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Rate:
    def __init__(self, a_second: int) -> None:
        self._a_second, self._second, self._count = a_second, 0, 0

    def is_over(self, now: float) -> bool:
        """Count one request; return True if it is over the limit."""
        if int(now) != self._second:
            self._second, self._count = int(now), 0
        self._count += 1
        return self._count > self._a_second


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # open connections would delay the close
    request_queue_size = 128

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def close_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        if isinstance(request, socket.socket):
            self._open.discard(request)
        super().close_request(request)

    def cut_connections(self) -> None:
        """End the open connections, whose threads would go on answering."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that goes away in the middle is not an error.
        if not isinstance(sys.exception(), ConnectionError):
            traceback.print_exc()


@dataclass(frozen=True)
class _Target:
    host: str
    path: str
    query: dict[str, str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise 40 ms a request, with a client that delays its acknowledgement

    @property
    def peers(self) -> Peers:
        return cast(_Server, self.server).peers

    def do_GET(self) -> None:
        target = self._parse_target()
        if not self._act_out_fault(target.host) and not self._run_procedure(target, b""):
            self._send(self.peers.network.answer(target.host, target.path, target.query))

    def do_POST(self) -> None:
        target, length = self._parse_target(), self.headers.get("Content-Length", "")
        body = self.rfile.read(int(length)) if length.isdecimal() and len(length) < 9 else b""
        if self._act_out_fault(target.host):
            return
        if (target.host, target.path) == ("api.osv.dev", "/v1/querybatch"):
            self._send(osv_answer(body))
            return
        self.close_connection = True
        if not self._run_procedure(target, body):
            self._send(xrpc_error(HTTPStatus.METHOD_NOT_ALLOWED, "InvalidRequest", "this method is a query: use GET"))

    def _run_procedure(self, target: _Target, body: bytes) -> bool:
        """Let the procedures answer; return False for an unknown method."""
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        answer = self.peers.procedures(target.host, target.path, target.query, body, bearer)
        if answer is not None and answer[0]:
            self._send(Answer(answer[1], answer[0]))
        elif answer is not None:
            self.connection.shutdown(socket.SHUT_RDWR)
        return answer is not None

    def _act_out_fault(self, host: str) -> bool:
        """Act out the host's fault; return False if it has none."""
        fault = self.peers.fault(host)
        if self.peers.refuses(host):
            self._send(xrpc_error(HTTPStatus.TOO_MANY_REQUESTS, "RateLimitExceeded", "Rate Limit Exceeded"))
        elif fault == "close":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif isinstance(fault, int):
            self._send(xrpc_error(fault, "InternalServerError" if fault >= 500 else "InvalidRequest", "told to fail"))
        else:
            return False
        return True

    def _parse_target(self) -> _Target:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return _Target((self.headers.get("Host") or "").lower(), unquote(parts.path), query)

    def _send(self, answer: Answer) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        head += f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\n"
        head += "Retry-After: 1\r\n" if answer.status == HTTPStatus.TOO_MANY_REQUESTS else ""
        head += "Connection: close\r\n" if self.close_connection else ""
        self.wfile.write(head.encode() + b"\r\n" + body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the worker's own log has its requests."""
