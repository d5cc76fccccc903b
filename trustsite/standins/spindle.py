"""What the stand-in spindle knows: for each commit that a pull request ends with, a run, or none."""

import gzip
import re
import threading
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from trustsite.standins.lexicon import PULL, TRIGGER
from trustsite.standins.recording import BlobKey
from trustsite.standins.shelf import Shelf

_MAIL = re.compile(rb"^From ([0-9a-f]{40}) ", re.MULTILINE)
# By the first digit of the commit: three of four were let run, one of those failed.
_GREEN, _RED = "01234567", "89ab"


class Spindle:
    """Runs for the newest rounds of the pull requests on the shelf; safe to ask from threads."""

    def __init__(self, shelf: Shelf, blobs: Mapping[BlobKey, bytes], released: Callable[[], int]) -> None:
        self._shelf, self._blobs, self._released = shelf, blobs, released
        self._commits: dict[BlobKey, str | None] = {}
        self._pulls: dict[tuple[str, str], list[str]] = {}  # repository and commit to pull requests
        self._known = -1  # frames that were out when this was last worked out
        self._lock = threading.Lock()

    def pipelines(self, repo: str, commits: list[str]) -> list[dict[str, Any]]:
        """The runs at these commits of a repository, as `sh.tangled.ci.queryPipelines` lists them."""
        with self._lock:
            self._look()
            found = [(commit, uri) for commit in commits for uri in self._pulls.get((repo, commit), [])[:1]]
        return [_pipeline(repo, commit, uri) for commit, uri in found if commit[0] in _GREEN + _RED]

    def _look(self) -> None:
        if self._known == self._released():
            return
        self._known = self._released()
        self._pulls = {}
        for did, rkey, record in self._shelf.everybodys(PULL):
            commit = self._commit(did, record)
            if commit is not None:
                repo = record["target"].get("repo", "")
                self._pulls.setdefault((repo, commit), []).append(f"at://{did}/{PULL}/{rkey}")

    def _commit(self, did: str, record: Any) -> str | None:
        """The commit that the newest round ends with; the recorded network has patches in rounds only."""
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
        found = _MAIL.findall(gzip.decompress(packed))
    except (OSError, EOFError, zlib.error):
        return None
    return found[-1].decode() if found else None


def _pipeline(repo: str, commit: str, uri: str) -> dict[str, Any]:
    status = "success" if commit[0] in _GREEN else "failed"
    workflow = {"id": "test.yml", "name": "test.yml", "status": status}
    trigger = {"$type": f"{TRIGGER}#pullRequest", "targetBranch": "main", "sourceSha": commit, "pull": uri}
    return {
        "id": commit[:13],
        "repo": repo,
        "commit": commit,
        "createdAt": datetime.now(UTC).isoformat(),  # started when asked for: after any round that was seen
        "trigger": trigger,
        "workflows": [workflow],
    }
