"""Read the forms of the rows: they are trusted only to name the displayed version."""

import re
from collections.abc import Mapping

from scoring.queries.read import Seen
from triage.services.actions import NOTE_LENGTH, ActionProblem, Wanted

URI_LENGTH = 600
FINDINGS_AT_ONCE = 110  # as many as a review stores, and as a column of digests holds
_DIGEST = re.compile("[0-9a-f]{16}")
UNREADABLE = "Not saved, nothing changed: the form is damaged. Load the page again."
HIGHEST = 10**6


def read_wanted(values: Mapping[str, str]) -> Wanted:
    """Return the action that a form requests; raise ActionProblem for values that no form of ours sends."""
    note = values.get("note", "")
    if len(note) > NOTE_LENGTH:
        raise ActionProblem(
            f"A note may have {NOTE_LENGTH:,} characters, this one has {len(note):,}: nothing was done."
        )
    seen, version = read_seen(values), _number(values.get("version", ""))
    digests = dict.fromkeys(values.get("findings", "").split())
    if len(digests) > FINDINGS_AT_ONCE or not all(_DIGEST.fullmatch(digest) for digest in digests):
        raise ActionProblem(UNREADABLE)
    outcome = values.get("outcome", "")
    return Wanted(values.get("kind", ""), _text(values, "uri"), seen, version, outcome, note, tuple(digests))


def read_choice(value: str) -> Wanted:
    """Return the approval that a ticked box requests, from its `written_choice`."""
    parts = value.split("|")
    if len(parts) != 5:
        raise ActionProblem(UNREADABLE)
    values = dict(zip(("uri", "record_cid", "round", "patch_id", "version"), parts, strict=True))
    return read_wanted(values | {"kind": "approve"})


def written_choice(uri: str, seen: Seen, version: int) -> str:
    """Return one row as the value of a checkbox."""
    return "|".join((uri, seen.record_cid or "", str(seen.round), seen.patch_id or "", str(version)))


def read_seen(values: Mapping[str, str]) -> Seen:
    """Return the displayed version that a form names; raise ActionProblem for values that no form of ours sends."""
    number = _number(values.get("round", ""))
    return Seen(_text(values, "record_cid") or None, number, _text(values, "patch_id") or None)


def _text(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "")
    if len(text) > URI_LENGTH or not text.isprintable():
        raise ActionProblem(UNREADABLE)
    return text


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) < HIGHEST):
        raise ActionProblem(UNREADABLE)
    return int(text)
