"""Models as files: text, named by their content, refused where they do not fit the code."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.dataset.track_record import settled_record
from scoring.models import storage as model_files
from scoring.models.storage import ModelProblem, Shelf, card_of, load_model, objection, save_model, serve
from scoring.training.train import record_of, train
from tests.scoring.dataset.people import made_up, material

NOW = datetime(2024, 6, 1)
LABEL = "label_merge"


@pytest.fixture(scope="module")
def record() -> dict:
    ours = material(made_up(n=500, years=1.5))
    return record_of(train(ours, LABEL, NOW, 50, 1), ours, LABEL, NOW, 1)


@pytest.fixture
def kept(record: dict, tmp_path: Path) -> tuple[Path, str]:
    return tmp_path, save_model(tmp_path, record, card_of(record))


def test_a_model_comes_back_as_it_was_trained(kept: tuple[Path, str]) -> None:
    served = load_model(*kept)
    cases = made_up()
    told = served.person.probability({**cases.features, **settled_record(cases, LABEL)})
    assert ((told > 0) & (told < 1)).all()
    assert served.record["scopes"]["person"]["decision"]["serves"] in ("beta", "logistic", "lightgbm")


def test_training_twice_gives_the_same_file(record: dict) -> None:
    ours = material(made_up(n=500, years=1.5))
    again = record_of(train(ours, LABEL, NOW, 50, 1), ours, LABEL, NOW, 1)
    assert json.dumps(again, sort_keys=True) == json.dumps(record, sort_keys=True)


def test_the_card_says_what_it_is_made_of_and_what_it_is_not(record: dict) -> None:
    card = card_of(record)
    assert f"data {record['data']}" in card
    assert "does not judge a person and blocks nobody" in card


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-10], lambda data: data.replace(b"0", b"1", 1), lambda data: b""]
)
def test_a_cut_or_changed_model_is_refused(kept: tuple[Path, str], damage: Callable[[bytes], bytes]) -> None:
    path = kept[0] / f"{kept[1]}.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelProblem, match="cut or was changed"):
        load_model(*kept)


def test_a_model_of_other_features_is_refused(kept: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "MATERIAL_COLUMNS", MATERIAL_COLUMNS[1:])
    with pytest.raises(ModelProblem, match="other features"):
        load_model(*kept)


def test_a_new_model_serves_without_a_restart(kept: tuple[Path, str], record: dict) -> None:
    folder, name = kept
    shelf = Shelf(folder)
    assert shelf.model(LABEL) is None
    serve(folder, LABEL, name)
    first = shelf.model(LABEL)
    assert first is not None
    assert shelf.model(LABEL) is first
    other = save_model(folder, {**record, "seed": 2}, "")
    serve(folder, LABEL, other)
    second = shelf.model(LABEL)
    assert second is not None
    assert second.name == other


@pytest.mark.parametrize("words", ["../../etc/passwd", "", "x" * 64])
def test_a_pointer_that_names_no_model_is_refused(tmp_path: Path, words: str) -> None:
    (tmp_path / f"{LABEL}.serving").write_text(words)
    with pytest.raises(ModelProblem, match="names no model"):
        Shelf(tmp_path).model(LABEL)


def test_a_worse_model_is_objected_to_and_an_equal_one_is_not(record: dict) -> None:
    worse = json.loads(json.dumps(record))
    worse["scopes"]["person"]["metrics"]["gain"]["log_loss"] = -0.5
    assert "below what the serving model's is at least" in objection(worse, record)
    assert objection(record, record) == objection(worse, None) == ""


@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_poor_history_trains_a_shrunk_rate_and_says_so(n: int) -> None:
    ours = material(made_up(n=60).select(np.arange(n)))
    trained = train(ours, LABEL, NOW, 20, 1)
    assert {part.decision.serves for part in trained.values()} == {"beta"}
    assert "too few to compare on" in trained["person"].decision.trials[1].why
    told = trained["person"].model.predict_proba({"clean_before": np.zeros(1), "not_clean_before": np.zeros(1)})
    assert 0 < told[0, 1] < 1
