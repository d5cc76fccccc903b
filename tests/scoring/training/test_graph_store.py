"""A training that stores a graph network removes the one that it replaces, and nothing that belongs to others."""

import importlib.util
from datetime import datetime
from pathlib import Path

import pytest

from scoring.dataset.cases import LabelName
from scoring.dataset.dataset import Material
from scoring.graph.checkpoint import point, pointed
from scoring.models.serving import LABEL
from scoring.training.graph_model import GraphProblem, TrainedGraph, store_graph
from scoring.training.summary import ENDING, read_graph
from tests.conftest import missing
from tests.scoring.graph.nets import drawn_scopes, whole_material

NOW = datetime(2026, 11, 27, 12)


@pytest.fixture(scope="module", name="material")
def material_fixture() -> Material:
    if importlib.util.find_spec("safetensors") is None:
        missing("REQUIRE_TORCH", "safetensors is not installed: pip install -r requirements/gnn.txt")
    return whole_material(200)


def store(folder: Path, material: Material, first: int, label: LabelName = LABEL, is_current: bool = True) -> str:
    trained = TrainedGraph(drawn_scopes(material, first=first), (), 1.0, 1.0)
    places = folder / "models", folder / "states"
    return store_graph(*places, trained, material, label, NOW, lambda: is_current).checkpoint


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_new_network_takes_the_files_of_the_one_before_along_and_no_others(
    material: Material, tmp_path: Path
) -> None:
    store(tmp_path, material, 70, "label_merge")
    others = names(tmp_path)
    old = store(tmp_path, material, 0)
    new = store(tmp_path, material, 50)
    left = names(tmp_path) - others
    assert not any(old in name for name in left)
    assert others <= names(tmp_path)
    ends = {f"models/{new}{ending}" for ending in (".safetensors", ENDING, ".md")} | {f"models/{LABEL}.graph"}
    assert ends <= left
    assert len([name for name in left if name.startswith("states/")]) == 1
    card = read_graph(tmp_path / "models", LABEL)
    assert card is not None
    assert card.checkpoint == new


def test_the_same_network_once_more_stays_whole(material: Material, tmp_path: Path) -> None:
    name = store(tmp_path, material, 0)
    before = names(tmp_path)
    assert store(tmp_path, material, 0) == name
    assert names(tmp_path) == before


@pytest.mark.parametrize("wrong", ["ab" * 32, "../../elsewhere"])
def test_a_pointer_to_nothing_is_replaced(material: Material, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "models").mkdir()
    point(tmp_path / "models", LABEL, wrong)
    assert store(tmp_path, material, 0) == pointed(tmp_path / "models", LABEL)


def test_after_an_erasure_meanwhile_the_written_states_go_and_the_one_before_serves(
    material: Material, tmp_path: Path
) -> None:
    old = store(tmp_path, material, 0)
    before = names(tmp_path)
    with pytest.raises(GraphProblem, match="somebody was erased meanwhile"):
        store(tmp_path, material, 50, is_current=False)
    assert names(tmp_path) == before
    assert pointed(tmp_path / "models", LABEL) == old
