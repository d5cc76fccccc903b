"""Repositories that unfold, never end or lead astray are bounded in memory, on disk and in time."""

import gzip
import io
import json
import os
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import chain, islice, product, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.errors import FetchProblem
from ingest.git.mirror import Limits, folder_bytes
from ingest.git.patch import read_patch
from ingest.git.process import Git
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import push_holders
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.git.git_world import Watching
from tests.ingest.lookups.asked import World, cid_of, did
from tests.ingest.peer import Answer, Request, Start, response
from tests.waiting import ends_by_itself

LIMIT = 200_000  # bytes of a patch
PEAK = 20 * LIMIT  # a patch is held as bytes, lines and text, and hashed
HEAD = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,%d @@\n"

pieces = st.sampled_from(
    [b"\0", b"+", b"\n", b"+\n", b"-a\n+b\n", b"@@ -1 +1 @@\n", b"diff --git a/x b/x\n", b"From " + b"a" * 40 + b" \n",
     b"\xff\xfe", b"\\ No newline\n", b"GIT binary patch\n", b"Change-Id: I1\n",
     b"--- a/x\n+++ b/x\n", b"+" * 999 + b"\n"]
)  # fmt: skip


def packed(piece: bytes, times: int, members: int, nested: bool, cut: int) -> bytes:
    data = gzip.compress(piece * times, mtime=0) * members
    data = gzip.compress(data, mtime=0) if nested else data
    return data[: len(data) - cut] if cut else data


bombs = st.builds(
    packed, pieces, st.integers(1, 300_000), st.integers(1, 30), st.booleans(), st.sampled_from([0, 0, 1, 9])
)


@settings(max_examples=count(30, 1000))
@given(bombs)
def test_no_packed_patch_takes_more_memory_than_a_few_times_the_limit(data: bytes) -> None:
    tracemalloc.start()
    try:
        patch = read_patch(data, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK + 2 * len(data)
    assert len(patch.text.encode()) <= 3 * LIMIT  # a byte that is no text becomes three


def files_below(folder: Path) -> int:
    return sum(place.stat().st_size for place in folder.rglob("*") if place.is_file())


@settings(max_examples=count(15, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=bombs)
def test_no_patch_that_is_fetched_writes_more_than_the_limit(world: World, data: bytes) -> None:
    cid = cid_of(data)
    world.blobs[cid] = data
    world.change("update contributors set pds = 'https://pds.example.test'")
    world.change("delete from fetches")
    world.change("delete from patches")
    world.change("delete from pull_rounds")
    world.offer("at://a/1", 1, cid)
    before = files_below(world.folder)
    assert world.patches() == 1
    ((bytes_kept, state),) = world.rows("select bytes, state from patches") or [(0, "failed")]
    assert bytes_kept <= 300_000
    assert files_below(world.folder) - before <= 310_000
    assert state in ("read", "malformed", "oversized", "failed")
    assert not list(world.folder.rglob(".draft-*"))


documents = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["did:web:mara.example.test", "did:web:other.test", 1]),
        "alsoKnownAs": st.lists(st.sampled_from(["at://mara.example.test", "at://127.0.0.1", "x"]) | hostile.leaves)
        | hostile.values,
        "service": st.lists(
            st.fixed_dictionaries(
                {"id": st.sampled_from(["#atproto_pds", "did:web:mara.example.test#atproto_pds", "#x"])},
                optional={"serviceEndpoint": hostile.values | st.sampled_from(["https://[::1]", "https://p.test"])},
            ),
            max_size=4,
        )
        | hostile.values,
    },
)
operations = st.fixed_dictionaries(
    {"type": st.sampled_from(["plc_operation", "create", "plc_tombstone", "x"])},
    optional={
        "alsoKnownAs": hostile.values | st.just(["at://mara.example.test"]),
        "services": hostile.values | st.just({"atproto_pds": {"endpoint": "https://127.0.0.1:2583/"}}),
        "rotationKeys": hostile.values | st.just(["did:key:z"]),
        "verificationMethods": hostile.values,
        "handle": hostile.leaves,
        "service": hostile.leaves,
    },
)
entries = st.fixed_dictionaries(
    {"operation": operations | hostile.values, "createdAt": hostile.leaves | st.just("2024-01-01T00:00:00Z")},
    optional={"nullified": st.booleans() | hostile.leaves},
)
logs = st.lists(entries, max_size=5) | hostile.values


