"""Tangled's record types: one registry from NSID to a reader that takes whatever was written and says what it means.

Records are hostile: every text is cut, every list bounded, every identifier checked. What cannot be understood raises
Unreadable with the reason, and the caller keeps it as a dead letter. Shapes: facts/tangled.md §1.1 and §1.3.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from ingest.tid import tid_time

NAMESPACE = "sh.tangled."
REPOSITORY = "sh.tangled.repo"
PULL = "sh.tangled.repo.pull"
STATUS = "sh.tangled.repo.pull.status"
VOUCH = "sh.tangled.graph.vouch"

DID = re.compile(r"did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000}")
AT_URI = re.compile(r"at://(did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000})/([A-Za-z0-9.-]{1,317})/([A-Za-z0-9._:~-]{1,512})")
CID = re.compile(r"[A-Za-z0-9]{8,128}")
COMMIT = re.compile(r"[0-9a-f]{7,64}")
TITLE_LIMIT = 300
BODY_LIMIT = 20_000
ROUND_LIMIT = 200  # of a longer list the newest are read: what would be merged is the last one
NO_PATCH = "none:"


class Unreadable(Exception):
    """A record that says nothing we can use; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the event log."""

    seq: int
    event_id: str
    source: str
    kind: str
    did: str
    collection: str | None
    rkey: str | None
    operation: str | None
    cid: str | None
    seen_at: datetime
    body: str | None

    @property
    def uri(self) -> str:
        """The record's at-uri."""
        return f"at://{self.did}/{self.collection}/{self.rkey}"


@dataclass(frozen=True, slots=True)
class RepositoryRecord:
    """A repository as its owner describes it; `repo_did` is a claim."""

    repo_did: str | None
    name: str
    knot: str | None
    spindle: str | None


@dataclass(frozen=True, slots=True)
class Round:
    """One version of the change, `number` from 0.

    `patch_ref` is 'blob:<cid>', 'compare:<base>..<head>', 'inline:<sha256>', or 'none:' where it cannot be read.
    """

    number: int
    patch_ref: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class PullRecord:
    """A pull request in any of the four historic forms; `target` is a repository DID or at-uri."""

    target: str
    target_branch: str | None
    source_branch: str | None
    title: str
    body: str
    form: str
    created_at: datetime | None
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """Somebody's word on the state of a pull request."""

    pull_uri: str
    status: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class VouchRecord:
    """A vouch or denounce; its subject is the record key."""

    kind: str
    reason: str | None
    evidences: tuple[str, ...]
    created_at: datetime | None


Record = RepositoryRecord | PullRecord | StatusRecord | VouchRecord


@dataclass(frozen=True, slots=True)
class Kind:
    """How one collection is read; `table` is where its rows go."""

    read: Callable[[Mapping[str, Any]], Record] = field(repr=False)
    table: str


def text(record: Mapping[str, Any], key: str, limit: int) -> str | None:
    """A text field cut at `limit` characters; None where it is missing or no text."""
    value = record.get(key)
    return value[:limit] if isinstance(value, str) else None


def mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A nested object, empty where it is missing, null or something else."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Any], key: str) -> list[Any]:
    """A list field, empty where it is missing, null or something else."""
    value = record.get(key)
    return value if isinstance(value, list) else []


def moment(record: Mapping[str, Any], key: str) -> datetime | None:
    """A self-declared time as naive UTC; None where it cannot be read."""
    value = text(record, key, 64)
    if value is None:
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC).replace(tzinfo=None) if parsed.tzinfo else parsed
    except (ValueError, OverflowError):
        return None


def identifier(pattern: re.Pattern[str], value: object) -> str | None:
    """The value where it is a text of exactly this form, else None."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def read_repository(record: Mapping[str, Any]) -> RepositoryRecord:
    """`sh.tangled.repo`; a missing name is filled from the record key by the caller (empty here)."""
    return RepositoryRecord(
        repo_did=identifier(DID, record.get("repoDid")),
        name=text(record, "name", 200) or "",
        knot=text(record, "knot", 255),
        spindle=text(record, "spindle", 255),
    )


def blob_cid(blob: object) -> str | None:
    """CID of a blob reference, in today's form or the older one with a bare `cid`."""
    if not isinstance(blob, dict):
        return None
    return identifier(CID, mapping(blob, "ref").get("$link")) or identifier(CID, blob.get("cid"))


def _rounds(record: Mapping[str, Any]) -> tuple[str, tuple[Round, ...]]:
    """The record's form and its newest rounds in order; a round without a readable patch keeps its place."""
    if versions := items(record, "versions"):
        return "versions", _newest(versions, _compare_ref)
    if rounds := items(record, "rounds"):
        return "rounds", _newest(rounds, _blob_ref)
    form = "target" if "target" in record else "flat"
    created = moment(record, "createdAt")
    if cid := blob_cid(record.get("patchBlob")):
        return form, (Round(0, f"blob:{cid}", created),)
    patch = record.get("patch")
    if isinstance(patch, str) and patch:
        return form, (Round(0, f"inline:{hashlib.sha256(patch.encode()).hexdigest()}", created),)
    return form, ()


