"""Who the authors of past pull requests are: a file of `author` and `did`, as CSV or JSON, declared by the operator."""

import csv
import io
from pathlib import Path
from typing import Any

import msgspec

from ingest.dids import is_did
from ingest.past_files import PastProblem

LIMIT = 50_000_000  # bytes


def read_identities(path: Path) -> dict[str, str]:
    """The DID of each author. CSV with the columns author and did, a JSON list of such objects, or one JSON object.

    Raises PastProblem for anything else, for what is no DID, and for an author with two.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise PastProblem(f"{path.name} is larger than {LIMIT} bytes: name a file of author and did.")
        pairs = _of_json(data) if path.suffix.lower() == ".json" else _of_csv(data.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError, csv.Error, RecursionError) as error:
        told = " ".join(str(error).split())[:160]
        raise PastProblem(f"{path} is not a CSV or JSON file of author and did ({told}).") from error
    found: dict[str, str] = {}
    for author, did in pairs:
        if not (isinstance(author, str) and isinstance(did, str) and author and is_did(did)):
            raise PastProblem(f"{path.name}: {str(author)[:60]!a} is tied to {str(did)[:60]!a}, which is not a DID.")
        if found.setdefault(author, did) != did:
            raise PastProblem(f"{path.name} ties {author[:60]!a} to two DIDs: name one.")
    return found


def _of_json(data: bytes) -> list[tuple[Any, Any]]:
    told = msgspec.json.decode(data)
    if isinstance(told, dict):
        return list(told.items())
    if isinstance(told, list) and all(isinstance(one, dict) for one in told):
        return [(one.get("author"), one.get("did")) for one in told]
    raise msgspec.ValidationError("neither a list of objects nor one object")


def _of_csv(text: str) -> list[tuple[Any, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    if not {"author", "did"} <= set(rows.fieldnames or ()):
        raise csv.Error("its first line does not name author and did")
    return [(row["author"], row["did"]) for row in rows]