@settings(max_examples=count(25, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=logs, document=documents | hostile.values, raw=st.none() | st.binary(max_size=30))
def test_no_document_and_no_log_stops_the_others_or_leads_to_an_odd_address(
    world: World, log: Any, document: Any, raw: bytes | None
) -> None:
    """Mara's directory entry and did:web say this; seed's is whole and is read all the same."""
    whole = [world.operation(did("seed"))]
    world.change("update contributors set did = 'did:web:mara.example.test' where did = ?", did("stranger"))
    world.change("insert or ignore into maintainers select contributor_id, 1 from contributors")
    world.change("delete from fetches")
    saying = raw if raw is not None else json.dumps(log).encode("utf-8", "surrogatepass")

    def answer(request: Request) -> Answer:
        if request.path.endswith("did.json"):
            return response(json.dumps(document).encode("utf-8", "surrogatepass"))
        if request.path.endswith("/log/audit"):
            return response(json.dumps(whole).encode() if did("seed") in request.path else saying)
        return response(b"", 404)

    world.peer.answer = answer
    assert world.identities() >= 3
    assert world.rows("select outcome from fetches where kind = 'identity' and subject = ?", did("seed")) == [
        ("found",)
    ]
    for pds, handle in world.rows("select pds, handle from contributors"):
        assert pds is None or pds.startswith("https://")
        assert not pds or "127.0.0.1" not in pds
        assert handle is None or handle.rpartition(".")[2].isalpha() or handle.rpartition(".")[2].startswith("xn--")
    assert world.rows("select 1 from signals where strlen(value) > 100") == []
    assert world.rows("select 1 from fetches where strlen(reason) > 400") == []


# Git servers.
SMALL = Limits(mirror_bytes=3_000_000, mirrors_bytes=10_000_000, seconds=15)
COMMIT = b"a" * 40


def line(text: bytes) -> bytes:
    return b"%04x%s" % (len(text) + 4, text)


def pack(objects: list[tuple[int, int, bytes]]) -> bytes:
    """A pack of (type, told size, packed bytes)."""
    out = io.BytesIO()
    out.write(b"PACK" + struct.pack(">II", 2, len(objects)))
    for kind, size, data in objects:
        first, size = kind << 4 | size & 15, size >> 4
        while size:
            out.write(bytes([first | 0x80]))
            first, size = size & 127, size >> 7
        out.write(bytes([first]) + data)
    return out.getvalue()


def zeros(megabytes: int) -> bytes:
    packer = zlib.compressobj(9)
    return b"".join([*(packer.compress(bytes(1_000_000)) for _ in range(megabytes)), packer.flush()])


def noise() -> Iterator[bytes]:
    """The inside of a packed object that never ends."""
    while True:
        yield b"\x00" + struct.pack("<HH", 50_000, 50_000 ^ 0xFFFF) + os.urandom(50_000)


BIG = 400
PACKS: dict[str, Callable[[], Iterator[bytes]]] = {
    "noise without end": lambda: chain([pack([(3, 2**40, b"\x78\x01")])], noise()),
    "a blob that unfolds": lambda: iter([pack([(3, BIG * 10**6, zeros(BIG))])]),
    "a tree that unfolds": lambda: iter([pack([(2, BIG * 10**6, zeros(BIG))])]),
    "a commit that unfolds": lambda: chain([pack([(1, BIG * 10**6, zeros(BIG))])], noise()),
    "more objects than come": lambda: iter([b"PACK" + struct.pack(">II", 2, 2**32 - 1)]),
    "empty objects without end": lambda: chain(
        [b"PACK" + struct.pack(">II", 2, 5_000_000)], repeat((b"\x30" + zlib.compress(b"")) * 5_000)
    ),
}


def served(body: Callable[[], Iterator[bytes]]) -> Callable[[Request], Answer]:
    """A server of git's first protocol with one branch and such a pack."""

    def answer(request: Request) -> Answer:
        if "info/refs" in request.path:
            refs = line(b"# service=git-upload-pack\n") + b"0000"
            for name in (b"HEAD", b"refs/heads/main"):
                words = b"\0symref=HEAD:refs/heads/main agent=x" if name == b"HEAD" else b""
                refs += line(COMMIT + b" " + name + words + b"\n")
            return response(refs + b"0000", Content_Type="application/x-git-upload-pack-advertisement")
        return sending(body)

    return answer


def sending(body: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nConnection: close\r\n\r\n"
    yield line(b"NAK\n")
    yield from body()


@pytest.mark.parametrize("name", PACKS)
def test_no_pack_takes_more_disk_or_memory_than_a_mirror_may(
    name: str, store: Store, tmp_path: Path, peer: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.ingest.git.git_world.LIMITS", SMALL)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    server = peer(served(PACKS[name]))
    world = Watching(store, Fetcher(server.origin), tmp_path / "mirrors")
    with ends_by_itself():
        assert world.look() == 0
    assert world.rows("select state from mirrors")[0]["state"] in ("failed", "too_large")
    assert folder_bytes(world.folder) < 100_000
    assert max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - largest, 0) < 600_000  # kB


def astray(kind: str, private: str) -> Callable[[Request], Answer]:
    """A server that sends its clients to another one, in each way that git knows."""
    advertised = (
        line(b"# service=git-upload-pack\n") + b"0000" + line(COMMIT + b" refs/heads/main\0agent=x\n") + b"0000"
    )
    listing = "application/x-git-upload-pack-advertisement"

    def answer(request: Request) -> Answer:
        place = private + request.path
        if kind == "at once":
            return response(status=308, Location=place)
        if kind == "when asked for the pack":
            if "info/refs" in request.path:
                return response(advertised, Content_Type=listing)
            return response(status=307, Location=place)
        if request.path.split("?")[0].endswith("info/refs"):  # the protocol without a program on the other side
            return response(COMMIT + b"\trefs/heads/main\n", Content_Type="text/plain")
        if request.path.endswith("alternates"):
            return response(f"{private}/objects/\n../../../../etc\n".encode())
        if request.path.endswith("HEAD"):
            return response(b"ref: refs/heads/main\n")
        return response(status=302 if kind == "at an object" else 404, Location=place)

    return answer


@pytest.mark.parametrize("kind", ["at once", "when asked for the pack", "by alternates", "at an object"])
def test_no_server_sends_git_to_another_one(kind: str, store: Store, tmp_path: Path, peer: Start) -> None:
    private = peer(lambda _: response(status=404))
    server = peer(astray(kind, private.origin))
    world = Watching(store, Fetcher(server.origin), tmp_path / "mirrors")
    assert world.look() == 0
    assert server.requests
    assert private.connections == 0
    assert world.rows("select state from mirrors")[0]["state"] in ("failed", "absent")


def test_branches_count_with_the_blocks_that_they_take(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"branch{number}").write_text("a" * 40)
    blocks = sum(place.stat().st_blocks * 512 for place in tmp_path.iterdir())
    assert folder_bytes(tmp_path) == max(blocks, 4_000)


def test_what_git_cannot_even_be_asked_is_a_problem_in_words(tmp_path: Path) -> None:
    for word in ("x" * 3_000_000, "a\0b"):
        with pytest.raises(FetchProblem, match="cannot be started"):
            Git(tmp_path).run("log", word)


def test_a_knot_that_lists_thousands_on_one_page_is_not_believed(peer: Start) -> None:
    listed = [{"subject": "did:plc:" + "".join(letters)} for letters in islice(product("abcd", repeat=24), 1_001)]
    server = peer(lambda _: response(json.dumps({"items": listed}).encode()))
    with pytest.raises(FetchProblem, match="not believed"):
        push_holders(Fetcher(server.origin), "knot.example.test", did("repo"))
