"""The table `cases`: our own pull requests and imported ones as one, with what counts and from when."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.history_import.pulls import import_past
from ingest.store.transaction import Rows, Transaction
from scoring.dataset.cases import LABELS, Cases, LabelName
from scoring.dataset.dataset import build_cases, read_cases
from scoring.dataset.labels import as_known, clean_as_sent, known_by, outcomes, settled
from tests.ingest.history_import.past import DAY, OPENED, merged, past, refused, write
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import MERGED_AT, OFFERED, again, counts, take
from tests.scoring.small import settled as world

LATER = MERGED_AT + timedelta(days=300)
EMPTY: dict[str, object] = {"patch_id": None, "sha256": None, "bytes": 1, "state": "read", "proves": True}
EMPTY |= {"series": [], "change_ids": []}


class Undo(Exception):
    """Takes back what a test wrote."""


@pytest.fixture(name="judged", scope="module")
def judged_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """A store in which mara's pull request was merged."""
    with opened(tmp_path_factory.mktemp("judged")) as result:
        take(result, world(), LATER)
        yield result


@pytest.fixture(name="txn")
def txn_fixture(judged: Result) -> Iterator[Transaction]:
    """That store, to be written to: what a test writes is taken back at its end."""
    with suppress(Undo), judged.store.write() as txn:
        yield txn
        raise Undo


def read(rows: Rows, now: datetime = LATER, window_days: int = 14) -> Cases:
    build_cases(rows, now, window_days)
    return read_cases(rows)


def table(rows: Rows, columns: str) -> list[dict[str, Any]]:
    build_cases(rows, LATER, 14)
    return rows.rows(f"select {columns} from cases order by opened_at, key")


def cases_of(result: Result, now: datetime = LATER) -> Cases:
    with result.store.read() as rows:
        return read(rows, now)


def table_of(result: Result, columns: str) -> list[dict[str, Any]]:
    with result.store.read() as rows:
        return table(rows, columns)


def clean(cases: Cases) -> list[list[int]]:
    return [outcomes(cases, label).clean.tolist() for label in LABELS]


def test_a_merge_of_ours_is_a_case_from_when_it_was_seen(txn: Transaction) -> None:
    cases = read(txn)
    assert (cases.keys.tolist(), clean(cases)) == ([OFFERED], [[1], [1], [1]])
    assert (cases.opened_at[0], cases.merged_at[0]) == (np.datetime64(at(1)), np.datetime64(MERGED_AT))
    assert cases.observed_until[0] == np.datetime64(LATER)
    assert not cases.push_holder[0]


def test_a_refusal_is_known_when_a_push_holder_spoke_else_after_180_quiet_days(result: Result) -> None:
    frames = world("closed")
    frames.pull(ANA, "quiet")
    frames.pull(MALLORY, "closed-by-its-author")
    frames.status(MALLORY, pull_uri(MALLORY, "closed-by-its-author"), "closed")
    take(result, frames, LATER)
    cases = cases_of(result)
    assert cases.refused_at.tolist() == [at(2), at(3) + timedelta(days=180), at(4) + timedelta(days=180)]
    before = cases_of(result, at(10))
    assert (before.refused_at[0].item(), np.isnat(before.refused_at[1:]).tolist()) == (at(2), [True, True])


@pytest.mark.parametrize("actor", [MARA, MALLORY])
def test_a_merge_that_only_its_author_or_a_stranger_tells_of_is_as_if_nobody_had_spoken(
    result: Result, actor: str
) -> None:
    take(result, world("merged", actor), LATER)
    cases = cases_of(result)
    assert np.isnat(cases.merged_at).all()
    assert cases.refused_at.tolist() == [at(1) + timedelta(days=180)]
    assert np.isnat(cases_of(result, at(100)).refused_at).all()


def test_what_somebody_who_may_push_merged_alone_is_no_case_at_all(result: Result) -> None:
    frames = world("open")
    frames.pull(SEED, "own")
    frames.status(SEED, pull_uri(SEED, "own"), "merged")
    take(result, frames, LATER)
    assert cases_of(result).keys.tolist() == [OFFERED]


