"""`/ops/metrics` of the worker: a small server of its own that neither a port in use nor a slow client can trouble."""

import logging
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

log = logging.getLogger(__name__)

PATH = "/ops/metrics"
CLIENT_SECONDS = 5.0  # after which a client that sends or takes nothing is left
WHOLE_SECONDS = 10.0  # for all of a request and its answer: one byte every 4 s would never be silent
CLIENTS = 4  # at once; Prometheus is one


def serve(bind: str, registry: CollectorRegistry) -> "MetricsServer | None":
    """The server that tells what `registry` holds at `bind` (host:port); None, and a sentence in the log, where it
    cannot listen: a worker works without."""
    host, _, port = bind.rpartition(":")
    try:
        server = MetricsServer((host.strip("[]"), int(port)), registry)
    except OSError as problem:
        log.error(
            "OPS_BIND=%s cannot be listened on (%s): the worker runs without %s; set OPS_BIND to a free address",
            bind,
            problem.strerror,
            PATH,
        )
        return None
    threading.Thread(target=server.serve_forever, args=(0.2,), name="metrics", daemon=True).start()
    return server


class MetricsServer(ThreadingHTTPServer):
    """Answers on threads that no exit waits for, to so many clients at a time; one more is not answered."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.registry = registry
        self._free = threading.BoundedSemaphore(CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the client, unless there are as many as may be."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        end = threading.Timer(WHOLE_SECONDS, _hang_up, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; an error of ours is one line, not a traceback for each scrape."""
        log.debug("a scrape was not answered", exc_info=True)

    def stop(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()


def _hang_up(request: socket) -> None:
    """End a connection under whoever still reads from it; one that is closed already is left."""
    with suppress(OSError):
        request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One GET a connection."""

    timeout = CLIENT_SECONDS
    server_version, sys_version = "Sunstead", ""

    def do_GET(self) -> None:
        """The figures at PATH, 404 elsewhere."""
        found = self.path.partition("?")[0] == PATH
        registry = cast(MetricsServer, self.server).registry
        body = generate_latest(registry) if found else b"The figures are at /ops/metrics.\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each scrape says nothing that anybody wants to know."""
