"""Trust on a graph of names: the same as on numbers, whatever order the rows come in, and explained in words."""

from random import Random

import numpy as np
import pyarrow
import pytest
from hypothesis import given
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
)
from scoring.trust.first_passage import first_passage
from tests.scoring.trust.graphs import edges_of, graphs, parameters

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