@pytest.mark.parametrize(("days", "refused"), [(179, 359), (181, 180)])
def test_a_round_after_180_quiet_days_takes_the_refusal_off_no_record(
    txn: Transaction, days: int, refused: int
) -> None:
    txn.execute("delete from statuses")
    txn.append("pull_rounds", [ROUND | {"round": 1, "patch_ref": "blob:2", "seen_at": at(1) + timedelta(days=days)}])
    found = read(txn, at(1) + timedelta(days=400)).refused_at
    assert found.tolist() == [at(1) + timedelta(days=refused)]


def test_a_repository_whose_owner_nobody_trusts_teaches_nothing(result: Result) -> None:
    frames = world()
    frames.repository(MALLORY, "farm", repoDid="did:plc:" + "f" * 24)
    frames.pull(ANA, "farmed", target="did:plc:" + "f" * 24)
    frames.status(MALLORY, pull_uri(ANA, "farmed"), "merged")
    take(result, frames, LATER)
    assert cases_of(result).keys.tolist() == [OFFERED]


def follow_up(kind: str, days: float, late: float = 0) -> dict[str, object]:
    moment = MERGED_AT + timedelta(days=days)
    row = {"pull_uri": OFFERED, "kind": kind, "happened_at": moment, "known_from": moment + timedelta(days=late)}
    return row | {"evidence": "c0ffee", "carried_by": None}


def test_trouble_counts_by_when_it_happened_and_from_when_it_was_known(txn: Transaction) -> None:
    txn.append("pull_followups", [follow_up("patched", 13, late=5)])
    assert clean(read(txn)) == [[1], [1], [0]]
    assert read(txn).patched_at[0] == np.datetime64(MERGED_AT + timedelta(days=18))
    assert np.isnat(read(txn, MERGED_AT + timedelta(days=17)).patched_at[0])
    assert clean(read(txn, window_days=10)) == [[1], [1], [1]]


@pytest.mark.parametrize(("subject", "label"), [("Fix the lamp", 0), ("Prefix it", 1), ("Reverts the lamp", 0)])
def test_a_follow_up_reads_like_a_fix_by_the_words_of_its_commit(txn: Transaction, subject: str, label: int) -> None:
    number = txn.value("select repository_id from repositories where repo_key = ?", [REPO])
    commit = {"repository_id": number, "commit_id": "c0ffee", "subject": subject, "proves": True, "reverts": []}
    txn.append("commits", [commit | dict.fromkeys(("authored_at", "committed_at", "appeared_at"), MERGED_AT)])
    txn.append("pull_followups", [follow_up("patched", 2)])
    assert clean(read(txn)) == [[1], [label], [0]]


def test_checks_fail_at_the_second_failure_and_unknown_ones_are_none(txn: Transaction) -> None:
    run = {"pull_uri": OFFERED, "commit_id": "", "workflows": "[]", "state": "failed"}
    txn.append("ci_runs", [run | {"patch_ref": "a", "observed_at": at(1)}])
    assert clean(read(txn)) == [[1], [1], [1]], "one failure is how work goes"
    txn.append("ci_runs", [run | {"patch_ref": "b", "observed_at": at(2)}])
    assert read(txn).failed_at[0] == np.datetime64(at(2))
    assert table(txn, "checks_known") == [{"checks_known": True}]


@pytest.mark.parametrize(
    ("outcome", "expected"), [("clean", [1, 1, 1]), ("needed_fix", [1, 0, 0]), ("reverted", [1, 0, 0])]
)
def test_a_persons_mark_stands_for_what_was_mined(txn: Transaction, outcome: str, expected: list[int]) -> None:
    txn.append("pull_followups", [follow_up("patched", 2)])
    said = txn.rows("select pull_uri, author_id, repository_id from pull_requests")[0]
    mark = said | {"actor_id": 1, "outcome": outcome, "clean": outcome == "clean", "made_at": MERGED_AT}
    txn.append("marks", [mark | {"known_from": MERGED_AT + timedelta(days=1), "mined_clean": None, "mined_from": None}])
    assert [row[0] for row in clean(read(txn))] == expected


