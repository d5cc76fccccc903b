"""Clients of the servers around a repository: its knot (git), its spindle (CI) and its authors' personal data servers.

An approved patch is merged on its knot in a maintainer's name: check, make sure that nothing changed, merge, write the
status record. This is not atomic: the knot merges first, then the maintainer's own data server gets the record. Each
possible end has a name. A merge is sent once; if its answer is lost, nobody knows the result, and a person has to look.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from ingest.atproto.syntax import NAMESPACE, is_did
from ingest.clock import parse_time
from ingest.errors import FetchProblem
from ingest.git.process import Remote
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import Order, is_host, quoted
from ingest.oauth.records import STATUS, make_status
from ingest.records.fields import moment
from ingest.records.pull_state import Holder

HOLDERS, HOLDER_PAGES = 1_000, 10  # a repository with more collaborators is not believed, however they are listed
PAGE_LIMIT = 2_000_000  # bytes
COMPARE_GROWTH = 6  # a comparison holds each line up to four times, escaped and as objects
PIPELINES = 50  # of one commit; a spindle returns one
WORKFLOWS = 50  # of one pipeline, as its lexicon allows

LIST_COLLABORATORS = "sh.tangled.repo.listCollaborators"
REF_UPDATE = "sh.tangled.git.refUpdate"
PIPELINE_EVENTS = ("sh.tangled.pipeline.status", "sh.tangled.ci.pipeline")

_CID = re.compile(r"b[a-z2-7]{20,120}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,100}")  # of a repository
_RAW_SHA256 = b"\x01\x55\x12\x20"  # CIDv1, raw bytes, SHA-256, 32 bytes long


class _Holder(msgspec.Struct):
    subject: str
    createdAt: Any = None  # noqa: N815 - the wire's spelling
    addedBy: Any = None  # noqa: N815


class _Holders(msgspec.Struct):
    items: list[_Holder] = []
    cursor: str | None = None


class _Mail(msgspec.Struct):
    Raw: str = ""


class _Comparison(msgspec.Struct):
    rev2: str = ""
    patch: str = ""
    format_patch: list[_Mail] | None = None
    combined_patch_raw: str = ""


class _Trigger(msgspec.Struct):
    kind: str = msgspec.field(name="$type", default="")
    pull: str | None = None
    sourceSha: str | None = None  # noqa: N815 - the wire's spelling


class _Workflow(msgspec.Struct):
    name: str
    status: str


class _Pipeline(msgspec.Struct):
    commit: str
    trigger: _Trigger
    workflows: list[_Workflow] | None = None
    createdAt: str | None = None  # noqa: N815


class _Pipelines(msgspec.Struct):
    pipelines: list[_Pipeline] | None = None


@dataclass(frozen=True)
class Pipeline:
    """A CI run for a pull request from its spindle; `pull` is the request that started it, if known."""

    commit: str
    pull: str | None
    created_at: datetime | None
    workflows: tuple[tuple[str, str], ...]  # name and status


def is_commit(text: str) -> bool:
    return _COMMIT.fullmatch(text) is not None


def push_holders(fetcher: Fetcher, knot: str, repo_did: str) -> list[Holder]:
    """Return the people, besides the owner, whom the knot lets push, with times. Raises FetchProblem."""
    if not is_did(repo_did):
        raise FetchProblem("the repository has no DID of its own that its knot could be asked about")
    host = _checked_host(fetcher, knot, "knot")
    start = f"https://{host}/xrpc/{LIST_COLLABORATORS}?subject={quote(repo_did, safe='')}&limit=100"
    holders: dict[str, Holder] = {}
    address, cursors = start, {""}
    for _ in range(HOLDER_PAGES):
        page = fetcher.get_json(address, _Holders, PAGE_LIMIT)
        for item in page.items:
            if is_did(item.subject):
                since = moment({"createdAt": item.createdAt}, "createdAt")
                holders.setdefault(item.subject, Holder(item.subject, since))
        if len(holders) > HOLDERS:
            break
        if not page.cursor or page.cursor in cursors or not page.items:
            return list(holders.values())
        cursors.add(page.cursor)
        address = f"{start}&cursor={quote(page.cursor[:500], safe='')}"
    raise FetchProblem(f"{host} lists over {HOLDERS} collaborators or {HOLDER_PAGES} pages, which is not believed")


def collaborators_added_by(fetcher: Fetcher, knot: str, repo_did: str) -> list[str]:
    """Return the people who gave others push rights, most often the owner, from the knot. Raises FetchProblem."""
    host = _checked_host(fetcher, knot, "knot")
    address = f"https://{host}/xrpc/{LIST_COLLABORATORS}?subject={quote(repo_did, safe='')}&limit=100"
    page = fetcher.get_json(address, _Holders, PAGE_LIMIT)
    dids = [item.addedBy for item in page.items if isinstance(item.addedBy, str) and is_did(item.addedBy)]
    return list(dict.fromkeys(dids))


def compare(fetcher: Fetcher, knot: str, repo_did: str, base: str, head: str, limit: int) -> bytes:
    """Return the commits between two as a format-patch series of about `limit` bytes at most. Raises FetchProblem.

    The problem is `too_large` if the answer is larger than a series of that size could need.
    """
    if not (is_did(repo_did) and is_commit(base) and is_commit(head)):
        raise FetchProblem("a comparison needs a repository's DID and the full names of two commits")
    host = _checked_host(fetcher, knot, "knot")
    address = f"https://{host}/xrpc/sh.tangled.repo.compare?repo={quote(repo_did, safe='')}&rev1={base}&rev2={head}"
    try:
        comparison = fetcher.get_json(address, _Comparison, COMPARE_GROWTH * limit + PAGE_LIMIT)
    except FetchProblem as problem:
        if problem.status == 400:  # a knot's answer for RepoNotFound and RevisionNotFound
            raise FetchProblem(f"{host} does not have the repository or the commits", status=404) from None
        raise
    if is_commit(comparison.rev2) and comparison.rev2 != head:
        raise FetchProblem(f"{host} compared another commit than it was asked for")
    series = "\n".join(mail.Raw for mail in comparison.format_patch or ())
    return (comparison.patch or series or comparison.combined_patch_raw).encode("utf-8", "replace")


def pipelines(fetcher: Fetcher, spindle: str, repo_did: str, commit: str) -> list[Pipeline]:
    """Return the CI runs for pull requests at a commit of a repository. Raises FetchProblem."""
    if not (is_did(repo_did) and is_commit(commit)):
        raise FetchProblem("a spindle is asked about a repository's DID and a commit's full name")
    host = _checked_host(fetcher, spindle, "spindle")
    query = f"repo={quote(repo_did, safe='')}&commits={commit}&kinds=pull_request&limit={PIPELINES}"
    answer = fetcher.get_json(f"https://{host}/xrpc/sh.tangled.ci.queryPipelines?{query}", _Pipelines, PAGE_LIMIT)
    runs = []
    for pipeline in (answer.pipelines or [])[:PIPELINES]:
        is_for_pull = pipeline.commit == commit and pipeline.trigger.kind.endswith("#pullRequest")
        if is_for_pull and pipeline.trigger.sourceSha in (None, commit):
            workflows = tuple(
                (workflow.name[:100], workflow.status[:32]) for workflow in (pipeline.workflows or [])[:WORKFLOWS]
            )
            runs.append(Pipeline(commit, pipeline.trigger.pull, parse_time(pipeline.createdAt or ""), workflows))
    return runs


def blob(fetcher: Fetcher, pds: str, did: str, cid: str, limit: int) -> bytes:
    """Return a blob's bytes, checked against the CID. Raises FetchProblem, also for a CID that proves nothing."""
    digest = raw_digest(cid)
    if digest is None or not is_did(did):
        raise FetchProblem("the blob has no CID of raw bytes by SHA-256, so that nothing would prove what it holds")
    host = _checked_host(fetcher, pds.removeprefix("https://"), "data server")
    address = f"https://{host}/xrpc/com.atproto.sync.getBlob?did={quote(did, safe='')}&cid={cid}"
    try:
        data = fetcher.get(address, limit)
    except FetchProblem as problem:
        if problem.status == 400:  # a data server's answer for RepoNotFound and BlobNotFound
            raise FetchProblem(f"{host} does not have the blob", status=404) from None
        raise
    if hashlib.sha256(data).digest() != digest:
        raise FetchProblem(f"{host} sent other bytes than the CID names")
    return data


