"""A training where PyTorch is installed: the graph network is tried by the one rule, stored whole, and has a card."""

import importlib.util
import json
import signal
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from pytest_django import Settings
from threadpoolctl import threadpool_info

from scoring.dataset.dataset import Material
from scoring.graph.checkpoint import load_checkpoint
from scoring.graph.inputs import Settings as NetSettings
from scoring.graph.serving import DIRECTIONS
from scoring.models.calibration import CalibrationProblem
from scoring.models.serving import LABEL
from scoring.models.storage import serving_name
from scoring.training import graph_model
from scoring.training.graph_model import GraphProblem, TrainedGraph
from scoring.training.graph_trial import HOW, is_installed
from scoring.training.summary import read_graph
from tests.conftest import missing
from tests.scoring.graph.nets import drawn_scopes
from tests.stores import use_own_store
from tests.trustsite.commands.test_train import history
from trustsite.management.commands import train
from trustsite.management.commands.train import material_of
from trustsite.worker.handover import hand_over_job

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
    settings.SHOW_GRAPH_MODEL = True
    model_said, graph_said = trained("--json").splitlines()
    assert json.loads(model_said)["serves"]
    said = json.loads(graph_said)
    card = read_graph(settings.MODEL_DIR, LABEL)
    assert card is not None
    assert said["graph"]["checkpoint"] == card.checkpoint
    tried = [(trial.scope, trial.group) for trial in card.trials]
    assert tried == [("change", "all"), ("change", "outside"), ("person", "all"), ("person", "outside")]
    assert all(trial.why and not trial.promoted for trial in card.trials)
    model = load_checkpoint(settings.MODEL_DIR, settings.PYG_ROOT, card.checkpoint, LABEL, DIRECTIONS)
    assert len(model.keys) == card.cases == 240
    text = (settings.MODEL_DIR / f"{card.checkpoint}.md").read_text()
    assert "The rule refused it in 2 of 2 trials: it decides nothing." in text
    assert all(trial.why in text for trial in card.trials)
    assert f"{settings.MODEL_DIR / card.checkpoint}.md: The rule refused it" in trained()


def fail(*arguments: Any) -> None:
    raise AssertionError("the network was tried")


def test_where_it_is_not_shown_it_is_not_tried(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "is_installed", fail)
    monkeypatch.setattr(train, "try_graph", fail)
    assert "graph" not in trained("--json")
    assert "GraphSAGE" not in trained()
    assert not settings.PYG_ROOT.exists()


def test_without_pytorch_a_training_says_what_to_install(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SHOW_GRAPH_MODEL = True
    monkeypatch.setattr(train, "is_installed", lambda: False)
    assert trained().splitlines()[-1] == HOW
    assert json.loads(trained("--json").splitlines()[-1]) == {"graph": HOW}
    assert read_graph(settings.MODEL_DIR, LABEL) is None


@pytest.fixture(name="shown")
def shown_fixture(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that shows the network, and has what a trial needs."""
    settings.SHOW_GRAPH_MODEL = True
    monkeypatch.setattr(train, "is_installed", lambda: True)


PROBLEMS = {
    GraphProblem("There is nothing to learn."): "There is nothing to learn.",
    MemoryError(): "(MemoryError); the model serves",
    RuntimeError(
        "DefaultCPUAllocator:\n not enough memory"
    ): "(DefaultCPUAllocator: not enough memory); the model serves",
    ImportError("failed to map segment"): "(failed to map segment); the model serves",
    CalibrationProblem("a score is not a number"): "(a score is not a number); the model serves",
}


@pytest.mark.usefixtures("shown")
def test_whatever_ends_a_trial_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    now, material = material_of(None)
    for problem, words in PROBLEMS.items():
        monkeypatch.setattr(train, "try_graph", Mock(side_effect=problem))
        said = train._try_graph(material, LABEL, now, {}, 20, 0, 0)
        assert isinstance(said, str)
        assert words in said


@pytest.mark.usefixtures("shown")
def test_a_trial_that_fails_leaves_a_training_that_succeeded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "try_graph", Mock())
    monkeypatch.setattr(train, "store_graph", Mock(side_effect=OSError(28, "No space left on device")))
    assert "No space left on device" in trained().splitlines()[-1]
    assert serving_name(settings.MODEL_DIR, LABEL) is not None
    assert read_graph(settings.MODEL_DIR, LABEL) is None


@pytest.mark.usefixtures("shown")
def test_the_end_of_its_time_ends_a_trial_alone(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(train, "try_graph", lambda *arguments: signal.raise_signal(signal.SIGALRM))
    said = trained().splitlines()
    assert said[-1] == "There is no new GraphSAGE (its time was over); the model serves all the same."
    assert serving_name(settings.MODEL_DIR, LABEL) is not None
    assert signal.getsignal(signal.SIGALRM) == before


@pytest.mark.usefixtures("shown")
def test_the_model_is_told_before_a_trial_which_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    out, threads = Told(), list[int]()

    def look(*arguments: Any) -> None:
        assert "serves." in out.flushed
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        raise GraphProblem("Seen.")

    monkeypatch.setattr(train, "try_graph", look)
    call_command("train", "--draws", "20", stdout=out, stderr=StringIO())
    assert out.getvalue().endswith("Seen.\n")
    assert set(threads) == {1}


class Told(StringIO):
    """Remembers what was flushed, which a killed process would have told."""

    flushed = ""

    def flush(self) -> None:
        self.flushed = self.getvalue()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("shown")
def test_nothing_of_a_person_who_was_erased_during_a_trial_is_stored(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("safetensors") is None:
        missing("REQUIRE_TORCH", "safetensors is not installed: pip install -r requirements/gnn.txt")

    def erase_meanwhile(material: Material, *arguments: Any) -> TrainedGraph:
        hand_over_job("erase", {"did": "did:plc:" + "gone".ljust(24, "q")})
        return TrainedGraph(drawn_scopes(material), (), 1.0, 1.0)

    monkeypatch.setattr(train, "try_graph", erase_meanwhile)
    assert "somebody was erased meanwhile" in trained().splitlines()[-1]
    assert list(settings.PYG_ROOT.iterdir()) == []
    assert list(settings.MODEL_DIR.glob("*.safetensors")) == []
    monkeypatch.setattr(train, "try_graph", lambda material, *rest: TrainedGraph(drawn_scopes(material), (), 1.0, 1.0))
    assert "somebody" not in trained()
    assert len(list(settings.PYG_ROOT.iterdir())) == 1


@pytest.mark.usefixtures("shown")
def test_too_many_pull_requests_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_model, "MOST_CASES", 200)
    assert trained().splitlines()[-1] == "GraphSAGE is tried on 1 to 200 pull requests, not on 240."
