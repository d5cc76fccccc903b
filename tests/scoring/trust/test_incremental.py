"""Trust computed anew only where something changed is the trust of a whole computation."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scoring.queries.people.trust
import scoring.trust.incremental
from scoring.config.policy import Parameters, Policy
from scoring.pipeline import evidence
from scoring.pipeline.evidence import TRUST_CACHES
from scoring.pipeline.score import CHANGED_PEOPLE
from scoring.trust.denounces import Denounced, judge_denounces
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Network, prepare
from scoring.trust.incremental import SeedSet, SeedSetTrust, TrustCache, find_changed_vouchers, replace_vouches
from scoring.trust.table import Graph
from scoring.types import Measure
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, at, pull_uri
from tests.pipeline import Result
from tests.scoring.small import feed, take
from tests.scoring.trust.graphs import Vouch, edges_of, graphs, parameters, people
from tests.scoring.trust.test_bounded import NONE, expected, graph_of
from tests.scoring.trust.test_structure import world as trusting

DEFAULTS = Parameters()
SILENCE = prepare(edges_of([]), 6)


def bits(judged: Denounced) -> list[bytes]:
    """Every number that a standing holds."""
    passages = [getattr(of, name) for of in (judged.first, judged.passage) for name in ("mass", "trust", "distance")]
    counted = [judged.weight, judged.keep, judged.trusted_denouncers, judged.by_seed]
    return [column.tobytes() for column in (*passages, *counted)]


def changed(rows: list[Vouch], author: int, subject: int, weight: float | None) -> list[Vouch]:
    """The rows after the author says this of the subject, or (None) nothing any more."""
    others = [row for row in rows if row[:2] != (author, subject)]
    return others if weight is None else [*others, (author, subject, weight)]


@given(graphs(), graphs(), parameters, st.data())
def test_after_any_sequence_of_changes_every_bit_is_that_of_a_full_run(
    graph: tuple, quarrel: tuple, flow: Parameters, data: st.DataObject
) -> None:
    vouches, seeds, size = graph
    rows = {"vouch": vouches, "denounce": [row for row in quarrel[0] if max(row[:2]) < size]}
    person, weight = st.integers(0, size - 1), st.none() | st.floats(0.01, 1.0)
    changes = data.draw(st.lists(st.tuples(st.sampled_from(sorted(rows)), person, person, weight), max_size=8))
    networks = {kind: prepare(edges_of(said), size) for kind, said in rows.items()}
    standing = SeedSetTrust.compute(networks["vouch"], networks["denounce"], seeds, flow)
    for kind, author, subject, heavy in changes:
        rows[kind] = changed(rows[kind], author, subject, heavy)
        theirs = edges_of([row for row in rows[kind] if row[0] == author])
        networks[kind] = replace_vouches(networks[kind], people(author), theirs)
        authors = [people(author) if kind == one else people() for one in ("vouch", "denounce")]
        standing = standing.after(networks["vouch"], networks["denounce"], *authors)
        full = judge_denounces(edges_of(rows["vouch"]), edges_of(rows["denounce"]), seeds, size, flow)
        assert bits(standing.judged) == bits(full)
        alone = first_passage(edges_of(rows["vouch"]), seeds, size, flow)
        assert standing.judged.first.mass.tobytes() == alone.mass.tobytes()


@given(graphs(), graphs())
def test_the_people_whose_vouches_differ_are_found_and_nobody_else(graph: tuple, other: tuple) -> None:
    size = max(graph[2], other[2])
    before, after = (prepare(edges_of(rows), size) for rows in (graph[0], other[0]))

    def said(network: Network, person: int) -> list[tuple[int, float]]:
        row = slice(network.starts[person], network.starts[person + 1])
        return list(zip(network.subject[row].tolist(), network.weight[row].tolist(), strict=True))

    expected = [person for person in range(size) if said(before, person) != said(after, person)]
    assert find_changed_vouchers(before, after).tolist() == expected


def test_a_vouch_by_somebody_out_of_reach_leaves_the_standing_itself() -> None:
    chain = [(person, person + 1, 1.0) for person in range(5)]
    standing = SeedSetTrust.compute(prepare(edges_of(chain), 6), SILENCE, people(0), Parameters(hops=3))
    for voucher in (3, 4, 5):
        more = prepare(edges_of([*chain, (voucher, 1, 1.0)]), 6)
        assert standing.after(more, SILENCE, people(voucher)) is standing
    nearer = standing.after(prepare(edges_of([*chain, (2, 4, 1.0)]), 6), SILENCE, people(2))
    assert nearer.judged.passage.distance.tolist() == [0, 1, 2, 3, 3, -1]


def test_a_denounce_by_somebody_without_trust_leaves_the_standing_itself_and_a_seeds_does_not() -> None:
    vouches = prepare(edges_of([(0, 1, 1.0), (3, 4, 1.0)]), 6)
    standing = SeedSetTrust.compute(vouches, SILENCE, people(0), DEFAULTS)
    denounced = prepare(edges_of([(3, 1, 1.0)]), 6)
    assert standing.after(vouches, denounced, people(), people(3)) is standing
    final = standing.after(vouches, prepare(edges_of([(0, 1, 1.0)]), 6), people(), people(0))
    assert final.judged.passage.mass[1] == 0


def test_a_network_that_grew_is_judged_anew() -> None:
    standing = SeedSetTrust.compute(prepare(edges_of([(0, 1, 1.0)]), 6), SILENCE, people(0), DEFAULTS)
    grown = standing.after(prepare(edges_of([(0, 1, 1.0)]), 9), prepare(edges_of([]), 9), people(8))
    assert len(grown.judged.passage.mass) == 9


def test_vouches_of_somebody_else_are_not_replaced_unasked() -> None:
    with pytest.raises(ValueError, match="not among those"):
        replace_vouches(SILENCE, people(1), edges_of([(2, 3, 1.0)]))
    with pytest.raises(ValueError, match="unknown voucher 6"):
        replace_vouches(SILENCE, people(6), edges_of([]))


def test_vouches_and_denounces_of_two_sizes_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        SeedSetTrust.compute(prepare(edges_of([]), 5), SILENCE, people(0), DEFAULTS)


def test_a_standing_holds_its_bits_while_the_networks_change() -> None:
    vouches = prepare(edges_of([(0, 1, 1.0), (1, 2, 0.5)]), 6)
    standing = SeedSetTrust.compute(vouches, SILENCE, people(0), DEFAULTS)
    before = bits(standing.judged)
    replace_vouches(vouches, np.arange(6), edges_of([(0, 2, 1.0)]))
    assert bits(standing.judged) == before


def graph_among(present: list[int], said: dict[str, dict[tuple[int, int], float]]) -> Graph:
    """A graph of these people, who are numbered otherwise than they stand."""
    place = {person: number for number, person in enumerate(present)}
    edges = {
        kind: edges_of(
            (place[one], place[other], weight)
            for (one, other), weight in sorted(rows.items())
            if one in place and other in place
        )
        for kind, rows in said.items()
    }
    merges = prepare(edges["merge"], len(present))
    plain = graph_of(
        edges["vouch"], edges["denounce"], len(present), Edges(merges.voucher, merges.subject, merges.weight)
    )
    position = np.full(max(present) + 1, -1)
    position[present] = np.arange(len(present))
    return replace(plain, contributor_ids=np.array(present), position=position)


@given(st.integers(0, 2**32), parameters, st.sampled_from(["first_passage", "eigentrust"]))
def test_seed_sets_have_the_rows_of_a_run_from_nothing_after_every_change(
    key: int, flow: Parameters, measure: Measure
) -> None:
    """Sparse graphs, in which most changes lead from few sets to few people; ten of these come and go."""
    draw, size, policy = random.Random(key), 40, Policy(parameters=flow, measure=measure)
    somebody, basis = partial(draw.randrange, size), (date(2026, 6, 1), policy)
    stays, present = partial(draw.randrange, size - 10), list(range(size))
    said: dict[str, dict[tuple[int, int], float]] = {"vouch": {}, "denounce": {}, "merge": {}}
    for kind, number in (("vouch", 70), ("denounce", 10)):
        said[kind] = {(somebody(), somebody()): draw.choice([1.0, 0.4]) for _ in range(number)}
    said["merge"] = dict.fromkeys(draw.sample(sorted(said["vouch"]), 10), 1.0)
    sets = {number: SeedSet((stays(),), tuple({stays() for _ in range(4)})) for number in range(1, 12)}
    sets[0] = SeedSet((0,))

    def rows_of(parts: list[pa.Table]) -> dict[int, list[dict[str, object]]]:
        return {part["repository_id"][0].as_py(): part.to_pylist() for part in parts if len(part)}

    cache = TrustCache()
    held = rows_of(cache.update(graph_among(present, said), sets, basis)[0])
    for _ in range(6):
        rows = said[draw.choice(["vouch", "vouch", "vouch", "denounce", "merge"])]
        if draw.random() < 0.2:
            present = sorted(set(present) ^ {draw.randrange(size - 10, size)})
        elif rows and draw.random() < 0.4:
            rows.pop(draw.choice(sorted(rows)), None)
        else:
            rows[draw.choice(sorted(said["vouch"])) if rows is said["merge"] else (somebody(), somebody())] = (
                draw.choice([1.0, 0.4])
            )
        said["merge"] = {pair: weight for pair, weight in said["merge"].items() if pair in said["vouch"]}
        graph = graph_among(present, said)
        parts, replaced = cache.update(graph, sets, basis)
        held = {number: part for number, part in held.items() if number not in replaced} | rows_of(parts)
        assert held == rows_of(TrustCache().update(graph, sets, basis)[0])


def test_a_vouch_that_ends_before_the_people_of_a_seed_set_leaves_its_trust_as_it_is() -> None:
    chain, basis = [(person, person + 1, 1.0) for person in range(6)], (date(2026, 6, 1), Policy())
    sets = {
        1: SeedSet((0,), (4,)),
        2: SeedSet((0,), (5,)),  # five vouches from the seed, two of them before the one that changes
        3: SeedSet((1,), (0, 5)),
        4: SeedSet((0,), (0, 1)),
        5: SeedSet((3,), (4, 5)),
    }
    cache = TrustCache()
    cache.update(graph_of(edges_of(chain), NONE, 8), sets, basis)
    assert cache.update(graph_of(edges_of([*chain, (2, 7, 1.0)]), NONE, 8), sets, basis)[1] == []
    denounced = graph_of(edges_of([*chain, (2, 7, 1.0)]), edges_of([(2, 1, 0.5)]), 8)
    assert cache.update(denounced, sets, basis)[1] == [1, 3, 4], "whom it denounces is asked about"


def test_a_further_vouch_of_somebody_busy_takes_from_the_others_alone() -> None:
    basis = (date(2026, 6, 1), Policy(parameters=Parameters(transfer=0.5, budget=1.0)))
    sets = {1: SeedSet((0,), (2,)), 2: SeedSet((0,), (5,)), 3: SeedSet((0,), (4,))}
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (0, 5, 1.0)]
    cache = TrustCache()
    cache.update(graph_of(edges_of(vouches), NONE, 6), sets, basis)
    second = [*vouches, (1, 3, 1.0)]
    assert cache.update(graph_of(edges_of(second), NONE, 6), sets, basis)[1] == []
    assert cache.update(graph_of(edges_of([*second, (1, 4, 1.0)]), NONE, 6), sets, basis)[1] == [1, 3]


@pytest.mark.parametrize(
    ("before", "vouch", "denounce", "person"),
    [
        # More trust arrives in 3 by four vouches, so that the warning by 8 takes another part of it: 4 has it by two.
        ([(0, 5), (5, 6), (6, 7), (0, 3), (3, 4), (0, 8)], (7, 3), (8, 3), 4),
        # By as many vouches some arrives in 8, who warns of it.
        ([(0, 5), (5, 6), (6, 7), (0, 3), (3, 4)], (7, 8), (8, 3), 4),
    ],
)
def test_a_change_goes_on_from_whom_a_denounce_is_about(
    before: list[tuple[int, int]], vouch: tuple[int, int], denounce: tuple[int, int], person: int
) -> None:
    basis = (date(2026, 6, 1), Policy(parameters=Parameters(transfer=0.5)))
    sets = {1: SeedSet((0,), (person,)), 2: SeedSet((0,), (5,))}
    denounces = edges_of([(*denounce, 1.0)])
    without, with_it = (
        graph_of(edges_of((*pair, 1.0) for pair in pairs), denounces, 9) for pairs in (before, [*before, vouch])
    )
    cache = TrustCache()
    parts, _ = cache.update(without, sets, basis)
    changed, replaced = cache.update(with_it, sets, basis)
    assert replaced == [1]
    assert changed[0] != parts[0]
    assert changed[0] == TrustCache().update(with_it, sets, basis)[0][0]


def test_a_denounce_by_somebody_at_the_last_hop_counts() -> None:
    basis, sets = (date(2026, 6, 1), Policy()), {1: SeedSet((0,), (5,)), 2: SeedSet((0,), (1,))}
    vouches = edges_of([(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0), (0, 5, 1.0)])
    cache = TrustCache()
    parts, _ = cache.update(graph_of(vouches, NONE, 6), sets, basis)
    changed, replaced = cache.update(graph_of(vouches, edges_of([(4, 5, 1.0)]), 6), sets, basis)
    assert replaced == [1]
    assert changed[0]["denounce_weight"][0].as_py() > parts[0]["denounce_weight"][0].as_py() == 0


OTHER = "did:plc:" + "o" * 24
TRUST = "select * from trust order by repository_id, contributor_id"


@pytest.fixture(name="runs")
def runs_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each computation of a seed set's first-passage trust, and of the site's walk."""
    done: list[str] = []
    for name, real_name in (("passage_columns",) * 2, ("passage_columns", "few_columns"), ("site_share",) * 2):
        real = getattr(scoring.trust.incremental, real_name)

        def noted(*arguments: object, real: object = real, name: str = name) -> object:
            done.append(name)
            return real(*arguments)  # ty: ignore[not-callable]

        monkeypatch.setattr(scoring.trust.incremental, real_name, noted)
    return done


