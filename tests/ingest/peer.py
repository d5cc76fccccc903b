"""A real server on loopback whose answers a test writes byte by byte, over TLS where a certificate is given."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.certificates import write_certificate

Answer = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    path: str
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""


def response(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """A whole HTTP answer; header names are written with underscores."""
    lines = [f"HTTP/1.1 {status} Said", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if "Transfer_Encoding" not in headers and "Content_Length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Peer:
    """Answers every request with `answer(request)`; an answer of several pieces ends with the connection."""

    answer: Callable[[Request], Answer]
    context: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    names: list[str | None] = field(default_factory=list)  # what clients named in the TLS handshake
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        if self.context:
            self.context.sni_callback = lambda _, name, __: self.names.append(name)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, connection.makefile("rb") as incoming:
                while line := incoming.readline():
                    headers = {}
                    while (header := incoming.readline().strip().decode()) != "":
                        name, _, value = header.partition(": ")
                        headers[name.lower()] = value
                    method, path, _ = line.decode().split(" ")
                    request = Request(path, headers, method, incoming.read(int(headers.get("content-length", "0"))))
                    self.requests.append(request)
                    said = self.answer(request)
                    if not isinstance(said, bytes):
                        for piece in said:
                            connection.sendall(piece)
                        return
                    connection.sendall(said)


def make_certificate(folder: Path, name: str) -> Path:
    """A certificate for a host name that is its own authority; its key lies beside it, named with `.key` behind."""
    place = folder / f"{name}.pem"
    write_certificate(place, folder / f"{name}.pem.key", name)
    return place


Start = Callable[[Callable[[Request], Answer]], Peer]
