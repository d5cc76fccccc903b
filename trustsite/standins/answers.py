"""Answers of each kind of host in the wire shapes of the real ones: records, documents, runs.

All are pure except the shelf of records. DID documents and PLC audit logs are those of a recording's people and
repositories. The names of collections and methods are those of the stand-ins and the simulated network. The stand-in
spindle has a run, or none, for each commit that a pull request ends with.
"""

import gzip
import hashlib
import json
import re
import threading
import zlib
from base64 import b32encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from ingest.clock import from_microseconds
from trustsite.standins.recording import BlobKey, Person, Recording, Repository, Shelf
from trustsite.standins.signed import KEY_COLLECTION, KEY_RKEY, KEYTRACE, prove, public_key, signer_key


def person_document(person: Person) -> dict[str, Any]:
    return _did_document(person.did, [f"at://{person.handle}"], "atproto_pds", "AtprotoPersonalDataServer", person.pds)


def repository_document(did: str, repository: Repository | None) -> dict[str, Any]:
    """Return the DID document of a repository: its service is its knot, and it has no handle."""
    knot = f"https://{repository.knot}" if repository else ""
    return _did_document(did, [], "tangled_knot", "TangledKnot", knot)


def person_log(person: Person) -> list[dict[str, Any]]:
    service = {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": person.pds}}
    log = [_creation_entry(person.did, person.created_at, [f"at://{person.handle}"], service)]
    if person.tombstoned:
        operation = {"sig": letters_of(person.did + "end"), "prev": log[0]["cid"], "type": "plc_tombstone"}
        log.append(_log_entry(person.did, "end", operation, person.created_at))
    return log


def repository_log(did: str, repository: Repository | None) -> list[dict[str, Any]]:
    knot = f"https://{repository.knot}" if repository else ""
    service = {"tangled_knot": {"type": "TangledKnot", "endpoint": knot}}
    return [_creation_entry(did, "2025-02-23T18:43:18.000Z", [], service)]


def _creation_entry(did: str, created_at: str, known_as: list[str], services: dict[str, Any]) -> dict[str, Any]:
    operation = {
        "sig": letters_of(did + "signature"),
        "prev": None,
        "type": "plc_operation",
        "services": services,
        "alsoKnownAs": known_as,
        "rotationKeys": [f"did:key:z{letters_of(did + 'rotation')}"],
        "verificationMethods": {"atproto": f"did:key:{public_key(did)}"},
    }
    return _log_entry(did, "creation", operation, created_at)


def _log_entry(did: str, step: str, operation: dict[str, Any], created_at: str) -> dict[str, Any]:
    digest = hashlib.sha256((did + step).encode()).digest()
    cid = "b" + b32encode(b"\x01\x71\x12\x20" + digest).decode().lower().rstrip("=")
    return {"did": did, "operation": operation, "cid": cid, "nullified": False, "createdAt": created_at}


def _did_document(did: str, known_as: list[str], service: str, kind: str, endpoint: str) -> dict[str, Any]:
    key = {
        "id": f"{did}#atproto",
        "type": "Multikey",
        "controller": did,
        "publicKeyMultibase": f"z{letters_of(did + 'signing')}",
    }
    return {
        "@context": [
            "https://www.w3.org/ns/did/v1",
            "https://w3id.org/security/multikey/v1",
            "https://w3id.org/security/suites/secp256k1-2019/v1",
        ],
        "id": did,
        "alsoKnownAs": known_as,
        "verificationMethod": [key],
        "service": [{"id": f"#{service}", "type": kind, "serviceEndpoint": endpoint}],
    }


def letters_of(text: str) -> str:
    """Return letters and digits for a text, always equal: an invented value that nobody reads."""
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().lower().rstrip("=")


REPOSITORY = "sh.tangled.repo"
PULL = "sh.tangled.repo.pull"
STATUS = "sh.tangled.repo.pull.status"
VOUCH = "sh.tangled.graph.vouch"
FOLLOW = "sh.tangled.graph.follow"
PROFILE = "sh.tangled.actor.profile"
COMMENT = "sh.tangled.feed.comment"
MARKDOWN = "sh.tangled.markup.markdown"
LIST_COLLABORATORS = "sh.tangled.repo.listCollaborators"
QUERY_PIPELINES = "sh.tangled.ci.queryPipelines"
TRIGGER = "sh.tangled.ci.trigger"
GET_PROFILE = "app.bsky.actor.getProfile"

_MAIL = re.compile(rb"^From ([0-9a-f]{40}) ", re.MULTILINE)
# By the first digit of the commit: three of four have a run, one of those failed.
_GREEN, _RED = "01234567", "89ab"


SIGNER = Person(KEYTRACE, "keytrace.example.test", "https://pds.example.test", "2024-01-01T00:00:00.000Z")
FIRST_REV = "3222222222222"  # of a repository that the recording does not write to


class Spindle:
    """Runs for the newest rounds of the pull requests on the shelf; thread-safe."""

    def __init__(self, shelf: Shelf, blobs: Mapping[BlobKey, bytes], released: Callable[[], int]) -> None:
        self._shelf, self._blobs, self._released = shelf, blobs, released
        self._commits: dict[BlobKey, str | None] = {}
        self._pulls: dict[tuple[str, str], list[str]] = {}  # repository and commit to pull requests
        self._released_before = -1  # number of released frames at the last update
        self._lock = threading.Lock()

    def pipelines(self, repo: str, commits: list[str]) -> list[dict[str, Any]]:
        """Return the runs at these commits of a repository, in the form of `sh.tangled.ci.queryPipelines`."""
        with self._lock:
            self._update()
            commits_and_pulls = [(commit, uri) for commit in commits for uri in self._pulls.get((repo, commit), [])[:1]]
        return [_pipeline_object(repo, commit, uri) for commit, uri in commits_and_pulls if commit[0] in _GREEN + _RED]

    def _update(self) -> None:
        if self._released_before == self._released():
            return
        self._released_before = self._released()
        self._pulls = {}
        for did, rkey, record in self._shelf.everybodys(PULL):
            commit = self._round_commit(did, record)
            if commit is not None:
                repo = record["target"].get("repo", "")
                self._pulls.setdefault((repo, commit), []).append(f"at://{did}/{PULL}/{rkey}")

    def _round_commit(self, did: str, record: Any) -> str | None:
        """Return the commit that the newest round ends with; the recorded network has patches only in rounds."""
        rounds = record.get("rounds") if isinstance(record, dict) and isinstance(record.get("target"), dict) else None
        try:
            key = (did, rounds[-1]["patchBlob"]["ref"]["$link"] if rounds else "")
        except (KeyError, TypeError):
            return None
        if key not in self._commits:
            self._commits[key] = _last_commit(self._blobs.get(key, b""))
        return self._commits[key]


def _last_commit(packed: bytes) -> str | None:
    try:
        commits = _MAIL.findall(gzip.decompress(packed))
    except (OSError, EOFError, zlib.error):
        return None
    return commits[-1].decode() if commits else None


def _pipeline_object(repo: str, commit: str, uri: str) -> dict[str, Any]:
    status = "success" if commit[0] in _GREEN else "failed"
    workflow = {"id": "test.yml", "name": "test.yml", "status": status}
    trigger = {"$type": f"{TRIGGER}#pullRequest", "targetBranch": "main", "sourceSha": commit, "pull": uri}
    return {
        "id": commit[:13],
        "repo": repo,
        "commit": commit,
        "createdAt": datetime.now(UTC).isoformat(),  # starts at the request: after any round that was seen
        "trigger": trigger,
        "workflows": [workflow],
    }


PAGE_DEFAULT, PAGE_LIMIT = 50, 100
COLLABORATORS_LIMIT = 1000
REPOS_DEFAULT, REPOS_LIMIT = 500, 2000


@dataclass(frozen=True)
class Answer:
    """A response; a body that is not bytes goes out as JSON."""

    body: Any
    status: int = HTTPStatus.OK
    content_type: str = "application/json; charset=utf-8"


Query = Mapping[str, str]
Method = Callable[["Network", str, Query], Answer]


def xrpc_error(status: int, error: str, message: str) -> Answer:
    return Answer({"error": error, "message": message}, status)


class Network:
    """All hosts outside, by host, path and query. If two people claim one handle, the first one owns the domain."""

    def __init__(self, recording: Recording, released: Callable[[], int]) -> None:
        self._blobs = recording.blobs
        self._people = {person.did: person for person in (*recording.people, SIGNER)}
        self._handles = {person.handle.lower(): person for person in reversed(recording.people)}
        self._repositories = {repository.repo: repository for repository in recording.repositories}
        self._shelf = Shelf(recording, released)
        self._spindle = Spindle(self._shelf, recording.blobs, released)
        self._ends = from_microseconds(recording.times[-1] if recording.times else 0)
        # A recording names push-holders without a start time: use the beginning of the recording.
        began = from_microseconds(recording.times[0] if recording.times else 0)
        self._since = f"{began.isoformat(timespec='seconds')}Z"

    def answer(self, host: str, path: str, query: Query) -> Answer:
        """Return the response of `host` (lower case, with port if any) to a GET of `path` (decoded)."""
        if path.startswith("/did:"):
            return self._answer_directory(path[1:])
        if path.startswith("/xrpc/"):
            method = METHODS.get(path.removeprefix("/xrpc/"))
            if method is None:
                return xrpc_error(HTTPStatus.NOT_IMPLEMENTED, "MethodNotImplemented", "Method Not Implemented")
            return method(self, host, query)
        if host in ("api.deps.dev", "api.npmjs.org", "registry.npmjs.org"):
            return package_answer(path, self._ends)
        if host in ("api.scorecard.dev", "api.github.com"):
            return upstream_answer(path, self._ends)
        if path == "/.well-known/atproto-did":
            return self._handle_owner(host)
        if path == "/.well-known/did.json":
            return self._answer_web_document(host)
        if path == "/" and (person := self._handles.get(host)):
            page = f'<!doctype html><title>{host}</title><a rel="me" href="https://tangled.org/{person.handle}">me</a>'
            return Answer(page.encode(), content_type="text/html; charset=utf-8")
        return Answer(b"404 page not found\n", HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")

    def _answer_directory(self, path: str) -> Answer:
        did, _, subpath = path.partition("/")
        person, repository = self._people.get(did), self._repositories.get(did)
        if (person is None and repository is None) or not did.startswith("did:plc:"):
            return Answer({"message": f"DID not registered: {did}"}, HTTPStatus.NOT_FOUND)
        if subpath == "log/audit":
            return Answer(person_log(person) if person else repository_log(did, repository))
        if subpath:
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

    def _answer_web_document(self, host: str) -> Answer:
        person = self._people.get("did:web:" + host.replace(":", "%3A"))
        if person is None or person.tombstoned:
            return Answer(b"Not Found", HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")
        return Answer(person_document(person))

    def _find_resident(self, host: str, did: str) -> Person | None:
        person = self._people.get(did)
        return person if person and not person.tombstoned and urlsplit(person.pds).netloc.lower() == host else None

    def get_blob(self, host: str, query: Query) -> Answer:
        did, cid = query.get("did", ""), query.get("cid", "")
        if not did or not cid:
            return _missing_parameter("cid" if did else "did")
        if self._find_resident(host, did) is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo for DID: {did}")
        data = self._blobs.get((did, cid))
        if data is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "BlobNotFound", "Blob not found")
        return Answer(data, content_type="application/gzip")

    def describe_repo(self, host: str, query: Query) -> Answer:
        person = self._find_resident(host, query.get("repo", ""))
        if person is None:
            return _missing_repository(query)
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
        did, collection, rkey = (query.get(name, "") for name in ("repo", "collection", "rkey"))
        if self._find_resident(host, did) is None:
            return _missing_repository(query)
        record = self._shelf.record(did, collection, rkey)
        uri = f"at://{did}/{collection}/{rkey}"
        if record is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RecordNotFound", f"Could not locate record: {uri}")
        return Answer({"uri": uri, "cid": record[0], "value": record[1]})

    def prove_record(self, host: str, query: Query) -> Answer:
        """Answer com.atproto.sync.getRecord with a proof by the account's own key."""
        did, collection, rkey = (query.get(name, "") for name in ("did", "collection", "rkey"))
        if self._find_resident(host, did) is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo for DID: {did}")
        record: Any = (self._shelf.record(did, collection, rkey) or (None, None))[1]
        if (did, collection, rkey) == (KEYTRACE, KEY_COLLECTION, KEY_RKEY):
            record = signer_key()
        proof = prove(did, self._shelf.rev(did) or FIRST_REV, f"{collection}/{rkey}", record)
        return Answer(proof, content_type="application/vnd.ipld.car")

    def latest_commit(self, host: str, query: Query) -> Answer:
        """Answer com.atproto.sync.getLatestCommit; the CID is invented, as nothing here reads it."""
        did = query.get("did", "")
        rev = self._shelf.rev(did) if self._find_resident(host, did) else None
        if rev is None:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo for DID: {did}")
        return Answer({"cid": "bafyrei" + letters_of(did + rev), "rev": rev})

    def list_repos(self, _: str, query: Query) -> Answer:
        """Answer com.atproto.sync.listReposByCollection as relays do; the cursor is the last DID, exclusive."""
        limit = _read_limit(query, REPOS_DEFAULT, REPOS_LIMIT)
        if limit is None or not query.get("collection"):
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", f"name a collection, limit to {REPOS_LIMIT}")
        dids = [did for did in self._shelf.keepers(query["collection"]) if did > query.get("cursor", "")]
        page = dids[:limit]
        return Answer({"repos": [{"did": did} for did in page]} | ({"cursor": page[-1]} if len(dids) > limit else {}))

    def list_records(self, host: str, query: Query) -> Answer:
        """Answer com.atproto.repo.listRecords: newest key first unless reversed; the cursor is the last key."""
        did, collection, cursor = (query.get(name, "") for name in ("repo", "collection", "cursor"))
        if self._find_resident(host, did) is None:
            return _missing_repository(query)
        limit = _read_limit(query, PAGE_DEFAULT, PAGE_LIMIT)
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
        """Answer the knot's list of push-holders besides the owner; the cursor is an offset."""
        repository = self._repositories.get(query.get("subject", ""))
        if repository is None or repository.knot.lower() != host:
            return xrpc_error(HTTPStatus.NOT_FOUND, "RepoNotFound", "failed to access repository")
        limit = _read_limit(query, COLLABORATORS_LIMIT, COLLABORATORS_LIMIT)
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
        """Answer the spindle's runs for pull requests at one commit; only the first of several commits is answered."""
        repository = self._repositories.get(query.get("repo", ""))
        if repository is None or repository.spindle.lower() != host:
            return xrpc_error(HTTPStatus.NOT_FOUND, "RepoNotFound", "failed to access repository")
        runs = self._spindle.pipelines(repository.repo, [commit for commit in [query.get("commits", "")] if commit])
        return Answer({"total": len(runs), "pipelines": runs})

    def get_profile(self, host: str, query: Query) -> Answer:
        """Answer app.bsky.actor.getProfile: everybody has a profile, with numbers made from their DID."""
        person = self._people.get(query.get("actor", ""))
        if person is None or person.tombstoned:
            return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", "Profile not found")
        number = int.from_bytes(hashlib.sha256(person.did.encode()).digest()[:2])
        counts = {"followersCount": number % 900, "followsCount": number % 300, "postsCount": number % 5_000}
        created = {"createdAt": person.created_at} if person.created_at else {}
        return Answer({"did": person.did, "handle": person.handle} | counts | created)


# The one package of the stand-in registries: it looks like puppeteer, and is a few days older than the recording's end.
LOOK_ALIKE, LOOK_ALIKE_VERSION = "pupetteer", "1.0.2"
LOOK_ALIKE_AGE, LOOK_ALIKE_DOWNLOADS = timedelta(days=4), 12
# The one account of npm, which noor claims (trustsite/world/history.py), and its package.
ACCOUNT, OWN_PACKAGE, OWN_DOWNLOADS = "noor", "tide-table", 1_840
OWN_PACKAGE_AGE, OWN_RELEASE_AGE = timedelta(days=1_300), timedelta(days=60)


def package_answer(path: str, now: datetime) -> Answer:
    """Answer deps.dev about a package and a version of it, and npm about an account, and downloads of a week."""
    published = f"{now - LOOK_ALIKE_AGE:%Y-%m-%dT%H:%M:%SZ}"
    key = {"system": "NPM", "name": LOOK_ALIKE}
    version = {"versionKey": key | {"version": LOOK_ALIKE_VERSION}, "publishedAt": published, "isDefault": True}
    days = {"start": f"{now - timedelta(days=7):%Y-%m-%d}", "end": f"{now - timedelta(days=1):%Y-%m-%d}"}
    maintainers = [{"username": ACCOUNT, "email": f"{ACCOUNT}@example.test"}]
    own = {"name": OWN_PACKAGE, "date": f"{now - OWN_RELEASE_AGE:%Y-%m-%dT%H:%M:%S.000Z}", "maintainers": maintainers}
    answers = {
        "/-/v1/search": {"objects": [{"package": own}], "total": 1},
        f"/{OWN_PACKAGE}": {
            "name": OWN_PACKAGE,
            "time": {"created": f"{now - OWN_PACKAGE_AGE:%Y-%m-%dT%H:%M:%S.000Z}"},
        },
        f"/downloads/point/last-week/{OWN_PACKAGE}": {"downloads": OWN_DOWNLOADS, "package": OWN_PACKAGE} | days,
        f"/v3/systems/npm/packages/{LOOK_ALIKE}": {"packageKey": key, "versions": [version]},
        f"/v3/systems/npm/packages/{LOOK_ALIKE}/versions/{LOOK_ALIKE_VERSION}": version | {"licenses": ["MIT"]},
        f"/downloads/point/last-week/{LOOK_ALIKE}": {"downloads": LOOK_ALIKE_DOWNLOADS, "package": LOOK_ALIKE} | days,
    }
    return Answer(answers[path]) if path in answers else Answer({"error": "not found"}, HTTPStatus.NOT_FOUND)


UPSTREAM = "sunstead-demo/lantern"  # the one repository on GitHub that the stand-ins know


def upstream_answer(path: str, now: datetime) -> Answer:
    """Answer api.scorecard.dev about the upstream's Scorecard, and api.github.com about the repository."""
    card = {"date": f"{now - timedelta(days=4):%Y-%m-%d}", "score": 6.4, "checks": []}
    health = {"full_name": UPSTREAM, "archived": False, "stargazers_count": 1_204, "open_issues_count": 37}
    answers = {
        f"/projects/github.com/{UPSTREAM}": card | {"repo": {"name": f"github.com/{UPSTREAM}", "commit": "5e3c7f"}},
        f"/repos/{UPSTREAM}": health | {"pushed_at": f"{now - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}"},
    }
    return Answer(answers[path]) if path in answers else Answer({"message": "Not Found"}, HTTPStatus.NOT_FOUND)


def osv_answer(body: bytes) -> Answer:
    """Answer api.osv.dev's querybatch: there is no advisory on any package."""
    try:
        queries = json.loads(body)["queries"]
    except (ValueError, KeyError, TypeError):
        return Answer({"code": 3, "message": "Invalid query."}, HTTPStatus.BAD_REQUEST)
    return Answer({"results": [{} for _ in queries]})


METHODS: dict[str, Method] = {
    "com.atproto.sync.getBlob": Network.get_blob,
    "com.atproto.sync.getRecord": Network.prove_record,
    "com.atproto.sync.getLatestCommit": Network.latest_commit,
    "com.atproto.sync.listReposByCollection": Network.list_repos,
    "com.atproto.repo.describeRepo": Network.describe_repo,
    "com.atproto.repo.getRecord": Network.get_record,
    "com.atproto.repo.listRecords": Network.list_records,
    LIST_COLLABORATORS: Network.list_collaborators,
    QUERY_PIPELINES: Network.query_pipelines,
    GET_PROFILE: Network.get_profile,
}


def _read_limit(query: Query, default: int, most: int) -> int | None:
    text = query.get("limit", str(default))
    return int(text) if text.isdecimal() and 1 <= int(text) <= most else None


def _missing_parameter(name: str) -> Answer:
    return xrpc_error(HTTPStatus.BAD_REQUEST, "InvalidRequest", f'Error: Params must have the property "{name}"')


def _missing_repository(query: Query) -> Answer:
    return xrpc_error(HTTPStatus.BAD_REQUEST, "RepoNotFound", f"Could not find repo: {query.get('repo', '')}")
