"""The present graph as the red team's ground: the site's seeds and every vouch that stands."""

from datetime import datetime

import numpy as np

from ingest.transaction import Rows
from scoring.policy import Policy
from scoring.redteam.attack import Ground
from scoring.structure import read_graph

SITE = "select contributor_id from seeds where repository_id = 0"


def present_ground(rows: Rows, now: datetime, policy: Policy) -> Ground:
    """The vouches, and the merges that count as such, as they weigh at `now`, from the site's seeds; reads only."""
    graph = read_graph(rows, now, policy)
    seeds = np.flatnonzero(np.isin(graph.contributor_ids, rows.columns(SITE)["contributor_id"]))
    return Ground(graph.edges, seeds.astype(np.int64), len(graph.contributor_ids))
