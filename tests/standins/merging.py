"""A data server that gives tokens and takes records, and knots that merge, for the stand-ins of a recording."""

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

from trustsite.standins import StandIns
from trustsite.standins.recording import Recording

MERGE = "sh.tangled.repo.merge"


@dataclass(slots=True)
class Merging:
    """Merges and records that were taken; `conflicts` names repositories in which nothing applies.

    `access` are the access tokens of people by DID, which a test hands to whoever signs in.
    """

    recording: Recording
    access: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    merged: list[dict[str, Any]] = field(default_factory=list)
    written: list[dict[str, Any]] = field(default_factory=list)
    lose_answers: bool = False  # a merge is taken and its answer lost
    refuse_records: bool = False
    _tokens: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def beside(cls, stand_ins: StandIns, recording: Recording) -> Self:
        """What people change on these stand-ins from now on."""
        made = cls(recording)
        stand_ins.peers.procedures = made.answer
        return made

    def sign_in(self, did: str) -> str:
        """An access token of this person."""
        return self.access.setdefault(did, secrets.token_urlsafe(24))

    def answer(
        self, host: str, path: str, query: Mapping[str, str], body: bytes, bearer: str
    ) -> tuple[int, Any] | None:
        """Status and body of what is asked; None for what is not known, a status of 0 for silence."""
        if path == "/xrpc/com.atproto.server.getServiceAuth":
            return self._service_auth(query, bearer)
        known = {
            "/xrpc/sh.tangled.repo.mergeCheck": self._check,
            f"/xrpc/{MERGE}": self._merge,
            "/xrpc/com.atproto.repo.createRecord": self._write,
        }
        return known[path](host, json.loads(body), bearer) if path in known else None

    def _service_auth(self, query: Mapping[str, str], bearer: str) -> tuple[int, Any]:
        did = next((did for did, token in self.access.items() if token == bearer), None)
        if did is None:
            return HTTPStatus.UNAUTHORIZED, {"error": "AuthMissing", "message": "Authentication Required"}
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[token] = (did, query.get("aud", ""), query.get("lxm", ""))
        return HTTPStatus.OK, {"token": token}

    def _check(self, host: str, sent: dict[str, Any], bearer: str) -> tuple[int, Any]:
        if self._repository(host, sent) is None:
            return HTTPStatus.NOT_FOUND, {"error": "RepoNotFound", "message": "failed to access repository"}
        names = self.conflicts.get(sent["repo"], [])
        found = [{"filename": name, "reason": "patch does not apply"} for name in names]
        return HTTPStatus.OK, {"is_conflicted": bool(names), "conflicts": found}

    def _merge(self, host: str, sent: dict[str, Any], bearer: str) -> tuple[int, Any]:
        repository = self._repository(host, sent)
        with self._lock:
            did, audience, method = self._tokens.pop(bearer, ("", "", ""))
        if repository is None or (audience, method) != (f"did:web:{host}", MERGE) or did not in repository.push:
            return HTTPStatus.UNAUTHORIZED, {"error": "AccessControl", "message": "insufficient access rights"}
        if self.conflicts.get(sent["repo"]):
            return HTTPStatus.CONFLICT, {"error": "MergeConflict", "message": "patch does not apply"}
        self.merged.append(sent | {"by": did})
        return (0 if self.lose_answers else HTTPStatus.OK), b""

    def _write(self, host: str, sent: dict[str, Any], bearer: str) -> tuple[int, Any]:
        if self.refuse_records:
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "InternalServerError", "message": "told to fail"}
        if self.access.get(sent["repo"]) != bearer:
            return HTTPStatus.UNAUTHORIZED, {"error": "AuthMissing", "message": "Authentication Required"}
        self.written.append(sent)
        uri = f"at://{sent['repo']}/{sent['collection']}/{len(self.written)}"
        return HTTPStatus.OK, {"uri": uri, "cid": "bafyreiwritten"}

    def _repository(self, host: str, sent: Mapping[str, Any]) -> Any:
        of_host = (one for one in self.recording.repositories if one.knot.lower() == host)
        return next((one for one in of_host if one.repo == sent.get("repo")), None)
