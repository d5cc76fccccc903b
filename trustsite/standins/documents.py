"""DID documents and PLC audit logs of a recording's people and repositories, in the shapes of the real directory."""

import hashlib
from base64 import b32encode
from typing import Any

from trustsite.standins.recording import Person, Repository


def person_document(person: Person) -> dict[str, Any]:
    """The DID document of a person."""
    return _document(person.did, [f"at://{person.handle}"], "atproto_pds", "AtprotoPersonalDataServer", person.pds)


def repository_document(did: str, repository: Repository | None) -> dict[str, Any]:
    """The DID document of a repository: its service is its knot, and it has no handle."""
    knot = f"https://{repository.knot}" if repository else ""
    return _document(did, [], "tangled_knot", "TangledKnot", knot)


def person_log(person: Person) -> list[dict[str, Any]]:
    """The PLC audit log of a person: creation, and the tombstone if there is one."""
    service = {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": person.pds}}
    log = [_creation(person.did, person.created_at, [f"at://{person.handle}"], service)]
    if person.tombstoned:
        operation = {"sig": letters_of(person.did + "end"), "prev": log[0]["cid"], "type": "plc_tombstone"}
        log.append(_entry(person.did, "end", operation, person.created_at))
    return log


def repository_log(did: str, repository: Repository | None) -> list[dict[str, Any]]:
    """The PLC audit log of a repository's DID."""
    knot = f"https://{repository.knot}" if repository else ""
    service = {"tangled_knot": {"type": "TangledKnot", "endpoint": knot}}
    return [_creation(did, "2025-02-23T18:43:18.000Z", [], service)]


def _creation(did: str, created_at: str, known_as: list[str], services: dict[str, Any]) -> dict[str, Any]:
    operation = {
        "sig": letters_of(did + "signature"),
        "prev": None,
        "type": "plc_operation",
        "services": services,
        "alsoKnownAs": known_as,
        "rotationKeys": [f"did:key:z{letters_of(did + 'rotation')}"],
        "verificationMethods": {"atproto": f"did:key:z{letters_of(did + 'signing')}"},
    }
    return _entry(did, "creation", operation, created_at)


def _entry(did: str, step: str, operation: dict[str, Any], created_at: str) -> dict[str, Any]:
    digest = hashlib.sha256((did + step).encode()).digest()
    cid = "b" + b32encode(b"\x01\x71\x12\x20" + digest).decode().lower().rstrip("=")
    return {"did": did, "operation": operation, "cid": cid, "nullified": False, "createdAt": created_at}


def _document(did: str, known_as: list[str], service: str, kind: str, endpoint: str) -> dict[str, Any]:
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
    """Letters and digits that stand for a text, always the same: what is made up where nobody reads it."""
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().lower().rstrip("=")
