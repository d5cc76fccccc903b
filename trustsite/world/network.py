"""The sheet on which the simulated network is drawn: frames, blobs, people and repositories.

Identifiers are computed: TIDs, CIDs of records (DAG-CBOR) and of blobs, did:plc and timestamps. Patches have the form
of `git format-patch` and are made from templates; every hunk is valid, every hash is computed.
"""

import difflib
import gzip
import hashlib
import re
from base64 import b32decode, b32encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from ingest.atproto.record_proof import Link, encode
from trustsite.standins.answers import COMMENT, FOLLOW, MARKDOWN, PULL, REPOSITORY, STATUS, VOUCH
from trustsite.standins.recording import BlobKey, Person, Recording, Repository, make_recording
from trustsite.world.cast import KNOT, SERVERS, SPINDLE, Project
from trustsite.world.changes import CHANGES, DIALECTS, NOUNS, TRAPS, VERBS, Dialect, Language

TID_LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
RAW, DAG_CBOR = 0x55, 0x71
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def draw(*parts: object) -> Random:
    """Return a separate generator for each actor and purpose, so that leaving one actor out changes no other draws."""
    return Random(":".join(map(str, parts)))  # noqa: S311


def encode_tid(time_us: int, clock: int = 0) -> str:
    """Return the 13 letters of a TID: 53 bits of unix microseconds, 10 bits of clock identifier."""
    number = (time_us << 10) | (clock & 1023)
    return "".join(TID_LETTERS[(number >> shift) & 31] for shift in range(60, -1, -5))


def make_did(*parts: object) -> str:
    return "did:plc:" + _base32(hashlib.sha256(":".join(map(str, parts)).encode()).digest()[:15])


def blob_cid(data: bytes) -> str:
    """Return the CID of a blob: version 1, raw, SHA-256."""
    return _cid(RAW, data)


def record_cid(record: object) -> str:
    """Return the CID of a record of JSON values: version 1, DAG-CBOR, SHA-256; {"$link": …} becomes a link."""
    return _cid(DAG_CBOR, encode(_convert_links(record)))


def pseudo_cid(data: bytes) -> str:
    """Return a well-formed record CID made from the hash of other bytes: 20 times cheaper, for load tests."""
    return _cid(DAG_CBOR, data)


def _convert_links(value: object) -> object:
    """Return a JSON value with each {"$link": …} as a CID link."""
    match value:
        case {"$link": str(link), **rest} if not rest:
            return Link(_cid_bytes(link))
        case dict():
            return {key: _convert_links(item) for key, item in value.items()}
        case list() | tuple():
            return [_convert_links(item) for item in value]
    return value


