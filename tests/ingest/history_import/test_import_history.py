"""Past pull requests from a file: taken whole or not at all, tied to whom the operator names, and removable."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.erasure.erase import erase
from ingest.erasure.export import export_tables
from ingest.history_import.files import COLUMNS, LEAKING, PastProblem, read_identities
from ingest.history_import.pulls import MARKS, TITLE_SAYS, Taken, import_past, remove_past
from ingest.store.database import Store
from tests.ingest.erasure.planted import KEY, folders_below
from tests.ingest.history_import.past import ANA, BROKEN, DAY, OPENED, WALL, WATCHED, merged, past, refused, write
from tests.ingest.stream.frames import digest_of, rows
from tests.stores import fresh_store


@pytest.fixture(name="store", scope="module")
def store_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all: what is taken under a name is replaced by the next, and what is refused changes nothing."""
    store = fresh_store(tmp_path_factory.mktemp("past") / "trust.duckdb", wall=lambda: WALL, key=KEY)
    yield store
    store.close()


def take(
    store: Store, folder: Path, *given: dict[str, Any], identities: object = None, name: str = "f.parquet"
) -> Taken:
    """Import these rows under the source `file`."""
    told = None
    if identities is not None:
        told = folder / "identities.json"
        told.write_text(json.dumps(identities))
    return import_past(store, write(folder / name, given), told, "file")


def held(store: Store, columns: str) -> list[tuple[Any, ...]]:
    return rows(store, f"select {columns} from imported_pulls where source = 'file' order by number")


def test_what_a_file_says_becomes_typed_rows(store: Store, tmp_path: Path) -> None:
    done = take(store, tmp_path, merged(), refused(), past(3), merged(4, repo="other"))
    assert (done.pulls, done.repositories, done.people) == (4, 2, 1)
    assert (done.merged, done.refused, done.open) == (2, 1, 1)
    assert held(store, "state, merged_at, refused_at")[:3] == [
        ("merged", OPENED + DAY, None),
        ("closed", None, OPENED + 180 * DAY),
        ("open", None, OPENED + 180 * DAY),
    ], "180 quiet days are a refusal, whatever it is called"
    assert done.checks_unknown == 4


def test_csv_says_the_same_as_parquet(store: Store, tmp_path: Path) -> None:
    given = (merged(title="a title, with a comma\nand two lines", is_bot=False), refused(), past(3, docs_only=True))
    take(store, tmp_path, *given)
    before = digest_of(store)["imported_pulls"]
    take(store, tmp_path, *given, name="f.csv")
    assert digest_of(store)["imported_pulls"] == before


def test_importing_again_changes_nothing_and_a_newer_file_replaces(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path, merged(), refused())
    before = held(store, "*")
    take(store, tmp_path, merged(), refused())
    assert held(store, "*") == before
    take(store, tmp_path, refused())
    assert held(store, "number") == [(2,)]


def test_sources_stand_apart_and_go_one_by_one(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path, merged())
    import_past(store, write(tmp_path / "other.parquet", [merged(), refused()]), None, "other")
    assert rows(store, "select source, pulls from imported_sources order by source") == [("file", 1), ("other", 2)]
    assert len(rows(store, "select distinct author_id from imported_pulls")) == 2, "ana of another file may be another"
    assert remove_past(store, "other") == 2
    assert rows(store, "select distinct source from imported_pulls") == [("file",)]
    with pytest.raises(PastProblem, match="no imported history named 'other': there are file"):
        remove_past(store, "other")


def test_neither_names_nor_titles_nor_what_follows_from_the_outcome_are_kept(store: Store, tmp_path: Path) -> None:
    leaks = dict.fromkeys(LEAKING, 7)
    done = take(store, tmp_path, merged(title="Mend the quincelamp", author="quinceana", head_sha="x", **leaks))
    assert (done.unused, done.leaking) == (["head_sha"], sorted(LEAKING))
    assert "quince" not in str(held(store, "*"))
    assert not set(LEAKING) & {column[0] for column in rows(store, "select column_name from duckdb_columns()")}


@pytest.mark.parametrize(("title", "length"), [("Mend the lamp", 13), ("", None), ("fix-the-lamp", None), (None, None)])
def test_a_title_that_may_be_the_name_of_a_branch_has_no_length(
    store: Store, tmp_path: Path, title: str | None, length: int | None
) -> None:
    take(store, tmp_path, merged(title=title), merged(9, title="a b"))
    assert held(store, "title_length")[0] == (length,)


