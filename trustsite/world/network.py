"""The sheet on which the simulated network is drawn: frames, blobs, people and repositories as they come up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgspec

from ingest.atproto.cbor import blob_cid, draw, encode_tid, iso, make_did, record_cid
from trustsite.standins.answers import COMMENT, FOLLOW, MARKDOWN, PULL, REPOSITORY, STATUS, VOUCH
from trustsite.standins.recording import BlobKey, Person, Recording, Repository, make_recording
from trustsite.world.cast import KNOT, SERVERS, SPINDLE, Project
from trustsite.world.patches import Edit, Signature, format_patch, pack

LATENCY_US = 400_000  # from the writing of a record to the stream
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Pull:
    """A pull request as it stands on the sheet."""

    uri: str
    author: str  # name in the cast
    project: str
    rkey: str
    opened_us: int
    edit: Edit
    record: Record


class Sheet:
    """Collects what everybody does; times are unix microseconds, people go by their name in the cast."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.people: dict[str, Person] = {}
        self.repository_dids: dict[str, str] = {}  # by name of the project
        self._repositories: list[Repository] = []
        self._frames: list[bytes] = []
        self._blobs: dict[BlobKey, bytes] = {}
        self._versions: set[tuple[str, str, str]] = set()

    def add_person(self, name: str, created_us: int, server: str = "", handle: str = "", did: str = "") -> Person:
        """Someone with a DID, a handle and a data server; the defaults follow from the name."""
        random = draw(self.seed, name, "person")
        did = did or make_did(self.seed, name)
        created = "" if did.startswith("did:web:") else iso(created_us)
        server = server or random.choice(SERVERS)
        person = Person(did, handle or f"{name}.example.test", server, created)
        self.people[name] = person
        return person

    def did(self, name: str) -> str:
        """The DID of someone in the cast."""
        return self.people[name].did

    def add_repository(self, project: Project, time_us: int, knot: str = "") -> str:
        """A repository with its record, and unless it has a `knot` of its own the knot's answer; returns its DID."""
        repo = make_did(self.seed, "repository", project.name)
        self.repository_dids[project.name] = repo
        if not knot:
            push = tuple(sorted(self.did(name) for name in (project.owner, *project.others)))
            name = f"{self.people[project.owner].handle}/{project.name}"
            row = Repository(repo, name, self.did(project.owner), KNOT, SPINDLE, push)
            self._repositories.append(row)
        self.claim_repository(project.owner, project.name, repo, knot or KNOT, time_us)
        return repo

    def claim_repository(self, name: str, title: str, repo: str, knot: str, time_us: int) -> None:
        """Write a repository record; anyone can name any DID in one."""
        record = {"name": title, "knot": knot, "spindle": SPINDLE, "repoDid": repo, "createdAt": iso(time_us)}
        self.put(name, REPOSITORY, self._tid(name, time_us, REPOSITORY), record, time_us)

    def put(self, name: str, collection: str, rkey: str, record: Record, time_us: int) -> str:
        """Write a record, `update` where the key exists; returns its at-uri."""
        key = (name, collection, rkey)
        operation = "update" if key in self._versions else "create"
        self._versions.add(key)
        value = {"$type": collection, **record}
        commit = {"operation": operation, "record": value, "cid": record_cid(value)}
        self._commit(name, collection, rkey, commit, time_us)
        return f"at://{self.did(name)}/{collection}/{rkey}"

    def delete(self, name: str, collection: str, rkey: str, time_us: int) -> None:
        """Delete a record."""
        self._versions.discard((name, collection, rkey))
        self._commit(name, collection, rkey, {"operation": "delete"}, time_us)

    def open_pull(self, name: str, project: Project, edit: Edit, time_us: int, body: str = "") -> Pull:
        """Open a pull request with one round that carries `edit`."""
        rkey = self._tid(name, time_us, PULL)
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
        """A round whose patch blob is uploaded to the author's server."""
        handle = self.people[name].handle
        offset = draw(self.seed, name, "offset").choice((-8, -5, 0, 1, 2, 3, 9))
        signature = Signature(name.capitalize(), f"{name}@{handle}", time_us - 600_000_000, offset)
        data = pack(format_patch(edit, signature))
        cid = blob_cid(data)
        self._blobs[(self.did(name), cid)] = data
        blob = {"$type": "blob", "ref": {"$link": cid}, "mimeType": "application/gzip", "size": len(data)}
        return {"createdAt": iso(time_us), "patchBlob": blob}

    def set_status(self, name: str, pull: Pull, status: str, time_us: int, rkey: str = "") -> str:
        """Write a status record, whoever may; a back-written one has the `rkey` of its pull request."""
        record = {"pull": pull.uri, "status": f"{STATUS}.{status}", "createdAt": iso(time_us)}
        return self.put(name, STATUS, rkey or self._tid(name, time_us, STATUS), record, time_us)

    def vouch(self, name: str, subject: str, time_us: int, reason: str, *pulls: Pull, kind: str = "vouch") -> None:
        """Vouch for someone (or denounce); a second one overwrites the first."""
        record = {"kind": kind, "reason": reason, "createdAt": iso(time_us), "evidences": [pull.uri for pull in pulls]}
        self.put(name, VOUCH, self.did(subject), record, time_us)

    def retract(self, name: str, subject: str, time_us: int) -> None:
        """Take a vouch back."""
        self.delete(name, VOUCH, self.did(subject), time_us)

    def follow(self, name: str, subject: str, time_us: int) -> None:
        """Follow someone: a record that this system only logs."""
        record = {"subject": self.did(subject), "createdAt": iso(time_us)}
        self.put(name, FOLLOW, self._tid(name, time_us, FOLLOW), record, time_us)

    def comment(self, name: str, pull: Pull, text: str, time_us: int) -> None:
        """Comment on a pull request."""
        subject = {"uri": pull.uri, "cid": record_cid({"$type": PULL, **pull.record})}
        body = {"$type": MARKDOWN, "text": text}
        record = {"subject": subject, "body": body, "pullRoundIdx": 0, "createdAt": iso(time_us)}
        self.put(name, COMMENT, self._tid(name, time_us, COMMENT), record, time_us)

    def announce(self, did: str, time_us: int, handle: str = "", status: str = "") -> None:
        """An identity event of a DID, followed by an account event; `status` makes the account inactive."""
        written, seq = iso(time_us), time_us // 1000
        identity = {"did": did} | ({"handle": handle} if handle else {}) | {"seq": seq, "time": written}
        account = {"active": not status, "did": did, "seq": seq + 1, "time": written}
        account |= {"status": status} if status else {}
        self._emit({"did": did, "time_us": time_us, "kind": "identity", "identity": identity})
        self._emit({"did": did, "time_us": time_us + 250_000, "kind": "account", "account": account})

    def recording(self) -> Recording:
        """Everything on the sheet, in time order."""
        # Lines of one microsecond are told apart by their text: the order of drawing would depend on who takes part.
        return make_recording(sorted(self._frames), self._blobs, tuple(self.people.values()), tuple(self._repositories))

    def _commit(self, name: str, collection: str, rkey: str, commit: Record, time_us: int) -> None:
        place = {"rev": self._tid(name, time_us + 1000, rkey), "collection": collection, "rkey": rkey}
        seen_us = time_us + LATENCY_US
        self._emit({"did": self.did(name), "time_us": seen_us, "kind": "commit", "commit": {**place, **commit}})

    def _tid(self, name: str, time_us: int, purpose: str) -> str:
        # The clock identifier follows from what is written, not from a counter: other people's acts do not shift it.
        return encode_tid(time_us, crc32(f"{self.seed}:{name}:{purpose}:{time_us}".encode()))

    def _emit(self, frame: Record) -> None:
        self._frames.append(msgspec.json.encode(frame))
