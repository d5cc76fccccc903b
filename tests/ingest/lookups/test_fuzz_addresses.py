"""Whatever names strangers put into records and documents, wherever these lead: only public addresses are dialled."""

import ipaddress
import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.atproto.identity import Identity, origin, read_identity, resolve_handle
from ingest.backfill.account import Account, Staging
from ingest.errors import FetchProblem
from ingest.git.mirror import fetch_mirrors
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_public
from ingest.lookups.forge import blob, compare, pipelines, push_holders, remotes
from ingest.lookups.people import fetch_identities, fetch_push_holders
from ingest.lookups.rounds import fetch_patches
from ingest.store.database import Store
from ingest.stream.knots import EventStream
from tests.conftest import count
from tests.ingest.backfill.backfilled import sources
from tests.ingest.conftest import Open
from tests.ingest.git.git_world import LIMITS
from tests.ingest.peer import Answer, Peer, Request, make_certificate, response
from tests.ingest.stream.frames import ANA, BLOB, MARA, REPO, SEED, Frames, at, take
from tests.waiting import LONG_SECONDS

# IANA's special-purpose registries of both families, and what is multicast: read from there, not from the code.
SPECIAL_4 = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
"""
SPECIAL_6 = """
::/128 ::1/128 ::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 fc00::/7
fe80::/10 fec0::/10 ff00::/8
"""
SPECIAL = [ipaddress.ip_network(name) for name in (SPECIAL_4 + SPECIAL_6).split()]
# Prefixes under which an IPv6 address carries an IPv4 address, and how many bits follow it.
TUNNELS = [("::ffff:0:0/96", 0), ("64:ff9b::/96", 0), ("2002::/16", 80), ("::ffff:0:0:0/96", 0), ("::/96", 0)]
PUBLIC = ["93.184.216.34", "2606:2800:220:1::1"]


def is_special(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    if any(parsed in network for network in SPECIAL):
        return True
    for name, shift in TUNNELS:
        network = ipaddress.ip_network(name)
        if isinstance(parsed, ipaddress.IPv6Address) and parsed in network:
            return is_special(str(ipaddress.IPv4Address(int(parsed) >> shift & 0xFFFFFFFF)))
    return False


def tunnelled(inner: ipaddress.IPv4Address, tunnel: tuple[str, int]) -> str:
    network, shift = ipaddress.IPv6Network(tunnel[0]), tunnel[1]
    return str(ipaddress.IPv6Address(int(network.network_address) | int(inner) << shift))


special = st.sampled_from(SPECIAL).flatmap(lambda network: st.ip_addresses(network=network))
addresses = st.one_of(
    st.sampled_from(PUBLIC),
    special.map(str),
    st.ip_addresses().map(str),
    st.builds(tunnelled, st.ip_addresses(v=4), st.sampled_from(TUNNELS)),
    st.builds(lambda one: f"{one}%eth0", st.ip_addresses(v=6)),
    st.sampled_from(["", "localhost", "127.1", "0x7f000001", "127.0.0.1\n", "[::1]", "::ffff:127.0.0.1"]),
)
names = st.one_of(
    st.sampled_from(
        [
            "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "::1", "localhost", "localhost.",
            "a.test:80", "a.test:8443", "user@a.test", "a.test@127.0.0.1", "a.test/../x", "a.test?x=", "a.test#x",
            "a.test\r\nHost: b.test", "A.TEST", "a.test.", "127.0.0.1.nip.io", "metadata.internal", "xn--a.test",
            "\uff11\uff12\uff17.0.0.1", "\u24dbocalhost", "a\u3002test",
            "--upload-pack=x.test", "-a.test", "ext::sh -c x", "file:///etc",
            "169.254.169.254", "a" * 300 + ".test", "a.test%2f", "a.test\\@b.test", "", ".", "..", "a..test",
        ]
    ),
    st.builds("{}.example.test".format, st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)),
    addresses,
    st.text(max_size=30),
)  # fmt: skip
answers = st.lists(addresses, max_size=3)


@dataclass
class Dialled:
    """Every connection and every child process of this program while it is open, but for threads of earlier tests."""

    watching: bool = False
    others: frozenset[int | None] = frozenset()
    places: list[Any] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching or threading.get_ident() in self.others:
            return
        if event == "socket.connect":
            self.places.append(arguments[1])
        elif event == "socket.getaddrinfo":
            self.looked_up.append(str(arguments[0]))
        elif event == "subprocess.Popen":
            self.commands.append([str(word) for word in arguments[1]])


SEEN = Dialled()
sys.addaudithook(SEEN.note)  # it stays for good: there is no way to take one back


@pytest.fixture(name="seen")
def seen_fixture() -> Iterator[Dialled]:
    SEEN.places, SEEN.commands, SEEN.looked_up = [], [], []
    SEEN.others = frozenset(thread.ident for thread in threading.enumerate()) - {threading.get_ident()}
    SEEN.watching = True
    yield SEEN
    SEEN.watching = False


def fetcher_to(found: Sequence[str], passed: list[str]) -> Fetcher:
    """A fetcher whose names all lead to these addresses. What it takes for public is noted, and refuses to answer."""

    def route(address: str, _: int) -> tuple[str, int]:
        passed.append(address)
        return "127.0.0.1", 9

    return Fetcher(resolver=lambda _: found, route=route, texts=lambda _: [], timeout=LONG_SECONDS)


@settings(max_examples=count(200, 20_000))
@given(addresses)
def test_no_special_address_is_taken_for_public(address: str) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        assert not is_public(address)
        return
    if is_special(address.partition("%")[0]) or "%" in address:
        assert not is_public(address)


Client = Callable[[Fetcher, str], object]
COMMIT = "a" * 40


def dial_stream(fetcher: Fetcher, name: str) -> object:
    stream = EventStream(None, fetcher, f"wss://{name}", lambda: None)  # ty: ignore[invalid-argument-type]
    return stream._dial()


CLIENTS: dict[str, Client] = {
    "any": lambda fetcher, name: fetcher.get(f"https://{name}/"),
    "holders": lambda fetcher, name: push_holders(fetcher, name, REPO),
    "compare": lambda fetcher, name: compare(fetcher, name, REPO, COMMIT, COMMIT, 1_000),
    "runs": lambda fetcher, name: pipelines(fetcher, name, REPO, COMMIT),
    "blob": lambda fetcher, name: blob(fetcher, f"https://{name}", ANA, BLOB, 1_000),
    "git": lambda fetcher, name: remotes(fetcher, name, REPO, ANA, name),
    "did:web": lambda fetcher, name: read_identity(fetcher, "https://plc.directory", f"did:web:{name}"),
    "handle": resolve_handle,
    "stream": dial_stream,
}


@settings(max_examples=count(200, 5_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(client=st.sampled_from([*CLIENTS, "backfill"]), name=names, found=answers)
def test_every_client_dials_public_addresses_only_whatever_the_name_and_its_addresses(
    client: str, name: str, found: list[str], seen: Dialled, tmp_path: Path
) -> None:
    passed: list[str] = []
    seen.places.clear()
    seen.looked_up.clear()
    fetcher = fetcher_to(found, passed)
    try:
        if client == "backfill":
            asked = sources("http://127.0.0.1:9", tmp_path, at(0))
            object.__setattr__(asked, "fetcher", fetcher)
            account = Account(ANA)
            account.identity = Identity(ANA, None, origin(f"https://{name}"), None)
            account.advance(asked, Staging(tmp_path))
        else:
            CLIENTS[client](fetcher, name)
    except (FetchProblem, ValueError, OSError):
        pass
    finally:
        fetcher.close()
    assert not [address for address in passed if is_special(address)]
    others = [place for place in seen.places if place != ("127.0.0.1", 9)]
    if client == "stream":  # it dials by itself: nothing routes it elsewhere
        assert not [place for place in others if is_special(str(place[0]))]
    else:
        assert others == []
    assert set(seen.looked_up) <= {"127.0.0.1", *found}


class Network:
    """Two people, a repository and its pull request from records; a PLC directory over TLS says what it is told."""

    def __init__(self, store: Store, folder: Path, certificate: Path) -> None:
        self.store, self.folder, self.certificate = store, folder, certificate
        self.pds, self.handle, self.found = "", "", [""]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, str(certificate) + ".key")
        self.directory = Peer(self.answer, context).__enter__()
        self.passed: list[str] = []
        self.round = 0

    def answer(self, _: Request) -> Answer:
        services = {"atproto_pds": {"endpoint": self.pds}}
        made = {"type": "plc_operation", "alsoKnownAs": [f"at://{self.handle}"], "services": services}
        entry = {"operation": made, "createdAt": "2024-01-01T00:00:00Z", "nullified": False}
        return response(json.dumps([entry]).encode())

    def fetcher(self) -> Fetcher:
        trusted = ssl.create_default_context(cafile=str(self.certificate))

        def resolver(host: str) -> Sequence[str]:
            return PUBLIC[:1] if host == "plc.directory" else self.found

        def route(address: str, port: int) -> tuple[str, int]:
            self.passed.append(address)
            return ("127.0.0.1", self.directory.port) if address == PUBLIC[0] else ("127.0.0.1", 9)

        return Fetcher(resolver=resolver, route=route, context=trusted, texts=lambda _: [], timeout=LONG_SECONDS)

    def say(self, knot: str, spindle: str, web: str) -> None:
        """Records that name these hosts, taken in; everybody is asked about anew."""
        frames = Frames()
        number = len(self.passed)
        frames.repository(SEED, "lantern", "update", repoDid=REPO, knot=knot, spindle=spindle, name=f"n{number}")
        frames.pull(MARA, "one", "update", title=f"T{number}", blobs=[BLOB])
        frames.vouch(SEED, f"did:web:{web}", "update")
        frames.vouch(SEED, MARA, "update")
        for place, frame in enumerate(frames):  # later than all before
            told = json.loads(frame)
            told["time_us"] += self.round * 1_000_000
            told["commit"]["rev"] = f"rev{self.round:08d}{place}"
            frames[place] = json.dumps(told).encode()
        self.round += 100
        take(self.store, frames)
        with self.store.write() as txn:
            txn.execute("delete from fetches")
            txn.execute("insert or ignore into watched_repositories select repository_id, 'off', ? "
                        "from repositories where rkey = 'lantern'", [at(0)])  # fmt: skip


@pytest.fixture(name="network")
def network_fixture(open_store: Open, tmp_path: Path) -> Iterator[Network]:
    certificate = make_certificate(tmp_path, "plc.directory")
    made = Network(open_store("network"), tmp_path, certificate)
    yield made
    made.directory.__exit__()


@settings(max_examples=count(10, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hosts=st.lists(names, min_size=5, max_size=5), found=answers)
def test_no_record_and_no_document_leads_a_hop_to_a_private_address(
    hosts: list[str], found: list[str], seen: Dialled, network: Network
) -> None:
    knot, spindle, web, handle, pds = hosts
    network.handle, network.pds, network.found = handle, f"https://{pds}", found
    seen.places.clear()
    seen.looked_up.clear()
    seen.commands.clear()
    network.say(knot, spindle, web)
    fetcher, wall = network.fetcher(), network.store.wall
    fetch_identities(network.store, fetcher, "https://plc.directory", wall)
    fetch_push_holders(network.store, fetcher, wall, wall)
    fetch_patches(network.store, fetcher, network.folder / "diffs", 10_000, wall)
    fetch_mirrors(network.store, fetcher, network.folder / "mirrors", LIMITS, wall, wall)
    fetcher.close()
    assert network.directory.requests
    assert not [address for address in network.passed if is_special(address)]
    assert {tuple(place) for place in seen.places} <= {("127.0.0.1", 9), ("127.0.0.1", network.directory.port)}
    for command in seen.commands:
        if "ls-remote" in command or "fetch" in command:
            pin = next(word for word in command if word.startswith("http.curloptResolve="))
            assert pin.endswith((":9:127.0.0.1", f":{network.directory.port}:127.0.0.1"))
