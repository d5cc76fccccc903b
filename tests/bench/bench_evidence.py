"""Measures what evidence on vouches brings and lets through: `python -m tests.bench.bench_evidence`.

One line of JSON for each weight without evidence and weight of each verified pull request. `replay`: trust in the
author of every pull request as of the month before, as `bench_merges` has it, with how many of the vouches name what
was verified; `stripped`: the same where every second vouch names nothing, so that weights differ at all. `advogato`:
fakes behind bought vouches that quote farmed merges (full weight) among honest people none of whose vouches names
anything, the worst case for honest people, and behind bought vouches without evidence among such: `auc`, the most fakes
at s >= .5 for each bought vouch, and how many honest people are at s >= .5.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import Ground, attack, choose_vouchers
from scoring.redteam.attacks import SHAPES
from scoring.redteam.measures import HALF, half_mass, people_reached
from scoring.redteam.report import MOST_TRUSTED, RANDOM
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges
from scoring.trust.table import read_verified_evidence
from tests.bench.bench_merges import LAST, REPLAY, figures, fill, told, trust_when_asked
from tests.pipeline import opened
from tests.scoring.redteam.attack_table import measure
from tests.scoring.trust.graphs import advogato
from trustsite.settings import DATA_ROOT

SETTINGS = ((1.0, 0.0), (0.9, 0.05), (0.9, 0.1), (0.75, 0.125), (0.75, 0.25), (0.5, 0.25), (0.5, 0.5), (0.25, 0.75))
FAKES, BOUGHT, DRAWS = 300, (1, 5, 20), 3
STRIPPED = "update vouches set evidences = '[]' where event_seq % 2 = 0"


def replayed(rows: Rows, base: float, each: float, known: dict[str, np.ndarray]) -> dict[str, float]:
    """Coverage and skill of trust on the replayed history; `trusted`: the share of its pull requests at s >= .5."""
    policy = Policy(vouch_weight=base, evidence_weight=each)
    trust = np.fromiter(trust_when_asked(rows, policy), dtype=np.float64)
    return figures(trust, known) | {"trusted": round(float((trust >= HALF).mean()), 3)}


def attacked(ground: Ground, base: float, quoted: float) -> dict[str, float]:
    """Fakes whose bought vouches weigh `quoted` among honest people whose vouches weigh `base`."""
    flow = Parameters()
    plain = Ground(
        Edges(ground.edges.voucher, ground.edges.subject, ground.edges.weight * base), ground.seeds, ground.size
    )
    honest, trust = people_reached(plain), first_passage(plain.edges, plain.seeds, plain.size, flow)
    found: dict[float, list[tuple[float, float]]] = {RANDOM: [], MOST_TRUSTED: []}
    for draw in range(DRAWS):
        for place, shape in enumerate(SHAPES.values()):
            for top in found:
                for bought in BOUGHT:
                    generator = np.random.default_rng([draw, place, bought, round(top * 1000)])
                    vouchers = choose_vouchers(trust.mass, plain.seeds, bought, top, generator)
                    under = attack(plain, shape, vouchers, FAKES, generator)
                    weight = under.edges.weight.copy()
                    friendly = (under.edges.voucher < plain.size) & (under.edges.subject >= plain.size)
                    weight[friendly] = quoted
                    mass = first_passage(
                        Edges(under.edges.voucher, under.edges.subject, weight), plain.seeds, under.size, flow
                    ).mass
                    outcome = measure(mass, honest, under, half_mass(flow))
                    found[top].append((outcome.auc, outcome.above))
    told = {"honest_trusted": float((trust.trust[honest] >= HALF).sum())}
    for top, rows in found.items():
        name = "anybody" if top == RANDOM else "top"
        told |= {f"auc_{name}": round(float(np.mean([row[0] for row in rows])), 4)}
        told |= {f"above_{name}": round(max(row[1] for row in rows), 3)}
    return told


def replays() -> list[dict[str, Any]]:
    """The replay's part."""
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder, opened(Path(folder)) as result:
        fill(result)
        for name in ("replay", "stripped"):
            if name == "stripped":
                with result.store.write() as txn:
                    txn.execute(STRIPPED)
            with result.store.read() as rows:
                known = told(rows)
                share = {"vouches": rows.value("select count(*) from vouches where kind = 'vouch'")}
                share |= {"verified": len(read_verified_evidence(rows, LAST, Policy().window_days).voucher)}
                for base, each in SETTINGS:
                    lines.append({name: share | {"base": base, "each": each} | replayed(rows, base, each, known)})
                    print(json.dumps(lines[-1]), flush=True)
    return lines


def main() -> None:
    """Print the figures."""
    if not REPLAY.is_dir():
        print(json.dumps({"skipped": "the recorded history is not beside this clone"}))
        return
    ground = Ground(*advogato(REPLAY.parents[1]))
    for base in dict.fromkeys(base for base, _ in SETTINGS):
        for quoted in dict.fromkeys((1.0, base)):
            line = {"base": base, "bought": quoted} | attacked(ground, base, quoted)
            print(json.dumps({"advogato": line}), flush=True)
    replays()


if __name__ == "__main__":
    main()
