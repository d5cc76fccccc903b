"""Patches that older records carry in their own text: kept like fetched ones, and only what the log still holds."""

import json
from pathlib import Path

import pytest

from ingest.clock import wall_now
from ingest.git.patches import load_patch
from ingest.http.fetcher import Fetcher
from ingest.lookups import enrich
from ingest.records import watched
from ingest.records.derive import derive
from ingest.records.pull_state import settle
from ingest.store.database import Store
from ingest.stream.load import load

ANA, MARA = "did:plc:" + "a" * 24, "did:plc:" + "m" * 24
REPOSITORY = f"at://{ANA}/sh.tangled.repo/3lzg6enurmo22"
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def frame(number: int, did: str, collection: str, rkey: str, record: dict[str, object]) -> bytes:
    named = {"rev": f"rev{number}", "operation": "create", "collection": collection, "rkey": rkey}
    commit = {**named, "record": record, "cid": f"bafyreicid{number}"}
    return json.dumps(
        {"did": did, "time_us": 1_790_000_000_000_000 + number, "kind": "commit", "commit": commit}
    ).encode()


@pytest.mark.parametrize(
    "target",
    [{"targetRepo": REPOSITORY, "targetBranch": "main"}, {"target": {"repo": REPOSITORY, "branch": "main"}}],
    ids=["flat", "target"],
)
def test_the_patch_inside_a_record_of_an_open_pull_request_is_kept(tmp_path: Path, target: dict[str, object]) -> None:
    store = Store.open(tmp_path / "trust.duckdb")
    store.bind("test")
    pull = {"title": "Say b", "patch": DIFF, **target}
    frames = [
        frame(1, ANA, "sh.tangled.repo", "3lzg6enurmo22", {"name": "core", "knot": "knot.example.test"}),
        frame(2, MARA, "sh.tangled.repo.pull", "3lzg6enurmo33", pull),
    ]
    load(store, "test", frames)
    assert derive(store) == 2
    watched.watch_everything(store, wall_now())
    settle(store)
    assert enrich.fetch_patches(store, Fetcher("http://127.0.0.1:9"), tmp_path / "diffs", 10_000, wall_now) == 1
    with store.read() as rows:
        kept = rows.row("select * from patches")
        assert enrich.fetch_patches(store, Fetcher("http://127.0.0.1:9"), tmp_path / "diffs", 10_000, wall_now) == 0
    store.close()
    assert kept is not None
    assert (kept["state"], kept["files"], kept["added"], kept["removed"]) == ("read", 1, 1, 1)
    assert load_patch(tmp_path / "diffs", kept["sha256"]) == DIFF