def world(*vouches: tuple[str, str]) -> Frames:
    """These vouches, and somebody offered something to the repository."""
    frames = trusting(*vouches)
    frames.pull(SEED, "first")
    return frames


def later(result: Result, frames: Frames, first: int) -> None:
    feed(result, frames[first:])
    result.judge(at(first))


def test_a_vouch_that_no_seed_reaches_computes_nothing_and_writes_nothing(result: Result, runs: list[str]) -> None:
    frames = world((SEED, ANA), (MALLORY, STRANGER))
    first = len(frames)
    frames.vouch(STRANGER, MALLORY)
    frames.vouch(MALLORY, ANA, kind="denounce")
    frames.vouch("did:plc:" + "n" * 24, MALLORY)
    take(result, frames[:first], at(first))
    assert runs.count("passage_columns") == 2, "the repository's seeds and the site's"
    before = result.rows(TRUST)
    runs.clear()
    later(result, frames, first)
    assert runs == []
    assert result.rows(TRUST) == before


def test_beyond_the_last_hop_only_the_one_walk_is_computed(result: Result, runs: list[str]) -> None:
    chain = [SEED, *(f"did:plc:{letter * 24}" for letter in "bcdefg")]
    frames = world(*pairwise(chain))
    first = len(frames)
    frames.vouch(chain[-1], MARA)
    take(result, frames[:first], at(first))
    runs.clear()
    later(result, frames, first)
    assert runs == ["site_share"]
    sql = "select t.* from trust t join contributors using (contributor_id) where did = ? order by repository_id"
    row = result.rows(sql, [MARA])[0]
    assert (row["distance"], row["first_passage"], row["path"], row["keep"]) == (None, 0, [], 1)
    assert row["eigentrust"] > 0