def read_first_round(txn: Transaction, moment: datetime) -> None:
    """Note that the text of the first round was fetched at this moment."""
    ref = txn.value("select patch_ref from pull_rounds where round = 0")
    fetch = {"kind": "patch", "subject": f"{OFFERED} {ref}", "outcome": "found", "attempts": 1}
    txn.upsert("fetches", [fetch | {"reason": None, "due_clock": None, "fetched_clock": moment}])


ROUND = {"pull_uri": OFFERED, "record_cid": None, "created_at": None, "witnessed": True}


@pytest.mark.parametrize(("second", "expected"), [("same", 1), ("other", 0), (None, -1)])
def test_as_sent_compares_the_first_round_with_what_was_merged(
    txn: Transaction, second: str | None, expected: int
) -> None:
    first = txn.value("select patch_ref from pull_rounds")
    txn.append("pull_rounds", [ROUND | {"round": 1, "patch_ref": "blob:2", "seen_at": at(1)}])
    patch = EMPTY | {"pull_uri": OFFERED, "files": 2, "added": 7, "removed": 1}
    txn.append("patches", [patch | {"patch_ref": first, "patch_id": "same"}])
    txn.append("patches", [patch | {"patch_ref": "blob:2", "patch_id": second, "added": 99}])
    read_first_round(txn, at(1))
    assert table(txn, "as_sent, additions, files_touched") == [
        {"as_sent": expected, "additions": 7, "files_touched": 2}
    ], "the size is that of the first round"
    assert clean_as_sent(read(txn), "label_clean").clean.tolist() == [expected]


def test_kinds_of_files_are_those_of_the_first_round(txn: Transaction) -> None:
    first = txn.value("select patch_ref from pull_rounds")
    found = {"pull_uri": OFFERED, "patch_ref": first, "kinds": ["ci"], "whole": True}
    read_first_round(txn, at(1))
    columns = "touches_tests, docs_only, touches_sensitive"
    assert table(txn, columns) == [dict.fromkeys(columns.split(", "))]
    txn.append("touched_files", [found | {"paths": ["docs/a.md", "tests/test_lamp.py"]}])
    assert list(table(txn, columns)[0].values()) == [True, False, True]


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/lamp.py", True),
        ("src/lamp.spec.ts", True),
        (".github/workflows/test-suite.yml", False),
        (".tangled/workflows/tests.yml", False),
        ("src/latest.py", False),
    ],
)
def test_a_ci_job_that_runs_tests_is_no_test(txn: Transaction, path: str, is_test: bool) -> None:
    first = txn.value("select patch_ref from pull_rounds")
    found = {"pull_uri": OFFERED, "patch_ref": first, "kinds": [], "whole": True, "paths": [path]}
    txn.append("touched_files", [found])
    read_first_round(txn, at(1))
    assert table(txn, "touches_tests") == [{"touches_tests": is_test}]


CONTENT = "additions, deletions, files_touched, touches_tests, docs_only, touches_sensitive"


@pytest.mark.parametrize("word", ["merged", "open"])
@pytest.mark.parametrize(("hours_after", "counts"), [(0, True), (24, True), (25, False), (None, False)])
def test_the_content_of_a_change_counts_only_where_it_was_read_within_a_day_of_its_arrival(
    txn: Transaction, word: str, hours_after: int | None, counts: bool
) -> None:
    if word == "open":
        txn.execute("delete from statuses")
    store_content(txn)
    offer_another(txn)
    if hours_after is not None:
        read_first_round(txn, at(1) + timedelta(hours=hours_after))
    assert content(txn) == (CONTENT_STORED if counts else [None] * 6)


CONTENT_STORED = [7, 1, 1, True, False, False]
OTHER = {"pull_uri": "at://other", "patch_ref": "blob:other"}


def store_content(txn: Transaction) -> None:
    key = {"pull_uri": OFFERED, "patch_ref": txn.value("select patch_ref from pull_rounds")}
    txn.append("patches", [EMPTY | key | {"files": 1, "added": 7, "removed": 1}])
    txn.append("touched_files", [key | {"kinds": [], "whole": True, "paths": ["tests/a.py"]}])