def remotes(fetcher: Fetcher, knot: str, repo_did: str | None, owner_did: str | None, name: str | None) -> list[Remote]:
    """Return the addresses under which a knot serves a repository, the likeliest first. Raises FetchProblem.

    Current knots serve /<repository's DID>, every knot /<owner's DID>/<name> (knotserver/router.go of Tangled).
    """
    host = _checked_host(fetcher, knot, "knot")
    paths = [repo_did] if repo_did and is_did(repo_did) else []
    if owner_did and is_did(owner_did) and name and _NAME.fullmatch(name):
        paths.append(f"{owner_did}/{name}")
    if not paths:
        raise FetchProblem("the repository has neither a DID of its own nor a name that may be part of an address")
    if fetcher.stand_in is not None:
        return [Remote(host, f"{fetcher.stand_in}/{path}", ()) for path in paths]
    places = fetcher.places(host)
    origin = f"https://{host}" if places[0][1] == 443 else f"https://{host}:{places[0][1]}"
    return [Remote(host, f"{origin}/{path}", tuple(places)) for path in paths]


def raw_digest(cid: str) -> bytes | None:
    """Return the SHA-256 that a CIDv1 of raw bytes names, or None for any other CID."""
    if not _CID.fullmatch(cid):
        return None
    text = cid[1:].upper()
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        return None
    return data[4:] if len(data) == 36 and data.startswith(_RAW_SHA256) else None


