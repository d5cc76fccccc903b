"""Merging an approved patch on its knot in a maintainer's name: check, make sure that nothing changed, merge, say so.

Not atomic: the knot merges, then the maintainer's own data server is told. Each way in which that can end has a name.
A merge is sent once; where its answer was lost nobody knows, and looking is left to a person.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from ingest.atproto.syntax import NAMESPACE, is_did
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import Order, is_host, quoted
from ingest.records.registry import STATUS

MERGE, MERGE_CHECK = f"{NAMESPACE}repo.merge", f"{NAMESPACE}repo.mergeCheck"
ANSWER_LIMIT = 200_000  # bytes
TOKEN_SECONDS = 60  # a knot takes no token that lasts longer
CONFLICTS = 20  # files named


class Outcome(StrEnum):
    """The ways in which an attempt to merge ends."""

    MERGED = "merged"
    NOT_RECORDED = "merged, not recorded"  # the branch has it, the maintainer's data server does not say so
    CONFLICT = "conflict"
    CHANGED = "changed"  # the record is not the one that was approved
    REFUSED = "refused"  # the knot does not let this person merge
    FAILED = "failed"  # nothing was merged
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
    """The end of an attempt, with a sentence that says how things are now."""

    outcome: Outcome
    sentence: str


class Session(Protocol):
    """A maintainer who is signed in to their own data server."""

    def service_token(self, audience: str, method: str) -> str:
        """A token for one method of one service, valid for a minute. Raises FetchProblem."""
        ...

    def create_record(self, collection: str, record: dict[str, Any]) -> None:
        """Write a record into the maintainer's own repository. Raises FetchProblem."""
        ...


class _Record(msgspec.Struct):
    cid: str = ""


class _Conflict(msgspec.Struct):
    filename: str = ""


class _Check(msgspec.Struct):
    is_conflicted: bool = False
    conflicts: list[_Conflict] | None = None
    error: str | None = None


class _Token(msgspec.Struct):
    token: str


@dataclass(frozen=True, slots=True)
class TokenSession:
    """A session by an access token of the maintainer's data server, which goes nowhere else."""

    fetcher: Fetcher
    did: str
    pds: str  # host
    access_token: str

    def service_token(self, audience: str, method: str) -> str:
        """As the protocol says."""
        query = f"aud={quote(audience, safe='')}&lxm={method}"
        address = f"https://{self.pds}/xrpc/com.atproto.server.getServiceAuth?{query}"
        return self.fetcher.get_json(address, _Token, ANSWER_LIMIT, sent=Order(bearer=self.access_token)).token

    def create_record(self, collection: str, record: dict[str, Any]) -> None:
        """As the protocol says; sent once."""
        body = msgspec.json.encode({"repo": self.did, "collection": collection, "record": record})
        order = Order(body, self.access_token, once=True)
        self.fetcher.get(f"https://{self.pds}/xrpc/com.atproto.repo.createRecord", ANSWER_LIMIT, sent=order)


def merge(fetcher: Fetcher, session: Session, order: MergeOrder, now: datetime) -> Merged:
    """Merge exactly the approved patch, or say why not. `now` is naive UTC. Never raises FetchProblem."""
    try:
        _check_names(order)
        if conflicts := _conflicts(fetcher, order):
            return Merged(Outcome.CONFLICT, f"Nothing was merged: it conflicts in {', '.join(conflicts)}.")
        token = session.service_token(f"did:web:{order.knot}", MERGE)
        if newest_cid(fetcher, order) != order.record_cid:  # last of all, so that as little as can be lies in between
            return Merged(Outcome.CHANGED, "Nothing was merged: the pull request changed after it was approved.")
    except FetchProblem as problem:
        return Merged(Outcome.FAILED, f"Nothing was merged: {problem}.")
    ended = _merge(fetcher, order, token)
    if ended.outcome is not Outcome.MERGED:
        return ended
    record = {"pull": order.pull_uri, "status": f"{STATUS}.merged", "createdAt": f"{now.isoformat()}Z"}
    try:
        session.create_record(STATUS, {"$type": STATUS, **record})
    except FetchProblem as problem:
        return Merged(Outcome.NOT_RECORDED, f"It is merged, but your data server did not take the status: {problem}.")
    return ended


def newest_cid(fetcher: Fetcher, order: MergeOrder) -> str:
    """The CID of the pull request's record as its author's data server has it now. Raises FetchProblem."""
    did, collection, rkey = order.pull_uri.removeprefix("at://").split("/")
    query = f"repo={quote(did, safe='')}&collection={quote(collection, safe='')}&rkey={quote(rkey, safe='')}"
    address = f"https://{order.author_pds}/xrpc/com.atproto.repo.getRecord?{query}"
    return fetcher.get_json(address, _Record, ANSWER_LIMIT).cid


def _check_names(order: MergeOrder) -> None:
    """FetchProblem for names from records that may be no part of an address."""
    for host in (order.knot, order.author_pds):
        if not is_host(host.partition(":")[0]):
            raise FetchProblem("a server has no name that may be asked")
    if not (is_did(order.repo_did) and order.pull_uri.count("/") == 4 and order.record_cid):
        raise FetchProblem("the repository or the pull request has no name that may be asked for")


def _conflicts(fetcher: Fetcher, order: MergeOrder) -> list[str]:
    """Files in which the patch does not apply, "the patch" where the knot names none. Raises FetchProblem."""
    body = msgspec.json.encode(_target(order) | {"patch": order.patch})
    address = f"https://{order.knot}/xrpc/{MERGE_CHECK}"
    told = fetcher.get_json(address, _Check, ANSWER_LIMIT, sent=body)
    if told.error:
        raise FetchProblem("the knot could not try the merge")
    if not told.is_conflicted:
        return []
    return [quoted(one.filename) for one in (told.conflicts or [])[:CONFLICTS]] or ["the patch"]


def _merge(fetcher: Fetcher, order: MergeOrder, token: str) -> Merged:
    body = msgspec.json.encode(_target(order) | {"patch": order.patch, "commitMessage": order.title})
    address = f"https://{order.knot}/xrpc/{MERGE}"
    try:
        fetcher.get(address, ANSWER_LIMIT, sent=Order(body, token, once=True))
    except FetchProblem as problem:
        if problem.status == 409:
            return Merged(Outcome.CONFLICT, "Nothing was merged: it conflicts with what landed meanwhile.")
        if problem.status in (401, 403):
            return Merged(Outcome.REFUSED, "Nothing was merged: the knot does not let you push there.")
        if problem.status is not None and 400 <= problem.status < 500:
            return Merged(Outcome.FAILED, f"Nothing was merged: {problem}.")
        return Merged(Outcome.UNKNOWN, f"Look at the branch before you try again, it may be merged: {problem}.")
    return Merged(Outcome.MERGED, f"Merged into {order.branch}.")


def _target(order: MergeOrder) -> dict[str, str]:
    """The repository and branch, with what older knots ask for beside the DID."""
    return {"repo": order.repo_did, "did": order.owner_did, "name": order.name, "branch": order.branch}
