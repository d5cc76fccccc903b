"""A person who declares accounts elsewhere, the signer of the claims, and every other side, on one loopback server."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey

from ingest.atproto.record_proof import encode
from ingest.lookups.declared.people import Signers, fetch_declared, fetch_footprints
from ingest.lookups.declared.registries import Registries, fetch_registries
from tests.ingest.atproto.signed import P256, SignedAccount, Signer
from tests.ingest.lookups.asked import PLC, World, body, did
from tests.ingest.peer import Answer, Request, response

CLAIM, KEYS = "dev.keytrace.claim", "dev.keytrace.serverPublicKey"
MALLORY, SIGNER, OTHER = did("mallory"), did("signer"), did("other")
KEY = Signer("the key of a day", P256)
GIST = "https://gist.github.com/mallory/abc123"
COVERED = ["claimUri", "did", "identity.subject", "type"]
DAY = {"validFrom": "2026-11-10T00:00:00.000Z", "validUntil": "2026-11-10T23:59:59.999Z"}
SIGNED_AT = "2026-11-10T12:00:00.000Z"


def jwk(signer: Signer) -> ECKey:
    return ECKey.import_key(signer.private)


def public_text(signer: Signer) -> str:
    """The public half as keytrace publishes it, in text."""
    public = jwk(signer).as_dict(private=False)
    return json.dumps({name: public[name] for name in ("kty", "x", "y", "crv")})


def signature(payload: Mapping[str, Any], signer: Signer = KEY, **changes: Any) -> dict[str, Any]:
    """One entry of `sigs` over this payload."""
    attested = jws.serialize_compact({"alg": "ES256", "typ": "JWT"}, json.dumps(payload, sort_keys=True), jwk(signer))
    told = {"kid": "attest:github", "src": f"at://{SIGNER}/{KEYS}/2026-11-10", "signedAt": SIGNED_AT}
    return told | {"attestation": attested, "signedFields": COVERED} | changes


def claim(kind: str = "github", subject: str = "mallory", proof: str = GIST, who: str = MALLORY) -> dict[str, Any]:
    """A claim as keytrace.dev writes it into the repository of a person."""
    payload = {"claimUri": proof, "did": who, "identity.subject": subject, "type": kind}
    identity = {"subject": subject, "profileUrl": f"https://{kind}.example.org/{subject}"}
    told = {"$type": CLAIM, "type": kind, "claimUri": proof, "identity": identity, "status": "verified"}
    return told | {"sigs": [signature(payload)], "createdAt": SIGNED_AT, "lastVerifiedAt": SIGNED_AT}


def row_of(uri: str, record: Mapping[str, Any]) -> dict[str, str]:
    """What the stream brought of a claim, as the table of claims holds it."""
    identity = record.get("identity")
    subject = identity.get("subject") if isinstance(identity, dict) else None
    words = {"type": record.get("type"), "subject": subject, "claim_uri": record.get("claimUri")}
    return {"uri": uri, **{name: str(value) for name, value in words.items()}}


class Declaring(World):
    """That world with signed repositories and pages; `asked` counts the requests to each host."""

    def __init__(self, folder: Path) -> None:
        keys = {f"{KEYS}/2026-11-10": {"$type": KEYS, "publicJwk": public_text(KEY), **DAY}}
        self.accounts = {
            MALLORY: SignedAccount(MALLORY, Signer("mallory")),
            SIGNER: SignedAccount(SIGNER, Signer("signer"), keys),
            OTHER: SignedAccount(OTHER, Signer("other"), dict(keys)),
        }
        self.pages: dict[str, object] = {}  # by host and path with its query; bytes are a whole answer
        self.known_as: list[str] = []
        self.collections = ["app.bsky.feed.post", "app.bsky.graph.follow", "sh.tangled.repo.pull", "fyi.blog.entry"]
        super().__init__(folder)
        self.change(
            "update contributors set handle = 'mallory.example.test', handle_verified = true, "
            "pds = 'https://pds.example.test' where did = ?",
            MALLORY,
        )

    def answer(self, request: Request) -> Answer:
        host, parts = request.headers["host"], urlsplit(request.path)
        if (host in self.faults) or (said := self.pages.get(f"{host}{request.path}")) is None:
            return response(b"", self.faults[host]) if host in self.faults else self._network(parts.path, parts.query)
        return said if isinstance(said, bytes) else body(said)

    def _network(self, path: str, query: str) -> Answer:
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        if path.endswith("/log/audit"):
            who = path.split("/")[1]
            entry = self.operation(who)
            entry["operation"]["alsoKnownAs"] += self.known_as if who == MALLORY else []
            if who in self.accounts:
                key = f"did:key:{self.accounts[who].signer.key}"
                entry["operation"]["verificationMethods"] = {"atproto": key}
            return body([entry])
        if path.endswith("sync.getRecord"):
            return response(self.accounts[asked["did"]].proof())
        if path.endswith("atproto-did"):
            return response(MALLORY.encode())
        if path.endswith("describeRepo"):
            return body({"did": asked["repo"], "collections": self.collections})
        return response(b"", 404)

    @property
    def asked(self) -> Counter[str]:
        return Counter(request.headers["host"] for request in self.peer.requests)

    def claims(self, record: Mapping[str, Any] | None, rkey: str = "3kclaim") -> str:
        """Put a claim into the repository of mallory and the table of claims, or take it away; returns its address."""
        uri, path = f"at://{MALLORY}/{CLAIM}/{rkey}", f"{CLAIM}/{rkey}"
        if record is None:
            self.accounts[MALLORY].records.pop(path)
            self.change("update account_claims set deleted_at = ? where uri = ?", self.now, uri)
            return uri
        encode(record)
        self.accounts[MALLORY].records[path] = dict(record)
        row = {"author_id": self.people[MALLORY], "record_cid": "cid", "status": "verified", "deleted_at": None}
        times = dict.fromkeys(("written_at", "seen_at", "changed_at"), self.now)
        with self.store.write() as txn:
            txn.upsert("account_claims", [row | row_of(uri, record) | times])
        return uri

    def links(self, *addresses: str) -> None:
        """Give mallory a profile with these links."""
        row = {"uri": f"at://{MALLORY}/sh.tangled.actor.profile/self", "author_id": self.people[MALLORY]}
        texts = {"record_cid": "c", "description": "", "links": json.dumps(addresses), "bluesky": False, "pinned": "[]"}
        times = dict.fromkeys(("written_at", "seen_at", "changed_at"), self.now)
        nothing = dict.fromkeys(("location", "pronouns", "preferred_handle", "deleted_at"))
        with self.store.write() as txn:
            txn.upsert("profiles", [row | texts | times | nothing])

    def look(self, *signers: str) -> int:
        """One pass over what people declare, with the present of the world; the signer counts unless others do."""
        chosen = Signers(set(signers or [SIGNER]) - {""}, PLC)
        return fetch_declared(self.store, self.fetcher, chosen, self.now, self.wall)

    def ask_registries(self, contact: str = "mailto:ana@example.org") -> int:
        return fetch_registries(self.store, Registries(self.fetcher, contact, self.now), self.wall)

    def footprints(self) -> int:
        return fetch_footprints(self.store, self.fetcher, self.now, self.wall)

    def facts(self, *sources: str) -> dict[str, str]:
        """What is known of mallory from these sources, by key."""
        sql = "select key, value from signals where subject = ? and list_contains(?, source) order by key"
        return dict(self.rows(sql, MALLORY, list(sources)))

    def later(self, days: int) -> None:
        self.now += timedelta(days=days)
