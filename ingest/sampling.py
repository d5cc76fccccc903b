"""Listening beside the worker for a while: frames as they come, with nothing opened or written."""

import time
from collections.abc import Iterator, Sequence

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from ingest import dialects
from ingest.frames import LARGEST_FRAME


class SampleProblem(Exception):
    """The stream cannot be listened to, or not any longer; the message says why."""


def listen(url: str, collections: Sequence[str], seconds: float, since_us: int | None = None) -> Iterator[bytes | str]:
    """Frames as v1 has them for so long, from now or from `since_us` on. Raises SampleProblem when it breaks."""
    try:
        address = dialects.address(url, collections, since_us)
        with dialects.StraightAndWaiting(
            address, compression=None, max_size=LARGEST_FRAME, close_timeout=1, ping_timeout=60
        ) as socket:
            for frame in _frames(socket, time.monotonic() + seconds):
                yield from dialects.read_v2([frame]).frames if dialects.is_v2(url) else [frame]
    except ConnectionClosed as problem:
        raise SampleProblem(f"{url} ended the connection ({problem})") from problem
    except (OSError, ValueError, ImportError, WebSocketException) as problem:
        raise SampleProblem(f"{url} cannot be listened to ({problem})") from problem


def _frames(socket: ClientConnection, ends: float) -> Iterator[bytes]:
    while (left := ends - time.monotonic()) > 0:
        try:
            frame = socket.recv(timeout=left, decode=False)
        except TimeoutError:
            return
        yield frame
