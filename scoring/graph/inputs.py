"""The inputs of the graph network: comparable columns in blocks by node, neighbours, settings. Pure NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Directions
from scoring.dataset.catalogue import FEATURES
from scoring.graph.neighbours import Neighbours, Relation, no_neighbours
from scoring.models.base import Scales

RELATIONS = ("authored", "hosted", "vouched")
OWNER = {"authored": "contributor", "hosted": "repository", "vouched": "contributor"}
OF_CHANGE = frozenset(feature.name for feature in FEATURES if feature.of == "change")
Floats32 = NDArray[np.float32]
Weights = Mapping[str, Floats32]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a fit: `most` neighbours of a relation, width, steps of a first fit and of one that goes on."""

    most: int = 8
    hidden: int = 16
    steps: int = 200
    again: int = 60
    rate: float = 0.01
    decay: float = 0.1
    dropout: float = 0.2
    settled: bool = False  # hear also what others refused


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a network after scaling: their owner ("contributor", "repository", "pull") and direction."""

    owners: tuple[str, ...]
    signs: tuple[int, ...]

    @classmethod
    def of(cls, directions: Directions, scales: Scales) -> "Columns":
        """Return the columns of `Scales.apply`; the flags of unknown values have the owner of their column."""
        names = list(directions)
        flags = [name for name, is_flagged in zip(names, scales.flagged, strict=True) if is_flagged]
        return cls(
            tuple(_owner(name) for name in [*names, *flags]),
            (*(int(directions[name]) for name in names), *(0 for _ in flags)),
        )


def _owner(name: str) -> str:
    if name in OF_CHANGE:
        return "pull"
    return "repository" if name.startswith("repository_") else "contributor"


class Edges(NamedTuple):
    """The edges of one relation in the order of their targets: `starts` and `counts` are those of each in `targets`."""

    targets: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: Floats32
    sources: NDArray[np.int32]
    facts: Floats32

    @classmethod
    def of(cls, relation: Relation) -> "Edges":
        rows, places = np.nonzero(relation.rows >= 0)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(starts, append=len(rows)).astype(np.float32)
        return cls(rows[starts], starts, counts, relation.rows[rows, places], relation.facts[rows, places])


@dataclass(frozen=True)
class Inputs:
    """Comparable columns (n, columns) and the neighbours of n pull requests, in the order of opening."""

    values: Floats32
    columns: Columns
    neighbours: Neighbours

    @cached_property
    def blocks(self) -> dict[str, Floats32]:
        """Return the columns by node, all and those of no certain direction, and the signed ones, more is better.

        Once for all seeds: finding the columns is a third of the time of one pull request.
        """
        owners, signs = np.array(self.columns.owners), np.array(self.columns.signs)
        blocks = {}
        for name, owner in {**OWNER, "pull": "pull"}.items():
            blocks[name] = self.values[:, owners == owner]
            blocks[f"{name}_free"] = self.values[:, (owners == owner) & (signs == 0)]
        blocks["signed"] = self.values[:, signs != 0] * signs[signs != 0].astype(np.float32)
        return blocks

    @cached_property
    def edges(self) -> dict[str, Edges]:
        return {name: Edges.of(relation) for name, relation in zip(RELATIONS, self.neighbours, strict=True)}

    def means(self) -> dict[str, Floats32]:
        """Return the mean over neighbours of their columns and facts, (n, columns + facts); 0 without any."""
        return {
            name: mean_views(self.values, relation)
            for name, relation in zip(RELATIONS, self.neighbours, strict=True)
            if name != "vouched"
        }

    def widths(self) -> dict[str, int]:
        blocks = {name: block.shape[1] for name, block in self.blocks.items()}
        facts = {
            f"facts_{name}": relation.facts.shape[2] for name, relation in zip(RELATIONS, self.neighbours, strict=True)
        }
        return {**blocks, **facts, "all": self.values.shape[1]}


def weight_shapes(columns: Columns, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight of a network of these columns, `hidden` wide, by the names of `net.py`."""
    width = Inputs(np.zeros((0, len(columns.owners)), np.float32), columns, no_neighbours()).widths()
    shapes: dict[str, tuple[int, ...]] = {}
    for name, block in (("pull_first", "pull"), ("pull_second", "pull_free")):
        shapes |= {f"{name}.weight": (hidden, width[block]), f"{name}.bias": (hidden,)}
    for name in RELATIONS:
        seen = hidden + width[f"facts_{name}"]
        rounds = {"second": (seen, width[f"{name}_free"])}
        if name != "vouched":
            rounds["first"] = (width["all"] + width[f"facts_{name}"], width[name])
        for step, (heard, own) in rounds.items():
            shapes |= {f"{step}.{name}.lin_l.weight": (hidden, heard), f"{step}.{name}.lin_l.bias": (hidden,)}
            shapes |= {f"{step}.{name}.lin_r.weight": (hidden, own)}
        shapes |= {f"second.{name}.lin.weight": (seen, seen), f"second.{name}.lin.bias": (seen,)}
    shapes |= {"turn.weight": (hidden, hidden), "turn.bias": (hidden,), "free.weight": (1, hidden)}
    shapes |= {"rise.weight": (hidden, width["signed"]), "line.weight": (1, width["signed"])}
    return {**shapes, "reach.weight": (1, hidden), "reach.bias": (1,)}


def mean_views(values: Floats32, relation: Relation) -> Floats32:
    """Return the mean over each target's neighbours of their `values` and their facts; 0 without neighbours."""
    there = relation.rows >= 0
    count = np.maximum(there.sum(axis=1), 1)[:, None].astype(np.float32)
    total = np.zeros((len(relation.rows), values.shape[1]), dtype=np.float32)
    for place in range(relation.rows.shape[1]):
        total += values[relation.rows[:, place]] * there[:, place, None]
    return np.concatenate([total / count, relation.facts.sum(axis=1) / count], axis=1)
