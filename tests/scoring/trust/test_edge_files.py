"""Files of edges are read strictly, and the named graph is explained node by node."""

import datetime
from pathlib import Path
from random import Random

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.trust.files import (
    EdgeTable,
    FileProblem,
    NamedGraph,
    build_graph,
    build_table,
    compute_trust,
    explain,
    no_edges,
    parse_moment,
    printable,
    read_edges,
    read_seeds,
    some_of,
    write_table,
)
from scoring.trust.first_passage import first_passage
from tests.scoring.trust.graphs import edges_of, graphs, parameters

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


DEFAULTS = Parameters()
Row = tuple[str, str] | tuple[str, str, float] | tuple[str, str, float, str]


def table(*rows: Row) -> EdgeTable:
    """An edge table as a file would give it; the weight is 1 where a row has none."""
    source, target = (pyarrow.chunked_array([[row[place] for row in rows]], pyarrow.string()) for place in (0, 1))
    weight = np.array([row[2] if len(row) > 2 else 1.0 for row in rows])
    created = [parse_moment(row[3]) for row in rows if len(row) > 3]
    return EdgeTable(source, target, weight, np.array(created) if created else None)


def graph_of(*rows: Row, seeds: tuple[str, ...] = ("root",), denounces: EdgeTable | None = None) -> NamedGraph:
    return build_graph(table(*rows), denounces or no_edges(), list(seeds), 730.0, None)


def rows_of(graph: NamedGraph) -> dict[str, dict[str, object]]:
    return {row["node"]: row for row in build_table(graph, compute_trust(graph, DEFAULTS, 1.0)).to_pylist()}


def told(graph: NamedGraph, name: str) -> list[str]:
    return list(explain(graph, compute_trust(graph, DEFAULTS, 1.0), DEFAULTS, name))


@given(graphs(), parameters, st.randoms(use_true_random=False))
def test_names_and_the_order_of_rows_change_no_figure(graph: tuple, flow: Parameters, draw: Random) -> None:
    vouches, seeds, size = graph
    expected = first_passage(edges_of(vouches), seeds, size, flow)
    rows: list[Row] = [(f"{a:02}", f"{b:02}", weight) for a, b, weight in vouches]
    rows += [(f"{person:02}", f"{person:02}", 1.0) for person in range(size)]  # so that everybody is named
    draw.shuffle(rows)
    named = graph_of(*rows, seeds=tuple(f"{seed:02}" for seed in seeds))
    found = build_table(named, compute_trust(named, flow, 1.0))
    assert found["node"].to_pylist() == [f"{person:02}" for person in range(size)]
    assert found["first_passage"].to_pylist() == expected.mass.tolist()
    assert found["s"].to_pylist() == expected.trust.tolist()
    assert found["distance"].to_pylist() == [hops if hops >= 0 else None for hops in expected.distance.tolist()]


def test_every_node_that_is_named_anywhere_has_a_row() -> None:
    against = table(("ana", "eve"))
    rows = rows_of(graph_of(("root", "ana"), ("ana", "mara"), ("x", "y", 0.0), denounces=against))
    assert list(rows) == ["ana", "eve", "mara", "root", "x", "y"]
    assert [row["dominator"] for row in rows.values()] == ["root", None, "ana", None, None, None]
    assert [row["distance"] for row in rows.values()] == [1, None, 2, 0, None, None]
    assert rows["root"] == {**rows["root"], "s": 1.0, "first_passage": 0.0}
    assert rows["ana"]["s"] == pytest.approx(10 / 11, rel=1e-12)
    assert sum(float(str(row["eigentrust"])) for row in rows.values()) == pytest.approx(1.0, rel=1e-9)


def test_what_counts_nothing_is_said_in_a_line_each() -> None:
    graph = graph_of(("root", "ana", 0.2), ("ana", "ana"), ("root", "ana", 0.5), ("root", "ana", 0.1))
    assert graph.notes == (
        "1 edge from a node to itself: dropped.",
        "2 edges for a pair that is named before: the largest weight counts.",
    )
    assert graph.edges.weight.tolist() == [0.5]
    against = table(("ana", "ana"), ("root", "ben"), ("root", "ben"))
    assert graph_of(("root", "ana"), denounces=against).notes == (
        "1 denounce from a node to itself: dropped.",
        "1 denounce for a pair that is named before: the largest weight counts.",
    )
    assert graph_of(("root", "ana")).notes == ()


def test_a_vouch_fades_with_its_age_at_the_newest_one_or_at_the_moment_asked_for() -> None:
    rows = table(("root", "ana", 1.0, "2022-01-02"), ("root", "ben", 0.5, "2024-01-02"))
    assert build_graph(rows, no_edges(), ["root"], 730.0, None).edges.weight.tolist() == [0.5, 0.5]
    later = build_graph(rows, no_edges(), ["root"], 730.0, parse_moment("2026-01-01"))
    assert later.edges.weight.tolist() == [0.25, 0.25]
    before = build_graph(rows, no_edges(), ["root"], 730.0, parse_moment("2023-01-01"))
    assert before.edges.subject.tolist() == [0]
    assert before.notes == ("1 edge created after the moment asked for: left out.",)
    assert before.names.to_pylist() == ["ana", "ben", "root"]


