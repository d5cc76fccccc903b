"""The records that people write into their own repositories by this site. Pure; times are naive UTC."""

from datetime import datetime
from typing import Any

from ingest.atproto.syntax import NAMESPACE

COMMENT, STATUS, VOUCH = f"{NAMESPACE}feed.comment", f"{NAMESPACE}repo.pull.status", f"{NAMESPACE}graph.vouch"
MARKDOWN = f"{NAMESPACE}markup.markdown"


def make_comment(pull_uri: str, cid: str, number: int, text: str, now: datetime) -> dict[str, Any]:
    """Return a comment on one round of a pull request, whose record has this CID."""
    return {
        "subject": {"uri": pull_uri, "cid": cid},
        "body": {"$type": MARKDOWN, "text": text},
        "pullRoundIdx": number,
        "createdAt": _stamp(now),
    }


def make_status(pull_uri: str, state: str, now: datetime) -> dict[str, Any]:
    """Return the record that says that a pull request is `closed` or `merged`."""
    return {"pull": pull_uri, "status": f"{STATUS}.{state}", "createdAt": _stamp(now)}


def _stamp(now: datetime) -> str:
    return f"{now.isoformat(timespec='milliseconds')}Z"