def test_another_day_computes_everything_anew(result: Result, runs: list[str]) -> None:
    take(result, world((SEED, ANA)), at(5))
    runs.clear()
    later(result, Frames(), 90_000)
    assert runs.count("passage_columns") == 2


def test_what_was_not_committed_is_computed_again(result: Result, runs: list[str]) -> None:
    take(result, world((SEED, ANA)), at(5))
    held = TRUST_CACHES[result.store]
    held.forget()
    runs.clear()
    frames = world((SEED, ANA))
    later(result, frames, len(frames))
    with result.store.write() as txn:
        txn.inputs_changed()
    result.judge(at(9))
    assert runs.count("passage_columns") == 2


@pytest.mark.parametrize("measure", ["first_passage", "eigentrust"])
def test_after_any_history_the_rows_are_those_of_a_run_from_nothing(
    result: Result, count: Count, measure: Measure
) -> None:
    draw, result.policy = random.Random(7), replace(result.policy, measure=measure)
    people = [SEED, ANA, MARA, MALLORY, STRANGER, *(f"did:plc:{letter * 24}" for letter in "bcdefghijk")]
    frames = world((SEED, ANA), (ANA, MARA))
    frames.repository(MARA, "other", repoDid=OTHER)
    for author in people[::2]:
        frames.pull(author, "offered")
        frames.pull(author, "elsewhere", target=OTHER)
    first = len(frames)
    take(result, frames, at(first))
    result.watch([OTHER], [MARA])
    for _ in range(count(5, 60)):
        voucher, subject = draw.sample(people[: draw.randint(2, len(people))], 2)
        kind = draw.choice(["vouch", "vouch", "denounce"])
        if draw.random() < 0.2:
            frames.delete(voucher, "sh.tangled.graph.vouch", subject)
        else:
            frames.vouch(voucher, subject, "update", kind=kind)
        later(result, frames, len(frames) - 1)
        kept = result.rows(TRUST)
        TRUST_CACHES[result.store] = TrustCache()
        with result.store.write() as txn:
            txn.inputs_changed()
            txn.execute("delete from trust")
        result.judge(at(len(frames) - 1))
        assert result.rows(TRUST) == kept
    assert len({row["repository_id"] for row in result.rows(TRUST)}) == 3


