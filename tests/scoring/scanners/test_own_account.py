"""By which names and addresses an account is known: those of its merged work, and nothing that it can add alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scoring.diff.parser import read_change
from scoring.scanners.commit_author import own_account
from scoring.scanners.run import examine
from scoring.scanners.submission import Account, Knowledge, Submission
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames, pull_uri
from tests.pipeline import Result, prepared
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import OFFERED, take

EARLIER, OTHER = pull_uri(MARA, "earlier"), pull_uri(SEED, "other")


def series(*authors: str) -> str:
    """A mail of each author, each with a change."""
    return "".join(
        f"From {number:040x} Mon Sep 17 00:00:00 2001\nFrom: {author}\nDate: Mon, 1 Jun 2026 10:00:00 +0000\n"
        f"Subject: [PATCH] Pears\n\n---\n{CLEAN.replace('a.py', f'{number}.py')}-- \n2.43.0\n\n"
        for number, author in enumerate(authors)
    )


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Result]:
    """Mara offers a pull request; an earlier one of hers was merged by seed, whose own is merged too."""
    with prepared(tmp_path, two_merged) as result:
        yield result


def two_merged(result: Result) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for author, key in ((MARA, "earlier"), (MARA, "offered"), (SEED, "other")):
        frames.pull(author, key)
    for uri in (EARLIER, OTHER):
        frames.status(SEED, uri, "merged")
    take(result, frames)
    with result.store.write() as txn:
        txn.execute("update pull_requests set merge_proof = 'verified' where state = 'merged'")


def known(world: Result) -> Account:
    with world.store.read() as rows:
        account = own_account(rows, world.folder / "diffs", OFFERED)
    assert account is not None
    return account


def test_the_author_of_a_merged_series_is_known_by_it(world: Result) -> None:
    offer(world, series("Mara Vale <mara@vale.example>"), EARLIER)
    account = known(world)
    assert (account.did, account.names, account.emails) == (MARA, ("Mara Vale",), ("mara@vale.example",))


def test_without_merged_work_nothing_but_did_and_handle_is_known(world: Result) -> None:
    offer(world, series("Mara Vale <mara@vale.example>"), OFFERED)
    offer(world, series("Seed Sower <seed@sower.example>"), OTHER)
    assert (known(world).names, known(world).emails) == ((), ())


@pytest.mark.parametrize("proof", ["unverified", "contradicted"])
def test_a_merge_that_nobody_may_claim_adds_no_address(world: Result, proof: str) -> None:
    offer(world, series("Mara Vale <mara@vale.example>"), EARLIER)
    with world.store.write() as txn:
        txn.execute("update pull_requests set merge_proof = ?", [proof])
    assert known(world).emails == ()


def test_of_a_series_of_two_people_nobody_says_which_is_the_account(world: Result) -> None:
    offer(world, series("Mara Vale <mara@vale.example>", "Mallory Rook <mallory@rook.net>"), EARLIER)
    assert known(world).emails == ()


def test_a_patch_that_is_gone_is_no_crash(world: Result) -> None:
    offer(world, series("Mara Vale <mara@vale.example>"), EARLIER)
    for file in Path(world.folder / "diffs").rglob("*.gz"):
        file.unlink()
    assert known(world).emails == ()


def test_another_persons_commit_in_her_name_is_found_and_never_told_to_a_reviewer(world: Result) -> None:
    offer(world, series("Mara Vale <mara@vale.net>"), EARLIER)
    change = read_change(series("Mallory Rook <mallory@rook.net>"))
    found = examine(Submission(change, knowledge=Knowledge(account=known(world)))).findings
    assert [(one.rule, one.severity.value) for one in found if one.scanner == "commit_author"] == [
        ("other-person", "med")
    ]
