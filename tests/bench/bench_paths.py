"""Run times of explanations on random graphs, and of `manage.py trust` on a star: `python -m tests.bench.bench_paths`.

One line of JSON for each; seconds of wall time. Goals: everybody's dominators at most .2 s at 20,000 people / 100,000
vouches; a star of a million edges, from file to file, in a few seconds.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow

from scoring.config.policy import Parameters
from scoring.trust.dominators import immediate_dominators
from scoring.trust.files import write_table
from scoring.trust.first_passage import find_transfers
from scoring.trust.graph import Edges, prepare
from scoring.trust.incremental import SeedSetTrust
from scoring.trust.paths import contributions, disjoint_paths
from scoring.trust.what_if import blast_radius, propose_vouches
from tests.bench.bench_trust import popular_graph, seconds
from tests.sources import PROJECT

SIZES = ((20_000, 100_000), (100_000, 500_000))
RAYS = 1_000_000


def explanations(size: int, vouches: int) -> dict[str, object]:
    """Seconds for everybody's dominators, and for what a page shows of one person in the middle of the reached."""
    flow, seeds, threshold = Parameters(), np.arange(50), 0.5
    edges, none = popular_graph(size, vouches), Edges(seeds[:0], seeds[:0], np.zeros(0))
    network, denounces = prepare(edges, size), prepare(none, size)
    standing = SeedSetTrust.compute(network, denounces, seeds, flow)
    passage, transfers = standing.judged.passage, find_transfers(edges, seeds, size, flow)
    reached = np.flatnonzero(passage.distance > 0)
    person = int(reached[np.argsort(passage.mass[reached])[len(reached) // 2]])
    merges = (passage.trust < threshold).astype(np.int64)
    made = partial(propose_vouches, standing, network, denounces, int(seeds[0]), merges, threshold)
    return {
        "people": size,
        "vouches": vouches,
        "transfers": len(transfers.voucher),
        "dominators_s": seconds(partial(immediate_dominators, transfers, flow.hops)),
        "disjoint_paths_s": seconds(partial(disjoint_paths, transfers, person, flow.hops)),
        "contributions_s": seconds(partial(contributions, transfers, person, flow.hops)),
        "blast_radius_s": seconds(partial(blast_radius, transfers, passage, flow, person, threshold)),
        "five_worth_making_s": seconds(made),
    }


def star(folder: Path) -> dict[str, object]:
    """Seconds for the whole command on a star, the start of Python included."""
    rays = pyarrow.table(
        {"source": pyarrow.repeat("hub", RAYS), "target": pyarrow.array(np.arange(RAYS)).cast(pyarrow.string())}
    )
    write_table(folder / "edges.csv", rays)
    (folder / "seeds.txt").write_text("hub\n")
    files = ["--edges", folder / "edges.csv", "--seeds", folder / "seeds.txt", "--out", folder / "out.csv"]
    command = [sys.executable, PROJECT / "manage.py", "trust", *files]
    return {"star_edges": RAYS, "trust_command_s": seconds(partial(subprocess.run, command, check=True))}


def main() -> None:
    """Print the figures."""
    for size, vouches in SIZES:
        print(json.dumps(explanations(size, vouches)))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(star(Path(folder))))


if __name__ == "__main__":
    main()