@pytest.mark.parametrize("moment", ["before the graph is read", "after it"])
def test_who_offers_first_while_trust_is_computed_is_judged_by_the_next_pass(
    result: Result, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Without trust, a decision that is kept for ever would say that no path leads to them."""
    frames = world((SEED, ANA))
    take(result, frames, at(len(frames)))
    first = len(frames)
    frames.vouch(SEED, STRANGER)
    frames.pull(STRANGER, "late")
    read_graph = evidence.read_graph

    def read_meanwhile(*arguments: object) -> Graph:
        arrived = [] if result.rows("from pull_requests where pull_uri like '%/late'") else frames[first:]
        graph = None if moment.startswith("before") else read_graph(*arguments)  # ty: ignore[invalid-argument-type]
        feed(result, arrived)
        return graph or read_graph(*arguments)  # ty: ignore[invalid-argument-type]

    def judged() -> list[str]:
        decided = "select lane from scores where pull_uri = ?"
        return [row["lane"] for row in result.rows(decided, [pull_uri(STRANGER, "late")])]

    with monkeypatch.context() as patched:
        patched.setattr(evidence, "read_graph", read_meanwhile)
        with result.store.write() as txn:
            txn.inputs_changed()
        result.judge(at(first))
    assert judged() == []
    result.judge(at(len(frames)))
    assert len(judged()) == 1
    rows = "select t.distance from trust t join contributors using (contributor_id) where did = ? and repository_id > 0"
    assert [row["distance"] for row in result.rows(rows, [STRANGER])] == [1]


JUDGED = ("trust", "features", "current_scores", "current_decisions")


def test_every_decision_and_score_is_that_of_trust_computed_for_everybody(
    result: Result, monkeypatch: pytest.MonkeyPatch, count: Count
) -> None:
    """The straightforward computation: everybody's trust from every seed set."""

    def for_everybody(
        graph: Graph, incoming: object, seeds: Sequence[int], wanted: Sequence[int], policy: Policy
    ) -> pa.Table:
        return expected(graph, graph.places(seeds), graph.places(wanted), policy, graph.contributor_ids)

    draw, frames = random.Random(26), world((SEED, ANA), (ANA, MARA))
    people = [SEED, ANA, MARA, MALLORY, STRANGER, *(f"did:plc:{letter * 24}" for letter in "bcdefghijk")]
    frames.repository(MARA, "other", repoDid=OTHER)
    for number, author in enumerate(people * 2):
        frames.pull(author, f"offered{number}", target=(REPO, OTHER)[number % 2])
        if number % 3 == 0:
            frames.status(SEED if number % 2 == 0 else MARA, pull_uri(author, f"offered{number}"), "merged")
    for _ in range(count(40, 400)):
        voucher, subject = draw.sample(people, 2)
        frames.vouch(voucher, subject, "update", kind=draw.choice(["vouch"] * 5 + ["denounce"]))
    take(result, frames, at(len(frames)))
    result.watch([OTHER], [MARA, ANA])
    judged = []
    for straightforward in (False, True):
        if straightforward:
            monkeypatch.setattr(scoring.trust.incremental, "few_columns", for_everybody)
            monkeypatch.setattr(scoring.queries.people.trust, "few_columns", for_everybody)
        TRUST_CACHES[result.store] = TrustCache()
        CHANGED_PEOPLE.pop(result.store, None)
        with result.store.write() as txn:
            txn.inputs_changed()
            for table in JUDGED:
                txn.execute(f"delete from {table}")
        result.judge(at(len(frames) + 1))
        tables = [result.rows(f"from {table} order by all") for table in JUDGED]
        told = [result.score(did, repository) for did in people for repository in (None, REPO, OTHER)]
        judged.append((tables, told))
    assert judged[0] == judged[1]
    assert len({row["repository_id"] for row in judged[0][0][0]}) == 3
    assert any(row["other_seed"] for row in judged[0][0][0])
