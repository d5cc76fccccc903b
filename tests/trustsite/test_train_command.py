"""From a file of past pull requests to a model that serves and an attempt to certify its threshold."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.learning.model_files import load_model, serving_name
from scoring.serving import LABEL
from tests.ingest.past import DAY, OPENED, merged, refused, write


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store, snapshots and models of the test's own; no worker runs."""
    settings.DUCKDB_PATH = tmp_path / "duckdb" / "trust.duckdb"
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    settings.MODEL_DIR = tmp_path / "models"


def told(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def history(folder: Path, count: int = 240) -> Path:
    """One pull request a day by forty people, of whom the odd ones are mostly refused."""
    draw, rows = np.random.default_rng(5), list[dict[str, Any]]()
    for number in range(1, count + 1):
        opened, person = OPENED + number * DAY, int(draw.integers(0, 40))
        is_good = draw.random() < (0.2 if person % 2 else 0.9)
        ends = {"merged_at": opened + DAY} if is_good else {"last_commit_at": opened}
        until = {"opened_at": opened, "snapshot_at": OPENED + 700 * DAY, "author": f"person {person}"}
        rows.append((merged if is_good else refused)(number, **ends, **until))
    return write(folder / "old.parquet", rows)


def test_what_was_imported_trains_a_model_that_serves_and_its_attempt_can_be_recomputed(
    tmp_path: Path, settings: Settings
) -> None:
    told("import_history", str(history(tmp_path)))
    said = json.loads(told("train", "--draws", "20", "--json"))
    assert said["serves"]
    assert serving_name(settings.MODEL_DIR, LABEL) == said["model"]
    assert load_model(settings.MODEL_DIR, said["model"]).record["cases"] == 240
    (certificate,) = (settings.MODEL_DIR / "certificates").iterdir()
    assert str(certificate) in said["certificate"]
    assert said["certificate"].startswith("Nothing is certified: ")
    assert "0 of its 0 cases are in the store." in told("verify_certificate", str(certificate))


def test_a_model_of_a_file_alone_is_kept_and_does_not_serve(tmp_path: Path, settings: Settings) -> None:
    settings.STAGING_DIR = tmp_path / "staging"
    said = json.loads(told("train", str(history(tmp_path, 60)), "--draws", "20", "--json"))
    assert not said["serves"]
    assert "import_history comes first" in said["objection"]
    assert (settings.MODEL_DIR / f"{said['model']}.json").is_file()
    assert serving_name(settings.MODEL_DIR, LABEL) is None


def test_without_anything_published_training_says_what_to_do() -> None:
    with pytest.raises(CommandError, match="Nothing was published yet: run the worker first, or name a FILE"):
        told("train")
