"""The review hop: what is due is read once, what it says reaches the decision, and nothing ends it for good."""

import shutil
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from ingest.store.database import Store
from scoring.gate.decide import HASHES_OF_VERSIONS
from scoring.pipeline import decisions
from scoring.review import pending
from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.pending import TRIES, ReviewCase, Reviewing, review_due
from scoring.review.schema import Review
from scoring.scanners.submission import Knowledge
from scoring.types import Lane
from tests.ingest.stream.frames import ANA, MARA, SEED, Frames, pull_uri
from tests.pipeline import Result, by_scanners
from tests.scoring.diff.hidden_mails import behind
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import OFFERED, settled, take

TOKEN = "https://hooks.slack." + "com/services/T02GW5K8R/B05MXPL2Q7/kQ3vZr8WbNtY6cLmH1xJp4Sd"
LEAK = CLEAN.replace("+print(2)", f'+url = "{TOKEN}"')


def reviewing(result: Result, review: ReviewCase = by_scanners) -> Reviewing:
    return Reviewing(result.policy.thresholds, result.folder / "diffs", lambda rows, uri: Knowledge(), review)


def kept(result: Result) -> list[dict]:
    return result.rows("select * from content_reviews order by begun_clock, said")


def test_an_open_pull_request_is_read_once_and_its_decision_tells_so(queued: Result) -> None:
    assert queued.review() == 1
    assert queued.review() == 0
    row = queued.pull(OFFERED)
    assert row is not None
    assert row.content_risk is not None
    assert row.content_risk < 0.1
    assert "content_not_reviewed" not in [reason.code for reason in row.verdict.reasons]


def test_a_secret_sends_it_to_a_human_with_the_line_and_without_the_secret(queued: Result) -> None:
    offer(queued, LEAK, ref="blob:two")
    queued.review()
    row = queued.pull(OFFERED)
    assert row is not None
    assert (row.verdict.lane, row.verdict.reasons[0].code) == (Lane.NEEDS_HUMAN, "high_flag")
    assert row.verdict.reasons[0].params["place"] == "a.py:2"
    (review,) = kept(queued)
    assert (review["high_flags"], review["worst"], review["state"]) == (1, "secret_leak", "content verdict")
    assert TOKEN[-10:] not in str(review)


def test_a_new_round_is_not_reviewed_until_it_was_read_itself(queued: Result) -> None:
    queued.review()
    offer(queued, LEAK, ref="blob:two")
    queued.judge()
    row = queued.pull(OFFERED)
    assert row is not None
    assert row.content_risk is None
    assert "content_not_reviewed" in [reason.code for reason in row.verdict.reasons]
    assert queued.review() == 1


def test_other_words_beside_the_same_patch_are_read_anew(queued: Result) -> None:
    queued.review()
    with queued.store.write() as txn:
        txn.execute("update pull_requests set title = 'Another title'")
        txn.inputs_changed()
    queued.judge()
    row = queued.pull(OFFERED)
    assert row is not None
    assert row.content_risk is None
    assert queued.review() == 1
    assert len(kept(queued)) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "delete from watched_repositories",
        "update pull_requests set state = 'closed'",
        "update patches set sha256 = null",
    ],
)
def test_only_open_ones_of_watched_repositories_are_read(queued: Result, sql: str) -> None:
    with queued.store.write() as txn:
        txn.execute(sql)
    assert review_due(queued.store, reviewing(queued)) == 0


def test_a_patch_that_was_fetched_in_part_is_read_in_part_and_a_person_is_asked(queued: Result) -> None:
    long = CLEAN.replace("+1,2", "+1,3001") + "".join(f"+print({number})\n" for number in range(3000))
    offer(queued, long, ref="blob:long", limit=10_000)
    queued.review()
    (review,) = kept(queued)
    assert review["recommended"]
    assert 0 < review["coverage"] < 1
    row = queued.pull(OFFERED)
    assert row is not None
    assert "content_partly_read" in [reason.code for reason in row.verdict.reasons]


def test_a_patch_that_is_not_kept_any_more_has_no_coverage(queued: Result) -> None:
    for path in (queued.folder / "diffs").rglob("*.gz"):
        path.unlink()
    queued.review()
    (review,) = kept(queued)
    assert (review["coverage"], review["recommended"]) == (0.0, True)


