"""Answers of a site to the extension, written by hand: as they should be, or as nobody should."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.ingest.peer import Answer, Request, response
from tests.ingest.stream.frames import REPO, SEED
from tests.triage.overlay.forge import ORIGIN, Pull
from tests.triage.overlay.world import FAST, FLAGGED, HOME, LANTERN, OWNER

Answering = Callable[[Request], Answer]
BADGE = {"kind": "review", "word": "Review", "chance": "73 %", "interval": "42\N{EN DASH}96"}
LANES = {"needs_human": 1, "normal_queue": 2, "fast_lane": 3, "would_be_fast_lane": 4}
WATCHED = [{"repository": REPO, "name": LANTERN, "owner": SEED, "handle": OWNER}]


def judged(pull: Pull, **changes: object) -> dict[str, Any]:
    """What is told of a pull request; `changes` replace parts of it."""
    told = {
        "uri": pull.uri,
        "page": f"{ORIGIN}{HOME.path(pull.number)}",
        "title": pull.title,
        "label": f"{LANTERN} #{pull.number}",
        "repository": REPO,
        "opened_at": "2026-11-20T12:00:00Z",
        "badge": BADGE,
        "decided": "First change here, no record yet",
        "explanation": "First change here, no record yet; no trust path yet",
        "finding": None,
    }
    return {**told, **changes}


def inbox(**changes: object) -> dict[str, Any]:
    """The inbox in brief, of a site that watches lantern."""
    told = {"lanes": LANES, "new": 5, "oldest": judged(FLAGGED), "repositories": WATCHED, "only": None, "snapshot": 1}
    return {**told, **changes}


def told(value: object, status: int = 200, **headers: str) -> bytes:
    """A whole answer of JSON."""
    kind = "application/json" if status == 200 else "application/problem+json"
    return response(json.dumps(value).encode(), status, Content_Type=kind, **headers)


BOTH = {FAST.uri: judged(FAST), f"{ORIGIN}{HOME.path(FAST.number)}": judged(FAST)}


def answering(known: Mapping[str, Any] = BOTH, **others: Answer) -> Answering:
    """Answers the extension: `known` are by at-uri or address; `others` answer a whole operation by its name."""

    def answer(request: Request) -> Answer:
        operation = request.path.split("?")[0].split("/")[1]
        if operation in others:
            return others[operation]
        if operation == "inbox":
            return told(inbox())
        if operation != "pulls":
            code = "unknown_contributor" if operation in ("score", "trust") else "not_found"
            return told({"status": 404, "code": code}, 404)
        asked = json.loads(request.body)["uris"]
        return told({"found": [{"asked": one, "pull_request": known.get(one)} for one in asked], "snapshot": 1})

    return answer
