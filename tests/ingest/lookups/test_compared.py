"""Pull requests that name two commits instead of a patch: their text comes from the target repository's knot."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.git.patch import load_patch, patch_id
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import compare
from tests.ingest.lookups.asked import DIFF, KNOT, REPOSITORY, World, did
from tests.ingest.peer import Start, response

BASE, HEAD = "a" * 40, "b" * 40
MAIL = f"From {HEAD} Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n{DIFF}-- \n2.43.0\n\n"


def offer(world: World, ref: str = f"compare:{BASE}..{HEAD}") -> None:
    world.change("update pull_requests set record_form = 'versions', patch_ref = ?", ref)


def test_trap_7_a_record_without_any_patch_has_its_diff_read_from_the_knot(world: World) -> None:
    asked: list[Mapping[str, str]] = []
    world.methods["sh.tangled.repo.compare"] = lambda query: asked.append(query) or {"rev2": HEAD, "patch": MAIL}
    offer(world)
    assert world.patches() == 1
    assert asked == [{"repo": REPOSITORY, "rev1": BASE, "rev2": HEAD}]
    ((sha256, state, identity),) = world.rows("select sha256, state, patch_id from patches")
    assert load_patch(world.folder, sha256) == MAIL
    assert (state, identity) == ("read", patch_id(DIFF))
    assert world.patches() == 0


def test_the_recorded_answer_of_a_knot_is_read(world: World, shared: Path) -> None:
    recorded = json.loads((shared / "examples" / "swift-tangled-fixtures" / "git-compare.json").read_text())
    world.methods["sh.tangled.repo.compare"] = lambda _: recorded
    offer(world)
    world.patches()
    assert world.rows("select files, state from patches") == [(1, "read")]


@pytest.mark.parametrize(
    "answer",
    [
        {"format_patch": [{"Raw": MAIL}], "patch": ""},
        {"format_patch": None, "patch": MAIL},
        {"format_patch": [], "combined_patch_raw": DIFF},
    ],
)
def test_whichever_part_of_the_answer_holds_the_text_is_taken(world: World, answer: dict[str, Any]) -> None:
    world.methods["sh.tangled.repo.compare"] = lambda _: answer
    offer(world)
    world.patches()
    assert world.rows("select patch_id from patches") == [(patch_id(DIFF),)]


def test_the_forks_knot_is_never_asked(world: World) -> None:
    """Its author chose it, and nothing would prove that the commits hold what it shows."""
    world.methods["sh.tangled.repo.compare"] = lambda _: response(b'{"error":"RevisionNotFound"}', 400)
    offer(world)
    world.change(
        "insert into repositories (repo_key, repository_id, owner_id, knot) values ('did:plc:fork', 9, ?, 'evil.test')",
        world.people[did("mallory")],
    )
    world.patches()
    assert {request.headers["host"] for request in world.peer.requests} == {KNOT}
    assert world.outcome("patch")[0] == "absent"
    assert world.rows("select * from patches") == []


def test_an_answer_about_another_commit_is_refused(world: World) -> None:
    world.methods["sh.tangled.repo.compare"] = lambda _: {"rev2": "c" * 40, "patch": MAIL}
    offer(world)
    world.patches()
    assert "another commit" in world.outcome("patch")[3]


@pytest.mark.parametrize(
    "ref", ["compare:main..dev", f"compare:{BASE}..bbbbbbb", "compare:..", f"compare:{BASE}..{HEAD}&x=1"]
)
def test_only_full_names_of_commits_are_compared(world: World, ref: str) -> None:
    offer(world, ref)
    world.patches()
    assert world.outcome("patch")[0] == "failed"
    assert world.peer.requests == []


def test_a_comparison_without_end_is_noted_as_oversized(world: World) -> None:
    world.methods["sh.tangled.repo.compare"] = lambda _: {"patch": "x" * 4_000_000}
    offer(world)
    world.patches()
    assert world.rows("select state, bytes from patches") == [("oversized", 0)]


ANSWERS = some.recursive(
    some.none() | some.integers() | some.text(max_size=30),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(["rev2", "patch", "format_patch", "Raw", "combined_patch_raw"]), inner)
    ),
    max_leaves=8,
)


def test_whatever_a_knot_answers_there_is_a_text_or_a_problem(peer: Start) -> None:
    said: list[bytes] = []
    fetcher = Fetcher(peer(lambda _: response(said[-1])).origin)

    @given(ANSWERS)
    def ask(answer: object) -> None:
        said.append(json.dumps(answer).encode())
        with suppress(FetchProblem):
            assert len(compare(fetcher, KNOT, REPOSITORY, BASE, HEAD, 1_000)) < 5_000

    ask()