def _newest(listed: Sequence[object], patch_ref: Callable[[Mapping[str, Any]], str]) -> tuple[Round, ...]:
    first = max(len(listed) - ROUND_LIMIT, 0)
    maps = [item if isinstance(item, dict) else {} for item in listed[first:]]
    return tuple(Round(first + place, patch_ref(item), moment(item, "createdAt")) for place, item in enumerate(maps))


def _compare_ref(item: Mapping[str, Any]) -> str:
    base, head = identifier(COMMIT, item.get("base")), identifier(COMMIT, item.get("head"))
    return f"compare:{base}..{head}" if base and head else NO_PATCH


def _blob_ref(item: Mapping[str, Any]) -> str:
    cid = blob_cid(item.get("patchBlob"))
    return f"blob:{cid}" if cid else NO_PATCH


def _target(record: Mapping[str, Any]) -> str:
    """The repository a pull request names: `target.repo`, else `target.repoDid`, else `targetRepo`.

    Each as a DID or an at-uri, the first that can be read: the order in which the forge reads them.
    """
    target = mapping(record, "target")
    for value in (target.get("repo"), target.get("repoDid"), record.get("targetRepo")):
        if found := identifier(DID, value) or identifier(AT_URI, value):
            return found
    raise Unreadable("a pull request without a readable target repository")


def read_pull(record: Mapping[str, Any]) -> PullRecord:
    """`sh.tangled.repo.pull` in all four forms: flat, target, rounds, versions."""
    form, rounds = _rounds(record)
    target = mapping(record, "target")
    return PullRecord(
        target=_target(record),
        target_branch=text(target, "branch", 255) or text(record, "targetBranch", 255),
        source_branch=text(mapping(record, "source"), "branch", 255),
        title=text(record, "title", TITLE_LIMIT) or "",
        body=text(record, "body", BODY_LIMIT) or "",
        form=form,
        created_at=moment(record, "createdAt"),
        rounds=rounds,
    )


def read_status(record: Mapping[str, Any]) -> StatusRecord:
    """`sh.tangled.repo.pull.status`; an unknown status word is kept."""
    pull = identifier(AT_URI, record.get("pull"))
    status = text(record, "status", 200)
    if pull is None or not status:
        raise Unreadable("a status without a readable pull request or status")
    return StatusRecord(pull, status.rsplit(".", 1)[-1][:32], moment(record, "createdAt"))


def read_vouch(record: Mapping[str, Any]) -> VouchRecord:
    """`sh.tangled.graph.vouch`; a missing kind means vouch, as the lexicon's default says."""
    kind = record.get("kind", "vouch")
    if kind not in ("vouch", "denounce"):
        raise Unreadable(f"a vouch of unknown kind {(text(record, 'kind', 40) or 'that is no text')!r}")
    evidences = [uri for item in items(record, "evidences")[:10] if (uri := identifier(AT_URI, item))]
    return VouchRecord(kind, text(record, "reason", 1000), tuple(evidences), moment(record, "createdAt"))


REGISTRY: Mapping[str, Kind] = {
    REPOSITORY: Kind(read_repository, "repositories"),
    PULL: Kind(read_pull, "pull_requests"),
    STATUS: Kind(read_status, "statuses"),
    VOUCH: Kind(read_vouch, "vouches"),
}


def is_ours(collection: str) -> bool:
    """Whether the author of such a record is a contributor here."""
    return collection.startswith(NAMESPACE)


def people_named(did: str, collection: str, rkey: str) -> tuple[str, ...]:
    """The people a record makes known: its author and, for a vouch, the subject."""
    if not is_ours(collection):
        return ()
    return (did, rkey) if collection == VOUCH and identifier(DID, rkey) else (did,)


def read(event: Event) -> Record:
    """What a created or updated record of a registered collection says; raises Unreadable with the reason."""
    try:
        record = msgspec.json.decode(event.body or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Unreadable(f"a record that is not JSON: {str(error)[:100]}") from error
    if not isinstance(record, dict):
        raise Unreadable("a record that is not an object")
    if event.collection == VOUCH and not DID.fullmatch(event.rkey or ""):
        raise Unreadable("a vouch whose record key is not a DID")
    return REGISTRY[event.collection or ""].read(record)


def written_at(event: Event, created_at: datetime | None) -> datetime:
    """When a record says it was written: its TID, else its own createdAt, never later than it was seen."""
    told = tid_time(event.rkey or "") or created_at or event.seen_at
    return min(told, event.seen_at)