def test_content_that_ends_the_program_is_given_up_and_a_person_is_asked(queued: Result) -> None:
    def die(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        raise MemoryError

    for _ in range(TRIES):
        with pytest.raises(MemoryError):
            review_due(queued.store, reviewing(queued, die))
    assert review_due(queued.store, reviewing(queued, die)) == 1
    assert review_due(queued.store, reviewing(queued, die)) == 0
    (review,) = kept(queued)
    assert (review["state"], review["missing"], review["recommended"]) == ("no content verdict", "review_failed", True)
    queued.judge()
    row = queued.pull(OFFERED)
    assert row is not None
    assert "no_content_verdict" in [reason.code for reason in row.verdict.reasons]


def test_what_new_rules_have_not_read_yet_keeps_its_old_review_meanwhile(
    queued: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.review()
    monkeypatch.setattr(pending, "REVIEW_VERSION", "of tomorrow")
    with queued.store.write() as txn:
        txn.inputs_changed()
    queued.judge()
    row = queued.pull(OFFERED)
    assert row is not None
    assert row.content_risk is not None
    assert queued.review() == 1
    assert {review["rules"] for review in kept(queued)} >= {"of tomorrow"}


def test_a_reviewer_is_handed_nobodys_name(queued: Result) -> None:
    named = CLEAN.replace("+print(2)", "+# by mara.example.test for seed.example.test, ask " + ANA)
    offer(queued, named, ref="blob:named")
    with queued.store.write() as txn:
        for did, handle in ((MARA, "mara.example.test"), (SEED, "seed.example.test")):
            txn.execute("update contributors set handle = ? where did = ?", [handle, did])
    cases: list[Case] = []

    def note(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        cases.append(case)
        return by_scanners(case, call, unfinished, uri)

    review_due(queued.store, reviewing(queued, note))
    (case,) = cases
    text = "\n".join(line.text for file in case.scrubbed.change.files for line in file.added())
    assert "mara" not in text
    assert "seed" not in text
    assert "did:plc" not in text


def test_trust_spares_the_model_and_a_sensitive_path_does_not(queued: Result, tmp_path: Path) -> None:
    calls: list[Call] = []

    def note(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        calls.append(call)
        return by_scanners(case, call, unfinished, uri)

    trusting = replace(
        reviewing(queued, note),
        thresholds=replace(queued.policy.thresholds, t_high=0.3),
        has_key=True,
        budget=1.0,
    )
    with queued.store.write() as txn:
        txn.execute("update watched_repositories set review = 'claude'")
    review_due(queued.store, trusting)
    frames = Frames(settled("open"))
    frames.vouch(SEED, MARA)
    take(queued, frames)
    offer(queued, CLEAN.replace("print(2)", "print(3)"), ref="blob:three")
    review_due(queued.store, trusting)
    offer(queued, CLEAN.replace("a.py", ".github/workflows/ci.yml"), ref="blob:four")
    review_due(queued.store, trusting)
    assert calls == [Call.CLAUDE, Call.DETERMINISTIC, Call.CLAUDE]


def many(result: Result, number: int) -> list[str]:
    """So many open pull requests of mara's, each with its patch."""
    frames = Frames(settled("open"))
    names = [f"more{number}" for number in range(number)]
    for name in names:
        frames.pull(MARA, name)
    take(result, frames)
    uris = [pull_uri(MARA, name) for name in names]
    for uri in uris:
        offer(result, uri=uri)
    return uris


def test_a_turn_ends_in_time_and_the_next_goes_on(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "GROUP", 2)
    many(result, 5)
    slow = replace(reviewing(result), clock=count(step=4.0).__next__)
    assert [review_due(result.store, slow) for _ in range(3)] == [4, 1, 0]


def test_one_that_ends_the_program_takes_no_other_along(result: Result) -> None:
    uris = many(result, 5)

    def die(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        if uri == uris[2]:
            raise MemoryError
        return by_scanners(case, call, unfinished, uri)

    for _ in range(TRIES):
        with pytest.raises(MemoryError):
            review_due(result.store, reviewing(result, die))
    while review_due(result.store, reviewing(result, die)):
        pass
    states = {review["pull_uri"]: review["missing"] for review in kept(result)}
    assert states == dict.fromkeys(uris) | {uris[2]: "review_failed"}


def test_what_failed_for_a_reason_that_passes_is_tried_again_later_and_a_refusal_is_not(
    queued: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["overloaded", "refused"]

    def failing(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        return replace(by_scanners(case, call, unfinished, uri), state="no content verdict", reason=answers.pop(0))

    assert review_due(queued.store, reviewing(queued, failing)) == 1
    assert review_due(queued.store, reviewing(queued, failing)) == 0
    later = queued.store.wall() + timedelta(hours=2)
    monkeypatch.setattr(queued.store, "wall", lambda: later)
    assert review_due(queued.store, reviewing(queued, failing)) == 1
    (review,) = kept(queued)
    assert (review["missing"], review["failures"], review["attempts"]) == ("refused", 1, 0)
    much_later = later + timedelta(days=9)
    monkeypatch.setattr(queued.store, "wall", lambda: much_later)
    assert review_due(queued.store, reviewing(queued, failing)) == 0


def test_a_store_judged_under_hashes_of_sources_comes_over_without_a_new_reading_or_decision(
    queued: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "REVIEW_VERSION", "1")
    monkeypatch.setattr(decisions, "GATE_VERSION", "1")
    queued.review()
    gate, review = HASHES_OF_VERSIONS
    with queued.store.write() as txn:
        txn.execute("update content_reviews set rules = ?", [review])
        for table in ("scores", "current_decisions"):
            for name, digest in (("gate", gate), ("review", review)):
                said = f'"{name}_version":'
                txn.execute(f"update {table} set inputs = replace(inputs, ?, ?)", [f'{said}"1"', f'{said}"{digest}"'])
        txn.execute("update meta set value = '8' where key = 'schema_version'")
    decided = queued.rows("select * from scores order by data_version")
    assert review in decided[-1]["inputs"]
    queued.store.checkpoint()
    path = queued.folder / "of_today.duckdb"
    shutil.copy(queued.store.path, path)
    opened = replace(queued, store=Store.open(path))
    assert opened.review() == 0
    assert opened.judge() > 0, "a process that begins judges at once"
    assert opened.rows("select * from scores order by data_version") == decided
    (stands,) = opened.rows("select inputs from current_decisions")
    assert '"gate_version":"1"' in stands["inputs"]
    opened.store.close()


def read_by_git(result: Result, reading: str | None, line: int | None = None) -> None:
    with result.store.write() as txn:
        txn.execute("update patches set git_reading = ?, git_line = ?", [reading, line])


def test_a_hidden_mail_is_not_fully_read_and_the_decision_says_so(queued: Result) -> None:
    offer(queued, behind(CLEAN, "a year of two digits"), ref="blob:hidden")
    queued.review()
    (review,) = kept(queued)
    assert (review["git_reading"], review["recommended"]) == ("different", True)
    assert review["coverage"] < 1
    assert "line 19 of the patch's text" in review["flags"]
    row = queued.pull(OFFERED)
    assert row is not None
    assert "content_partly_read" in [reason.code for reason in row.verdict.reasons]


def test_what_git_says_later_is_read_anew_where_it_differs(queued: Result) -> None:
    read_by_git(queued, None)
    with queued.store.write() as txn:
        txn.execute("update content_reviews set git_reading = null")
    queued.review()
    read_by_git(queued, "same")
    assert queued.review() == 0
    read_by_git(queued, "different", 1)
    assert queued.review() == 1
    assert [review["coverage"] < 1 for review in kept(queued)] == [True]


def test_without_git_a_patch_is_not_fully_read_until_git_is_there(
    queued: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by_git(queued, None)
    with monkeypatch.context() as away:
        away.setenv("PATH", "/nowhere")
        queued.review()
    (review,) = kept(queued)
    assert (review["git_reading"], review["recommended"], review["coverage"] < 1) == ("unknown", True, True)
    assert "could not be asked" in review["flags"]
    assert queued.review() == 0
    read_by_git(queued, "same")
    assert queued.review() == 1
    assert [review["coverage"] for review in kept(queued)] == [1]


BASE, HEAD = "a" * 40, "b" * 40


def compared(result: Result, branch: str | None) -> None:
    """The pull request names two commits; the first lies on that branch."""
    offer(result, ref=f"compare:{BASE}..{HEAD}")
    with result.store.write() as txn:
        txn.execute("update pull_requests set target_branch = 'main'")
        txn.execute("delete from branch_commits")
        if branch:
            row = "select repository_id, ?, ?, null, now() from pull_requests where pull_uri = ?"
            txn.execute(f"insert into branch_commits {row}", [branch, BASE, OFFERED])


@pytest.mark.parametrize("branch", [None, "dev"])
def test_a_base_that_is_not_on_the_target_branch_gives_no_verdict(queued: Result, branch: str | None) -> None:
    compared(queued, branch)
    assert queued.review() == 1
    (review,) = kept(queued)
    assert (review["state"], review["missing"]) == ("no content verdict", "base_elsewhere")
    assert queued.review() == 0
    row = queued.pull(OFFERED)
    assert row is not None
    assert "no_content_verdict" in [reason.code for reason in row.verdict.reasons]


def test_a_base_on_the_target_branch_is_reviewed_and_anew_when_that_changes(queued: Result) -> None:
    compared(queued, "main")
    queued.review()
    assert [review["state"] for review in kept(queued)] == ["content verdict"]
    compared(queued, None)
    assert queued.review() == 1
    assert [review["missing"] for review in kept(queued)] == ["base_elsewhere"]
    compared(queued, "main")
    assert queued.review() == 1
    assert [(review["state"], review["missing"]) for review in kept(queued)] == [("content verdict", None)]


def test_a_base_is_sought_on_the_repositorys_own_branch_where_none_is_named(queued: Result) -> None:
    compared(queued, "trunk")
    with queued.store.write() as txn:
        txn.execute("update pull_requests set target_branch = null")
        mirror = "(repository_id, state, bytes, head, refs) select repository_id, 'fetched', 1, 'trunk', '{}'"
        txn.execute(f"insert into mirrors {mirror} from pull_requests limit 1")
    queued.review()
    assert [review["state"] for review in kept(queued)] == ["content verdict"]