def to_us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def iso(time_us: int) -> str:
    """Return RFC 3339 with milliseconds and Z, in the servers' form."""
    moment = EPOCH + timedelta(microseconds=time_us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_us // 1000 % 1000:03d}Z"


def _cid(codec: int, data: bytes) -> str:
    return "b" + _base32(bytes([1, codec, 0x12, 0x20]) + hashlib.sha256(data).digest())


def _cid_bytes(cid: str) -> bytes:
    text = cid[1:].upper()
    return b32decode(text + "=" * (-len(text) % 8))


def _base32(data: bytes) -> str:
    return b32encode(data).decode().lower().rstrip("=")


@dataclass(frozen=True)
class Signature:
    """The claimed author and time of the patch; `offset` is the author's distance from UTC in hours."""

    name: str
    email: str
    time_us: int
    offset: int


@dataclass(frozen=True)
class Edit:
    """A file before and after."""

    title: str
    path: str
    before: str
    after: str

    def reversed(self) -> "Edit":
        return Edit(f'Revert "{self.title}"', self.path, self.after, self.before)


def make_edit(random: Random, language: Language, folder: str, trap: bool = False) -> Edit:
    """Return a change of one function in a file of several; a `trap` does harm."""
    words = _draw_words(random)
    change = random.choice((TRAPS if trap else CHANGES)[language])
    dialect = DIALECTS[language]
    others = [other for other in CHANGES[language] if other is not change]
    around = [
        _fill_words(random.choice((other.before, other.after)), _draw_words(random))
        for other in random.sample(others, 3)
    ]
    place = random.randrange(len(around) + 1)
    header = _fill_words(dialect.header, words)
    path = f"{folder}/{words['verb']}_{words['noun']}{dialect.suffix}"
    before, after = (
        _indent(dialect, dialect.gap.join([header, *around[:place], _fill_words(text, words), *around[place:]]))
        for text in (change.before, change.after)
    )
    return Edit(_fill_words(change.title, words), path, before, after)


def format_patch(edit: Edit, signature: Signature) -> bytes:
    """Return the mail of one commit in the form of `git format-patch`."""
    added, removed, diff = _make_diff(edit)
    commit = hashlib.sha1(f"{signature.time_us}{signature.email}{diff}".encode(), usedforsecurity=False).hexdigest()
    zone = timezone(timedelta(hours=signature.offset))
    moment = (EPOCH + timedelta(microseconds=signature.time_us)).astimezone(zone)
    text = (
        f"From {commit} Mon Sep 17 00:00:00 2001\n"
        f"From: {signature.name} <{signature.email}>\n"
        f"Date: {_mail_date(moment)}\n"
        f"Subject: [PATCH] {edit.title}\n\n"
        f"---\n {edit.path} | {added + removed} {'+' * added}{'-' * removed}\n"
        f" 1 file changed, {added} insertions(+), {removed} deletions(-)\n\n{diff}-- \n2.45.0\n\n"
    )
    return text.encode()


def pack(patch: bytes) -> bytes:
    """Return the gzipped blob of a pull request; equal patches give equal bytes."""
    return gzip.compress(patch, mtime=0)


def _indent(dialect: Dialect, text: str) -> str:
    return re.sub(r"(?m)^( {4})+", lambda spaces: "\t" * (len(spaces[0]) // 4), text) if dialect.tabs else text


def _make_diff(edit: Edit) -> tuple[int, int, str]:
    lines: Sequence[str] = list(
        difflib.unified_diff(
            edit.before.splitlines(keepends=True),
            edit.after.splitlines(keepends=True),
            f"a/{edit.path}",
            f"b/{edit.path}",
        )
    )
    head = (
        f"diff --git a/{edit.path} b/{edit.path}\n"
        f"index {_object_name(edit.before)}..{_object_name(edit.after)} 100644\n"
    )
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return added, removed, head + "".join(lines)


def _object_name(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()[:8]


def _mail_date(moment: datetime) -> str:
    # strftime would follow the locale; a mail's date is English.
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[moment.month - 1]
    return f"{day}, {moment.day} {month} {moment:%Y %H:%M:%S %z}"


def _draw_words(random: Random) -> dict[str, str]:
    noun, verb, number = random.choice(NOUNS), random.choice(VERBS), random.randrange(3, 250)
    return {
        "noun": noun,
        "Noun": noun.capitalize(),
        "verb": verb,
        "Verb": verb.capitalize(),
        "number": str(number),
        "more": str(number + random.choice((5, 10, 30, 60))),
    }


def _fill_words(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"«{word}»", value)
    return text


LATENCY_US = 400_000  # from the writing of a record to the stream
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Pull:
    uri: str
    author: str  # name in the cast
    project: str
    rkey: str
    opened_us: int
    edit: Edit
    record: Record


class Sheet:
    """Collect everybody's actions; times are unix microseconds, people go by their name in the cast."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.people: dict[str, Person] = {}
        self.repository_dids: dict[str, str] = {}  # by name of the project
        self._repositories: list[Repository] = []
        self._frames: list[bytes] = []
        self._blobs: dict[BlobKey, bytes] = {}
        self._versions: set[tuple[str, str, str]] = set()

    def add_person(self, name: str, created_us: int, server: str = "", handle: str = "", did: str = "") -> Person:
        """Add a person with a DID, a handle and a data server; the defaults follow from the name."""
        random = draw(self.seed, name, "person")
        did = did or make_did(self.seed, name)
        created = "" if did.startswith("did:web:") else iso(created_us)
        server = server or random.choice(SERVERS)
        person = Person(did, handle or f"{name}.example.test", server, created)
        self.people[name] = person
        return person

    def did(self, name: str) -> str:
        return self.people[name].did

    def add_repository(self, project: Project, time_us: int, knot: str = "") -> str:
        """Add a repository with its record and, unless it has its own `knot`, the knot's answer; return its DID."""
        repo = make_did(self.seed, "repository", project.name)
        self.repository_dids[project.name] = repo
        if not knot:
            push = tuple(sorted(self.did(name) for name in (project.owner, *project.others)))
            name = f"{self.people[project.owner].handle}/{project.name}"
            row = Repository(repo, name, self.did(project.owner), KNOT, SPINDLE, push)
            self._repositories.append(row)
        self.claim_repository(project.owner, project.name, repo, knot or KNOT, time_us, project.upstream)
        return repo

    def claim_repository(self, name: str, title: str, repo: str, knot: str, time_us: int, upstream: str = "") -> None:
        """Write a repository record; anyone can name any DID in one."""
        record = {"name": title, "knot": knot, "spindle": SPINDLE, "repoDid": repo, "createdAt": iso(time_us)}
        record |= {"source": f"https://github.com/{upstream}"} if upstream else {}
        self.put(name, REPOSITORY, self._make_tid(name, time_us, REPOSITORY), record, time_us)

    def put(self, name: str, collection: str, rkey: str, record: Record, time_us: int) -> str:
        """Write a record, as `update` if the key exists; return its at-uri."""
        key = (name, collection, rkey)
        operation = "update" if key in self._versions else "create"
        self._versions.add(key)
        value = {"$type": collection, **record}
        commit = {"operation": operation, "record": value, "cid": record_cid(value)}
        self._commit(name, collection, rkey, commit, time_us)
        return f"at://{self.did(name)}/{collection}/{rkey}"

    def delete(self, name: str, collection: str, rkey: str, time_us: int) -> None:
        self._versions.discard((name, collection, rkey))
        self._commit(name, collection, rkey, {"operation": "delete"}, time_us)

    def open_pull(self, name: str, project: Project, edit: Edit, time_us: int, body: str = "") -> Pull:
        """Open a pull request with one round that carries `edit`."""
        rkey = self._make_tid(name, time_us, PULL)
        repo = self.repository_dids[project.name]
        source = {"branch": f"change-{rkey[-5:]}", "repo": make_did(self.seed, "fork", name, project.name)}
        record = {
            "title": edit.title,
            "body": body,
            "createdAt": iso(time_us),
            "rounds": [self.make_round(name, edit, time_us)],
            "source": source,
            "target": {"branch": "main", "repo": repo, "repoDid": repo},
        }
        uri = self.put(name, PULL, rkey, record, time_us)
        return Pull(uri, name, project.name, rkey, time_us, edit, record)

    def make_round(self, name: str, edit: Edit, time_us: int) -> Record:
        """Return a round with its patch blob uploaded to the author's server."""
        handle = self.people[name].handle
        offset = draw(self.seed, name, "offset").choice((-8, -5, 0, 1, 2, 3, 9))
        signature = Signature(name.capitalize(), f"{name}@{handle}", time_us - 600_000_000, offset)
        data = pack(format_patch(edit, signature))
        cid = blob_cid(data)
        self._blobs[(self.did(name), cid)] = data
        blob = {"$type": "blob", "ref": {"$link": cid}, "mimeType": "application/gzip", "size": len(data)}
        return {"createdAt": iso(time_us), "patchBlob": blob}

    def set_status(self, name: str, pull: Pull, status: str, time_us: int, rkey: str = "") -> str:
        """Write a status record by anybody; a back-written one has the `rkey` of its pull request."""
        record = {"pull": pull.uri, "status": f"{STATUS}.{status}", "createdAt": iso(time_us)}
        return self.put(name, STATUS, rkey or self._make_tid(name, time_us, STATUS), record, time_us)

    def vouch(self, name: str, subject: str, time_us: int, reason: str, *pulls: Pull, kind: str = "vouch") -> None:
        """Vouch for a person (or denounce); a second one overwrites the first."""
        record = {"kind": kind, "reason": reason, "createdAt": iso(time_us), "evidences": [pull.uri for pull in pulls]}
        self.put(name, VOUCH, self.did(subject), record, time_us)

    def retract(self, name: str, subject: str, time_us: int) -> None:
        self.delete(name, VOUCH, self.did(subject), time_us)

    def follow(self, name: str, subject: str, time_us: int) -> None:
        record = {"subject": self.did(subject), "createdAt": iso(time_us)}
        self.put(name, FOLLOW, self._make_tid(name, time_us, FOLLOW), record, time_us)

    def comment(self, name: str, pull: Pull, text: str, time_us: int) -> None:
        subject = {"uri": pull.uri, "cid": record_cid({"$type": PULL, **pull.record})}
        body = {"$type": MARKDOWN, "text": text}
        record = {"subject": subject, "body": body, "pullRoundIdx": 0, "createdAt": iso(time_us)}
        self.put(name, COMMENT, self._make_tid(name, time_us, COMMENT), record, time_us)

    def announce(self, did: str, time_us: int, handle: str = "", status: str = "") -> None:
        """Write an identity event of a DID, followed by an account event; `status` makes the account inactive."""
        written, seq = iso(time_us), time_us // 1000
        identity = {"did": did} | ({"handle": handle} if handle else {}) | {"seq": seq, "time": written}
        account = {"active": not status, "did": did, "seq": seq + 1, "time": written}
        account |= {"status": status} if status else {}
        self._add_frame({"did": did, "time_us": time_us, "kind": "identity", "identity": identity})
        self._add_frame({"did": did, "time_us": time_us + 250_000, "kind": "account", "account": account})

    def recording(self) -> Recording:
        # Lines of one microsecond are sorted by their text: the order of drawing would depend on the participants.
        return make_recording(sorted(self._frames), self._blobs, tuple(self.people.values()), tuple(self._repositories))

    def _commit(self, name: str, collection: str, rkey: str, commit: Record, time_us: int) -> None:
        commit_fields = {"rev": self._make_tid(name, time_us + 1000, rkey), "collection": collection, "rkey": rkey}
        seen_us = time_us + LATENCY_US
        self._add_frame(
            {"did": self.did(name), "time_us": seen_us, "kind": "commit", "commit": {**commit_fields, **commit}}
        )

    def _make_tid(self, name: str, time_us: int, purpose: str) -> str:
        # The clock identifier comes from the written record, not from a counter: other people's acts do not shift it.
        return encode_tid(time_us, crc32(f"{self.seed}:{name}:{purpose}:{time_us}".encode()))

    def _add_frame(self, frame: Record) -> None:
        self._frames.append(msgspec.json.encode(frame))
