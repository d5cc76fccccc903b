"""The graph network where it should gain, and its times: `python -m tests.bench.bench_graph [--write] [FILE]`.

Needs PyTorch. A simulated network with planted rings: a ring's first members did work that was merged and later taken
back, then vouch for new accounts of the same kind; honest people vouch for honest newcomers. By everything but the
graph the two kinds of newcomers are alike. Each model learns from the first 70 % and is judged on the rest, with
intervals by author. With --write these figures become those of the card (`scoring/training/graph_rings.json`). Then,
with FILE a history as of docs/history.md: one fit of one label and seed, one pull request, memory.
"""

import json
import resource
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from scoring.config.policy import Policy
from scoring.dataset.cases import Cases, Vouches
from scoring.dataset.dataset import Material, material_of_file
from scoring.dataset.track_record import RECORD, settled_record
from scoring.graph.checkpoint import load_checkpoint, save_checkpoint
from scoring.graph.estimator import Graph, GraphSage, placed
from scoring.graph.neighbours import find_neighbours
from scoring.graph.serving import DIRECTIONS as DIRECTIONS_OF_NETS
from scoring.models.base import Floats
from scoring.models.registry import make_estimator
from scoring.models.serving import LABEL
from scoring.training.graph_card import RINGS as FILE
from scoring.training.graph_trial import GRAPH_NAMES, SEEDS, SETTINGS, UNHEARD
from scoring.training.metrics import auc, auc_of, interval
from scoring.training.rolling_origin import Past, fit_as_of
from scoring.training.summary import ShownRings
from tests.scoring.graph.nets import drawn_scopes

DAY = np.timedelta64(1, "D")
NEVER = np.datetime64("NaT", "us")
START = np.datetime64("2020-01-01", "us")
DAYS, PEOPLE, RINGS, MEMBERS = 1_460, 900, 12, 25
DIRECTIONS = {"vouched": 0, "noise": 0} | {feature.name: feature.direction for feature in RECORD}


def simulate(seed: int) -> tuple[Cases, Vouches, np.ndarray]:
    """A history, its vouches, and a mask of the cases by members of rings."""
    draw = np.random.default_rng(seed)
    ring = np.concatenate([np.full(PEOPLE, -1), np.repeat(np.arange(RINGS), MEMBERS)])
    joined = draw.uniform(0, DAYS - 30, len(ring))
    for number in range(RINGS):  # the members of a ring come one after the other within a year and a half
        members = np.flatnonzero(ring == number)
        joined[members] = draw.uniform(0, DAYS - 600) + np.sort(draw.uniform(0, 550, MEMBERS))
    vouches, rows = _vouches(draw, ring, joined), []
    for person, first in enumerate(joined):
        for opened in first + np.cumsum(draw.exponential(60, 1 + draw.poisson(2.5))):
            rows.append((opened, person, draw.random() < 0.8, draw.random() < (0.85 if ring[person] >= 0 else 0.2)))
    rows = sorted(row for row in rows if row[0] < DAYS)
    opened = START + (np.array([row[0] for row in rows]) * 86_400e6).astype("m8[us]")
    authors = np.array([row[1] for row in rows], dtype=np.int64) + 1
    merged, bad = (np.array([row[place] for row in rows]) for place in (2, 3))
    cases = _cases(draw, opened, authors, merged, merged & bad, vouches)
    return cases, vouches, ring[authors - 1] >= 0


def _vouches(draw: np.random.Generator, ring: np.ndarray, joined: np.ndarray) -> Vouches:
    """Everybody but the first of their kind is vouched for, by one or two of their kind who came before."""
    pairs = []
    for person, number in enumerate(ring):
        before = np.flatnonzero((ring == number) & (joined < joined[person] - 40))
        for voucher in draw.choice(before, min(len(before), int(draw.integers(1, 3))), replace=False):
            pairs.append((voucher + 1, person + 1, joined[person]))
    since = START + (np.array([pair[2] for pair in pairs]) * 86_400e6).astype("m8[us]") - DAY
    people = np.array([pair[:2] for pair in pairs], dtype=np.int64)
    ones = np.ones(len(pairs), dtype=bool)
    return Vouches(people[:, 0], people[:, 1], ones, since, np.full(len(pairs), NEVER))


