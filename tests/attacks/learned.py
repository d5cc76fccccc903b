"""A small forge with a past that tempts models, and the three models that learned from it as `manage.py train` does.

In that past whoever is known at all fares well, refused or not; busy times, small changes, long waits and documents go
with merges. A model that could use what an author moves alone would.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ingest.history_import.pulls import import_past
from ingest.store.transaction import Transaction
from scoring.dataset.dataset import Material, read_material
from scoring.dataset.track_record import settled_record
from scoring.models.calibration import CalibrationCases, fit_platt
from scoring.models.registry import NAMES
from scoring.models.serving import LABEL
from scoring.models.storage import save_model, serve
from scoring.training.backtest import SCOPES, maker
from scoring.training.promotion import Decision
from scoring.training.rolling_origin import Past, fit_as_of
from scoring.training.train import Slice, Trained, record_of
from tests.ingest.history_import.past import past, write
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, Frames, at
from tests.pipeline import OPEN_LANE, Later, Result, opened

DAY = timedelta(days=1)
BEGAN = datetime(2024, 1, 1)
WATCHED = datetime(2026, 8, 1)
YOUNG = "did:plc:" + "y" * 24  # seed's too; nothing was ever settled there
OFFERED = at(0) + 200 * DAY  # when what is judged came; what came at the beginning is quiet by then
JUDGED = OFFERED + 2 * DAY
PEOPLE = 24
PULLS = 180


def did(name: str) -> str:
    """A DID in which the name can be read."""
    return f"did:plc:{name.ljust(24, 'a')}"


FRESH = did("fresh")
ATTACKERS = (MARA, MALLORY, FRESH)


def grow(result: Result) -> None:
    """The forge on the day before the attack: mara has a record, mallory left three changes behind, as mara did, and
    fresh has nothing. Each of them waits for an answer in both repositories."""
    import_past(result.store, write(result.folder / "past.parquet", _past()), None, "old")
    first, later = Frames(), Later(OFFERED)
    first.repository(SEED, repoDid=REPO)
    first.repository(SEED, "candle", repoDid=YOUNG)
    for voucher, subject in ((SEED, ANA), (ANA, MARA), (ANA, did("grudge"))):
        first.vouch(voucher, subject)
    for author in (MARA, MALLORY):
        for number in range(3):
            first.pull(author, f"stale{number}")
    for author in ATTACKERS:
        later.pull(author, "offered")
        later.pull(author, "young", target=YOUNG)
    first.vouch(did("grudge"), MARA, kind="denounce")
    result.take(first)
    result.watch([REPO, YOUNG], [SEED])
    result.feed(later)
    with result.store.write() as txn:
        _tell_of_accounts(txn)


def grown(folder: Path) -> None:
    """Fill this folder with the store of that forge, for all workers of a run."""
    with opened(folder, OPEN_LANE) as result:
        grow(result)


def start_attack() -> Later:
    """Frames of the day after; the first comes of nobody who is judged, so that a quiet world has as many days."""
    frames = Later(OFFERED + DAY)
    frames.identity(ANA)
    return frames


def train_all(result: Result) -> dict[str, dict[str, Any]]:
    """The record of a model for each estimator, fitted to everything that the store knows on the day before."""
    with result.store.read() as rows:
        material = read_material(rows, OFFERED, result.policy)
    return {name: record_of(_fitted(name, material), material, LABEL, OFFERED, 0) for name in NAMES}


def with_model(result: Result, record: Mapping[str, Any]) -> None:
    """Let this model serve in the passes to come."""
    folder = result.folder / "models"
    serve(folder, LABEL, save_model(folder, record, ""))
    result.policy = replace(result.policy, models=folder)


def _fitted(name: str, material: Material) -> dict[str, Trained]:
    moment, past_ = np.datetime64(OFFERED, "us"), Past(material.cases, LABEL)
    known = past_.at(moment)
    features = {**material.cases.features, **settled_record(material.cases, LABEL)}
    found = {}
    for scope in SCOPES:
        model = fit_as_of(known, features, maker(name, material, scope, 0)(moment), moment, [])
        odds = model.decision_function(features)
        behind = CalibrationCases.of(
            odds[known.positions], known.target, known.weight, material.cases.authors[known.positions]
        )
        chosen = Decision(name, len(behind.odds), PEOPLE, ())
        judged = Slice(np.isin(np.arange(len(odds)), known.positions), behind.came, behind.groups)
        found[scope] = Trained(model, fit_platt(*behind[:3]), chosen, {}, (), behind, odds, (), judged)
    return found


def _past() -> list[dict[str, Any]]:
    draw, rows, seen = np.random.default_rng(7), list[dict[str, Any]](), dict[int, int]()
    span = (WATCHED - BEGAN - 200 * DAY) / PULLS
    for number in range(1, PULLS + 1):
        busy = (number // 20) % 2 == 0
        opened = BEGAN + span * number if not busy else BEGAN + span * (number // 20 * 20) + span * (number % 20) / 4
        person = int(draw.integers(0, PEOPLE))
        known, small = seen.get(person, 0), draw.random() < 0.5
        seen[person] = known + 1
        chance = 0.25 + 0.35 * (known > 0) + 0.2 * busy + 0.15 * small + 0.1 * (person % 2)
        rows.append(_one(number, person, opened, bool(draw.random() < chance), small, draw))
    return [*rows, *_of_mara()]


def _one(
    number: int, person: int, opened: datetime, good: bool, small: bool, draw: np.random.Generator
) -> dict[str, Any]:
    repo = REPO if number % 3 else "old/elsewhere"
    columns: dict[str, Any] = {
        "repo": repo,
        "author": did(f"person{chr(97 + person // 26)}{chr(97 + person % 26)}"),
        "opened_at": opened,
        "snapshot_at": WATCHED,
    }
    columns |= {"did": columns["author"], "additions": int(draw.integers(1, 30) if small else draw.integers(50, 900))}
    columns |= {"docs_only": bool(small and draw.random() < 0.4), "touches_tests": bool(draw.random() < 0.5)}
    if good:
        return past(number, "merged", merged_at=opened + float(draw.exponential(3)) * DAY) | columns
    return past(number, "closed", closed_at=opened + float(draw.uniform(1, 60)) * DAY) | columns


def _of_mara() -> list[dict[str, Any]]:
    columns: dict[str, Any] = {"repo": REPO, "author": MARA, "did": MARA, "snapshot_at": WATCHED}
    columns |= {"docs_only": False, "touches_tests": False}
    ends = [("merged", "merged_at"), ("merged", "merged_at"), ("closed", "closed_at"), ("merged", "merged_at")]
    return [
        past(PULLS + place + 1, state)
        | columns
        | {"opened_at": WATCHED - (300 - place) * DAY, name: WATCHED - (290 - place) * DAY}
        for place, (state, name) in enumerate(ends)
    ]


def _tell_of_accounts(txn: Transaction) -> None:
    """Identities of different ages, of which the old ones belong to those who fare well."""
    txn.execute("update contributors set did_created_at = timestamp '2020-01-01' where did like 'did:plc:person%'")
    txn.execute("update contributors set did_created_at = ? where did in (?, ?, ?)", [at(0), *ATTACKERS])