def _checked_host(fetcher: Fetcher, name: str, kind: str) -> str:
    """Return a server's name in lower case, with a port only for a stand-in. Raises FetchProblem for another name."""
    host = name.lower()
    hostname, _, port = host.partition(":")
    if is_host(host) or (fetcher.stand_in and port.isdecimal() and (is_host(hostname) or hostname == "localhost")):
        return host
    raise FetchProblem(f"the {kind} has no name that may be fetched from")


MERGE, MERGE_CHECK = f"{NAMESPACE}repo.merge", f"{NAMESPACE}repo.mergeCheck"
ANSWER_LIMIT = 200_000  # bytes
CONFLICTS = 20  # files named


class Outcome(StrEnum):
    MERGED = "merged"
    NOT_RECORDED = "merged, not recorded"  # the branch has it, but the maintainer's data server has no record of it
    CONFLICT = "conflict"
    LOST = "lost race"  # the branch moved between the check and the merge, or the merge conflicts after all
    CHANGED = "changed"  # the record differs from the approved one
    REFUSED = "refused"  # the knot does not let this person merge
    FAILED = "failed"  # nothing was merged
    STACKED = "stacked"  # it builds on a pull request that is not merged
    UNKNOWN = "unknown"  # the answer to the merge was lost


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """An order to merge. `patch` is the approved change as format-patch mails, `record_cid` the approved record."""

    knot: str
    repo_did: str
    owner_did: str
    name: str
    branch: str
    pull_uri: str
    record_cid: str
    author_pds: str
    patch: str
    title: str


@dataclass(frozen=True, slots=True)
class Merged:
    """The end of an attempt, with a sentence about the present state."""

    outcome: Outcome
    sentence: str


class _PullRecord(msgspec.Struct):
    dependsOn: Any = msgspec.field(name="dependentOn", default=None)  # noqa: N815 - an at-uri, or a strong reference


class _RecordCid(msgspec.Struct):
    cid: str = ""
    value: _PullRecord | None = None


class _Conflict(msgspec.Struct):
    filename: str = ""


class _Check(msgspec.Struct):
    is_conflicted: bool = False
    conflicts: list[_Conflict] | None = None
    error: str | None = None


class _Token(msgspec.Struct):
    token: str


class Session(Protocol):
    """A maintainer's session at their own data server; `ingest.oauth.resource.OwnServer` is one."""

    def service_token(self, audience: str, method: str) -> str: ...

    def create_record(self, collection: str, record: dict[str, Any]) -> object: ...


@dataclass(frozen=True, slots=True)
class TokenSession:
    """A session with an access token of the maintainer's data server; the token is sent nowhere else."""

    fetcher: Fetcher
    did: str
    pds: str  # host
    access_token: str

    def service_token(self, audience: str, method: str) -> str:
        """Return a token for one method of one service, valid for a minute. Raises FetchProblem."""
        query = f"aud={quote(audience, safe='')}&lxm={method}"
        address = f"https://{self.pds}/xrpc/com.atproto.server.getServiceAuth?{query}"
        return self.fetcher.get_json(address, _Token, ANSWER_LIMIT, sent=Order(bearer=self.access_token)).token

    def create_record(self, collection: str, record: dict[str, Any]) -> None:
        """Write a record into the maintainer's own repository, sent once. Raises FetchProblem."""
        body = msgspec.json.encode({"repo": self.did, "collection": collection, "record": record})
        order = Order(body, self.access_token, once=True)
        self.fetcher.get(f"https://{self.pds}/xrpc/com.atproto.repo.createRecord", ANSWER_LIMIT, sent=order)


