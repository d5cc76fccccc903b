"""The red team against trained models: what nobody else gave a person leaves P(clean) and lane no better (§1.9).

Two bounds hold. A column that an author moves may not speak for them: it is one that a model only lets lower P, or it
moved in the direction that never speaks for anybody. And P never passes what the model says without such columns: who
lies below that because of how they behave can behave otherwise, and gains no more than a judgement by the rest.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from scoring.dataset.catalogue import FEATURES
from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.models.estimators import without_alone_of
from scoring.models.registry import NAMES
from scoring.models.serving import read_columns
from scoring.models.storage import ScopeModel, ServedModel, load_model, save_model
from scoring.types import Lane
from tests.attacks.learned import ATTACKERS, JUDGED, grown, start_attack, train_all, with_model
from tests.attacks.moves import ALONE, GROUPS, Move
from tests.conftest import PROVE, count, for_all_workers
from tests.ingest.stream.frames import MALLORY, MARA
from tests.pipeline import OPEN_LANE, Result, opened

OWN = {one.name for one in MATERIAL_COLUMNS if one.moved_by == "self" and one.of == "person"}
DIRECTION = {one.name: one.direction for one in MATERIAL_COLUMNS}
PLAYED = ALONE if PROVE else GROUPS
TOLERANCE = 1e-9
LANES = list(Lane)
SCORES = """
select did, repository_id, probability, lane from current_scores join contributors using (contributor_id)
where did in (select unnest(?))
"""
PAIRS = """
select did, contributor_id, repository_id from features join contributors using (contributor_id)
where did in (select unnest(?))
"""
Who = tuple[str, int]  # DID and repository


@dataclass(frozen=True, slots=True)
class Judged:
    """Of each attacker and repository: what the models read, and what a pass with each of them said."""

    columns: Mapping[Who, Mapping[str, float]]
    said: Mapping[str, Mapping[Who, tuple[float | None, Lane]]]  # by estimator


@dataclass(frozen=True, slots=True)
class Forge:
    """The folder of a store that nobody attacked yet, the models, and how the attackers are judged in it."""

    folder: Path
    records: Mapping[str, dict[str, Any]]
    models: Mapping[str, ServedModel]
    quiet: Judged


@pytest.fixture(scope="module", name="forge")
def forge_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    folder = for_all_workers("learned-forge", grown, tmp_path_factory)
    with opened(shutil.copytree(folder, tmp_path_factory.mktemp("quiet") / "store"), OPEN_LANE) as result:
        records = train_all(result)
        models = {name: load_model(folder, save_model(folder, record, "")) for name, record in records.items()}
        result.take(start_attack())
        yield Forge(folder, records, models, judged(result, records, NAMES))


def judged(result: Result, records: Mapping[str, dict[str, Any]], names: tuple[str, ...]) -> Judged:
    said = {}
    for name in names:
        with_model(result, records[name])
        result.judge(JUDGED)
        found = result.rows(SCORES, [list(ATTACKERS)])
        said[name] = {(row["did"], row["repository_id"]): (row["probability"], Lane(row["lane"])) for row in found}
    return Judged(columns_of(result), said)


def columns_of(result: Result) -> dict[Who, dict[str, float]]:
    with result.store.read() as rows:
        pairs = rows.rows(PAIRS, [list(ATTACKERS)])
        asked = [(row["contributor_id"], row["repository_id"]) for row in pairs]
        columns, places, _ = read_columns(rows, asked, [], JUDGED, 14)
    names = {row["contributor_id"]: row["did"] for row in pairs}
    return {
        (names[one[0]], one[1]): {name: float(column[places[one]]) for name, column in columns.items()} for one in asked
    }


def speaks_for(name: str, before: float, after: float) -> bool:
    """Whether a model may raise P for this difference."""
    if name in OWN or abs(after - before) <= TOLERANCE or np.isnan([before, after]).all():
        return False
    return not (after - before) * DIRECTION[name] < 0  # what became known or unknown may speak for anybody


def cap(model: ServedModel, columns: Mapping[str, float]) -> float:
    """P(clean) of a person without the columns that they move alone."""
    part = model.person
    without = without_alone_of(part.model) or part.model
    return float(ScopeModel(without, part.calibration, part.behind).probability(as_rows(columns))[0])


def as_rows(columns: Mapping[str, float]) -> dict[str, np.ndarray]:
    return {name: np.array([value]) for name, value in columns.items()}


def attacked(forge: Forge, folder: Path, moves: tuple[Move, ...], names: tuple[str, ...]) -> Judged:
    """The same forge in which mara, mallory and fresh made these moves."""
    with opened(shutil.copytree(forge.folder, folder), OPEN_LANE) as result:
        frames = start_attack()
        for who in ATTACKERS:
            for move in moves:
                move(frames, result, who)
        result.take(frames)
        return judged(result, forge.records, names)


@pytest.mark.parametrize("played", sorted(PLAYED))
def test_no_move_gives_a_column_that_speaks_for_its_author_nor_a_better_p_or_lane(
    forge: Forge, tmp_path: Path, played: str
) -> None:
    turn = sorted(PLAYED).index(played) % len(NAMES[1:])
    found = attacked(forge, tmp_path / "store", PLAYED[played], NAMES if PROVE else (NAMES[1 + turn],))
    for who, columns in forge.quiet.columns.items():
        raised = {name for name, before in columns.items() if speaks_for(name, before, found.columns[who][name])}
        assert raised == set(), who
        for name in NAMES[1:]:
            model, attack = forge.models[name].person, as_rows(found.columns[who])
            assert model.probability(attack)[0] <= cap(forge.models[name], columns) + TOLERANCE, (name, who)
        for name, said in found.said.items():
            (p, lane), (before, lane_before) = said[who], forge.quiet.said[name][who]
            bound = before if name == "beta" else cap(forge.models[name], columns)
            assert (p or 0) <= (bound or 0) + TOLERANCE, (name, who)
            assert lane is not Lane.FAST_LANE or lane_before is Lane.FAST_LANE, (name, who)


VALUES = draw.one_of(draw.just(float("nan")), draw.floats(allow_nan=True, allow_infinity=True), draw.floats(0, 400))


@pytest.mark.parametrize("name", NAMES[1:])
@settings(max_examples=count(15, 2000))
@given(own=draw.fixed_dictionaries(dict.fromkeys(sorted(OWN), VALUES)), who=draw.sampled_from(ATTACKERS))
def test_whatever_stands_in_the_columns_that_a_person_moves_p_is_no_higher_than_without_them(
    forge: Forge, name: str, own: dict[str, float], who: str
) -> None:
    for (did, _), columns in forge.quiet.columns.items():
        if did == who:
            told = forge.models[name].person.probability(as_rows({**columns, **own}))[0]
            assert told <= cap(forge.models[name], columns) + TOLERANCE


CHANGE = sorted(one.name for one in FEATURES if one.of == "change")


@pytest.mark.parametrize("name", NAMES[1:])
@settings(max_examples=count(15, 2000))
@given(change=draw.fixed_dictionaries(dict.fromkeys(CHANGE, VALUES)), who=draw.sampled_from(ATTACKERS))
def test_however_a_change_is_shaped_its_p_is_no_higher_than_that_of_its_author(
    forge: Forge, name: str, change: dict[str, float], who: str
) -> None:
    columns = next({**its, **change} for (did, _), its in forge.quiet.columns.items() if did == who)
    person, whole = (part.probability(as_rows(columns))[0] for part in parts(forge.models[name]))
    shaped = {**columns, **dict.fromkeys(CHANGE, float("nan"))}
    assert min(person, whole) <= forge.models[name].person.probability(as_rows(shaped))[0]


def parts(model: ServedModel) -> tuple[ScopeModel, ScopeModel]:
    return model.person, model.change


AGAINST = sorted(name for name, direction in DIRECTION.items() if direction and name not in OWN | set(CHANGE))


@pytest.mark.parametrize("name", NAMES[1:])
@settings(max_examples=count(15, 2000))
@given(
    worse=draw.dictionaries(draw.sampled_from(AGAINST), draw.floats(0, 300), min_size=1),
    who=draw.sampled_from((MARA, MALLORY)),
)
def test_a_column_that_moved_against_a_person_raises_nobody(
    forge: Forge, name: str, worse: dict[str, float], who: str
) -> None:
    for (did, _), columns in forge.quiet.columns.items():
        if did == who:
            moved = {one: columns[one] - DIRECTION[one] * by for one, by in worse.items()}
            for part in parts(forge.models[name]):
                before, after = (part.probability(as_rows(each))[0] for each in (columns, {**columns, **moved}))
                assert after <= before + TOLERANCE