def test_bad_news_is_known_no_sooner_than_the_file_can_tell(store: Store, tmp_path: Path) -> None:
    take(
        store,
        tmp_path,
        merged(1, reverted=True),
        merged(2, reverted_at=OPENED + 5 * DAY),
        merged(3, patched14_code=True, patched14_first_at=OPENED + 3 * DAY),
        merged(4, patched14_code=True, patched14_code_fix=True, patched14_first_at=OPENED + 3 * DAY),
        merged(5, patched14_code=True, snapshot_at=OPENED + 4 * DAY),
        merged(6, checks_failed_at=OPENED + DAY / 2),
    )
    ends = OPENED + 15 * DAY
    assert held(store, "reverted_at, patched_at, patched_fix_at, failed_at, checks_known") == [
        (WATCHED, None, None, None, False),
        (OPENED + 5 * DAY, None, None, None, False),
        (None, OPENED + 3 * DAY, None, None, False),
        (None, OPENED + 3 * DAY, ends, None, False),
        (None, OPENED + 4 * DAY, None, None, False),
        (None, None, None, OPENED + DAY / 2, True),
    ]


def test_a_merge_before_an_opening_that_was_inferred_counts_from_the_opening(store: Store, tmp_path: Path) -> None:
    honest = [merged(number) for number in range(1, 30)]
    done = take(store, tmp_path, *honest, merged(30, merged_at=OPENED - DAY))
    assert (done.moved, held(store, "merged_at")[-1]) == (1, (OPENED,))


