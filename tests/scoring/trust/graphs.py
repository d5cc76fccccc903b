"""Graphs for the trust tests: random ones, a young forge, sybil regions, Advogato."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from pyarrow import parquet

from scoring.config.policy import Parameters
from scoring.trust.first_passage import find_transfers
from scoring.trust.graph import Edges, Integers
from scoring.trust.paths import Path as TrustPath
from scoring.trust.paths import strongest_chains

Vouch = tuple[int, int, float]


def edges_of(vouches: Iterable[Vouch]) -> Edges:
    """The vouches as columns."""
    rows = list(vouches)
    return Edges(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
    )


def vouches_of(edges: Edges) -> list[Vouch]:
    """The columns as vouches."""
    return list(zip(edges.voucher.tolist(), edges.subject.tolist(), edges.weight.tolist(), strict=True))


def people(*ids: int) -> np.ndarray:
    """Ids as an array."""
    return np.array(ids, dtype=np.int64)


def strongest_paths(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> list[TrustPath]:
    """`strongest_chains` as tuples: (seed,) for a seed, () for a person beyond reach."""
    chains = strongest_chains(find_transfers(edges, seeds, size, parameters), parameters.hops)
    return [tuple(person for person in chain if person >= 0) for chain in chains.tolist()]


def random_edges(size: int) -> Edges:
    """Five vouches for each of so many people, from anybody for anybody."""
    draw = np.random.default_rng(5)
    return Edges(draw.integers(0, size, 5 * size), draw.integers(0, size, 5 * size), np.ones(5 * size))


@st.composite
def graphs(draw: st.DrawFn, largest: int = 12) -> tuple[list[Vouch], np.ndarray, int]:
    """A small dense graph with one to three seeds: vouches (self-vouches and repeats included), seeds, size."""
    size = draw(st.integers(2, largest))
    person = st.integers(0, size - 1)
    weight = st.one_of(st.just(1.0), st.floats(0.01, 1.0))
    vouches = draw(st.lists(st.tuples(person, person, weight), max_size=60))
    seeds = draw(st.lists(person, min_size=1, max_size=3, unique=True))
    return vouches, np.array(seeds, dtype=np.int64), size


parameters = st.builds(
    Parameters, transfer=st.sampled_from([0.05, 0.1, 0.5]), budget=st.sampled_from([0.3, 1.0]), hops=st.integers(1, 4)
)


def young_forge(size: int = 600, vouches: int = 1500, key: int = 7) -> list[Vouch]:
    """A sparse vouch graph: most people vouch for nobody, a few are vouched for by many; person 0..3 are the seeds."""
    draw = np.random.default_rng(key)
    vouchers = (draw.random(vouches) ** 2 * size * 0.3).astype(int)
    subjects = (draw.random(vouches) ** 1.5 * size).astype(int)
    weights = np.round(draw.uniform(0.3, 1.0, vouches), 3)
    return list(zip(vouchers.tolist(), subjects.tolist(), weights.tolist(), strict=True))


def advogato(shared: Path) -> tuple[Edges, np.ndarray, int]:
    """The developers of Advogato, latest snapshot: certifications of level 1 and above, the usual seeds, the size."""
    path = shared / "data" / "trust_advogato_edges.parquet"
    table = parquet.read_table(path, filters=[("snapshot", "=", "latest"), ("level", ">=", 1)])
    source, target = (table[name].to_numpy() for name in ("source", "target"))
    return Edges(source, target, np.ones(len(source))), people(1, 2, 3, 4), int(max(source.max(), target.max())) + 1


def walks(
    vouches: list[Vouch], seeds: np.ndarray, size: int, settings: Parameters
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every walk from a seed of at most `hops` vouches with the trust it carries, found by plain recursion."""
    best: dict[tuple[int, int], float] = {}
    for voucher, subject, weight in vouches:
        if voucher != subject and subject not in seeds:
            best[voucher, subject] = max(weight, best.get((voucher, subject), 0.0))
    given = [sum(weight for (voucher, _), weight in best.items() if voucher == person) for person in range(size)]

    def passed(voucher: int, subject: int) -> float:
        spread = settings.transfer if voucher in seeds else min(settings.transfer, settings.budget / given[voucher])
        return best[voucher, subject] * spread

    def extend(walk: tuple[int, ...], carried: float) -> Iterator[tuple[tuple[int, ...], float]]:
        for voucher, subject in best:
            if voucher == walk[-1]:
                longer, trust = (*walk, subject), carried * passed(voucher, subject)
                yield longer, trust
                if len(longer) <= settings.hops:
                    yield from extend(longer, trust)

    for seed in sorted(set(seeds.tolist())):
        yield from extend((seed,), 1.0)


def _ring(own: int, first: int, count: int) -> list[Vouch]:
    circle = [own, *range(first, first + count)]
    return [(circle[i], circle[(i + 1) % len(circle)], 1.0) for i in range(len(circle))]


def _clique(own: int, first: int, count: int) -> list[Vouch]:
    group = [own, *range(first, first + min(count, 12))]  # 12: more would only dilute each other
    return [(a, b, 1.0) for a in group for b in group if a != b]


def region(shape: str, first: int, count: int, entry: int) -> list[Vouch]:
    """Vouches inside a sybil region of `count` accounts from id `first`, behind the account `entry`."""
    fakes = range(first, first + count)
    if shape == "star":
        return [vouch for fake in fakes for vouch in ((entry, fake, 1.0), (fake, entry, 1.0))]
    if shape == "ring":
        return _ring(entry, first, count)
    if shape == "chain":
        return list(zip([entry, *fakes][:-1], fakes, [1.0] * count, strict=True))
    if shape == "clique":
        return _clique(entry, first, count)
    if shape == "tree":
        return [(entry if i < 10 else first + i // 10 - 1, first + i, 1.0) for i in range(count)]
    raise ValueError(f"no region is called {shape}")
