"""A real personal data server and PLC directory on loopback, reached by name through one origin, as strangers are.

Both run in one Node process (serve.mjs). A router answers for every host as the stand-ins do: by the Host header.
"""

import http.client
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.peers.firehose import Shim
from tests.waiting import LONG_SECONDS

PLC_HOST, PDS_HOST, RELAY_HOST = "plc.directory", "pds.example.test", "relay.example.test"
SERVERS = Path(__file__).with_name("serve.mjs")
START_SECONDS = LONG_SECONDS
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class PeerProblem(Exception):
    """The real server refused; the message is its answer."""


@dataclass
class Account:
    """A person with a repository on the real server, who writes to it as any client does."""

    network: "RealNetwork" = field(repr=False)
    did: str
    handle: str
    token: str = field(repr=False)

    def create(self, collection: str, record: Mapping[str, object], rkey: str | None = None) -> str:
        """Write a new record; returns its at-uri."""
        body = {"repo": self.did, "collection": collection, "record": {"$type": collection, **record}}
        return self._call("com.atproto.repo.createRecord", body | ({"rkey": rkey} if rkey else {}))["uri"]

    def put(self, uri: str, record: Mapping[str, object]) -> None:
        """Write a record of this key, whether there is one or not."""
        collection, rkey = uri.rsplit("/", 2)[1:]
        body = {"repo": self.did, "collection": collection, "rkey": rkey, "record": {"$type": collection, **record}}
        self._call("com.atproto.repo.putRecord", body)

    def delete(self, uri: str) -> None:
        """Take a record back."""
        collection, rkey = uri.rsplit("/", 2)[1:]
        self._call("com.atproto.repo.deleteRecord", {"repo": self.did, "collection": collection, "rkey": rkey})

    def upload(self, data: bytes, kind: str = "application/gzip") -> dict[str, Any]:
        """Upload a blob; returns the reference that a record carries."""
        return self.network.call("com.atproto.repo.uploadBlob", data, self.token, kind)["blob"]

    def app_password(self) -> str:
        """Make an app password, for one site."""
        return self._call("com.atproto.server.createAppPassword", {"name": "site"})["password"]

    def deactivate(self) -> None:
        """Deactivate the account, which hides its repository."""
        self._call("com.atproto.server.deactivateAccount", {})

    def _call(self, method: str, body: Mapping[str, object]) -> dict[str, Any]:
        return self.network.call(method, json.dumps(body).encode(), self.token)


@dataclass(frozen=True)
class Exchange:
    """What somebody asked through the router, and the body of the answer."""

    host: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    answer: bytes = field(repr=False)


