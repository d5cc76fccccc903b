"""A training where PyTorch is installed: the graph network is tried by the one rule, stored whole, and has a card."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.graph.checkpoint import load_checkpoint
from scoring.graph.inputs import Settings as NetSettings
from scoring.graph.serving import DIRECTIONS
from scoring.models.serving import LABEL
from scoring.models.storage import serving_name
from scoring.training import graph_model
from scoring.training.graph_model import GraphProblem
from scoring.training.graph_trial import HOW, is_installed
from scoring.training.summary import read_graph
from tests.conftest import missing
from tests.stores import use_own_store
from tests.trustsite.commands.test_train import history
from trustsite.management.commands import train

QUICK = NetSettings(most=4, hidden=4, steps=4, again=1, rate=0.01, decay=3.0, dropout=0.5)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    use_own_store(tmp_path, settings)
    settings.MODEL_DIR, settings.PYG_ROOT = tmp_path / "models", tmp_path / "pyg"
    call_command("import_history", str(history(tmp_path)), stdout=StringIO())


@pytest.fixture(name="torch")
def torch_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch, and settings of a fit that takes no time."""
    if not is_installed():
        missing("REQUIRE_TORCH", "PyTorch is not installed: pip install -r requirements/gnn.txt")
    monkeypatch.setattr(graph_model, "SETTINGS", QUICK)


def trained(*arguments: str) -> str:
    out = StringIO()
    call_command("train", "--draws", "20", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.mark.usefixtures("torch")
def test_the_network_is_tried_stored_and_told_beside_a_model_that_serves(settings: Settings) -> None:
    said = json.loads(trained("--json"))
    assert said["serves"]
    card = read_graph(settings.MODEL_DIR, LABEL)
    assert card is not None
    assert said["graph"]["checkpoint"] == card.checkpoint
    tried = [(trial.scope, trial.group) for trial in card.trials]
    assert tried == [("change", "all"), ("change", "outside"), ("person", "all"), ("person", "outside")]
    assert all(trial.why and not trial.promoted for trial in card.trials)
    model = load_checkpoint(settings.MODEL_DIR, settings.PYG_ROOT, card.checkpoint, LABEL, DIRECTIONS)
    assert len(model.keys) == card.cases == 240
    text = (settings.MODEL_DIR / f"{card.checkpoint}.md").read_text()
    assert "The rule refused it in all 2 trials: it decides nothing." in text
    assert all(trial.why in text for trial in card.trials)
    assert f"{settings.MODEL_DIR / card.checkpoint}.md: The rule refused it" in trained()


def test_without_pytorch_a_training_says_nothing_of_it_unless_it_is_to_be_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "is_installed", lambda: False)
    assert "graph" not in json.loads(trained("--json"))
    settings.SHOW_GRAPH_MODEL = True
    assert trained().splitlines()[-1] == HOW
    assert read_graph(settings.MODEL_DIR, LABEL) is None


@pytest.mark.parametrize("problem", [GraphProblem("There is nothing to learn."), OSError(28, "No space left")])
def test_a_trial_that_fails_leaves_the_new_model_serving(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(*arguments: Any) -> None:
        raise problem

    monkeypatch.setattr(train, "is_installed", lambda: True)
    monkeypatch.setattr(train, "try_graph", fail if isinstance(problem, GraphProblem) else lambda *arguments: None)
    monkeypatch.setattr(train, "store_graph", fail)
    if isinstance(problem, GraphProblem):
        assert trained().splitlines()[-1] == "There is nothing to learn."
    else:
        with pytest.raises(CommandError, match=r"cannot be stored \(No space left\); the model serves"):
            trained()
    assert serving_name(settings.MODEL_DIR, LABEL) is not None
    assert read_graph(settings.MODEL_DIR, LABEL) is None


def test_too_many_pull_requests_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_model, "MOST_CASES", 200)
    monkeypatch.setattr(train, "is_installed", lambda: True)
    assert trained().splitlines()[-1] == "GraphSAGE is tried on 1 to 200 pull requests, not on 240."
