"""A process that sends events like Tangled's over a loopback WebSocket, as fast as a client takes them."""

import asyncio
import json
import multiprocessing
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from websockets.asyncio.server import ServerConnection, serve

from trustsite.standins.jetstream import encode_frame
from trustsite.world.network import encode_tid

PEOPLE = 20_000
FIRST_US = 1_790_000_000_000_000
WRITE_FRAMES = 256
KINDS = ("feed.star", "graph.follow", "repo.pull", "repo.pull.status", "feed.comment", "graph.vouch", "repo.issue")


def frames(count: int, first_us: int = FIRST_US) -> list[bytes]:
    """Frames like Tangled's: mixed collections, growing revs, about 600 bytes, many authors."""
    draw = random.Random(3)
    made = []
    for number in range(count):
        time_us = first_us + number * 1000
        did = _did(draw)
        kind, text = draw.choice(KINDS), "".join(draw.choices("abcdefghij klmnop", k=draw.randrange(120, 320)))
        rkey = _did(draw) if kind == "graph.vouch" else encode_tid(time_us)
        record = {"$type": f"sh.tangled.{kind}", "title": text[:60], "body": text, "createdAt": "2026-09-21T14:00:00Z"}
        cid = f"bafyrei{draw.getrandbits(250):052x}"[:59]
        named = {"rev": encode_tid(time_us), "operation": "create", "collection": f"sh.tangled.{kind}", "rkey": rkey}
        commit = {**named, "record": record, "cid": cid}
        made.append(json.dumps({"did": did, "time_us": time_us, "kind": "commit", "commit": commit}).encode())
    return made


def _did(draw: random.Random) -> str:
    """One of PEOPLE, spelled as a directory would: no 0, 1, 8 or 9."""
    return f"did:plc:{draw.randrange(PEOPLE):024d}".translate(str.maketrans("0189", "abcd"))


def _serve(ports: "multiprocessing.Queue[int]", count: int) -> None:
    writes = [b"".join(map(encode_frame, chunk)) for chunk in _chunks(frames(count))]

    async def play(connection: ServerConnection) -> None:
        for wire in writes:
            connection.transport.write(wire)
            await connection.drain()
            await asyncio.sleep(0)
        await connection.wait_closed()

    async def run() -> None:
        async with serve(play, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
            ports.put(server.sockets[0].getsockname()[1])
            await server.serve_forever()

    asyncio.run(run())


def _chunks(items: list[bytes]) -> Iterator[list[bytes]]:
    return (items[begin : begin + WRITE_FRAMES] for begin in range(0, len(items), WRITE_FRAMES))


@contextmanager
def sender(count: int) -> Generator[str]:
    """A process of its own that sends the frames to every client as fast as it takes them."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=_serve, args=(ports, count), daemon=True)
    process.start()
    try:
        yield f"ws://127.0.0.1:{ports.get(timeout=120)}/subscribe"
    finally:
        process.terminate()
        process.join()
