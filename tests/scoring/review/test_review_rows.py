"""Reviews as stored: no text of an author, of a scanner or of a model makes a long column or many rows."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.long_texts import COLUMN_BYTES
from ingest.store.migrate import KEPT_REVIEWS
from scoring.diff.change import Change
from scoring.diff.parser import read_bytes
from scoring.queries.changes import content_review
from scoring.review.cache import Reading, verdict_json
from scoring.review.deterministic import assess
from scoring.review.reviewer import LEFT_OUT_KEPT
from scoring.review.schema import (
    DETERMINISTIC,
    EXPLANATION_LENGTH,
    FLAGS_LIMIT,
    LOCATION_LENGTH,
    SUMMARY_LENGTH,
    Assessment,
    Flag,
    Review,
    tidy_assessment,
)
from scoring.review.store import NOT_KEPT, REVIEWS_WITH_RULE, review_columns, shown_findings, shown_flags
from scoring.types import PATH_LENGTH, Finding, Severity, short_path
from tests.conftest import count
from tests.pipeline import Result
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import OFFERED
from triage.diff_page.rows import masks, place_notes
from triage.presenters.queue.review import named_path, review_notes

WIDE = "🦊"
SECRET = "a" + "https://hooks.slack." + "com/services/T02GW5K8R/B05MXPL2Q7/kQ3vZr8WbNtY6cLmH1xJp4Sd"
texts = st.sampled_from(["a", '"', "\\", "\x01", "é", WIDE])


def findings(number: int, path: str, words: str) -> list[Finding]:
    return [
        Finding("s", "r", "other", Severity.MED, words, f"{place:04}{path}", place, words[:200])
        for place in range(number)
    ]


def lengths(columns: dict[str, object]) -> dict[str, int]:
    return {name: len(value.encode()) for name, value in columns.items() if isinstance(value, str)}


def flags(character: str, severity: Severity = Severity.MED) -> tuple[Flag, ...]:
    words = {"location": character * LOCATION_LENGTH, "explanation": character * EXPLANATION_LENGTH}
    return (Flag(type="other", severity=severity, **words),) * FLAGS_LIMIT


@given(texts, st.integers(0, 400), st.integers(1, 4_000), st.integers(1, 2_000))
def test_no_column_of_a_review_is_long(character: str, number: int, path: int, words: int) -> None:
    found = findings(number, character * path, character * words)
    told = Assessment(
        content_risk=0.5, flags=flags(character), summary=character * SUMMARY_LENGTH, review_recommended=True
    )
    review = Review(told, DETERMINISTIC, 1.0, left_out=tuple(f"{place}{character * path}" for place in range(number)))
    columns = review_columns(review, found)
    assert max(lengths(columns).values()) <= COLUMN_BYTES
    kept = shown_findings(columns)
    listed = [one for one in kept if one.rule != NOT_KEPT]
    assert [one.file for one in listed] == [short_path(one.file or "") for one in found[: len(listed)]]
    assert bool(listed) == bool(found)
    if len(listed) < number:
        assert kept[-1].explanation.startswith(f"{number - len(listed)} further findings")
    assert shown_flags(columns)[0].severity == "med"


@given(texts)
def test_what_a_model_said_is_kept_in_one_column_with_its_strongest_flags(character: str) -> None:
    mixed = (*flags(character)[:30], *flags(character, Severity.HIGH)[:30])
    said = Assessment(
        content_risk=1, flags=mixed, summary=(character * SUMMARY_LENGTH)[:SUMMARY_LENGTH], review_recommended=True
    )
    one = tidy_assessment(said)
    assert one.flags[0].severity is Severity.HIGH
    reading = Reading("m", assessments=(one, one), left_out=tuple(range(1_200, 1_200 + LEFT_OUT_KEPT)))
    assert len(verdict_json(reading).encode()) <= COLUMN_BYTES


@given(st.text(min_size=1, max_size=3 * PATH_LENGTH), st.text(min_size=1, max_size=10))
def test_a_path_that_is_cut_still_names_its_file_and_no_other(path: str, other: str) -> None:
    assert len(short_path(path)) <= PATH_LENGTH
    assert short_path(short_path(path)) == short_path(path)
    assert named_path(short_path(path)) == named_path(path)
    long = "d" * PATH_LENGTH + path + "e" * PATH_LENGTH
    assert named_path(long) != named_path("d" * PATH_LENGTH + path + other + "e" * PATH_LENGTH)


def long_names(secret: str, number: int) -> str:
    """A patch of so many new files with names of 3,600 characters, the secret in each."""
    path = "/".join(["d" * 199] * 18)
    return "".join(
        f"diff --git a/{path}/{place} b/{path}/{place}\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/{path}/{place}\n@@ -0,0 +1 @@\n+url = '{secret}{place}'\n"
        for place in range(number)
    )


def test_a_patch_of_long_names_full_of_findings_makes_a_short_row(queued: Result) -> None:
    offer(queued, long_names(SECRET[1:], 120), ref="blob:long", limit=5_000_000)
    assert queued.review() == 1
    (row,) = queued.rows("select * from content_reviews")
    assert row["high_flags"] >= 1
    assert max(lengths(row).values()) <= COLUMN_BYTES
    (touched,) = queued.rows("select strlen(paths::varchar) as bytes, whole from touched_files")
    assert (touched["bytes"] <= COLUMN_BYTES, touched["whole"]) == (True, False)
    (scored,) = queued.rows("select strlen(inputs) as inputs, strlen(reasons) as reasons from current_decisions")
    assert max(scored.values()) <= COLUMN_BYTES


def test_however_often_a_change_is_sent_anew_its_newest_reviews_are_kept(queued: Result) -> None:
    for number in range(KEPT_REVIEWS + 4):
        offer(queued, CLEAN.replace("print(2)", f"print({number})"), ref=f"blob:{number}")
        with queued.store.write() as txn:
            txn.execute("update pull_requests set title = ?", [f"Title {number}"])
            txn.inputs_changed()
        assert queued.review() == 1
        assert queued.review() == 0
        with queued.store.read() as rows:
            assert content_review(rows, OFFERED) is not None
    kept = {row["patch_ref"] for row in queued.rows("select patch_ref from content_reviews")}
    assert kept == {f"blob:{number}" for number in range(4, KEPT_REVIEWS + 4)}
    assert {row["patch_ref"] for row in queued.rows("select patch_ref from touched_files")} == kept
    decision = queued.pull(OFFERED)
    assert decision is not None
    assert decision.content_risk is not None


def test_rows_full_of_the_longest_findings_are_searched_within_the_memory(queued: Result) -> None:
    queued.review()
    review = Review(assess(Change((), (), (), 1.0), ()), DETERMINISTIC, 1.0)
    with queued.store.write() as txn:
        for begin in range(0, count(2_100, 10_000), 100):
            rows = []
            for number in range(begin, begin + 100):
                found = findings(100, f"{number}{'p' * 3_600}", f"{number:06}" * 200)
                rows.append(review_columns(review, found)["findings"])
            with txn.registered(pa.table({"place": range(begin, begin + 100), "text": rows})):
                txn.execute(
                    "insert into content_reviews by name select r.* replace ('pull ' || i.place as pull_uri, "
                    "i.text as findings) from incoming i, (from content_reviews where pull_uri = ?) r",
                    [OFFERED],
                )
    queued.store.checkpoint()
    with queued.store.write() as txn:
        assert txn.value("select current_setting('memory_limit')") == "152.5 MiB"
        txn.execute("update pull_requests set state = 'open'")
        assert txn.rows(REVIEWS_WITH_RULE) == []
        assert txn.value("select max(strlen(findings)) from content_reviews") > COLUMN_BYTES * 3 // 4


def test_a_secret_in_a_file_of_a_long_name_is_found_and_masked_on_its_page(queued: Result) -> None:
    offer(queued, long_names(SECRET[1:], 1), ref="blob:long", limit=5_000_000)
    queued.review()
    with queued.store.read() as rows:
        review = content_review(rows, OFFERED)
    assert review is not None
    change = read_bytes(long_names(SECRET[1:], 1).encode())
    (masked,) = masks(change, review)
    assert SECRET[-10:] in masked
    notes = review_notes(review)
    placed, elsewhere = place_notes(change.files, notes)
    secret = next(note for note in notes if note.severity == "high")
    assert secret in [note for there in placed[1].values() for note in there]
    assert secret not in elsewhere
