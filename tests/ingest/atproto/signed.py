"""Accounts with keys and signed repositories, written here from the specifications, and who answers for them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ingest.atproto.record_proof import CURVES, LETTERS, Link, encode
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.rate_limits import Shares

SECP256K1, P256 = CURVES


def base58(raw: bytes) -> str:
    number, found = int.from_bytes(raw, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        found = LETTERS[rest] + found
    return found


def link_of(block: bytes) -> Link:
    return Link(b"\x01\x71\x12\x20" + hashlib.sha256(block).digest())


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


@dataclass
class Signer:
    """A private key, named by a word; `curve` is the multicodec of its public key."""

    word: str
    curve: bytes = SECP256K1

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        name, order = CURVES[self.curve]
        secret = int.from_bytes(hashlib.sha256(self.word.encode()).digest(), "big") % order
        return ec.derive_private_key(secret, getattr(ec, name)())

    @property
    def key(self) -> str:
        """The public key in multibase."""
        public = self.private.public_key()
        return "z" + base58(self.curve + public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint))

    def sign(self, message: bytes, low: bool = True) -> bytes:
        _, order = CURVES[self.curve]
        r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(SHA256(), deterministic_signing=True)))
        s = min(s, order - s) if low else max(s, order - s)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@dataclass
class SignedAccount:
    """An account whose repository holds these records by 'collection/rkey'."""

    did: str
    signer: Signer
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    rev: str = "3kkkkkkkkkk2k"

    def proof(self, signer: Signer | None = None, did: str = "", left_out: int | None = None) -> bytes:
        """A CAR of the whole repository: the commit, two levels of the tree, every record."""
        blocks = [encode(record) for record in self.records.values()]
        places = sorted((path.encode(), link_of(encode(record))) for path, record in self.records.items())
        middle = len(places) // 2
        left, right = (self._node(part, None) for part in (places[:middle], places[middle + 1 :]))
        top = self._node(places[middle : middle + 1], link_of(left) if middle else None)
        if places[middle + 1 :]:
            top = self._node(places[middle : middle + 1], link_of(left) if middle else None, link_of(right))
        unsigned = {"did": did or self.did, "version": 3, "data": link_of(top), "rev": self.rev, "prev": None}
        commit = encode(unsigned | {"sig": (signer or self.signer).sign(encode(unsigned))})
        every = [commit, top, left, right, *blocks]
        if left_out is not None:
            every.pop(left_out)
        header = encode({"roots": [link_of(commit)], "version": 1})
        return varint(len(header)) + header + b"".join(varint(36 + len(one)) + link_of(one) + one for one in every)

    @staticmethod
    def _node(places: list[tuple[bytes, Link]], left: Link | None, right: Link | None = None) -> bytes:
        entries: list[dict[str, Any]] = []
        before = b""
        for path, link in places:
            shared = next((at for at in range(min(len(before), len(path))) if before[at] != path[at]), 0)
            entries.append({"p": shared, "k": path[shared:], "v": link, "t": None})
            before = path
        if entries and right is not None:
            entries[-1]["t"] = right
        return encode({"l": left, "e": entries})


@dataclass
class SignedNetwork:
    """Answers as the directory and the data servers of these accounts would; `down` are hosts that do not."""

    accounts: Mapping[str, SignedAccount]
    down: set[str] = field(default_factory=set)
    sent: dict[str, bytes] = field(default_factory=dict)  # other proofs in place of an account's own
    stand_in: None = None
    closed: bool = False
    timeout: float = 15.0
    shares: Shares = field(default_factory=Shares)

    def fetcher(self) -> Fetcher:
        return cast(Fetcher, self)

    def get_json(self, url: str, shape: Any, limit: int = 0) -> Any:
        did = unquote(urlsplit(url).path.split("/")[1])
        if did not in self.accounts:
            raise FetchProblem("no such account", status=404)
        key = f"did:key:{self.accounts[did].signer.key}"
        operation = {
            "type": "plc_operation",
            "services": {"atproto_pds": {"endpoint": f"https://{did[8:16]}.example.org"}},
            "verificationMethods": {"atproto": key},
        }
        told = [{"operation": operation, "createdAt": "2025-01-01T00:00:00Z"}]
        return msgspec.json.decode(json.dumps(told), type=shape)

    def get(self, url: str, limit: int = 0) -> bytes:
        did = parse_qs(urlsplit(url).query)["did"][0]
        if did in self.down:
            raise FetchProblem("nobody answers", retry=True)
        if did in self.sent:
            return self.sent[did]
        return self.accounts[did].proof()
