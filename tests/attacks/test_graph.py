"""The red team against the graph network, whatever it learned: no free move gives its author a better chance.

The networks have drawn weights, large ones. What nobody else gave a person may move only columns that their network
lets lower them, and is heard by nobody: their chance never passes what the network says without such columns.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scoring.dataset.dataset import read_material
from scoring.graph.checkpoint import GraphModel, GraphScope
from scoring.graph.serving import graph_chances
from scoring.types import Pair
from tests.attacks.learned import ATTACKERS, FRESH, JUDGED, OFFERED, grown, start_attack
from tests.attacks.moves import ALONE, GROUPS, Move
from tests.conftest import PROVE, for_all_workers
from tests.ingest.stream.frames import MALLORY, MARA, pull_uri
from tests.pipeline import OPEN_LANE, Later, Result, opened
from tests.scoring.graph.nets import drawn_model
from trustsite.world.network import iso

PLAYED = ALONE if PROVE else GROUPS
TOLERANCE = 1e-6  # of single precision
NETS = 3
OFFERS = ("offered", "young")
OPEN = """
select pull_uri, author_id, repository_id from pull_requests where list_contains($uris, pull_uri) and state = 'open'
"""
Chances = tuple[Mapping[str, float], ...]  # of each network, by address


@dataclass(frozen=True, slots=True)
class Forge:
    """The folder of a store that nobody attacked yet, the networks, and what they say there with and without."""

    folder: Path
    models: tuple[GraphModel, ...]
    quiet: Chances
    caps: Chances  # without the columns that a person moves alone


@pytest.fixture(scope="module", name="forge")
def forge_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    folder = for_all_workers("learned-forge", grown, tmp_path_factory)
    with opened(shutil.copytree(folder, tmp_path_factory.mktemp("quiet") / "store"), OPEN_LANE) as result:
        with result.store.read() as rows:
            material = read_material(rows, OFFERED, result.policy)
        models = tuple(drawn_model(material, 2, 100 * number) for number in range(NETS))
        result.take(start_attack())
        caps = tuple(without_alone(model) for model in models)
        yield Forge(folder, models, told(result, models), told(result, caps))


def without_alone(model: GraphModel) -> GraphModel:
    person = model.scopes["person"]
    return replace(model, scopes={"person": GraphScope(tuple((seed[0],) for seed in person.nets), person.calibration)})


def told(result: Result, models: tuple[GraphModel, ...]) -> Chances:
    """What each network says of the changes that the attackers offer, once everything is derived and judged."""
    result.judge(JUDGED)
    uris = [pull_uri(who, name) for who in ATTACKERS for name in OFFERS]
    with result.store.read() as rows:
        changes: dict[str, Pair] = {
            row["pull_uri"]: (row["author_id"], row["repository_id"]) for row in rows.rows(OPEN, {"uris": uris})
        }
        assert len(changes) == len(uris)
        return tuple(graph_chances(rows, model, changes, JUDGED, 14) for model in models)


# Mara's word is heard, since others merged work of hers: what she says of the other two is none of their free moves.
@pytest.mark.parametrize("who", [(MARA,), (MALLORY, FRESH)], ids=["with a record", "without"])
@pytest.mark.parametrize("played", sorted(PLAYED))
def test_no_free_move_gives_its_author_a_better_chance_by_a_network(
    forge: Forge, tmp_path: Path, played: str, who: tuple[str, ...]
) -> None:
    after = attacked(forge, tmp_path / "store", PLAYED[played], who)
    own = {pull_uri(one, name) for one in who for name in OFFERS}
    for quiet, caps, moved in zip(forge.quiet, forge.caps, after, strict=True):
        for uri in own:
            assert moved[uri] <= max(quiet[uri], caps[uri]) + TOLERANCE, uri


def attacked(forge: Forge, folder: Path, moves: tuple[Move, ...], attackers: tuple[str, ...]) -> Chances:
    with opened(shutil.copytree(forge.folder, folder), OPEN_LANE) as result:
        frames = start_attack()
        for who in attackers:
            for move in moves:
                move(frames, result, who)
        result.take(frames)
        return told(result, forge.models)


def test_a_word_of_somebody_with_merged_work_is_heard_so_that_those_of_sybils_could_have_been(
    forge: Forge, tmp_path: Path
) -> None:
    moved = attacked(forge, tmp_path / "store", (vouches_for_mallory,), (MARA,))
    uri = pull_uri(MALLORY, "offered")
    assert all(abs(after[uri] - quiet[uri]) > 1e-3 for after, quiet in zip(moved, forge.quiet, strict=True))


def vouches_for_mallory(frames: Later, result: Result, who: str) -> None:
    frames.vouch(who, MALLORY, createdAt=iso(frames.first_us))
