"""The records that people write into their own repositories by this site. Pure; times are naive UTC."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ingest.atproto.syntax import NAMESPACE, is_did

COMMENT, STATUS, VOUCH = f"{NAMESPACE}feed.comment", f"{NAMESPACE}repo.pull.status", f"{NAMESPACE}graph.vouch"
LABEL, DEFINITION = f"{NAMESPACE}label.op", f"{NAMESPACE}label.definition"
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


def make_approval(pull_uri: str, cid: str, number: int, patch_id: str | None, now: datetime) -> dict[str, Any]:
    """Return the record that says that its author approved this version of a pull request."""
    record = {"subject": {"uri": pull_uri, "cid": cid}, "round": number, "createdAt": _stamp(now)}
    return record | ({"patchId": patch_id} if patch_id else {})


def make_vouch(reason: str, evidence: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return a vouch; `evidence` are at-uris of merged pull requests. Its key is the DID of whom it is for."""
    record: dict[str, Any] = {"kind": "vouch", "createdAt": _stamp(now)}
    return record | ({"reason": reason} if reason else {}) | ({"evidences": list(evidence)} if evidence else {})


def make_label(pull_uri: str, definition: str, value: str, now: datetime) -> dict[str, Any]:
    """Return what puts a label of Tangled on a pull request; `definition` is the at-uri of the label's definition."""
    return {"subject": pull_uri, "add": [{"key": definition, "value": value}], "delete": [], "performedAt": _stamp(now)}


def check_definition(uri: str) -> None:
    """Raise ValueError for a text that is neither empty nor the at-uri of a label's definition."""
    match = re.fullmatch(rf"at://([^/]+)/{re.escape(DEFINITION)}/[A-Za-z0-9._:~-]{{1,512}}", uri)
    if uri and (match is None or not is_did(match[1])):
        raise ValueError(f"it is not an address such as at://did:plc:…/{DEFINITION}/sunstead-lane")


def _stamp(now: datetime) -> str:
    return f"{now.isoformat(timespec='milliseconds')}Z"
