"""A push service on loopback, and the browsers behind it.

The service checks what RFC 8030 and RFC 8292 ask of a sender, the browsers decrypt as RFC 8291 and RFC 8188 say. Both
are written from those texts alone and share no line with `ingest.push`.
"""

import base64
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.ingest.peer import Request, response

HOST = "push.example.net"
ORIGIN = f"https://{HOST}"
LARGEST = 4_096


def in_letters(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_letters(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hkdf(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 for at most one block."""
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()[:length]


@dataclass
class Subscriber:
    """One browser with its subscription; `key` is that of the site which may send to it."""

    name: str
    key: str = ""
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    secret: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def point(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def form(self) -> dict[str, str]:
        """What the browser gives a page, as the page's form sends it."""
        keys = {"p256dh": in_letters(self.point), "auth": in_letters(self.secret)}
        return {"endpoint": f"{ORIGIN}/p/{self.name}", "time_zone": "Europe/Berlin", **keys}

    def decrypt(self, body: bytes) -> bytes:
        """The message in a body of one record."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert len(record) <= size
        shared = self.private.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        agreed = hkdf(self.secret, shared, b"WebPush: info\x00" + self.point + sender, 32)
        key = hkdf(salt, agreed, b"Content-Encoding: aes128gcm\x00", 16)
        padded = (
            AESGCM(key).decrypt(hkdf(salt, agreed, b"Content-Encoding: nonce\x00", 12), record, None).rstrip(b"\x00")
        )
        assert padded[-1:] == b"\x02", "the last record ends with 2"
        return padded[:-1]


@dataclass
class PushService:
    """Answers senders; `refused` says why it took none of their messages, `taken` holds what browsers read."""

    now: datetime
    browsers: dict[str, Subscriber] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    long_page: set[str] = field(default_factory=set)  # gone, with more words than anybody reads
    taken: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)  # browser, message, TTL
    refused: list[str] = field(default_factory=list)

    def open(self, name: str, key: str) -> Subscriber:
        """A new subscription, restricted to whoever signs with this key (RFC 8292, section 4)."""
        self.browsers[name] = Subscriber(name, key)
        return self.browsers[name]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Each browser and the text that it was shown."""
        return [(name, message["text"]) for name, message, _ in self.taken]

    def answer(self, request: Request) -> bytes:
        name = request.path.removeprefix("/p/")
        if name in self.long_page:
            return response(b"x" * 20_000, 410)
        if name in self.gone or name not in self.browsers:
            return response(status=410 if name in self.gone else 404)
        for status, problem in self._problems(request, self.browsers[name]):
            self.refused.append(problem)
            return response(problem.encode(), status)
        message = json.loads(self.browsers[name].decrypt(request.body))
        self.taken.append((name, message, int(request.headers["ttl"])))
        return response(status=201, Location=f"{ORIGIN}/m/{len(self.taken)}", TTL=request.headers["ttl"])

    def _problems(self, request: Request, browser: Subscriber) -> list[tuple[int, str]]:
        checks: list[tuple[int, str, Callable[[], bool]]] = [
            (405, "method", lambda: request.method == "POST"),
            (400, "TTL", lambda: request.headers.get("ttl", "").isdigit()),
            (415, "encoding", lambda: request.headers.get("content-encoding") == "aes128gcm"),
            (413, "size", lambda: len(request.body) <= LARGEST),
            (403, "token", lambda: self._is_signed(request.headers.get("authorization", ""), browser)),
        ]
        return [(status, problem) for status, problem, holds in checks if not holds()]

    def _is_signed(self, header: str, browser: Subscriber) -> bool:
        """Whether the header is a VAPID token for this service, in time, by the key of the subscription."""
        parts = re.fullmatch(r"vapid t=([\w-]+\.[\w-]+)\.([\w-]+), k=([\w-]+)", header)
        if parts is None or parts[3] != browser.key:
            return False
        head, claims = (json.loads(from_letters(part)) for part in parts[1].split("."))
        left = claims["exp"] - self.now.timestamp()
        contact = claims["sub"].startswith(("https://", "mailto:"))
        if head != {"typ": "JWT", "alg": "ES256"} or claims["aud"] != ORIGIN or not 0 < left <= 86_400 or not contact:
            return False
        r, s = (int.from_bytes(half, "big") for half in (from_letters(parts[2])[:32], from_letters(parts[2])[32:]))
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), from_letters(parts[3]))
        try:
            public.verify(encode_dss_signature(r, s), parts[1].encode(), ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True