def test_a_text_that_unfolds_to_gigabytes_is_cut_before_it_is_stored(store: Store, tmp_path: Path) -> None:
    """A megabyte that a Parquet file holds once and every row names: 400 rows would not fit into the store's memory."""
    many = [merged(number) for number in range(1, 401)]
    whole = pq.read_table(write(tmp_path / "f.parquet", many))
    text = pa.DictionaryArray.from_arrays(pa.array([0] * len(many), pa.int32()), ["a lamp " * 150_000])
    pq.write_table(whole.append_column("title", text), tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    assert import_past(store, tmp_path / "bomb.parquet", None, "file").pulls == 400
    assert set(held(store, "title_length")) == {(1_000,)}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_breaks_a_rule_is_refused_in_one_sentence_and_nothing_is_taken(
    store: Store, tmp_path: Path, case: str
) -> None:
    given, sentence = BROKEN[case]
    take(store, tmp_path, merged(77))
    with pytest.raises(PastProblem, match=sentence) as told:
        take(store, tmp_path, *given)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400
    assert held(store, "number") == [(77,)]


def damaged(path: Path, kind: str) -> Path:
    whole = write(path, [merged(number) for number in range(1, 500)]).read_bytes()
    path.write_bytes(
        {"half": whole[: len(whole) // 2], "no footer": whole[:-8], "empty": b"", "noise": b"PAR1" * 99}[kind]
    )
    return path


DAMAGED = [("half", "parquet"), ("no footer", "parquet"), ("half", "csv")]
DAMAGED += [(kind, ending) for kind in ("empty", "noise") for ending in ("parquet", "csv")]


@pytest.mark.parametrize(("kind", "ending"), DAMAGED)
def test_a_file_that_breaks_off_is_refused(store: Store, tmp_path: Path, kind: str, ending: str) -> None:
    take(store, tmp_path, merged(77))
    with pytest.raises(
        PastProblem, match=r"not a Parquet file|breaks off|lacks the columns|first line|must hold|has no "
    ):
        import_past(store, damaged(tmp_path / f"d.{ending}", kind), None, "file")
    assert held(store, "number") == [(77,)]


def test_damage_in_the_middle_of_a_parquet_file_is_refused_too(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "d.parquet", [merged(number) for number in range(1, 500)])
    data = bytearray(path.read_bytes())
    data[40:400] = b"\xff" * 360
    path.write_bytes(bytes(data))
    take(store, tmp_path, merged(77))
    with pytest.raises(PastProblem):
        import_past(store, path, None, "file")
    assert held(store, "number") == [(77,)]


def test_columns_without_rows_hold_no_pull_request(store: Store, tmp_path: Path) -> None:
    whole = pq.read_table(write(tmp_path / "whole.parquet", [merged(), refused()]))
    pq.write_table(whole.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(PastProblem, match="The file holds no pull request"):
        import_past(store, tmp_path / "none.parquet", None, "file")


def test_more_rows_than_the_limit_are_refused(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.history_import.files.ROWS_LIMIT", 2)
    given = [merged(number) for number in (1, 2, 3)]
    for name in ("f.parquet", "f.csv"):
        with pytest.raises(PastProblem, match="has more than 2 rows: import it in parts"):
            take(store, tmp_path, *given, name=name)


def test_a_column_that_stands_twice_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("repo,repo\na,b\n")
    with pytest.raises(PastProblem, match="has the column 'repo' twice"):
        import_past(store, path, None, "file")


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 61, "a'b"])
def test_a_source_has_a_plain_name(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(PastProblem, match="cannot name a source"):
        import_past(store, write(tmp_path / "f.parquet", [merged()]), None, name)


def test_times_with_a_zone_are_read_as_utc(store: Store, tmp_path: Path) -> None:
    whole = pq.read_table(write(tmp_path / "f.parquet", [merged()]))
    place = whole.schema.get_field_index("opened_at")
    zoned = whole["opened_at"].cast(pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(whole.set_column(place, "opened_at", zoned), tmp_path / "zoned.parquet")
    import_past(store, tmp_path / "zoned.parquet", None, "file")
    assert held(store, "opened_at") == [(OPENED,)]
    take(store, tmp_path, merged(opened_at=f"{OPENED.isoformat()}Z"))
    assert held(store, "opened_at") == [(OPENED,)]


@pytest.mark.parametrize(
    ("given", "identities"),
    [
        (merged(), {"ana": ANA}),
        (merged(), [{"author": "ana", "did": ANA}]),
        (merged(did=ANA), None),
        (merged(author=ANA), None),
        (merged(did="did:web:a.example"), {"ana": ANA}),
    ],
)
def test_an_author_is_tied_to_a_person_by_declaration_or_by_did(
    store: Store, tmp_path: Path, given: dict[str, Any], identities: object
) -> None:
    done = take(store, tmp_path, given, merged(2, author="mara"), identities=identities)
    assert (done.tied, done.tied_pulls) == (1, 1)
    numbers = rows(store, "select contributor_id from contributors where did = ?", ANA)
    assert held(store, "author_id")[0] == numbers[0]
    assert held(store, "author_id")[1][0] < 0, "mara is nobody here"


def test_a_tied_persons_history_is_exported_and_erased_and_stays_away(tmp_path: Path) -> None:
    store = fresh_store(tmp_path / "trust.duckdb", wall=lambda: WALL, key=KEY)
    given = (merged(), refused(), merged(3, author="mara"))
    take(store, tmp_path, *given, identities={"ana": ANA})
    with store.read() as reading:
        told = export_tables(reading, ANA, store.long_texts)["imported_pulls"]
    assert [(row["number"], row["author_did"]) for row in told] == [(1, ANA), (2, ANA)]
    erase(store, ANA, "by_request", WALL, folders_below(tmp_path))
    assert held(store, "number") == [(3,)]
    again = take(store, tmp_path, *given, identities={"ana": ANA})
    assert (again.erased, held(store, "number")) == (2, [(3,)])
    assert rows(store, "select count(*) from contributors") == [(0,)]
    store.close()


def test_the_real_history_loads_as_it_is(store: Store, shared: Path) -> None:
    done = import_past(store, shared / "data" / "pr_history.parquet", None, "real")
    assert (done.pulls, done.repositories, done.people, done.tied) == (14_887, 11, 5_142, 0)
    assert (done.merged, done.refused, done.open, done.left_out) == (9_741, 4_421, 725, 1_659)
    assert (done.moved, done.leaking) == (186, ["fork_owner", "n_authors", "n_commits"])
    remove_past(store, "real")


def test_the_page_on_imports_lists_every_column() -> None:
    page = (Path(__file__).parents[3] / "docs" / "history.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    assert listed == [
        f"| `{column.name}` | {column.kind} | {'needed' if column.needed else ''} | {column.words} |"
        for column in COLUMNS
    ]


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


Says = Callable[[str | None], list[str] | None]


@pytest.fixture(scope="module", name="says")
def says_fixture() -> Iterator[Says]:
    with duckdb.connect() as connection:
        connection.execute(TITLE_SAYS)
        yield lambda title: connection.execute("select title_says(?)", [title]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("title", "marks"),
    [
        ("Update setup.py", ["default", "code"]),
        ("Create docs/readme.md", ["default", "docs", "code"]),
        ("Update the way in which readers are told", []),
        ("Fixed a typo in the README", ["fix", "docs"]),
        ("feat: add support for HTTP/3", ["new"]),
        ("Mend `url_for()`", ["code"]),
        ("Prefix every lamp", []),
        ("Newly addressed lamps", []),
    ],
)
def test_a_title_says_what_stands_in_it_as_whole_words(says: Says, title: str, marks: list[str]) -> None:
    assert says(title) == marks


@pytest.mark.parametrize("title", ["", "   ", "fix-the-lamp", " patch-1 ", None])
def test_a_title_that_may_be_the_name_of_a_branch_says_nothing(says: Says, title: str | None) -> None:
    assert says(title) is None


@given(title=st.text(max_size=300))
def test_whatever_a_title_holds_only_known_marks_are_kept(says: Says, title: str) -> None:
    found = says(title.replace("\0", ""))
    assert found is None or set(found) <= set(MARKS)
