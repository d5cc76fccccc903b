"""The trust of a few people is that of everybody's, in every bit."""

import dataclasses

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters, Policy
from scoring.trust.bounded import judge_few, prepare_incoming
from scoring.trust.denounces import judge_within, transfers_left
from scoring.trust.graph import Edges, prepare
from scoring.trust.paths import strongest_chains
from scoring.trust.table import Graph, few_columns, passage_columns
from tests.bench.bench_trust import popular_graph
from tests.conftest import Count
from tests.scoring.trust.graphs import Vouch, edges_of, graphs, parameters

NONE = edges_of([])


def graph_of(vouches: Edges, denounces: Edges, size: int, merges: Edges = NONE) -> Graph:
    """A graph of people who are numbered as they stand."""
    numbers = np.arange(size)
    return Graph(numbers, numbers, prepare(vouches, size), prepare(denounces, size), merges, NONE, numbers[:1])


def expected(graph: Graph, seeds: np.ndarray, people: np.ndarray, policy: Policy, ids: np.ndarray) -> pa.Table:
    """The rows of these people, by place, among everybody's, and `other_seed` from everybody's strongest paths."""
    table = passage_columns(graph, ids[seeds].tolist(), policy)
    told = table.filter(pa.array(np.isin(table["contributor_id"].to_numpy(), ids[people])))
    hops = policy.parameters.hops
    judged = judge_within(graph.vouches, graph.denounces, seeds, policy.parameters, policy.denounce_strength)
    flow = transfers_left(graph.vouches, judged, seeds, policy.parameters)
    first, shorter = strongest_chains(flow, hops)[:, 0], strongest_chains(flow, hops - 1)[:, 0]
    merges = set(zip(graph.merges.voucher.tolist(), graph.merges.subject.tolist(), strict=True))
    other = {
        subject
        for voucher, subject, amount in zip(flow.voucher.tolist(), flow.subject.tolist(), flow.amount, strict=True)
        if amount > 0 and shorter[voucher] not in (-1, first[subject]) and (voucher, subject) not in merges
    }
    column = pa.array([graph.position[person] in other for person in told["contributor_id"].to_pylist()], pa.bool_())
    return told.set_column(told.column_names.index("other_seed"), "other_seed", column)


def assert_equal(graph: Graph, seeds: np.ndarray, people: np.ndarray, policy: Policy) -> int:
    """Compare every column of these people; return how many rows they have."""
    incoming = prepare_incoming(graph.vouches, graph.denounces, policy.parameters)
    found = few_columns(graph, incoming, seeds.tolist(), people.tolist(), policy)
    whole = expected(graph, seeds, people, policy, graph.contributor_ids)
    assert found.column_names == whole.column_names
    assert found.cast(whole.schema).to_pylist() == whole.to_pylist()
    exact = judge_few(incoming, np.unique(seeds), people, policy.denounce_strength)
    judged = judge_within(graph.vouches, graph.denounces, seeds, policy.parameters, policy.denounce_strength)
    assert exact.mass.tobytes() == judged.passage.mass[people].tobytes(), "before any digit is cut"
    assert exact.keep.tobytes() == judged.keep[people].tobytes()
    return len(found)


def in_range(rows: list[Vouch], size: int) -> Edges:
    return edges_of([row for row in rows if max(row[:2]) < size])


@given(graphs(), graphs(), graphs(), parameters, st.sampled_from([0.0, 1.0, 20.0]), st.data())
def test_of_any_graph_the_few_have_the_rows_that_they_have_among_all(
    graph: tuple, quarrel: tuple, merged: tuple, flow: Parameters, strength: float, data: st.DataObject
) -> None:
    vouches, seeds, size = graph
    people = np.unique(data.draw(st.lists(st.integers(0, size - 1), max_size=6))).astype(np.int64)
    clean = prepare(in_range(merged[0], size), size)
    merges = Edges(clean.voucher, clean.subject, np.ones(len(clean.voucher)))
    world = graph_of(edges_of(vouches), in_range(quarrel[0], size), size, merges)
    assert_equal(world, np.unique(seeds), people, Policy(parameters=flow, denounce_strength=strength))


@given(graphs(), st.sampled_from([(0.0, 1.0), (0.1, 0.0)]), st.integers(1, 4))
def test_vouches_that_pass_nothing_on_still_lead_somewhere(
    graph: tuple, nothing: tuple[float, float], hops: int
) -> None:
    vouches, seeds, size = graph
    policy = Policy(parameters=Parameters(*nothing, hops))
    assert_equal(graph_of(edges_of(vouches), NONE, size), np.unique(seeds), np.arange(size), policy)


def test_in_a_large_graph_with_busy_people_and_long_sums_too(count: Count) -> None:
    size = count(600, 6_000)
    vouches, said = popular_graph(size, 10 * size), popular_graph(size + 1, size // 20)
    denounces = Edges(*(np.asarray(part) for part in (said.voucher % size, said.subject % size, said.weight)))
    draw, rows = np.random.default_rng(3), 0
    for number in range(count(20, 300)):
        world = graph_of(vouches, denounces if number % 2 else NONE, size)
        seeds = np.unique(draw.integers(0, size if number % 3 else 12, 3))
        people = np.unique(draw.integers(0, size if number % 5 else 40, 12))
        rows += assert_equal(world, seeds, people, dataclasses.replace(Policy(), denounce_strength=1.0 + number % 4))
    assert rows > count(200, 3_000)