def test_a_denounce_fades_like_a_vouch_and_counts_from_its_own_moment() -> None:
    rows = table(("root", "ana", 1.0, "2024-01-02"))
    against = table(("root", "ana", 0.5, "2022-01-02"), ("root", "ana", 1.0, "2025-01-01"))
    at = [parse_moment(day) for day in ("2024-01-02", "2021-01-01")]
    assert build_graph(rows, against, ["root"], 730.0, at[0]).denounces.weight.tolist() == [0.25]
    assert len(build_graph(rows, against, ["root"], 730.0, at[1]).denounces.weight) == 0
    newest = build_graph(rows, against, ["root"], 730.0, None)
    assert newest.denounces.weight.tolist() == [1.0]
    assert newest.edges.weight.tolist() == pytest.approx([0.5 ** (365 / 730)], rel=1e-12)


def test_a_moment_without_times_is_refused() -> None:
    with pytest.raises(FileProblem, match="no column created_at"):
        build_graph(table(("root", "ana")), no_edges(), ["root"], 730.0, 0)


def test_seeds_in_no_edge_are_refused_and_counted() -> None:
    with pytest.raises(FileProblem, match=r"^4 of 5 seeds appear in no edge: a, b, c and 1 more\.$"):
        graph_of(("root", "ana"), seeds=("a", "b", "root", "c", "d"))
    assert rows_of(graph_of(("root", "ana"), denounces=table(("eve", "ana")), seeds=("eve",)))["eve"]["s"] == 1.0


def test_an_empty_graph_gives_the_seeds_their_rows_and_a_lone_node_zeros() -> None:
    rows = rows_of(graph_of(seeds=("root", "ana")))
    assert [(name, row["s"], row["eigentrust"]) for name, row in rows.items()] == [
        ("ana", 1.0, 0.5),
        ("root", 1.0, 0.5),
    ]
    apart = rows_of(graph_of(("root", "root"), ("x", "y")))["y"]
    assert (apart["s"], apart["first_passage"], apart["eigentrust"], apart["distance"]) == (0.0, 0.0, 0.0, None)


def test_a_node_is_explained_by_ways_vouchers_and_what_hangs_on_it() -> None:
    graph = graph_of(("root", "ana"), ("root", "ben"), ("ana", "mara"), ("ben", "mara", 0.5), ("mara", "zoe"))
    assert told(graph, "mara") == [
        f"mara: s 0.6 (first passage 0.015, EigenTrust {rows_of(graph)['mara']['eigentrust']:.4g})",
        "2 steps from the nearest seed; all of it runs through the seed root: if that one is compromised, it is gone.",
        "Independent paths, and what each carries:",
        "        0.01  root > ana > mara",
        "       0.005  root > ben > mara",
        "Who vouches, and what first arrives over each vouch:",
        "        0.01   66.7%  ana",
        "       0.005   33.3%  ben",
        "Below s = 0.5 without its vouches: nobody.",
        "Compromised, it could lift at most 0 fresh nodes to s = 0.5 (0.03 in all).",
    ]
    assert "all of it runs through the node mara" in told(graph, "zoe")[1]
    assert told(graph, "ana")[-2:] == [
        "Below s = 0.5 without its vouches: mara.",
        "Compromised, it could lift at most 30 fresh nodes to s = 0.5 (0.3 in all).",
    ]
    assert told(graph, "root")[1:] == [
        "A seed: trust starts here.",
        "Below s = 0.5 without its vouches: ana, ben, mara.",
    ]


def test_two_seeds_leave_no_node_that_carries_all() -> None:
    graph = graph_of(("root", "ana"), ("ben", "ana"), seeds=("root", "ben"))
    assert "no single node carries all of it." in told(graph, "ana")[1]


def test_a_node_with_many_vouchers_is_explained_in_a_screen() -> None:
    names = [f"n{number:03}" for number in range(400)]
    lines = told(graph_of(*((name, "ana", 1.0) for name in names), seeds=tuple(names)), "ana")
    assert len(lines) < 35
    assert "          38   95.0%  380 more" in lines
    assert told(graph_of(*(("root", name, 1.0) for name in names)), "root")[-1].endswith(
        "n000, n001, n002 and 397 more."
    )


def test_who_is_beyond_reach_is_not_called_bad() -> None:
    assert told(graph_of(("root", "ana"), ("x", "y")), "y")[1:] == [
        "No trust comes here within 4 hops. That is unknown, not bad."
    ]


def test_denounces_are_explained_and_close_the_ways_behind_them() -> None:
    vouches: list[Row] = [("root", "ana"), ("root", "ben"), ("ana", "mara"), ("mara", "zoe"), ("ben", "zoe", 0.5)]
    final = graph_of(*vouches, denounces=table(("root", "mara")))
    assert told(final, "mara")[1] == "A seed warns about it, which is final."
    assert rows_of(final)["zoe"]["dominator"] == "ben"
    assert [line.strip() for line in told(final, "zoe")[3:4]] == ["0.005  root > ben > zoe"]
    weighed = graph_of(*vouches, denounces=table(("ben", "mara", 0.5)))
    assert told(weighed, "mara")[1] == "Warnings (1 by trusted nodes) leave 50.0% of the trust that arrives."
    assert told(weighed, "mara")[4].split() == ["0.005", "root", ">", "ana", ">", "mara"]


def test_a_name_that_no_file_has_is_refused_and_one_that_moves_the_cursor_is_escaped() -> None:
    graph = graph_of(("root", "ana\x1b[31m"))
    for unknown in ("eve", "\udcff"):
        with pytest.raises(FileProblem, match="is in none of the files"):
            told(graph, unknown)
    assert "\x1b" not in "".join(told(graph, "ana\x1b[31m") + told(graph, "root"))
