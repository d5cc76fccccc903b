"""A checkpoint gives the network back that was stored, and nothing else: every other file is refused in words."""

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scoring.dataset.dataset import ALONE, OF_CHANGE, OF_PERSON, Material
from scoring.dataset.track_record import settled_record
from scoring.graph import checkpoint
from scoring.graph.checkpoint import (
    CheckpointProblem,
    GraphModel,
    load_checkpoint,
    net_directions,
    point,
    pointed,
    save_checkpoint,
)
from scoring.graph.neighbours import find_neighbours
from scoring.models.serving import LABEL
from tests.conftest import missing
from tests.scoring.graph.nets import SETTINGS, drawn_scopes, whole_material

DIRECTIONS = net_directions(OF_PERSON, OF_CHANGE, ALONE)
Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays, dict[str, Any]], None]


@pytest.fixture(scope="module", name="material")
def material_fixture() -> Material:
    return whole_material()


@pytest.fixture(name="stored")
def stored_fixture(material: Material, tmp_path: Path) -> str:
    """The name of a checkpoint in `models`, whose states lie in `states`."""
    if importlib.util.find_spec("safetensors") is None:
        missing("REQUIRE_TORCH", "safetensors is not installed: pip install -r requirements/gnn.txt")
    keys = [str(key) for key in material.cases.keys]
    return save_checkpoint(tmp_path / "models", tmp_path / "states", LABEL, keys, drawn_scopes(material), SETTINGS)


def loaded(folder: Path, name: str) -> GraphModel:
    return load_checkpoint(folder / "models", folder / "states", name, LABEL, DIRECTIONS)


def test_a_stored_network_says_what_it_said_and_names_nobody(stored: str, material: Material, tmp_path: Path) -> None:
    model, cases = loaded(tmp_path, stored), material.cases
    columns = {**cases.features, **settled_record(cases, LABEL)}
    heard = find_neighbours(cases, material.vouches, SETTINGS.most, settled=False)
    rows = model.rows_of([str(key) for key in cases.keys])
    assert sorted(rows.tolist()) == list(range(len(cases)))
    for scope, part in drawn_scopes(material).items():
        told = model.scopes[scope].probability(columns, heard.moved(rows))
        assert np.abs(told - part.probability(columns, heard)).max() < 1e-6
        assert told.std() > 0.01
    assert model.rows_of(["nobody's"]).tolist() == [-1]
    for path in [*(tmp_path / "models").iterdir(), *(tmp_path / "states").iterdir()]:
        assert not any(str(key).encode() in path.read_bytes() for key in cases.keys[:50])


def rewritten(folder: Path, name: str, change: Change) -> str:
    """The name of a copy in which something is different, with the name that belongs to its content."""
    from safetensors.numpy import load, save

    data = (folder / f"{name}.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__")
    about = json.loads(header["about"]) if header else {}
    arrays = load(data)
    change(arrays, about)
    return written(folder, save(arrays, {"about": json.dumps(about)}))


