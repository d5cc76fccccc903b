"""Sunstead's own records, read as their lexicon documents (ingest/lexicons) say, under the operator's authority.

A record proves only that its author wrote it. `subject` is what it is about, empty for its author: a declaration about
somebody else's affairs is kept and counts for nothing, which is for the reader of the table to heed.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from ingest.records.columns import SmallRecord
from ingest.records.fields import AT_URI, DID, Event, Unreadable, did_or_uri, identifier, items, json_text, moment, text

FOLDER = Path(__file__).with_name("lexicons")
PLACEHOLDER = "org.sunstead"  # the authority that the documents stand under
KINDS: Mapping[str, str] = {
    "jurisdiction": "jurisdiction",
    "jurisdictionAttestation": "jurisdiction_attestation",
    "jurisdictionStatement": "jurisdiction_statement",
    "objection": "objection",
    "leaderboardOptOut": "leaderboard_opt_out",
    "assessment": "assessment",
}
CODES: Mapping[str, re.Pattern[str]] = {
    "country": re.compile(r"[A-Z]{2}"),
    "region": re.compile(r"[A-Z]{2}-[A-Z0-9]{1,3}"),
}
STRONG_REFERENCE = "com.atproto.repo.strongRef"
Property = Mapping[str, Any]


@cache
def document(name: str, authority: str) -> Mapping[str, Any]:
    """The lexicon document of one of our records, under this authority."""
    told = json.loads((FOLDER / f"{name}.json").read_text())
    return told | {"id": f"{authority}.{name}"}


def properties(name: str) -> Mapping[str, Property]:
    """The fields of one of our records, each as its lexicon describes it."""
    return document(name, PLACEHOLDER)["defs"]["main"]["record"]["properties"]


def known_values(name: str) -> Mapping[str, frozenset[str]]:
    """The words that a field may hold, for the fields that name them."""
    told = {field: one["knownValues"] for field, one in properties(name).items() if "knownValues" in one}
    return {field: frozenset(words) for field, words in told.items()}


def read_declaration(name: str) -> Callable[[Mapping[str, Any], Event], SmallRecord]:
    """Reads records of this name; Unreadable where a field that the lexicon requires says nothing."""
    main = document(name, PLACEHOLDER)["defs"]["main"]
    required = tuple(field for field in main["record"]["required"] if field != "createdAt")
    return partial(_read, name, main["key"].removeprefix("literal:"), required)


def _read(name: str, key: str, required: tuple[str, ...], record: Mapping[str, Any], event: Event) -> SmallRecord:
    kind = KINDS[name]
    if key == "self" and event.rkey != key:
        raise Unreadable(f"a record of kind {kind} under another key than {key}")
    told = {field: _value(field, one, record) for field, one in properties(name).items() if field != "createdAt"}
    if missing := [field for field in required if told[field] in (None, "")]:
        raise Unreadable(f"a record of kind {kind} without a readable {missing[0]}")
    subject = told.pop("subject", None)
    value = json_text({field: value for field, value in told.items() if value is not None})
    about = subject["uri"] if isinstance(subject, dict) else subject
    if isinstance(subject, dict):
        value = json_text({"subject_cid": subject["cid"]} | json.loads(value))
    return SmallRecord({"kind": kind, "subject": about, "value": value}, moment(record, "createdAt"))


def _value(field: str, told: Property, record: Mapping[str, Any]) -> Any:
    """Return what a record says in one field, as far as its lexicon allows.

    None where it says nothing that can be used.
    """
    value = record.get(field)
    if told["type"] == "string":
        return _text(field, told, record)
    if told["type"] == "integer":
        fits = type(value) is int and told["minimum"] <= value <= told["maximum"]
        return value if fits else None
    if told["type"] == "boolean":
        return value is True
    if told["type"] == "array":
        longest = told["items"]["maxLength"]
        return [item[:longest] for item in items(record, field)[: told["maxLength"]] if isinstance(item, str)]
    if told.get("ref") == STRONG_REFERENCE and isinstance(value, dict):
        uri = identifier(AT_URI, value.get("uri"))
        return {"uri": uri, "cid": text(value, "cid", 128)} if uri else None
    return None


def _text(field: str, told: Property, record: Mapping[str, Any]) -> str | None:
    if told.get("format") == "at-uri":
        return did_or_uri(record.get(field))
    if told.get("format") == "did":
        return identifier(DID, record.get(field))
    if field in CODES:
        return identifier(CODES[field], record.get(field))
    return text(record, field, told["maxLength"])
