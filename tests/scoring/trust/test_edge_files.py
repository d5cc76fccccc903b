"""Graphs in files: what is read as it stands, and what is refused in one sentence that names the row."""

import datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.trust.files import FileProblem, parse_moment, printable, read_edges, read_seeds, some_of, write_table

NOON = 1_577_880_000_000_000  # 2020-01-01T12:00Z in microseconds


def written(folder: Path, text: str | bytes, name: str = "edges.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "edges.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_names_are_text_whatever_they_look_like(tmp_path: Path) -> None:
    text = '\ufeffsource,target,note\r\n007,NA,x\r\n"=1+1","a,""b""\r\nc",y\r\n@é,-,\r\n'
    table = read_edges(written(tmp_path, text))
    assert table.source.to_pylist() == ["007", "=1+1", "@é"]
    assert table.target.to_pylist() == ["NA", 'a,"b"\r\nc', "-"]
    assert table.weight.tolist() == [1.0, 1.0, 1.0]
    assert table.created_us is None


def test_weights_and_times_are_read_in_any_order_of_columns(tmp_path: Path) -> None:
    rows = ["2020-01-01T12:00:00Z", "2020-01-01 12:00", "2020-01-01T14:00:00.000+02:00", "2020-01-01"]
    text = "created_at,weight,target,source\n" + "".join(f"{row},{n / 4},b,a\n" for n, row in enumerate(rows))
    table = read_edges(written(tmp_path, text))
    assert table.weight.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert table.created_us is not None
    assert table.created_us.tolist() == [NOON, NOON, NOON, NOON - 43_200_000_000]


@pytest.mark.parametrize(
    "created",
    [
        pyarrow.array([NOON], pyarrow.timestamp("us")),
        pyarrow.array([NOON * 1000], pyarrow.timestamp("ns", "Europe/Berlin")),
        pyarrow.array(["2020-01-01T12:00Z"], pyarrow.large_string()),
    ],
)
def test_parquet_may_hold_numbers_as_nodes_and_times_of_any_kind(tmp_path: Path, created: pyarrow.Array) -> None:
    target = pyarrow.array(["b"]).dictionary_encode()
    table = read_edges(
        parquet(tmp_path, source=[7], target=target, weight=pyarrow.array([1], "int8"), created_at=created)
    )
    assert (table.source.to_pylist(), table.target.to_pylist()) == (["7"], ["b"])
    assert table.weight.tolist() == [1.0]
    assert table.created_us is not None
    assert table.created_us.tolist() == [NOON]


def test_a_date_in_parquet_is_its_midnight(tmp_path: Path) -> None:
    day = [datetime.date(2020, 1, 1)]
    table = read_edges(parquet(tmp_path, source=["a"], target=["b"], created_at=day))
    assert table.created_us is not None
    assert table.created_us.tolist() == [parse_moment("2020-01-01")]


def test_a_file_with_a_header_alone_has_no_edges(tmp_path: Path) -> None:
    table = read_edges(written(tmp_path, "source,target,weight,created_at\n"))
    assert len(table.source) == len(table.weight) == 0
    assert table.created_us is not None


REFUSED = {
    "": "cannot be read (Empty CSV file).",
    "source;target\na;b\n": "has no column source: an edge file has source,target[,weight][,created_at].",
    "source,weight\na,1\n": "has no column target",
    "source,target,source\na,b,c\n": "has two columns source.",
    "source,target\na,b,c\n": "cannot be read (CSV parse error: Expected 2 columns, got 3: a,b,c).",
    "source,target\na,b\n,c\n": "names no source in row 2.",
    'source,target\na,""\n': "names no target in row 1.",
    "source,target,weight\na,b,1\na,c,-.5\n": "has a weight below 0 in row 2.",
    "source,target,weight\na,b,nan\n": "has no weight that is a number in row 1.",
    "source,target,weight\na,b,inf\n": "has no weight that is a number in row 1.",
    "source,target,weight\na,b,1\na,c,1.5\n": "has a weight above 1 in row 2.",
    "source,target,weight\na,b,1\na,c,1\na,d,much\nb,c,more\n": "has much for weight in row 3.",
    "source,target,weight\na,b,\n": "has nothing for weight in row 1.",
    "source,target,created_at\na,b,2020-01-01\na,c,yesterday\n": "has yesterday for created_at in row 2.",
    "source,target,created_at\na,b,\n": "has nothing for created_at in row 1.",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_makes_no_sense_in_a_csv_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FileProblem) as problem:
        read_edges(path)
    assert str(problem.value).startswith(f"{path} {REFUSED[text]}"[:-1])
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"source": [None, "a"], "target": ["b", "c"]}, "names no source in row 1."),
        ({"source": [1.5], "target": ["b"]}, "has the type double in the column source"),
        ({"source": ["a"], "target": ["b"], "weight": [None]}, "has no weight that is a number in row 1."),
        ({"source": ["a"], "target": ["b"], "weight": [[1]]}, "for weight in row 1."),
        ({"source": ["a"], "target": ["b"], "created_at": [5]}, "has the type int64 in the column created_at"),
        ({"source": ["a"], "target": ["b"], "created_at": [None]}, "has no created_at in row 1."),
    ],
)
def test_what_makes_no_sense_in_parquet_is_one_sentence(
    tmp_path: Path, columns: dict[str, list[object]], words: str
) -> None:
    with pytest.raises(FileProblem) as problem:
        read_edges(parquet(tmp_path, **columns))
    assert words in str(problem.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    for content in (b"\x80\r", b"source,target,\xff\na,b,c\n"):
        with pytest.raises(FileProblem, match=r"edges\.csv is not text in UTF-8"):
            read_edges(written(tmp_path, content))
    with pytest.raises(FileProblem, match=r"edges\.csv cannot be read \(.*invalid UTF8"):
        read_edges(written(tmp_path, b"source,target\na,\xff\n"))
    bytes_as_text = pyarrow.StringArray.from_buffers(
        1, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0"), pyarrow.py_buffer(b"\xff")
    )
    with pytest.raises(FileProblem, match=r"edges\.parquet cannot be read \(.*UTF8"):
        read_edges(parquet(tmp_path, source=bytes_as_text, target=["b"]))


def test_a_file_that_is_absent_a_folder_or_called_otherwise_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, words in {
        "absent.csv": "cannot be read (No such file or directory).",
        "absent.parquet": "cannot be read (No such file or directory).",
        "folder.csv": "cannot be read (",
        "edges.txt": "must end in .csv or .parquet, which says what format it has.",
        "edges": "must end in .csv or .parquet",
    }.items():
        with pytest.raises(FileProblem) as problem:
            read_edges(tmp_path / name)
        assert str(problem.value).startswith(f"{tmp_path / name} {words}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=60), st.text(max_size=40).map(lambda text: f"source,target,weight\n{text}".encode()))
)
def test_no_bytes_make_another_error(tmp_path: Path, content: bytes) -> None:
    for name in ("edges.csv", "edges.parquet"):
        try:
            table = read_edges(written(tmp_path, content, name))
        except FileProblem as problem:
            words = str(problem)
        else:
            words = f"{len(table.source)} {len(table.target)} {len(table.weight)}"
        assert len(words.splitlines()) == 1


def test_seeds_are_one_a_line_each_once(tmp_path: Path) -> None:
    assert read_seeds(written(tmp_path, "\ufeffana\r\n\nben ross\nana\n", "seeds.txt")) == ["ana", "ben ross"]


def test_seeds_that_cannot_be_read_or_are_none_are_refused(tmp_path: Path) -> None:
    for content, words in {b"\n \n": "names no seed", b"\xff\n": "is not text in UTF-8"}.items():
        with pytest.raises(FileProblem, match=words):
            read_seeds(written(tmp_path, content, "seeds.txt"))
    with pytest.raises(FileProblem, match=r"absent cannot be read \(No such file or directory\)"):
        read_seeds(tmp_path / "absent")


def test_a_moment_is_iso_8601(tmp_path: Path) -> None:
    assert parse_moment("2020-01-01T12:00") == parse_moment("2020-01-01T13:00+01:00") == NOON
    for text in ("", "yesterday", "2020-13-01", "\udcff"):
        with pytest.raises(FileProblem, match="is not a date or time"):
            parse_moment(text)


@pytest.mark.parametrize("name", ["out.csv", "out.PARQUET"])
def test_what_is_written_is_read_back_as_it_was(tmp_path: Path, name: str) -> None:
    names = ["=cmd()", "+1", "-1", "@x", 'a"b,c\nd', "ünï"]
    weights = [0.1, 1 / 3, 1e-300, 1.0, 0.0, 5e-324]
    write_table(tmp_path / name, pyarrow.table({"source": names, "target": names[::-1], "weight": weights}))
    table = read_edges(tmp_path / name)
    assert table.source.to_pylist() == names
    assert table.target.to_pylist() == names[::-1]
    assert table.weight.tolist() == weights
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_place_that_cannot_be_written_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    table = pyarrow.table({"node": ["a"]})
    with pytest.raises(FileProblem, match=r"out\.csv cannot be written \(No such file or directory\)"):
        write_table(tmp_path / "absent" / "out.csv", table)
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(FileProblem, match=r"out\.csv cannot be written"):
        write_table(tmp_path / "out.csv", table)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_names_from_a_file_move_no_cursor_and_many_are_counted() -> None:
    assert printable("a\x1b[31m\n\u202e") == "a\\u001b[31m\\u000a\\u202e"
    assert some_of(["a", "b"]) == "a, b"
    assert some_of([f"n{n}" for n in range(1003)]) == "n0, n1, n2 and 1,000 more"
