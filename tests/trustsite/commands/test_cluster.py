"""`manage.py cluster` and `manage.py train --features`: a model of what a cluster computed is the model of one box."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.models.storage import load_model
from tests.engines import sail
from tests.stores import use_own_store
from tests.trustsite.commands.test_train import history, told

pytestmark = pytest.mark.usefixtures("as_a_program")
NOWHERE = "sc://127.0.0.1:1"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    use_own_store(tmp_path, settings)
    settings.MODEL_DIR = tmp_path / "models"
    (tmp_path / "job").mkdir()


def run(folder: Path, address: str, *arguments: str, job: str = "features") -> tuple[str, str]:
    """What the command says on stdout and on stderr."""
    out, words = StringIO(), StringIO()
    call_command("cluster", job, "--connect", address, "--folder", str(folder), *arguments, stdout=out, stderr=words)
    return out.getvalue(), words.getvalue()


def test_features_of_a_cluster_train_the_model_that_those_of_one_box_train(tmp_path: Path, settings: Settings) -> None:
    told("import_history", str(history(tmp_path)))
    job = tmp_path / "job"
    with sail(tmp_path) as address:
        said, words = run(job, address, "--shards", "3")
    assert said.startswith("Features of all pull requests are there as of 20")
    assert said.endswith(f"Next: manage.py train --features {job}\n")
    assert "240 cases are exported in 3 shards." in words
    assert "pull requests were computed here as well, and are equal." in words
    one_box = json.loads(told("train", "--draws", "20", "--json"))
    spread = json.loads(told("train", "--draws", "20", "--json", "--features", str(job)))
    records = [load_model(settings.MODEL_DIR, of["model"]).record for of in (one_box, spread)]
    assert [record["cases"] for record in records] == [240, 240]
    assert records[0]["data"] == records[1]["data"]
    assert spread["decisions"] == one_box["decisions"]
    drawn = json.loads(told("train", "--draws", "20", "--json", "--features", str(job), "--rows", "160"))
    assert 120 < load_model(settings.MODEL_DIR, drawn["model"]).record["cases"] < 200


def test_what_was_imported_after_the_job_asks_for_another(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    told("import_history", str(history(tmp_path / "few", 60)))
    with sail(tmp_path) as address:
        run(tmp_path / "job", address)
    told("import_history", str(history(tmp_path, 240)))
    with pytest.raises(CommandError, match=r"180 of 240 pull requests have no features in .*run manage\.py cluster"):
        told("train", "--features", str(tmp_path / "job"))


def test_without_what_it_needs_each_command_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Nothing was published yet"):
        run(tmp_path / "job", NOWHERE)
    told("import_history", str(history(tmp_path, 20)))
    with pytest.raises(CommandError, match=r"Nothing answers at 127\.0\.0\.1:1 "):
        run(tmp_path / "job", NOWHERE)
    with pytest.raises(CommandError, match="Nobody vouches, or nobody is a seed: there is no trust to compute"):
        run(tmp_path / "job", NOWHERE, job="trust")
    with pytest.raises(CommandError, match="is not a folder: make one that the whole cluster sees"):
        run(tmp_path / "missing", NOWHERE)
    with pytest.raises(CommandError, match="--shards must be 1 or more"):
        run(tmp_path / "job", NOWHERE, "--shards", "0")
    with pytest.raises(CommandError, match="holds no finished job"):
        told("train", "--features", str(tmp_path / "job"))
    for rows in (("--rows", "0", "--features", str(tmp_path / "job")), ("--rows", "5")):
        with pytest.raises(CommandError, match="--rows must be 1 or more, and needs --features"):
            told("train", *rows)
    with pytest.raises(CommandError, match="name either --features or a FILE"):
        told("train", str(history(tmp_path, 20)), "--features", str(tmp_path / "job"))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    told("import_history", str(history(tmp_path, 20)))
    shutil.rmtree(tmp_path / "job")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / ".lock").mkdir()
    with pytest.raises(CommandError, match=r"job cannot be used \(Is a directory\)"):
        run(tmp_path / "job", NOWHERE)
