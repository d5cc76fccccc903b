"""Files of first rounds, which models learn from: listed for everything that no review reads, and kept."""

import pytest

from ingest.git.patch import store_patch
from ingest.store.long_texts import COLUMN_BYTES
from ingest.store.migrate import drop_superseded
from scoring.review.first_rounds import list_files
from tests.pipeline import Result
from tests.scoring.offered import CLEAN, offer, one_open
from tests.scoring.small import OFFERED

FILES = "select patch_ref, paths, whole from touched_files order by patch_ref"


@pytest.fixture(name="offered")
def offered_fixture(result: Result) -> Result:
    """One open pull request, whose first and only round is stored and readable."""
    one_open(result)
    with result.store.write() as txn:
        txn.execute("update pull_requests set patch_ref = (select min(patch_ref) from pull_rounds)")
        txn.execute("update patches set patch_ref = (select min(patch_ref) from pull_rounds)")
        txn.execute("update contributors set pds = 'https://pds.example.test'")
    return result


def first_ref(result: Result) -> str:
    (row,) = result.rows("select patch_ref from pull_rounds where round = 0")
    return row["patch_ref"]


def close(result: Result) -> None:
    with result.store.write() as txn:
        txn.execute("update pull_requests set state = 'closed'")


def list_now(result: Result) -> int:
    return list_files(result.store, result.folder / "diffs")


def test_what_was_settled_without_a_review_gets_its_files_once(offered: Result) -> None:
    close(offered)
    assert [list_now(offered) for _ in range(2)] == [1, 0]
    assert offered.rows(FILES) == [{"patch_ref": first_ref(offered), "paths": ["a.py"], "whole": True}]


def test_a_round_that_waits_for_its_review_is_left_to_it(offered: Result) -> None:
    assert list_now(offered) == 0
    offered.review()
    assert [row["paths"] for row in offered.rows(FILES)] == [["a.py"]]


def test_the_first_round_of_an_open_pull_request_is_listed_beside_its_newest(offered: Result) -> None:
    with offered.store.write() as txn:
        txn.execute("update pull_requests set patch_ref = 'blob:newer'")
    assert list_now(offered) == 1


def test_a_text_that_is_gone_has_an_incomplete_list_and_is_not_tried_again(offered: Result) -> None:
    close(offered)
    for file in (offered.folder / "diffs").rglob("*.gz"):
        file.unlink()
    assert [list_now(offered) for _ in range(2)] == [1, 0]
    assert offered.rows(FILES) == [{"patch_ref": first_ref(offered), "paths": [], "whole": False}]


def test_the_files_of_the_first_round_outlive_all_of_its_reviews(offered: Result) -> None:
    first = first_ref(offered)
    offered.review()
    offer(offered, CLEAN.replace("a.py", "b.py"), ref="blob:newer")
    offered.review()
    with offered.store.write() as txn:
        txn.execute("delete from content_reviews where patch_ref = ?", [first])
        drop_superseded(txn, [OFFERED])
    assert {row["patch_ref"]: row["paths"] for row in offered.rows(FILES)} == {first: ["a.py"], "blob:newer": ["b.py"]}


def test_a_hostile_text_is_listed_within_bounds(offered: Result) -> None:
    close(offered)
    names = "".join(
        f"diff --git a/{'d' * 199}/{number} b/{'d' * 199}/{number}\n--- /dev/null\n+++ b/{'d' * 199}/{number}\n"
        "@@ -0,0 +1 @@\n+x\n"
        for number in range(2_000)
    )
    sha256 = store_patch(offered.folder / "diffs", names)
    with offered.store.write() as txn:
        txn.execute("update patches set sha256 = ?", [sha256])
    assert list_now(offered) == 1
    (row,) = offered.rows("select strlen(paths::varchar) as bytes, whole from touched_files")
    assert (row["bytes"] <= COLUMN_BYTES, row["whole"]) == (True, False)
