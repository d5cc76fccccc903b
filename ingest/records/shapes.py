"""The four kinds of record that judgement rests on: repositories, pull requests, statuses, vouches.

Pull requests are read in every form that they had over the years.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.records.fields import (
    AT_URI,
    CID,
    DID,
    Event,
    Unreadable,
    did_or_uri,
    identifier,
    items,
    last_word,
    mapping,
    moment,
    text,
)

COMMIT = re.compile(r"[0-9a-f]{7,64}")
TITLE_LIMIT = 300
BODY_LIMIT = 20_000
GITHUB = re.compile(r"https://github\.com/([A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}/[A-Za-z0-9._-]{1,100}?)(?:\.git)?/?")
ROUND_LIMIT = 200  # only the newest of a longer list are read: the last one would be merged
EVIDENCE_LIMIT = 10
NO_PATCH = "none:"


@dataclass(frozen=True, slots=True)
class RepositoryRecord:
    """A repository in its owner's description; `repo_did` is a claim.

    `upstream` is the repository on GitHub that it links, as 'owner/name' in lower case, or empty.
    """

    repo_did: str | None
    name: str
    knot: str | None
    spindle: str | None
    upstream: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One version of the change, `number` from 0.

    `patch_ref` is 'blob:<cid>', 'compare:<base>..<head>', 'inline:<sha256>', or 'none:' if it cannot be read.
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
    """A person's statement on the state of a pull request."""

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


def read_repository(record: Mapping[str, Any], event: Event) -> RepositoryRecord:
    """Read a repository; a missing name is filled from the record key by the caller (empty here)."""
    return RepositoryRecord(
        repo_did=identifier(DID, record.get("repoDid")),
        name=text(record, "name", 200) or "",
        knot=text(record, "knot", 255),
        spindle=text(record, "spindle", 255),
        upstream=_read_upstream(record),
    )


def _read_upstream(record: Mapping[str, Any]) -> str:
    """Return the first repository on GitHub among `source` and `website`; a fork's `source` is often an at-uri."""
    for name in ("source", "website"):
        found = GITHUB.fullmatch(text(record, name, 1000) or "")
        if found and found[1].rpartition("/")[2] not in (".", ".."):
            return found[1].lower()
    return ""


def read_pull(record: Mapping[str, Any], event: Event) -> PullRecord:
    """Read a pull request in all four forms: flat, target, rounds, versions."""
    form, rounds = _read_rounds(record)
    target = mapping(record, "target")
    return PullRecord(
        target=_read_target(record),
        target_branch=text(target, "branch", 255) or text(record, "targetBranch", 255),
        source_branch=text(mapping(record, "source"), "branch", 255),
        title=text(record, "title", TITLE_LIMIT) or "",
        body=text(record, "body", BODY_LIMIT) or "",
        form=form,
        created_at=moment(record, "createdAt"),
        rounds=rounds,
    )


def read_status(record: Mapping[str, Any], event: Event) -> StatusRecord:
    """Read a status; an unknown status word stays."""
    pull = identifier(AT_URI, record.get("pull"))
    status = text(record, "status", 200)
    if pull is None or not status:
        raise Unreadable("a status without a readable pull request or status")
    return StatusRecord(pull, last_word(status), moment(record, "createdAt"))


def read_vouch(record: Mapping[str, Any], event: Event) -> VouchRecord:
    """Read a vouch; a missing kind means vouch, the lexicon's default."""
    if not DID.fullmatch(event.rkey or ""):
        raise Unreadable("a vouch whose record key is not a DID")
    kind = record.get("kind", "vouch")
    if kind not in ("vouch", "denounce"):
        raise Unreadable(f"a vouch of unknown kind {(text(record, 'kind', 40) or 'that is not text')!r}")
    evidence_items = items(record, "evidences")[:EVIDENCE_LIMIT]
    evidences = [uri for item in evidence_items if (uri := identifier(AT_URI, item))]
    return VouchRecord(kind, text(record, "reason", 1000), tuple(evidences), moment(record, "createdAt"))


def blob_cid(blob: object) -> str | None:
    """Return the CID of a blob reference, in today's form or the older one with a bare `cid`."""
    if not isinstance(blob, dict):
        return None
    return identifier(CID, mapping(blob, "ref").get("$link")) or identifier(CID, blob.get("cid"))


def _read_rounds(record: Mapping[str, Any]) -> tuple[str, tuple[Round, ...]]:
    """Return the record's form and its newest rounds in order; a round without a readable patch stays in place."""
    if versions := items(record, "versions"):
        return "versions", _newest_rounds(versions, _compare_ref)
    if rounds := items(record, "rounds"):
        return "rounds", _newest_rounds(rounds, _blob_ref)
    form = "target" if "target" in record else "flat"
    created = moment(record, "createdAt")
    if cid := blob_cid(record.get("patchBlob")):
        return form, (Round(0, f"blob:{cid}", created),)
    patch = record.get("patch")
    if isinstance(patch, str) and patch:
        return form, (Round(0, f"inline:{hashlib.sha256(patch.encode()).hexdigest()}", created),)
    return form, ()


def _newest_rounds(listed: Sequence[object], patch_ref: Callable[[Mapping[str, Any]], str]) -> tuple[Round, ...]:
    first = max(len(listed) - ROUND_LIMIT, 0)
    maps = [item if isinstance(item, dict) else {} for item in listed[first:]]
    return tuple(Round(first + place, patch_ref(item), moment(item, "createdAt")) for place, item in enumerate(maps))


def _compare_ref(item: Mapping[str, Any]) -> str:
    base, head = identifier(COMMIT, item.get("base")), identifier(COMMIT, item.get("head"))
    return f"compare:{base}..{head}" if base and head else NO_PATCH


def _blob_ref(item: Mapping[str, Any]) -> str:
    cid = blob_cid(item.get("patchBlob"))
    return f"blob:{cid}" if cid else NO_PATCH


def _read_target(record: Mapping[str, Any]) -> str:
    """Return the repository that a pull request names: `target.repo`, else `target.repoDid`, else `targetRepo`.

    Each is a DID or an at-uri; the first readable one counts, in the forge's own order.
    """
    target = mapping(record, "target")
    for value in (target.get("repo"), target.get("repoDid"), record.get("targetRepo")):
        if repository := did_or_uri(value):
            return repository
    raise Unreadable("a pull request without a readable target repository")
