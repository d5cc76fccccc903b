"""The graph network beside what serves: a pass stores what it says of open changes, and nothing else is moved by it."""

import importlib.util
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.erasure.files import drop_all
from ingest.store.database import StreamClock
from scoring.config.policy import Policy
from scoring.dataset.dataset import read_material
from scoring.graph import serving
from scoring.graph.checkpoint import GraphModel, point, save_checkpoint
from scoring.models.calibration import Platt
from scoring.models.serving import LABEL
from scoring.pipeline import score as pipeline
from scoring.pipeline.score import score
from scoring.queries.audited import hide_row, seal
from scoring.queries.types import DueAudit
from scoring.types import Reason
from tests.conftest import missing
from tests.pipeline import Result
from tests.scoring.graph.nets import SETTINGS, drawn_model, drawn_scopes
from tests.scoring.pipeline.offered_world import offered_world

Judge = Callable[[bool], dict[str, dict[str, Any]]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        yield result


@pytest.fixture
def judge(world: Result, tmp_path: Path) -> Judge:
    """Runs a pass with the network shown or not; returns the decisions by address."""

    def judged(shown: bool) -> dict[str, dict[str, Any]]:
        states = tmp_path / "states" if shown else None
        score(world.store, StreamClock(world.store), Policy(models=tmp_path / "models", graph=states))
        with world.store.read() as rows:
            return {row["pull_uri"]: row for row in rows.rows("select * from current_decisions")}

    return judged


@pytest.fixture
def stored(world: Result, tmp_path: Path) -> str:
    """A network of drawn weights over the world's own pull requests, which the label points at."""
    if importlib.util.find_spec("safetensors") is None:
        missing("REQUIRE_TORCH", "safetensors is not installed: pip install -r requirements/gnn.txt")
    return store_anew(world, tmp_path, 0)


def store_anew(world: Result, folder: Path, first: int) -> str:
    with world.store.read() as rows:
        material = read_material(rows, StreamClock(world.store).now(), Policy())
    keys = [str(key) for key in material.cases.keys]
    scopes = drawn_scopes(material, first=first)
    name = save_checkpoint(folder / "models", folder / "states", LABEL, keys, scopes, SETTINGS)
    point(folder / "models", LABEL, name)
    return name


def without_graph(decisions: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {uri: {**row, "graph": None} for uri, row in decisions.items()}


@pytest.mark.usefixtures("stored")
def test_a_pass_stores_what_the_network_says_and_every_decision_stays_what_it_was(judge: Judge, world: Result) -> None:
    quiet = judge(False)
    assert {row["graph"] for row in quiet.values()} == {None}
    before = world.rows("select count(*) as n from scores")
    shown = judge(True)
    assert all(0 < row["graph"] < 1 for row in shown.values())
    assert without_graph(shown) == quiet
    assert world.rows("select count(*) as n from scores") == before
    assert judge(False) == quiet, "switched off it is forgotten with the next pass"


def test_another_network_is_taken_with_the_next_pass(stored: str, judge: Judge, world: Result, tmp_path: Path) -> None:
    first = {uri: row["graph"] for uri, row in judge(True).items()}
    assert store_anew(world, tmp_path, 50) != stored
    assert {uri: row["graph"] for uri, row in judge(True).items()} != first


def test_a_damaged_network_says_nothing_once_in_words_and_the_pass_goes_on(
    stored: str, judge: Judge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = judge(False)
    (tmp_path / "models" / f"{stored}.safetensors").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        assert judge(True) == quiet
        assert judge(True) == quiet
    said = [record.getMessage() for record in caplog.records if "GraphSAGE" in record.getMessage()]
    assert len(said) == 1
    assert "the checkpoint is cut or was changed" in said[0]


def words_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "GraphSAGE" in record.getMessage()]


def test_a_wrong_pointer_is_told_once_and_a_network_that_is_whole_again_is_taken(
    stored: str, judge: Judge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "models" / f"{stored}.safetensors"
    whole = path.read_bytes()
    point(tmp_path / "models", LABEL, "elsewhere")
    with caplog.at_level(logging.WARNING):
        judge(True)
        judge(True)
        assert len(words_of(caplog)) == 1
        point(tmp_path / "models", LABEL, stored)
        path.write_bytes(whole[:-1])
        judge(True)
        path.write_bytes(whole)
        assert {type(row["graph"]) for row in judge(True).values()} == {float}
    assert len(words_of(caplog)) == 2


@pytest.mark.usefixtures("stored")
def test_once_an_erasure_took_the_states_nothing_of_them_stays_in_memory_or_in_a_row(
    judge: Judge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert None not in {row["graph"] for row in judge(True).values()}
    shelf = pipeline.GRAPH_SHELVES[tmp_path / "models"]
    assert shelf._model is not None
    drop_all(tmp_path / "states")
    with caplog.at_level(logging.WARNING):
        assert {row["graph"] for row in judge(True).values()} == {None}
        judge(True)
    assert shelf._model is None
    assert len(words_of(caplog)) == 1
    assert "the file of states cannot be read" in words_of(caplog)[0]


def with_huge_weights(model: GraphModel) -> GraphModel:
    """Finite ones, of which infinities come that cancel."""
    weights = model.scopes["change"].nets[0][0].weights_
    weights["pull_second.bias"][:] = 3e38
    weights["free.weight"][0, ::2], weights["free.weight"][0, 1::2] = 3e38, -3e38
    return model


def with_a_wild_map(model: GraphModel) -> GraphModel:
    scopes = {name: replace(part, calibration=Platt(1e308, float("inf"))) for name, part in model.scopes.items()}
    return replace(model, scopes=scopes)


@pytest.mark.parametrize("spoil", [with_huge_weights, with_a_wild_map])
def test_a_network_whose_chance_is_no_number_never_stops_a_pass(
    judge: Judge,
    world: Result,
    spoil: Callable[[GraphModel], GraphModel],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with world.store.read() as rows:
        model = drawn_model(read_material(rows, StreamClock(world.store).now(), Policy()))
    model = spoil(model)
    monkeypatch.setattr(serving.GraphShelf, "model", lambda shelf: model)
    with caplog.at_level(logging.WARNING):
        assert {row["graph"] for row in judge(True).values()} == {None}
    assert len(words_of(caplog)) == 1
    assert "not a number" in words_of(caplog)[0]


def test_without_a_network_or_the_switch_nothing_is_read(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {row["graph"] for row in judge(True).values()} == {None}

    def fail(*args: object) -> None:
        raise AssertionError("a file of the network was read")

    monkeypatch.setattr(serving, "pointed", fail)
    judge(False)


def test_what_serves_imports_neither_pytorch_nor_safetensors() -> None:
    script = "import sys, scoring.pipeline.score; print(*{'torch', 'safetensors'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


@pytest.mark.usefixtures("stored")
def test_the_row_of_the_inbox_has_it_unless_an_audit_hides_the_chance(judge: Judge, world: Result) -> None:
    judge(True)
    rows = [row for group in world.queue().groups for row in group.rows]
    assert rows
    assert all(row.graph is not None for row in rows)
    drawn = replace(rows[0].verdict, reasons=(Reason("audit_drawn", {"share": 0.05}),))
    assert seal(replace(rows[0], verdict=drawn), None).graph is None
    assert hide_row(rows[0], DueAudit("at://other", "other")).graph is None