def _cases(draw: np.random.Generator, opened: Any, authors: Any, merged: Any, reverted: Any, vouches: Vouches) -> Cases:
    count = len(opened)
    merged_at = np.where(merged, opened + (draw.exponential(4, count) * 86_400e6).astype("m8[us]"), NEVER)
    number = np.array([np.count_nonzero(vouches.subjects == author) for author in authors], dtype=np.float64)
    return Cases(
        keys=np.array([f"case {place}" for place in range(count)], dtype=np.object_),
        authors=authors,
        repositories=draw.integers(1, 30, count),
        push_holder=np.zeros(count, dtype=bool),
        opened_at=opened,
        observed_until=np.full(count, opened[-1] + 400 * DAY),
        merged_at=merged_at,
        refused_at=np.where(merged, NEVER, opened + 40 * DAY),
        reverted_at=np.where(reverted, merged_at + 8 * DAY, NEVER),
        patched_at=np.full(count, NEVER),
        patched_fix_at=np.full(count, NEVER),
        failed_at=np.full(count, NEVER),
        as_sent=np.full(count, -1, dtype=np.int8),
        features={"vouched": number, "noise": draw.normal(0, 1, count)},
    )


def play_rings(seed: int) -> dict[str, Any]:
    cases, vouches, of_ring = simulate(seed)
    past, cut = Past(cases, LABEL), cases.opened_at[int(len(cases) * 0.7)]
    columns = placed({**cases.features, **settled_record(cases, LABEL)}, cases)
    judged = past.judged(cut)
    first = np.zeros(len(cases), dtype=bool)
    first[np.unique(cases.authors, return_index=True)[1]] = True
    odds = {name: _odds(name, cases, vouches, past, columns, cut) for name in ("blend", *GRAPH_NAMES)}
    told: dict[str, Any] = {"rings": seed, "cases": int(judged.sum()), "of_rings": int((judged & of_ring).sum())}
    for group, mask in (("all", judged), ("newcomers", judged & first)):
        observed = past.observed()[mask].astype(np.float64)
        told[group] = {name: round(auc(value[mask], observed), 3) for name, value in odds.items()}
        for other in ("blend", UNHEARD):
            told[group][f"over {other}"] = _gain(odds[GRAPH_NAMES[0]][mask], odds[other][mask], observed, cases, mask)
    return told


def _gain(ours: Floats, other: Floats, observed: Floats, cases: Cases, mask: np.ndarray) -> list[float]:
    our_auc, its_auc = auc_of(ours, observed), auc_of(other, observed)
    edges = interval(lambda weights: our_auc(weights) - its_auc(weights), cases.authors[mask], 500, 0)
    return [round(edge, 3) for edge in edges]


def _odds(
    name: str, cases: Cases, vouches: Vouches, past: Past, columns: Mapping[str, Floats], cut: np.datetime64
) -> Floats:
    """The log odds of a model that knew what was known at the cut; of a network the mean of its seeds."""
    if name not in GRAPH_NAMES:
        models = [make_estimator(name, DIRECTIONS)]
    else:
        neighbours = find_neighbours(cases, vouches, SETTINGS.most, SETTINGS.settled)
        graph = Graph(columns, neighbours.without() if name == UNHEARD else neighbours)
        models = [GraphSage(DIRECTIONS, graph, SETTINGS, seed) for seed in range(SEEDS)]
    fitted = [fit_as_of(past.at(cut), columns, model, cut, []) for model in models]
    return np.mean([model.decision_function(columns) for model in fitted], axis=0)


