"""The records that this site writes: in people's names into their repositories, and as itself. Pure; naive UTC."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.atproto.syntax import NAMESPACE

COMMENT, STATUS, VOUCH = f"{NAMESPACE}feed.comment", f"{NAMESPACE}repo.pull.status", f"{NAMESPACE}graph.vouch"
LABEL = f"{NAMESPACE}label.op"
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


def make_assessment(
    subject: tuple[str, str],
    decision: str,
    reasons: Sequence[str],
    evaluator: str,
    policy: Mapping[str, Any],
    patch_id: str | None = None,
    repo: str = "",
    outcome: tuple[str, datetime] | None = None,
) -> dict[str, Any]:
    """Return what was judged of one version of a pull request (at-uri and CID), without the time of its publication.

    Neither a chance nor a voucher has a place in it.
    """
    uri, cid = subject
    record: dict[str, Any] = {
        "subject": {"uri": uri, "cid": cid},
        "decision": decision,
        "reasons": list(reasons),
        "policy": dict(policy),
        "evaluator": evaluator,
    }
    if outcome:
        state, at = outcome
        record["outcome"] = {"state": state, "at": _stamp(at)}
    return record | ({"patchId": patch_id} if patch_id else {}) | ({"repo": repo} if repo else {})


def make_service(
    collections: Sequence[str], publishes: str, name: str = "", contact: str = "", policy: str = ""
) -> dict[str, Any]:
    """Return the record that says which site publishes here and who runs it, without its time."""
    described = {"name": name, "contact": contact, "policy": policy}
    record: dict[str, Any] = {"collections": list(collections), "publishes": publishes}
    return record | {field: value for field, value in described.items() if value}


def add_time(record: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the record with the moment of its publication."""
    return {**record, "createdAt": _stamp(now)}


def make_label(pull_uri: str, definition: str, value: str, now: datetime) -> dict[str, Any]:
    """Return what puts a label of Tangled on a pull request; `definition` is the at-uri of the label's definition."""
    return {"subject": pull_uri, "add": [{"key": definition, "value": value}], "delete": [], "performedAt": _stamp(now)}


def make_definition(name: str, values: Iterable[str]) -> dict[str, Any]:
    """Return the definition of a label of Tangled on pull requests that has one of these values, without its time."""
    value_type = {"type": "string", "format": "any", "enum": list(values)}
    return {"name": name, "valueType": value_type, "scope": [f"{NAMESPACE}repo.pull"], "multiple": False}


def _stamp(now: datetime) -> str:
    return f"{now.isoformat(timespec='milliseconds')}Z"