def merge(
    fetcher: Fetcher, session: Session, order: MergeOrder, now: datetime, is_merged: Callable[[str], bool]
) -> Merged:
    """Merge exactly the approved patch, or say why not. `now` is naive UTC. Never raises FetchProblem.

    `is_merged` tells of another pull request, by its at-uri, whether it was merged: what builds on an open one is not.
    """
    try:
        for host in (order.knot, order.author_pds):
            if not is_host(host.partition(":")[0]):
                raise FetchProblem("a server has no name that may be asked")
        if not (is_did(order.repo_did) and order.pull_uri.count("/") == 4 and order.record_cid):
            raise FetchProblem("the repository or the pull request has no name that may be asked for")
        if conflicts := _find_conflicts(fetcher, order):
            return Merged(Outcome.CONFLICT, f"Nothing was merged: it conflicts in {', '.join(conflicts)}.")
        token = session.service_token(f"did:web:{order.knot}", MERGE)
        pull = _read_pull(fetcher, order)  # read last, as close to the merge as possible
        if pull.cid != order.record_cid:
            return Merged(Outcome.CHANGED, "Nothing was merged: the pull request changed after it was approved.")
        if pull.value is not None and (base := _base_of(pull.value)) and not is_merged(base):
            return Merged(
                Outcome.STACKED, "Nothing was merged: it builds on another pull request. Merge that one first."
            )
    except FetchProblem as problem:
        return Merged(Outcome.FAILED, f"Nothing was merged: {problem}.")
    merged = _send_merge(fetcher, order, token)
    if merged.outcome is not Outcome.MERGED:
        return merged
    try:
        session.create_record(STATUS, {"$type": STATUS, **make_status(order.pull_uri, "merged", now)})
    except FetchProblem as problem:
        return Merged(Outcome.NOT_RECORDED, f"It is merged, but your data server did not take the status: {problem}.")
    return merged


def newest_cid(fetcher: Fetcher, order: MergeOrder) -> str:
    """Return the CID of the pull request's record now, from its author's data server. Raises FetchProblem."""
    return _read_pull(fetcher, order).cid


def _read_pull(fetcher: Fetcher, order: MergeOrder) -> _RecordCid:
    did, collection, rkey = order.pull_uri.removeprefix("at://").split("/")
    query = f"repo={quote(did, safe='')}&collection={quote(collection, safe='')}&rkey={quote(rkey, safe='')}"
    address = f"https://{order.author_pds}/xrpc/com.atproto.repo.getRecord?{query}"
    return fetcher.get_json(address, _RecordCid, ANSWER_LIMIT)


def _base_of(pull: _PullRecord) -> str:
    """Return the at-uri of the pull request that a pull request builds on, "" for none, "?" for what cannot be read."""
    base = pull.dependsOn.get("uri") if isinstance(pull.dependsOn, dict) else pull.dependsOn
    return "" if pull.dependsOn is None else base if isinstance(base, str) and base else "?"


def _find_conflicts(fetcher: Fetcher, order: MergeOrder) -> list[str]:
    """Return the files with conflicts, or "the patch" if the knot names none. Raises FetchProblem."""
    body = msgspec.json.encode(_merge_target(order) | {"patch": order.patch})
    address = f"https://{order.knot}/xrpc/{MERGE_CHECK}"
    answer = fetcher.get_json(address, _Check, ANSWER_LIMIT, sent=body)
    if answer.error:
        raise FetchProblem("the knot could not try the merge")
    if not answer.is_conflicted:
        return []
    return [quoted(conflict.filename) for conflict in (answer.conflicts or [])[:CONFLICTS]] or ["the patch"]


def _send_merge(fetcher: Fetcher, order: MergeOrder, token: str) -> Merged:
    body = msgspec.json.encode(_merge_target(order) | {"patch": order.patch, "commitMessage": order.title})
    address = f"https://{order.knot}/xrpc/{MERGE}"
    try:
        fetcher.get(address, ANSWER_LIMIT, sent=Order(body, token, once=True))
    except FetchProblem as problem:
        if problem.status == 409:
            return Merged(
                Outcome.LOST,
                "Nothing was merged: it conflicts, or the branch moved between check and merge. Try again.",
            )
        if problem.status in (401, 403):
            return Merged(Outcome.REFUSED, "Nothing was merged: the knot does not let you push there.")
        if problem.status is not None and 400 <= problem.status < 500:
            return Merged(Outcome.FAILED, f"Nothing was merged: {problem}.")
        return Merged(Outcome.UNKNOWN, f"Look at the branch before you try again, it may be merged: {problem}.")
    return Merged(Outcome.MERGED, f"Merged into {order.branch}.")


def _merge_target(order: MergeOrder) -> dict[str, str]:
    """Return the repository and branch, with the fields that older knots need beside the DID."""
    return {"repo": order.repo_did, "did": order.owner_did, "name": order.name, "branch": order.branch}