class RealNetwork:
    """Node with both servers, the router before them and the firehose's shim, while the context is open.

    One that is `beside` another is a second data server under its own name, in the directory of the other, whose router
    leads to it and whose shim carries what both say.
    """

    def __init__(self, modules: Path, state: Path, host: str = PDS_HOST, beside: "RealNetwork | None" = None) -> None:
        self.host, self._router = host, _Router(self)
        self.overheard: list[Exchange] | None = None  # a list here gets all that is asked through the router
        command = ["node", "--input-type=module", "--eval", SERVERS.read_text(), str(state)]
        self._node = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=modules,
            env={**os.environ, "SITES": self.origin, "PDS_HOSTNAME": host}
            | ({"PLC_PORT": str(beside.port_of(PLC_HOST))} if beside else {}),
        )
        ports = self._ports()
        self._hosts = {PLC_HOST: ports["plc"]}
        self._pds = ports["pds"]
        firehose = f"ws://127.0.0.1:{self._pds}/xrpc/com.atproto.sync.subscribeRepos?cursor=0"
        self.shim = Shim(firehose)
        if beside:
            beside.lead(host, self._pds)
            beside.shim.follow(firehose)

    def _ports(self) -> dict[str, int]:
        """What the child prints once both servers answer; PeerProblem where it ends before."""
        assert self._node.stdout is not None
        timer = threading.Timer(START_SECONDS, self._node.kill)
        timer.start()
        line = self._node.stdout.readline()
        timer.cancel()
        if not line:
            raise PeerProblem(f"the servers did not start (exit status {self._node.wait()})")
        return json.loads(line)

    @property
    def pds_port(self) -> int:
        """The data server's own port."""
        return self._pds

    @property
    def origin(self) -> str:
        """http://127.0.0.1:<port>, which answers for every host."""
        return f"http://127.0.0.1:{self._router.server_address[1]}"

    def lead(self, host: str, port: int) -> None:
        """Have a site's name, below sunstead.org where the data server shall fetch from it, lead to a loopback port."""
        self._hosts[host] = port

    def port_of(self, host: str) -> int:
        """The port of the server behind a host's name; a handle's is that of its data server."""
        return self._hosts.get(host) or self._hosts.get(host.partition(".")[2], self._pds)

    def join(self, name: str) -> Account:
        """Create an account `name`.pds.example.test, or below the server's other name."""
        handle = f"{name}.{self.host}"
        body = {"handle": handle, "email": f"{name}@example.test", "password": "correct horse"}
        made = self.call("com.atproto.server.createAccount", json.dumps(body).encode())
        return Account(self, made["did"], handle, made["accessJwt"])

    def call(self, method: str, body: bytes, token: str = "", kind: str = "application/json") -> dict[str, Any]:
        """A procedure of the data server; raises PeerProblem with its answer."""
        headers = {"Content-Type": kind, "Host": self.host} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection = http.client.HTTPConnection("127.0.0.1", self._pds, timeout=LONG_SECONDS)
        try:
            connection.request("POST", f"/xrpc/{method}", body, headers)
            answer = connection.getresponse()
            told = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise PeerProblem(f"{method}: {answer.status} {told.decode(errors='replace')[:300]}")
        return json.loads(told or b"{}")

    def rotate_key(self, did: str) -> str:
        """Give an account another key, as its server does; returns it as the directory names it."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(f"{did}\n".encode())
        self._node.stdin.flush()
        return json.loads(self._node.stdout.readline())["rotated"]

    def query(self, method: str, **parameters: str) -> dict[str, Any]:
        """A query of the data server."""
        connection = http.client.HTTPConnection("127.0.0.1", self._pds, timeout=LONG_SECONDS)
        connection.request("GET", f"/xrpc/{method}?{urlencode(parameters)}", headers={"Host": self.host})
        told = connection.getresponse().read()
        connection.close()
        return json.loads(told)

    def __enter__(self) -> Self:
        self._router.start()
        self.shim.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shim.close()
        self._router.stop()
        assert self._node.stdin is not None
        self._node.stdin.close()
        try:
            self._node.wait(LONG_SECONDS)
        except subprocess.TimeoutExpired:
            self._node.kill()
            self._node.wait()
        assert self._node.stdout is not None
        self._node.stdout.close()


class _Router(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, network: RealNetwork) -> None:
        self.network = network
        super().__init__(("127.0.0.1", 0), _Handler)

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.05,), name="router", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = (self.headers.get("X-Site") or self.headers.get("Host") or "").lower()
        network = cast(_Router, self.server).network
        if host == RELAY_HOST:
            self._list_accounts(network)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = {name: value for name, value in self.headers.items() if name.lower() not in {*HOP_BY_HOP, "host"}}
        connection = http.client.HTTPConnection("127.0.0.1", network.port_of(host), timeout=LONG_SECONDS)
        connection.request(self.command, self.path, body or None, {**sent, "Host": host})
        answer = connection.getresponse()
        asked, body = body, answer.read()
        connection.close()
        if network.overheard is not None:
            network.overheard.append(Exchange(host, self.path, sent, asked, body))
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the server calls

    def _list_accounts(self, network: RealNetwork) -> None:
        """com.atproto.sync.listReposByCollection, which relays answer and data servers do not."""
        wanted = parse_qs(urlsplit(self.path).query)["collection"][0]
        every = [entry["did"] for entry in network.query("com.atproto.sync.listRepos")["repos"]]
        described = {did: network.query("com.atproto.repo.describeRepo", repo=did) for did in every}
        holds = [did for did, repo in described.items() if wanted in repo.get("collections", ())]
        body = json.dumps({"repos": [{"did": did} for did in holds]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a failed assertion shows what was asked."""
