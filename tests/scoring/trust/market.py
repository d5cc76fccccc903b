"""Bitcoin-OTC from the shared data, without what gives its labels away."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow import parquet

from scoring.trust.graph import Edges


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Bitcoin-OTC without the ratings from which its labels can be read: what is left, seeds, and who is judged."""

    ratings: Edges  # weight -10..10
    seeds: np.ndarray
    size: int
    dropped: int
    honest: np.ndarray
    cheats: np.ndarray


def bitcoin_otc(shared: Path) -> Market:
    """The seeds are node 1 and the 35 whom it rated 5 or more; their ratings of labelled nodes, which are the labels,
    are dropped, and the labelled nodes that are no seeds are judged."""
    table = parquet.read_table(shared / "data" / "trust_otc_edges.parquet")
    rater, rated, rating = (table[name].to_numpy() for name in ("source", "target", "rating"))
    labels = parquet.read_table(shared / "data" / "trust_otc_labels.parquet")
    node, label = (labels[name].to_numpy() for name in ("node", "label"))
    seeds = np.unique(np.append(rated[(rater == 1) & (rating >= 5)], 1)).astype(np.int64)
    leaking = np.isin(rater, seeds) & np.isin(rated, node)
    kept = [column[~leaking] for column in (rater, rated, rating)]
    judged = ~np.isin(node, seeds)
    return Market(
        ratings=Edges(kept[0].astype(np.int64), kept[1].astype(np.int64), kept[2].astype(np.float64)),
        seeds=seeds,
        size=int(max(rater.max(), rated.max())) + 1,
        dropped=int(leaking.sum()),
        honest=node[judged & (label > 0)],
        cheats=node[judged & (label < 0)],
    )
