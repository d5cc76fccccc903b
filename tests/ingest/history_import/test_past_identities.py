"""Authors of past pull requests, declared in a file that is hostile until it was read."""

import json
from pathlib import Path

import pytest

from ingest.history_import.files import PastProblem, read_identities

ANA = "did:plc:" + "ana".ljust(24, "q")
HOSTILE = {
    "[1, 2]": "not a CSV or JSON file",
    '{"ana": 5}': "is tied to '5', which is not a DID",
    '{"ana": "did:plc:short"}': "is tied to 'did:plc:short', which is not a DID",
    "[" * 100_000: "not a CSV or JSON file",
    json.dumps([{"author": "ana", "did": did} for did in (ANA, "did:web:b.example")]): "ties 'ana' to two DIDs",
    "": "not a CSV or JSON file",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_identities_that_cannot_be_read_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "identities.json"
    path.write_text(text)
    with pytest.raises(PastProblem, match=HOSTILE[text]):
        read_identities(path)


def test_identities_may_be_csv(tmp_path: Path) -> None:
    path = tmp_path / "identities.csv"
    path.write_text(f"did,author,note\n{ANA},ana,x\n")
    assert read_identities(path) == {"ana": ANA}
    path.write_bytes(b"author;did\n\xff")
    with pytest.raises(PastProblem, match="not a CSV or JSON file of author and did"):
        read_identities(path)