def written(folder: Path, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    (folder / f"{name}.safetensors").write_bytes(data)
    return name


def of_format(arrays: Arrays, about: dict[str, Any]) -> None:
    about["format"] = 99


def other_features(arrays: Arrays, about: dict[str, Any]) -> None:
    about["features"] = about["features"][1:]


def other_label(arrays: Arrays, about: dict[str, Any]) -> None:
    about["label"] = "label_merge"


def nothing_about(arrays: Arrays, about: dict[str, Any]) -> None:
    about.clear()


def hears_all(arrays: Arrays, about: dict[str, Any]) -> None:
    about["settings"]["most"] = 10**9


def no_scope(arrays: Arrays, about: dict[str, Any]) -> None:
    del about["scopes"]["person"]


def one_net_of_the_person(arrays: Arrays, about: dict[str, Any]) -> None:
    """Without the net that does not see what they move alone."""
    about["scopes"]["person"]["scales"].pop(0)


def many_seeds(arrays: Arrays, about: dict[str, Any]) -> None:
    about["scopes"]["change"]["seeds"] = 10**9


def falling_map(arrays: Arrays, about: dict[str, Any]) -> None:
    about["scopes"]["change"]["calibration"]["slope"] = -1.0


def scales_of_less(arrays: Arrays, about: dict[str, Any]) -> None:
    about["scopes"]["change"]["scales"][0]["median"].pop()


def states_elsewhere(arrays: Arrays, about: dict[str, Any]) -> None:
    about["states"] = "../" * 20 + "etc/passwd"


def no_weight(arrays: Arrays, about: dict[str, Any]) -> None:
    del arrays["change.0.0/turn.weight"]


def wrong_shape(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["change.0.0/turn.weight"] = arrays["change.0.0/turn.weight"][:, :-1].copy()


def wrong_type(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["change.0.0/turn.weight"] = arrays["change.0.0/turn.weight"].astype(np.float64)


def not_a_number(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["person.1.1/free.weight"][0, 0] = np.nan


def negative(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["person.0.0/rise.weight"][0, 0] = -1.0


def too_wide(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["change.0.0/turn.bias"] = np.zeros(100_000, np.float32)


def bias_without_a_shape(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["change.0.0/turn.bias"] = np.array(1.0, np.float32)


def scales_beyond_floats(arrays: Arrays, about: dict[str, Any]) -> None:
    about["scopes"]["change"]["scales"][0]["median"][0] = 10**400


def huge(arrays: Arrays, about: dict[str, Any]) -> None:
    """Finite, but products of these are not, and infinities that meet are no number."""
    arrays["change.0.0/turn.weight"][:] = 3e38


REFUSED: dict[Change, str] = {
    of_format: "another version",
    other_features: "another version",
    other_label: "another version",
    nothing_about: "does not hold a network",
    hears_all: "how many neighbours",
    no_scope: "does not hold a network",
    one_net_of_the_person: "not the nets of person",
    many_seeds: "not the nets of change",
    falling_map: "does not hold a network",
    scales_of_less: "other columns",
    states_elsewhere: "nothing names the file of states",
    no_weight: "does not hold a network",
    wrong_shape: "has the shape",
    wrong_type: "has the shape",
    not_a_number: "not a number",
    negative: "would let a person raise themselves",
    too_wide: "wide",
    bias_without_a_shape: "has the shape",
    scales_beyond_floats: "does not hold a network",
    huge: "above 1,000,000",
}


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_another_checkpoint_is_refused_in_words(stored: str, tmp_path: Path, change: Change) -> None:
    name = rewritten(tmp_path / "models", stored, change)
    with pytest.raises(CheckpointProblem, match=REFUSED[change]):
        loaded(tmp_path, name)


def short_states(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["change.0.0"] = arrays["change.0.0"][:-1].copy()


def falling_keys(arrays: Arrays, about: dict[str, Any]) -> None:
    arrays["keys"] = arrays["keys"][::-1].copy()


@pytest.mark.parametrize(("change", "why"), [(short_states, "has the shape"), (falling_keys, "name their pull")])
def test_other_states_are_refused_in_words(stored: str, tmp_path: Path, change: Change, why: str) -> None:
    of = json.loads(checkpoint._metadata((tmp_path / "models" / f"{stored}.safetensors").read_bytes())["about"])
    states = rewritten(tmp_path / "states", of["states"], change)

    def with_states(arrays: Arrays, about: dict[str, Any]) -> None:
        about["states"] = states

    with pytest.raises(CheckpointProblem, match=why):
        loaded(tmp_path, rewritten(tmp_path / "models", stored, with_states))


@pytest.fixture(name="damaged", params=["cut", "longer", "a pickle", "a header of a terabyte", "nothing"])
def damaged_fixture(request: pytest.FixtureRequest, stored: str, tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "models" / f"{stored}.safetensors"
    data = path.read_bytes()
    if request.param in ("cut", "longer"):
        path.write_bytes(data[:-1] if request.param == "cut" else data + b"\0")
        yield stored
        return
    pickled = b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."
    other = {"a pickle": pickled, "a header of a terabyte": (2**40).to_bytes(8, "little") + b"{}", "nothing": b""}
    yield written(tmp_path / "models", other[request.param])


def test_a_damaged_file_is_refused_in_words(damaged: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match=r"cut or was changed|not one of safetensors"):
        loaded(tmp_path, damaged)


def test_a_file_beyond_the_limit_is_not_read_whole(
    stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LARGEST", 1_000)
    with pytest.raises(CheckpointProblem, match=r"more than 0\.001 MB"):
        loaded(tmp_path, stored)


def test_states_that_an_erasure_took_are_told_with_what_to_run(stored: str, tmp_path: Path) -> None:
    for path in (tmp_path / "states").iterdir():
        path.unlink()
    with pytest.raises(CheckpointProblem, match=r"the file of states cannot be read .*: run manage\.py train"):
        loaded(tmp_path, stored)


@pytest.mark.parametrize("name", ["", "x" * 64, "../../etc/passwd", "AB" * 32])
def test_a_pointer_to_what_is_no_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    assert pointed(tmp_path, LABEL) is None
    point(tmp_path, LABEL, name)
    with pytest.raises(CheckpointProblem, match="names no checkpoint"):
        pointed(tmp_path, LABEL)


def test_of_a_pointer_a_hundred_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / f"{LABEL}.graph").write_bytes(b"ab" * 32 + b" " * 36 + b"more")
    assert pointed(tmp_path, LABEL) == "ab" * 32


def test_without_the_library_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(tmp_path, b"anything")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(CheckpointProblem, match=r"pip install -r requirements/gnn\.txt"):
        load_checkpoint(tmp_path, tmp_path, name, LABEL, DIRECTIONS)


def test_a_save_that_fails_half_way_leaves_what_was_pointed_at(
    stored: str, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(tmp_path / "models", LABEL, stored)
    (tmp_path / "file").write_text("in the way")
    keys = [str(key) for key in material.cases.keys]
    with pytest.raises(OSError):  # noqa: PT011
        save_checkpoint(tmp_path / "file", tmp_path / "states", LABEL, keys, drawn_scopes(material, first=50), SETTINGS)
    assert pointed(tmp_path / "models", LABEL) == stored
    assert loaded(tmp_path, stored).name == stored
