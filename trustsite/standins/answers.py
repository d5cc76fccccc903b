"""What each kind of host answers, in the wire shapes of the real ones; pure but for the shelf of records."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from ingest.clock import from_microseconds
from trustsite.standins.documents import letters_of, person_document, person_log, repository_document, repository_log
from trustsite.standins.lexicon import GET_PROFILE, LIST_COLLABORATORS, QUERY_PIPELINES
from trustsite.standins.recording import Person, Recording
from trustsite.standins.shelf import Shelf
from trustsite.standins.spindle import Spindle

PAGE_DEFAULT, PAGE_LIMIT = 50, 100
COLLABORATORS_LIMIT = 1000
REPOS_DEFAULT, REPOS_LIMIT = 500, 2000


@dataclass(frozen=True)
class Answer:
    """A response; a body that is no bytes goes out as JSON."""

    body: Any
    status: int = HTTPStatus.OK
    content_type: str = "application/json; charset=utf-8"


Query = Mapping[str, str]
Method = Callable[["Network", str, Query], Answer]


def xrpc_error(status: int, error: str, message: str) -> Answer:
    """An XRPC error body: {"error", "message"}."""
    return Answer({"error": error, "message": message}, status)


class Network:
    """Everything outside, as one function of host, path and query.

    Where two people claim one handle, the first of `recording.people` owns the domain.
    """

    def __init__(self, recording: Recording, released: Callable[[], int]) -> None:
        self._blobs = recording.blobs
        self._people = {person.did: person for person in recording.people}
        self._handles = {person.handle.lower(): person for person in reversed(recording.people)}
        self._repositories = {repository.repo: repository for repository in recording.repositories}
        self._shelf = Shelf(recording, released)
        self._spindle = Spindle(self._shelf, recording.blobs, released)
        # A recording says who may push and not since when: since it began.
        began = from_microseconds(recording.times[0] if recording.times else 0)
        self._since = f"{began.isoformat(timespec='seconds')}Z"

    def answer(self, host: str, path: str, query: Query) -> Answer:
        """The response of `host` (lower case, with port if any) to a GET of `path` (decoded)."""
        if path.startswith("/did:"):
            return self._directory(path[1:])
        if path.startswith("/xrpc/"):
            method = METHODS.get(path.removeprefix("/xrpc/"))
            if method is None:
                return xrpc_error(HTTPStatus.NOT_IMPLEMENTED, "MethodNotImplemented", "Method Not Implemented")
            return method(self, host, query)
        if path == "/.well-known/atproto-did":
            return self._handle_owner(host)
        if path == "/.well-known/did.json":
            return self._web_document(host)
        return Answer(b"404 page not found\n", HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")

    def _directory(self, path: str) -> Answer:
        did, _, rest = path.partition("/")
        person, repository = self._people.get(did), self._repositories.get(did)
        if (person is None and repository is None) or not did.startswith("did:plc:"):
            return Answer({"message": f"DID not registered: {did}"}, HTTPStatus.NOT_FOUND)
        if rest == "log/audit":
            return Answer(person_log(person) if person else repository_log(did, repository))
        if rest:
            return Answer({"message": "Not Found"}, HTTPStatus.NOT_FOUND)
        if person and person.tombstoned:
            return Answer({"message": f"DID not available: {did}"}, HTTPStatus.GONE)
        document = person_document(person) if person else repository_document(did, repository)
        return Answer(document, content_type="application/did+ld+json; charset=utf-8")

    def _handle_owner(self, host: str) -> Answer:
        person = self._handles.get(host)
        if person is None:
            return Answer(b"User not found", HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")
        return Answer(person.did.encode(), content_type="text/plain; charset=utf-8")

    def _web_document(self, host: str) -> Answer:
        person = self._people.get("did:web:" + host.replace(":", "%3A"))
        if person is None or person.tombstoned:
            return Answer(b"Not Found", HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")
        return Answer(person_document(person))

    def _resident(self, host: str, did: str) -> Person | None:
        person = self._people.get(did)
        return person if person and not person.tombstoned and urlsplit(person.pds).netloc.lower() == host else None

    def get_blob(self, host: str, query: Query) -> Answer:
        """com.atproto.sync.getBlob: the bytes as uploaded."""
        did, cid = query.get("did", ""), query.get("cid", "")
        if not did or not cid:
            return _missing("cid" if did else "did")
        if self._resident(host, did) is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo for DID: {did}")
        data = self._blobs.get((did, cid))
        if data is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "BlobNotFound", "Blob not found")
        return Answer(data, content_type="application/gzip")

    def describe_repo(self, host: str, query: Query) -> Answer:
        """com.atproto.repo.describeRepo."""
        person = self._resident(host, query.get("repo", ""))
        if person is None:
            return _repo_missing(query)
        owner = self._handles.get(person.handle.lower())
        return Answer(
            {
                "handle": person.handle,
                "did": person.did,
                "didDoc": person_document(person),
                "collections": self._shelf.collections(person.did),
                "handleIsCorrect": owner is not None and owner.did == person.did,
            }
        )

    def get_record(self, host: str, query: Query) -> Answer:
        """com.atproto.repo.getRecord: the last version."""
        did, collection, rkey = (query.get(name, "") for name in ("repo", "collection", "rkey"))
        if self._resident(host, did) is None:
            return _repo_missing(query)
        found = self._shelf.record(did, collection, rkey)
        uri = f"at://{did}/{collection}/{rkey}"
        if found is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RecordNotFound", f"Could not locate record: {uri}")
        return Answer({"uri": uri, "cid": found[0], "value": found[1]})

    def latest_commit(self, host: str, query: Query) -> Answer:
        """com.atproto.sync.getLatestCommit; the CID is made up, as nothing here reads it."""
        did = query.get("did", "")
        rev = self._shelf.rev(did) if self._resident(host, did) else None
        if rev is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo for DID: {did}")
        return Answer({"cid": "bafyrei" + letters_of(did + rev), "rev": rev})

    def list_repos(self, _: str, query: Query) -> Answer:
        """com.atproto.sync.listReposByCollection, as relays answer it; the cursor is the last DID, exclusive."""
        limit = _limit(query, REPOS_DEFAULT, REPOS_LIMIT)
        if limit is None or not query.get("collection"):
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", f"name a collection, limit to {REPOS_LIMIT}")
        dids = [did for did in self._shelf.keepers(query["collection"]) if did > query.get("cursor", "")]
        page = dids[:limit]
        return Answer({"repos": [{"did": did} for did in page]} | ({"cursor": page[-1]} if len(dids) > limit else {}))

    def list_records(self, host: str, query: Query) -> Answer:
        """com.atproto.repo.listRecords: newest key first unless reversed; the cursor is the last key, exclusive."""
        did, collection, cursor = (query.get(name, "") for name in ("repo", "collection", "cursor"))
        if self._resident(host, did) is None:
            return _repo_missing(query)
        limit = _limit(query, PAGE_DEFAULT, PAGE_LIMIT)
        if limit is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", f"limit must be from 1 to {PAGE_LIMIT}")
        rows = self._shelf.records(did, collection)
        forward = query.get("reverse") == "true"
        if not forward:
            rows.reverse()
        rows = [row for row in rows if not cursor or (row[0] > cursor if forward else row[0] < cursor)]
        page = rows[:limit]
        records = [{"uri": f"at://{did}/{collection}/{rkey}", "cid": cid, "value": value} for rkey, cid, value in page]
        return Answer({"records": records} | ({"cursor": page[-1][0]} if len(rows) > limit else {}))

    def list_collaborators(self, host: str, query: Query) -> Answer:
        """The knot's list of who may push besides the owner; the cursor is an offset."""
        repository = self._repositories.get(query.get("subject", ""))
        if repository is None or repository.knot.lower() != host:
            return xrpc_error(HTTPStatus.NOT_FOUND, "RepoNotFound", "failed to access repository")
        limit = _limit(query, COLLABORATORS_LIMIT, COLLABORATORS_LIMIT)
        cursor = query.get("cursor") or "0"
        if limit is None or not cursor.isdecimal():
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", "invalid limit or cursor")
        holders = [did for did in repository.push if did != repository.owner]
        end = int(cursor) + limit
        items = [
            {"subject": did, "addedBy": repository.owner, "createdAt": self._since}
            for did in holders[int(cursor) : end]
        ]
        return Answer({"items": items} | ({"cursor": str(end)} if end < len(holders) else {}))

    def query_pipelines(self, host: str, query: Query) -> Answer:
        """The spindle's runs for pull requests at one commit; of several that are asked for only the first is told."""
        repository = self._repositories.get(query.get("repo", ""))
        if repository is None or repository.spindle.lower() != host:
            return xrpc_error(HTTPStatus.NOT_FOUND, "RepoNotFound", "failed to access repository")
        found = self._spindle.pipelines(repository.repo, [commit for commit in [query.get("commits", "")] if commit])
        return Answer({"total": len(found), "pipelines": found})

    def get_profile(self, host: str, query: Query) -> Answer:
        """app.bsky.actor.getProfile: everybody has one, with as many followers as their DID's letters say."""
        person = self._people.get(query.get("actor", ""))
        if person is None or person.tombstoned:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", "Profile not found")
        number = int.from_bytes(hashlib.sha256(person.did.encode()).digest()[:2])
        counts = {"followersCount": number % 900, "followsCount": number % 300, "postsCount": number % 5_000}
        created = {"createdAt": person.created_at} if person.created_at else {}
        return Answer({"did": person.did, "handle": person.handle} | counts | created)


METHODS: dict[str, Method] = {
    "com.atproto.sync.getBlob": Network.get_blob,
    "com.atproto.sync.getLatestCommit": Network.latest_commit,
    "com.atproto.sync.listReposByCollection": Network.list_repos,
    "com.atproto.repo.describeRepo": Network.describe_repo,
    "com.atproto.repo.getRecord": Network.get_record,
    "com.atproto.repo.listRecords": Network.list_records,
    LIST_COLLABORATORS: Network.list_collaborators,
    QUERY_PIPELINES: Network.query_pipelines,
    GET_PROFILE: Network.get_profile,
}


def _limit(query: Query, default: int, most: int) -> int | None:
    text = query.get("limit", str(default))
    return int(text) if text.isdecimal() and 1 <= int(text) <= most else None


def _missing(name: str) -> Answer:
    return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", f'Error: Params must have the property "{name}"')


def _repo_missing(query: Query) -> Answer:
    return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo: {query.get('repo', '')}")