def measure(material: Material) -> None:
    """Print what one fit of the change's model takes, one pull request, and the memory of all that serves."""
    cases, label = material.cases, LABEL
    past, moment = Past(cases, label), cases.observed_until.max()
    columns = placed({**cases.features, **settled_record(cases, label)}, cases)
    neighbours = find_neighbours(cases, material.vouches, SETTINGS.most, SETTINGS.settled)
    labels, graph = past.at(moment), Graph(columns, neighbours)
    wall, cpu = time.perf_counter(), time.process_time()
    net = fit_as_of(labels, columns, GraphSage(material.change, graph, SETTINGS), moment, [])
    times = {"fit_s": round(time.perf_counter() - wall, 1), "fit_cpu_s": round(time.process_time() - cpu, 1)}
    row = {name: column[-1:] for name, column in columns.items()}
    wall = time.perf_counter()
    for _ in range(200):
        net.decision_function(row)
    one = (time.perf_counter() - wall) / 200 * 1_000
    size = sum(relation.rows.nbytes + relation.facts.nbytes for relation in neighbours)
    states = net.states_.nbytes if isinstance(net, GraphSage) else 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    told = {"graph": len(cases), **times, "one_ms": round(one, 2), "states_mb": round(states / 2**20, 1)}
    print(json.dumps(told | {"neighbours_mb": round(size / 2**20, 1), "peak_mb": peak}), flush=True)


def measure_stored(material: Material, folder: Path) -> None:
    """Print what a stored network of real size takes, its weights drawn: memory, and one pull request by all nets."""
    cases, keys = material.cases, [str(key) for key in material.cases.keys]
    name = save_checkpoint(folder, folder / "states", LABEL, keys, drawn_scopes(material, SEEDS, 0, SETTINGS), SETTINGS)
    stored = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    before = _resident()
    model = load_checkpoint(folder, folder / "states", name, LABEL, DIRECTIONS_OF_NETS)
    told = {"stored_mb": round(stored / 1e6, 1), "resident_mb": _resident() - before}
    row = {name: column[-1:] for name, column in {**cases.features, **settled_record(cases, LABEL)}.items()}
    rows, last = model.rows_of(keys), np.array([len(cases) - 1])
    began = time.process_time()
    for _ in range(20):
        heard = find_neighbours(cases, material.vouches, SETTINGS.most, SETTINGS.settled, last).moved(rows)
    told["neighbours_of_one_cpu_ms"] = round((time.process_time() - began) / 20 * 1_000, 2)
    with threadpool_limits(1):
        began = time.process_time()
        for _ in range(200):
            min(part.probability(row, heard)[0] for part in model.scopes.values())
        told["one_by_all_nets_cpu_ms"] = round((time.process_time() - began) / 200 * 1_000, 2)
    print(json.dumps(told), flush=True)


def _resident() -> int:
    """The memory of this process, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1_000


def shown(told: Mapping[str, Any]) -> ShownRings:
    group = told["all"]
    edges = [(float(low), float(high)) for low, high in (group["over blend"], group[f"over {UNHEARD}"])]
    return ShownRings(told["cases"], group[GRAPH_NAMES[0]], group["blend"], group[UNHEARD], *edges)


def main(file: Path | None, write: bool) -> None:
    worlds = []
    for seed in range(SEEDS):
        worlds.append(play_rings(seed))
        print(json.dumps(worlds[-1]), flush=True)
    if write:
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode([shown(world) for world in worlds])) + b"\n")
    if file is not None:
        with TemporaryDirectory() as folder:
            material = material_of_file(file, Path(folder), datetime(2026, 11, 27), Policy())
            measure_stored(material, Path(folder) / "models")
            measure(material)


if __name__ == "__main__":
    files = [argument for argument in sys.argv[1:] if argument != "--write"]
    main(Path(files[0]) if files else None, "--write" in sys.argv)
