"""The label server bounds what strangers can take, drops who does not read, and starts again when it is killed."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from ingest.labels.keys import LabelKeyProblem, read_key
from ingest.labels.server import CONNECTIONS, CONNECTIONS_OF_ONE, PATTERNS, QUERY, SUBSCRIBE
from tests.ingest.labels.world import SOURCE, Labeler, labeler, lane, next_label, now, play, pull_uri
from tests.waiting import LONG_SECONDS, wait_for
from triage.models import Label
from triage.services.publishing.labels import update_labels

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = 100
REFUSED = (OSError, ConnectionClosed, InvalidHandshake)


@pytest.fixture(scope="module")
def running(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labeler]:
    with labeler(tmp_path_factory.mktemp("labels")) as started:
        yield started


def subscribe(running: Labeler, stack: AsyncExitStack, host: int) -> Awaitable[ClientConnection]:
    """A subscriber from 127.0.0.host."""
    place = (f"127.0.0.{host}", 0)
    return stack.enter_async_context(connect(running.address(), local_addr=place, open_timeout=LONG_SECONDS))


def resident_bytes(process_id: int) -> int:
    status = Path(f"/proc/{process_id}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def test_a_hundred_idle_subscribers_cost_at_most_50_mb_and_all_get_the_next_label(running: Labeler) -> None:
    process_id = running.process_id

    async def look() -> int:
        async with AsyncExitStack() as stack:
            before = resident_bytes(process_id)
            clients = [await subscribe(running, stack, 2 + number // CONNECTIONS_OF_ONE) for number in range(IDLE)]
            await asyncio.to_thread(update_labels, [lane(pull_uri(1))], now())
            labels = await asyncio.gather(*map(next_label, clients))
            assert [label["uri"] for label in labels] == [pull_uri(1)] * IDLE
            return resident_bytes(process_id) - before

    assert play(look()) <= 50_000_000


def test_a_subscriber_without_a_cursor_gets_only_what_comes_after(running: Labeler) -> None:
    update_labels([lane(pull_uri(1))], now())

    async def look() -> str:
        async with AsyncExitStack() as stack:
            client = await subscribe(running, stack, 1)
            await client.ping()
            await asyncio.to_thread(update_labels, [lane(pull_uri(1)), lane(pull_uri(2))], now())
            return (await next_label(client))["uri"]

    assert play(look()) == pull_uri(2)


def test_who_does_not_read_is_dropped_and_another_is_not(tmp_path: Path) -> None:
    update_labels([lane(pull_uri(number)) for number in range(4_000)], now())
    with labeler(tmp_path, slow_seconds=3.0) as running:  # more than the other needs on a busy machine
        process_id, seen = running.process_id, list[int]()
        # What asked whether it listens is gone once the number stands still.
        wait_for(lambda: seen.append(running.sockets) or (len(seen) >= 20 and len(set(seen[-20:])) == 1), what="rest")
        open_before = seen[-1]
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect(("127.0.0.1", running.config.port))
            key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
            upgrade = f"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}"
            slow.sendall(f"GET {SUBSCRIBE}?cursor=0 HTTP/1.1\r\n{upgrade}\r\n\r\n".encode())
            wait_for(lambda: running.sockets > open_before, what="its connection")
            assert len(play(_read_all(running, 4_000))) == 4_000
            wait_for(lambda: running.sockets == open_before, what="its end")
            slow.settimeout(LONG_SECONDS)
            assert _count_bytes(slow) < 4_000 * 200
        assert running.process_id == process_id


async def _read_all(running: Labeler, count: int) -> set[str]:
    async with connect(running.address(cursor=0)) as client:
        return {(await next_label(client))["uri"] for _ in range(count)}


def _count_bytes(peer: socket.socket) -> int:
    """What arrives until the other side's end."""
    total = 0
    try:
        while data := peer.recv(65_536):
            total += len(data)
    except ConnectionResetError:
        pass
    return total


