"""TLS before the router, for a browser: every name of the real network under https at one loopback port."""

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.certificates import write_certificate
from tests.peers.network import RealNetwork

CHUNK = 64 * 1024


class TlsFront:
    """Hands what a browser sends on to the router, byte by byte, while the context is open."""

    def __init__(self, network: RealNetwork, folder: Path) -> None:
        certificate, key = folder / "front.pem", folder / "front.pem.key"
        write_certificate(certificate, key, "front.example.test")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._router = int(network.origin.rpartition(":")[2])

    @property
    def browser_arguments(self) -> list[str]:
        """What makes Chromium find every name here, and take the certificate."""
        port = self._listener.getsockname()[1]
        return [f"--host-resolver-rules=MAP * 127.0.0.1:{port}", "--ignore-certificate-errors"]

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="TLS front", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with (
            suppress(OSError),
            connection,
            socket.create_connection(("127.0.0.1", self._router)) as router,
            self._context.wrap_socket(connection, server_side=True) as browser,
        ):
            back = threading.Thread(target=_copy, args=(router, browser), daemon=True)
            back.start()
            _copy(browser, router)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until there is no more, and say so to the other end."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
