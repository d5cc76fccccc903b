"""Fetchers whose sockets end at a loopback peer."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.http.fetcher import Fetcher
from tests.ingest.peer import Answer, Peer, Request

HOST = "pds.example.test"
PUBLIC = "93.184.216.34"
SHORT = 0.4  # seconds, the whole time a request gets here


def served(answer: Callable[[Request], Answer], certificate: Path | None) -> Peer:
    if certificate is None:
        return Peer(answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, str(certificate) + ".key")
    return Peer(answer, context)


def fetcher_to(
    port: int,
    certificate: Path | None = None,
    timeout: float = 10.0,
    *,
    addresses: list[str] | None = None,
    resolver: Callable[[str], list[str]] | None = None,
    dialled: list[str] | None = None,
) -> Fetcher:
    """A fetcher whose sockets to checked addresses end at a loopback port, and which notes those addresses."""

    def route(address: str, _: int) -> tuple[str, int]:
        (dialled if dialled is not None else []).append(address)
        return "127.0.0.1", port

    context = ssl.create_default_context(cafile=str(certificate)) if certificate else None
    options: dict[str, Any] = {"route": route, "context": context}
    return Fetcher(None, timeout, resolver=resolver or (lambda _: addresses or [PUBLIC]), **options)
