"""From a file of past pull requests to a model that serves and an attempt to certify its threshold."""

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.clock import wall_now
from ingest.store.database import StreamClock
from ingest.store.snapshots import SnapshotReader, publish
from scoring.certificates.certificate import load_certificate
from scoring.certificates.lane_curve import FILE as CURVE_FILE
from scoring.config.policy import Policy
from scoring.models.registry import SHRUNK_RATE
from scoring.models.serving import LABEL
from scoring.models.starter import parse_starter
from scoring.models.storage import load_model, serve, serving_name
from scoring.pipeline.score import score
from scoring.training.summary import read_backtest, read_serving
from tests.ingest.history_import.past import BROKEN, DAY, OPENED, merged, refused, write
from tests.scoring.pipeline.offered_world import offered_world
from tests.stores import use_own_store
from trustsite.drive import Place
from trustsite.management.commands.train import present_of


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store, snapshots and models of the test's own; no worker runs."""
    use_own_store(tmp_path, settings)
    settings.MODEL_DIR = tmp_path / "models"


def told(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def history(folder: Path, count: int = 240, projects: int = 1) -> Path:
    """One pull request a day, or as many in 500 days, by forty people, of whom the odd ones are mostly refused."""
    draw, rows = np.random.default_rng(5), list[dict[str, Any]]()
    for number in range(1, count + 1):
        opened, person = OPENED + number * min(DAY, 500 * DAY / count), int(draw.integers(0, 40))
        is_good = draw.random() < (0.2 if person % 2 else 0.9)
        ends = {"merged_at": opened + DAY} if is_good else {"last_commit_at": opened}
        until: dict[str, Any] = {"repo": f"project {number % projects}"} if projects > 1 else {}
        until |= {"opened_at": opened, "snapshot_at": OPENED + 700 * DAY, "author": f"person {person}"}
        rows.append((merged if is_good else refused)(number, **ends, **until))
    return write(folder / "old.parquet", rows)


def test_a_backtest_of_a_file_prints_its_table_and_leaves_what_the_page_shows(
    tmp_path: Path, settings: Settings
) -> None:
    settings.LOG_DIR = tmp_path / "logs"
    said = told("backtest", str(history(tmp_path)), "--label", "label_merge", "--quarters", "1", "--draws", "5")
    assert "label_merge" in said
    assert "</html>" in (tmp_path / "logs" / "backtest.html").read_text()
    assert read_backtest(tmp_path / "logs") is not None


def test_what_was_imported_trains_a_model_that_serves_and_its_attempt_can_be_recomputed(
    tmp_path: Path, settings: Settings
) -> None:
    told("import_history", str(history(tmp_path)))
    said = json.loads(told("train", "--draws", "20", "--json"))
    assert said["serves"]
    assert serving_name(settings.MODEL_DIR, LABEL) == said["model"]
    assert load_model(settings.MODEL_DIR, said["model"]).record["cases"] == 240
    name, figures = read_serving(settings.MODEL_DIR, LABEL)
    assert name == said["model"]
    assert figures is not None
    assert sum(one.n for one in figures.change.bins) == figures.change.n
    assert figures.lane is not None
    assert not figures.lane.certified
    assert figures.t_low == said["certificate"].splitlines()[1].partition(f" {settings.MODEL_DIR}")[0]
    certificates = list((settings.MODEL_DIR / "certificates").iterdir())
    assert {load_certificate(one).side for one in certificates} == {"high", "low"}
    high, low = said["certificate"].splitlines()
    assert high.startswith("Nothing is certified: ")
    assert low.startswith("The chance below which a person looks (T_LOW) stays as it is: ")
    for certificate in certificates:
        assert str(certificate) in said["certificate"]
        assert "0 of its 0 cases are in the store." in told("verify_certificate", str(certificate))
    assert told("thresholds", "minimum", "threshold", "at", "authors", ">=", "1") == (
        "No threshold: of 0 settled pull requests none meets it.\n"
    )
    with pytest.raises(CommandError, match="“beauty” is not a statistic; choose from threshold, lane share"):
        told("thresholds", "maximum beauty at authors >= 1")


def test_a_model_of_a_file_alone_is_kept_and_does_not_serve(tmp_path: Path, settings: Settings) -> None:
    settings.STAGING_DIR = tmp_path / "staging"
    said = json.loads(told("train", str(history(tmp_path, 60)), "--draws", "20", "--json"))
    assert not said["serves"]
    assert "run import_history first" in said["objection"]
    assert (settings.MODEL_DIR / f"{said['model']}.json").is_file()
    assert serving_name(settings.MODEL_DIR, LABEL) is None


def test_a_recording_is_trained_on_as_of_its_newest_event_and_a_drive_as_of_now(
    tmp_path: Path, settings: Settings
) -> None:
    """Else what was young when a recording ended would count as refused for want of a merge."""
    with offered_world(tmp_path / "world") as world:
        publish(world.store, settings.SNAPSHOT_DIR)
        newest = StreamClock(world.store).now()
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        assert snapshot is not None
        assert newest < present_of(snapshot) - DAY < wall_now()
        settings.PLACE = Place("replay", tmp_path)
        assert present_of(snapshot) == newest


def test_without_anything_published_training_says_what_to_do() -> None:
    with pytest.raises(CommandError, match="Nothing was published yet: run the worker first, or name a FILE"):
        told("train")


def test_a_starter_of_other_projects_is_written_says_how_good_it_is_and_serves_nothing(
    tmp_path: Path, settings: Settings
) -> None:
    settings.STAGING_DIR, path = tmp_path / "staging", tmp_path / "starter.json"
    said = told("train", str(history(tmp_path, 240, 4)), "--starter", str(path))
    assert "settled pull requests of 4 projects" in said
    assert "On projects that it has not seen: AUC 0." in said
    assert parse_starter(path.read_bytes()).projects == 4
    assert json.loads((tmp_path / CURVE_FILE.name).read_bytes())["provenance"]["projects"] == 4
    assert not settings.MODEL_DIR.exists()
    assert not list(settings.STAGING_DIR.iterdir())
    first = path.read_bytes()
    figures = json.loads(told("train", str(tmp_path / "old.parquet"), "--starter", str(path), "--json"))
    assert len(figures["on_projects_not_seen"]["by_project"]) == 4
    assert path.read_bytes() == first, "the clock is not in it"


@pytest.mark.parametrize(("projects", "why"), [(1, "holds 1"), (2, "needs 3 projects or more, and the file holds 2")])
def test_of_one_project_or_two_no_starter_is_made(tmp_path: Path, settings: Settings, projects: int, why: str) -> None:
    settings.STAGING_DIR = tmp_path / "staging"
    with pytest.raises(CommandError, match=why):
        told("train", str(history(tmp_path, 60, projects)), "--starter", str(tmp_path / "starter.json"))
    assert not (tmp_path / "starter.json").exists()


def test_a_starter_needs_a_file_of_its_own_label_that_is_there() -> None:
    for given in ([], ["absent.parquet", "--label", "label_merge"], ["absent.parquet"]):
        with pytest.raises(CommandError, match=r"--starter needs a FILE|does not exist"):
            told("train", *given, "--starter", "starter.json")


def test_training_that_ends_in_the_middle_leaves_what_serves(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*arguments: object) -> None:
        raise MemoryError

    settings.STAGING_DIR = tmp_path / "staging"
    settings.MODEL_DIR.mkdir()
    serve(settings.MODEL_DIR, LABEL, "0" * 64)
    monkeypatch.setattr("trustsite.management.commands.train.train", ends)
    with pytest.raises(MemoryError):
        told("train", str(history(tmp_path, 20)), "--replace")
    assert serving_name(settings.MODEL_DIR, LABEL) == "0" * 64


LIMITED = """
import signal
from trustsite.management.commands.train import limit
limit(100, 900)
assert 0 < signal.alarm(0) <= 100
bytearray(2_000_000_000)
"""


def test_beyond_its_limits_the_system_ends_a_training() -> None:
    command = (sys.executable, "-c", LIMITED)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.strip().endswith("MemoryError")


def poor(number: int, **changes: Any) -> dict[str, Any]:
    return merged(number, snapshot_at=OPENED + 700 * DAY, **changes)


POOR: dict[str, list[dict[str, Any]]] = {
    "all were merged": [poor(number, author=f"person {number}") for number in range(40)],
    "all were refused": [refused(number, author=f"person {number}") for number in range(40)],
    "one author": [poor(number) if number % 2 else refused(number) for number in range(40)],
    "nothing settled": [merged(1, snapshot_at=OPENED + DAY, is_bot=True)],
    "absurd sizes": [poor(number, additions=10**9, deletions=10**9, files_touched=0) for number in range(9)],
}


@pytest.mark.parametrize("history_of", sorted(POOR))
def test_of_a_poor_history_the_shrunk_rate_is_kept_and_serves(
    tmp_path: Path, settings: Settings, history_of: str
) -> None:
    settings.STAGING_DIR = tmp_path / "staging"
    file = write(tmp_path / "poor.parquet", POOR[history_of])
    said = json.loads(told("train", str(file), "--replace", "--draws", "5", "--json"))
    assert {decision["serves"] for decision in said["decisions"].values()} == {"beta"}
    trials = [trial for decision in said["decisions"].values() for trial in decision["trials"][1:]]
    assert all("settled cases by" in trial["why"] for trial in trials)
    with offered_world(tmp_path / "world") as world:
        score(world.store, StreamClock(world.store), replace(Policy(), models=settings.MODEL_DIR))
        assert {row["model_version"] for row in world.rows("select model_version from current_scores")} == {SHRUNK_RATE}


@pytest.mark.parametrize("fault", ["no row", "NaN", "an absurd size", "a text for a number", "merged before"])
def test_a_file_that_cannot_be_taken_is_one_sentence_and_nothing_serves(
    tmp_path: Path, settings: Settings, fault: str
) -> None:
    rows, words = BROKEN[fault]
    settings.STAGING_DIR = tmp_path / "staging"
    with pytest.raises(CommandError, match=words):
        told("train", str(write(tmp_path / "bad.parquet", rows)))
    assert not settings.MODEL_DIR.exists()


def test_a_file_that_was_cut_is_one_sentence(tmp_path: Path, settings: Settings) -> None:
    settings.STAGING_DIR = tmp_path / "staging"
    file = history(tmp_path, 20)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CommandError) as problem:
        told("train", str(file))
    assert len(str(problem.value).splitlines()) == 1