def test_one_address_and_all_of_them_have_only_so_many_connections(running: Labeler) -> None:
    async def look() -> None:
        async with AsyncExitStack() as stack:
            for number in range(CONNECTIONS):
                await subscribe(running, stack, 2 + number // CONNECTIONS_OF_ONE)
                if number == CONNECTIONS_OF_ONE - 1:
                    with pytest.raises(REFUSED):
                        await subscribe(running, stack, 2)
            with pytest.raises(REFUSED):
                await subscribe(running, stack, 200)
        async with AsyncExitStack() as stack:
            await subscribe(running, stack, 2)

    play(look())


def test_behind_the_proxy_addresses_are_those_that_it_tells(running: Labeler, tmp_path: Path) -> None:
    async def look(behind: Labeler) -> list[int]:
        async with AsyncExitStack() as stack:
            for number in range(CONNECTIONS_OF_ONE):
                headers = {"X-Forwarded-For": f"made-up, 2001:db8::{number:x}"}  # one /64
                await stack.enter_async_context(connect(behind.address(), additional_headers=headers))
            others = ("2001:db8::ffff", "2001:db8:0:1::1", "198.51.100.1", "2001:db8::ffff, 198.51.100.2")
            return [(await asyncio.to_thread(ask, behind, other))[0] for other in others]

    def ask(asked: Labeler, address: str) -> tuple[int, dict[str, Any]]:
        return asked.get(f"{QUERY}?uriPatterns=*", **{"X-Forwarded-For": address})

    with labeler(tmp_path, proxy="127.0.0.1") as behind:
        assert play(look(behind)) == [429, 200, 200, 200]
    # Without a proxy nobody is believed: with other made-up addresses it is still one client.
    assert ask(running, "2001:db8::ffff")[0] == 200


BAD = [
    f"{QUERY}",
    f"{QUERY}?uriPatterns=",
    f"{QUERY}?uriPatterns=at://a*b",
    f"{QUERY}?uriPatterns={'a' * 2_100}",
    f"{QUERY}?uriPatterns=a&limit=0",
    f"{QUERY}?uriPatterns=a&limit=251",
    f"{QUERY}?uriPatterns=a&limit=%D9%A1",
    f"{QUERY}?uriPatterns=a&cursor=-1",
    f"{QUERY}?uriPatterns=a&cursor={2**53}",
    f"{QUERY}?{'uriPatterns=a&' * (PATTERNS + 1)}",
    f"{QUERY}?{'a=b&' * 1_000}",
    f"{SUBSCRIBE}?cursor=tomorrow",
    f"{SUBSCRIBE}?{'cursor=1&' * 100}",
]


def test_bad_requests_are_answered_in_words_and_huge_ones_are_not_read(running: Labeler) -> None:
    for target in BAD:
        status, answer = running.get(target)
        assert (status, answer["error"]) == (400, "InvalidRequest"), target
    for target in ("/", "/xrpc/com.atproto.label.queryLabels/"):
        assert running.get(target) == (404, {"error": "MethodNotImplemented", "message": ANY})
    assert running.get(SUBSCRIBE)[0] == 426
    update_labels([lane(pull_uri(1))], now())
    assert running.get(f"{QUERY}?uriPatterns={'a' * 100_000}") == (414, {})
    assert len(running.query("*")["labels"]) == 1


def test_what_a_subscriber_sends_is_ignored_and_a_large_frame_ends_the_connection(running: Labeler) -> None:
    async def look() -> str:
        async with connect(running.address()) as client:
            for _ in range(100):
                await client.send(b"x" * 1_000)
            await asyncio.to_thread(update_labels, [lane(pull_uri(1))], now())
            uri = (await next_label(client))["uri"]
            await client.send(b"x" * 100_000)
            with pytest.raises(ConnectionClosed):
                await client.recv()
            return uri

    assert play(look()) == pull_uri(1)


def test_a_query_finds_uris_and_prefixes_page_by_page_and_only_of_this_source(running: Labeler) -> None:
    uris = [pull_uri(number) for number in range(5)]
    other = pull_uri(0, "did:plc:" + "o" * 24)
    update_labels([lane(uri) for uri in [*uris, other]], now())
    assert [label["uri"] for label in running.query(other)["labels"]] == [other]
    answer = running.query(f"{uris[0][:-6]}*", limit=3)
    rest = running.query(f"{uris[0][:-6]}*", limit=3, cursor=answer["cursor"])
    assert [label["uri"] for label in answer["labels"] + rest["labels"]] == uris
    assert "cursor" not in rest
    assert running.query("*", sources="did:web:other.example")["labels"] == []
    assert len(running.query("*", sources=SOURCE)["labels"]) == 6
    assert running.query("at://%", "at://_*")["labels"] == []
    Label.objects.filter(uri=other).update(exp=1)
    assert running.query(other)["labels"] == []


def test_a_killed_server_starts_again_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    with labeler(tmp_path) as running:
        first = running.process_id
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: running.server.process_id not in (None, first), what="another server")
        assert running.process_id != first
        running.server.stop()
        wait_for(lambda: not running.server.is_alive(), what="the end of its thread")
        assert running.server.process_id is None


def test_a_damaged_key_is_told_and_nothing_is_signed_with_another(tmp_path: Path) -> None:
    update_labels([lane(pull_uri(1))], now())
    read_key(tmp_path / "keys" / "label")
    with labeler(tmp_path) as running:
        running.key.write_text("damaged")
        status, answer = running.get(f"{QUERY}?uriPatterns=*")
        assert (status, answer["error"]) == (503, "ServiceUnavailable")
        with pytest.raises(LabelKeyProblem, match="damaged or cannot be read"):
            read_key(running.key)
    assert Label.objects.get().signer == ""