def offer_another(txn: Transaction, seen_at: datetime = MERGED_AT, readable: bool = True) -> None:
    """Another pull request, of the owner, in the same repository, which nobody has read."""
    author = txn.value("select contributor_id from contributors where did = ?", [SEED])
    times = {"opened_at": seen_at, "seen_at": seen_at, "changed_at": seen_at}
    (pull,) = txn.rows("from pull_requests where pull_uri = ?", [OFFERED])
    txn.append("pull_requests", [pull | OTHER | times | {"author_id": author}])
    txn.append("pull_rounds", [ROUND | OTHER | {"round": 0, "seen_at": seen_at}])
    pds = "https://pds.example.test" if readable else None
    txn.execute("update contributors set pds = ? where contributor_id = ?", [pds, author])


def content(txn: Transaction) -> list[Any]:
    build_cases(txn, LATER, 14)
    return list(txn.rows(f"select {CONTENT} from cases where key = ?", [OFFERED])[0].values())


def ask_in_vain(txn: Transaction) -> None:
    subject = f"{OTHER['pull_uri']} {OTHER['patch_ref']}"
    row = {"kind": "patch", "subject": subject, "outcome": "failed", "attempts": 1, "fetched_clock": LATER}
    txn.append("fetches", [row])


def store_text(txn: Transaction) -> None:
    txn.append("patches", [EMPTY | OTHER | {"sha256": "0" * 64, "files": 1, "added": 1, "removed": 0}])


@pytest.mark.parametrize(
    ("happen", "counts"),
    [
        pytest.param(lambda txn: offer_another(txn, LATER - timedelta(hours=23)), True, id="it came just now"),
        pytest.param(lambda txn: offer_another(txn, LATER - timedelta(hours=25)), False, id="nobody asked"),
        pytest.param(lambda txn: (offer_another(txn), ask_in_vain(txn)), True, id="asked in vain"),
        pytest.param(lambda txn: offer_another(txn, readable=False), True, id="it has no address"),
        pytest.param(lambda txn: (offer_another(txn), store_text(txn)), False, id="its files are not listed yet"),
        pytest.param(
            lambda txn: (
                offer_another(txn),
                store_text(txn),
                txn.append("touched_files", [OTHER | {"kinds": [], "whole": False, "paths": []}]),
            ),
            True,
            id="it was read",
        ),
        pytest.param(
            lambda txn: (offer_another(txn, LATER), txn.execute("delete from watched_repositories")),
            False,
            id="the repository is not watched",
        ),
    ],
)
def test_content_that_was_read_late_counts_once_all_of_its_repository_was_read_or_asked_for(
    txn: Transaction, happen: Callable[[Transaction], object], counts: bool
) -> None:
    store_content(txn)
    happen(txn)
    assert content(txn) == (CONTENT_STORED if counts else [None] * 6)


def test_who_could_push_when_it_was_opened_is_told_apart(result: Result) -> None:
    frames = world()
    frames.pull(SEED, "own")
    frames.status(SEED, pull_uri(SEED, "own"), "closed")
    take(result, frames, LATER)
    assert table_of(result, "push_holder") == [{"push_holder": False}, {"push_holder": True}]


def imported(result: Result, *rows: dict[str, Any], identities: str | None = None) -> None:
    told = None
    if identities is not None:
        told = result.folder / "who.csv"
        told.write_text(f"author,did\nana,{identities}\n")
    import_past(result.store, write(result.folder / "f.parquet", rows), told, "old")


def test_ours_and_imported_ones_are_one_table_in_the_order_of_opening(result: Result) -> None:
    take(result, world(), LATER)
    imported(result, merged(), refused(), merged(3, is_bot=True), merged(4, usable=False))
    cases = cases_of(result)
    assert cases.keys.tolist() == ["imported:old:lantern/lamp#1", "imported:old:lantern/lamp#2", OFFERED]
    assert (cases.authors < 0).tolist() == (cases.repositories < 0).tolist() == [True, True, False]
    assert [row["is_bot"] for row in table_of(result, "is_bot")] == [False, False, True, False]


def test_a_project_under_the_name_that_it_has_here_is_the_same_repository(result: Result) -> None:
    take(result, world(), LATER)
    imported(result, merged(repo=REPO))
    assert len(set(cases_of(result).repositories.tolist())) == 1


