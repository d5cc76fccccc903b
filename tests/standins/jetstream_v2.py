"""A loopback Jetstream that serves a recording as v2, the lexicon network.bsky.jetstream.subscribeEvents.

The endpoint was checked against the server's own handler and tests (bluesky-social/jetstream, internal/subscribe,
August 2026).
"""

import json
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from trustsite.standins.jetstream import (
    Jetstream,
    Subscription,
    SubscriptionProblem,
    encode_frame,
    read_subscription,
)
from trustsite.standins.recording import Recording

NSID = "network.bsky.jetstream.subscribeEvents"
KINDS = ("commit", "identity", "account", "sync")
FIRST_TIME = 10**15  # a cursor from here on is a time
LEGACY = ("wantedDids", "wantedCollections", "requireHello", "compress")


class CursorTooOld(SubscriptionProblem):
    """A number below what the server still keeps."""


@dataclass(frozen=True)
class SubscriptionV2(Subscription):
    """One client's subscription; `kinds` are those it wants."""

    kinds: tuple[str, ...] = KINDS


class JetstreamV2(Jetstream):
    """Serves `recording` as v2 does: frame n has the number `first_seq` + n, and those before `oldest` are gone."""

    path = f"/xrpc/{NSID}"

    def __init__(
        self, recording: Recording, hold_after: int | None = None, *, oldest: int = 0, first_seq: int = 1
    ) -> None:
        super().__init__(recording, hold_after)
        self.oldest = oldest
        self._first_seq = first_seq
        self._encoded = cache(self._encode)
        self.asked: list[int | None] = []  # the cursor of every request, refused ones too

    def _read(self, path: str) -> SubscriptionV2:
        query = parse_qs(urlsplit(path).query, keep_blank_values=True)
        if wrong := [name for name in LEGACY if name in query]:
            raise SubscriptionProblem(f"{wrong[0]} is a parameter of the legacy endpoint")
        kinds = tuple(query.get("kinds", KINDS))
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise SubscriptionProblem(f"unknown kind {unknown[0]!r} (valid: {', '.join(KINDS)})")
        if "collections" in query and "commit" not in kinds:
            raise SubscriptionProblem("collections filter can never apply: kinds excludes commit")
        renamed = path.replace("collections=", "wantedCollections=").replace("dids=", "wantedDids=")
        asked = read_subscription(renamed, self._known)
        self._refuse_old(asked.cursor)
        return SubscriptionV2(asked.cursor, asked.collections, asked.dids, kinds)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        cursor = parse_qs(urlsplit(request.path).query).get("cursor", [""])[0]
        self.asked.append(int(cursor) if cursor.isdecimal() else None)
        return super()._admit(connection, request)

    def _refuse_old(self, cursor: int | None) -> None:
        if cursor is None:
            return
        if cursor < 0:
            raise SubscriptionProblem(f"invalid cursor: negative value {cursor}")
        floor = self._first_seq + self.oldest
        if cursor < FIRST_TIME and max(cursor, 1) < floor:
            raise CursorTooOld(f"subscribe: cursor too old: cursor {cursor} below lookback floor {floor}")

    def _refuse(self, connection: ServerConnection, problem: SubscriptionProblem) -> Response:
        name = "CursorTooOld" if isinstance(problem, CursorTooOld) else "InvalidRequest"
        response = connection.respond(HTTPStatus.BAD_REQUEST, json.dumps({"error": name, "message": str(problem)}))
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        return response

    def _start(self, cursor: int | None) -> int:
        if cursor is None:
            return self._released
        place = cursor - self._first_seq if cursor < FIRST_TIME else bisect_left(self._recording.times, cursor)
        return min(max(place, self.oldest), self._released)

    async def _greet(self, connection: ServerConnection, subscription: Subscription) -> None:
        cursor = subscription.cursor
        if cursor is not None and cursor >= FIRST_TIME and bisect_left(self._recording.times, cursor) < self.oldest:
            told = {"$type": f"{NSID}#info", "name": "OutdatedCursor", "message": f"resumed from {self.oldest}"}
            await connection.send(json.dumps({"$type": "message", "payload": told}))

    def _wire(self, subscription: Subscription, begin: int, end: int) -> bytes:
        kinds = cast(SubscriptionV2, subscription).kinds
        wanted = []
        for place in range(begin, end):
            kind, frame = self._encoded(place)
            collection, did = self._recording.collections[place], self._recording.dids[place]
            if kind in kinds and subscription.wants(collection, did):
                wanted.append(frame)
        return b"".join(wanted)

    def _encode(self, place: int) -> tuple[str, bytes]:
        """Kind and wire bytes of a frame; a line that is no frame goes out as it is, as a commit."""
        line = self._recording.frames[place]
        try:
            frame = _decoder.decode(line)
            part = getattr(frame, frame.kind)
            return frame.kind, encode_frame(_message(frame, part, self._first_seq + place))
        except (msgspec.MsgspecError, ValueError, AttributeError):
            return "commit", encode_frame(line)


class _Frame(msgspec.Struct):
    did: str
    time_us: int
    kind: str
    commit: dict[str, msgspec.Raw] = {}
    identity: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    account: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Frame)


def _message(frame: _Frame, part: object, seq: int) -> bytes:
    """A v1 frame in the words of v2, with its parts byte by byte as they are."""
    moment = datetime.fromtimestamp(frame.time_us // 1_000_000, UTC).replace(microsecond=frame.time_us % 1_000_000)
    told = {"$type": f"{NSID}#{frame.kind}", "seq": seq, "did": frame.did, "time": f"{moment:%FT%T.%fZ}"}
    payload = told | (part if isinstance(part, dict) else {frame.kind: part})
    return msgspec.json.encode({"$type": "message", "payload": payload})
