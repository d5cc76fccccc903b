"""Whom a command means: a DID, or a handle that its own domain confirmed."""

from django.core.management.base import CommandError

from ingest.snapshot import Snapshot
from triage.dids import MalformedDid, parse_did, parse_handle


def known_did(handle: str, snapshot: Snapshot | None) -> str | None:
    """The DID that verified this handle, if exactly one did: a handle may have moved since."""
    if snapshot is None:
        return None
    found = snapshot.rows("select did from contributors where handle_verified and lower(handle) = ?", [handle])
    return found[0]["did"] if len(found) == 1 else None


def held_did(text: str, snapshot: Snapshot | None) -> str:
    """The DID meant by somebody who is known here; CommandError, status 2, for what is neither DID nor known handle.

    The network is not asked: who is to be erased or exported was proven here before, or is named by DID.
    """
    if text.startswith("did:"):
        try:
            return parse_did(text)
        except MalformedDid as problem:
            raise CommandError(str(problem), returncode=2) from problem
    handle = parse_handle(text)
    if handle is None:
        raise CommandError(f"{text!r} is not a handle (such as ana.example.com) or a DID.", returncode=2)
    did = known_did(handle, snapshot)
    if did is None:
        raise CommandError(f"Nobody here has proven the handle {handle}: give the DID.", returncode=2)
    return did