def test_30_merges_there_before_stand_for_the_right_to_push(result: Result) -> None:
    old = [merged(number) for number in range(1, 31)]
    imported(
        result, *old, past(31, opened_at=OPENED + 2 * DAY), past(32, opened_at=OPENED + 2 * DAY, push_holder=False)
    )
    assert cases_of(result).push_holder.tolist() == [*[False] * 30, True, False]


WHO = "did:plc:" + "who".ljust(24, "q")


def test_an_imported_history_counts_in_the_record_of_whom_it_is_tied_to(result: Result) -> None:
    take(result, world(), LATER)
    given = (
        merged(1),
        refused(2),
        merged(3, reverted_at=OPENED + 3 * DAY),
        merged(4, reverted_at=OPENED + 90 * DAY),
        merged(5, push_holder=True),
        merged(6, is_bot=True),
        past(7, snapshot_at=OPENED + 20 * DAY),
        merged(8, snapshot_at=OPENED + 5 * DAY),
    )
    imported(result, *given)
    again(result, LATER)
    assert result.value("select sum(clean + not_clean) from features where repository_id = 0") == 1, "nobody's record"
    imported(result, *given, identities=WHO)
    result.judge(LATER)
    assert counts(result, WHO)[:2] == (2, 2)
    again(result, OPENED + 14 * DAY)
    assert counts(result, WHO)[:2] == (0, 1), "as of then only the revert was known"


@pytest.fixture(name="real", scope="module")
def real_fixture(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """The real history as it is."""
    with opened(tmp_path_factory.mktemp("real")) as result:
        import_past(result.store, shared / "data" / "pr_history.parquet", None, "real")
        return cases_of(result, datetime(2026, 11, 20))


def test_labels_of_the_real_history_are_those_that_it_came_with(real: Cases, shared: Path, result: Result) -> None:
    path = str(shared / "data" / "pr_history.parquet")
    with result.store.read() as rows:
        told = rows.columns(
            "select concat('imported:real:', repo, '#', number) as key, label_merge, "
            "coalesce(label_clean_fix, label_merge) as label_clean_fix, coalesce(label_clean, label_merge) as "
            "label_clean from read_parquet(?) where usable",
            [path],
        )
    place = {key: number for number, key in enumerate(told["key"])}
    for label, rate in (("label_merge", 0.688), ("label_clean_fix", 0.653), ("label_clean", 0.571)):
        found = outcomes(real, label)
        known = found.clean >= 0
        theirs = told[label][[place[key] for key in real.keys[known]]]
        differing = int(((found.clean[known] == 1) != theirs).sum())
        assert differing <= 5, "trouble in a window that was still open: the file says null"
        assert (found.clean[known] == 1).mean() == pytest.approx(rate, abs=0.0005)


def test_as_many_real_ones_are_settled_as_were_measured(real: Cases) -> None:
    known = outcomes(real, "label_merge").clean >= 0
    assert int((settled(real) & known & (real.opened_at >= np.datetime64("2024-01-24"))).sum()) == 2_694
    assert (real.as_sent < 0).all(), "nobody knows what was sent first"


@pytest.mark.parametrize("label", LABELS)
def test_what_waited_in_real_quarters_counts_by_what_became_of_it(real: Cases, label: LabelName) -> None:
    """Everything opened in the 200 days before each of 21 quarters, from what was known then, against the truth."""
    truth, quarters = outcomes(real, label), np.datetime64("2021-01-01") + 91 * np.arange(21)
    weighted, so_far, true = (np.zeros(2) for _ in range(3))
    for quarter in quarters:
        known = known_by(real, label, quarter)
        chance = np.bincount(known.positions, known.weight * known.target)
        then = outcomes(as_known(real, quarter), label).clean
        recent = real.opened_at[: len(then)] > quarter - np.timedelta64(200, "D")
        judged = recent & (truth.clean[: len(then)] >= 0) & ~real.push_holder[: len(then)]
        weighted += chance[judged].sum(), judged.sum()
        so_far += (then[judged] == 1).sum(), (then[judged] >= 0).sum()
        true += (truth.clean[: len(then)][judged] == 1).sum(), judged.sum()
    rates = [float(one[0] / one[1]) for one in (weighted, so_far, true)]
    assert rates[0] == pytest.approx(rates[2], abs=0.01)
    assert rates[1] - rates[2] > 0.2, "what is known so far is too good"
