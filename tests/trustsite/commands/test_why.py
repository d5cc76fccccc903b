"""`manage.py why`: what was decided about a pull request by a moment, as text and as JSON."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.snapshots import publish
from tests.ingest.stream.frames import MARA, SEED, at, pull_uri
from tests.pipeline import opened
from tests.scoring.small import OFFERED, settled, take

HOSTILE = "\x1b[2Jmara\u202e\x9b31m.example.org"


@pytest.fixture(scope="module", name="folder")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decided at 10 from what was known, and at 12 after seed vouched for mara, whose handle is made to hurt."""
    folder = tmp_path_factory.mktemp("why")
    with opened(folder) as result:
        frames = settled("open")
        take(result, frames, at(10))
        with result.store.write() as txn:
            columns = "handle = ?, handle_verified = true where did = ?"
            txn.execute(f"update contributors set {columns}", [HOSTILE, MARA])
        frames.vouch(SEED, MARA)
        take(result, frames, at(12))
        publish(result.store, folder / "snapshots")
    return folder


@pytest.fixture(autouse=True)
def published(folder: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR = folder / "snapshots"


def why(*arguments: str) -> str:
    out = StringIO()
    call_command("why", *arguments, stdout=out)
    return out.getvalue()


def test_it_prints_what_was_judged_decided_and_known_and_that_the_same_comes_out() -> None:
    said = why(OFFERED)
    assert OFFERED in said.splitlines()[0]
    assert f"{at(12):%Y-%m-%d %H:%M:%S} UTC" in said
    assert "lane: normal_queue" in said
    assert "  - " in said
    assert "known then:" in said
    assert said.rstrip().endswith("the same lane, reasons and chance.")


def test_a_moment_in_the_past_gives_the_decision_of_then() -> None:
    then, now = (json.loads(why(OFFERED, "--json", *more)) for more in (["--as-of", f"{at(11)}Z"], []))
    assert then["as_of"] != now["as_of"]
    assert [one["inputs"]["evidence"]["structural_trust"] > 0 for one in (then, now)] == [False, True]
    assert then["is_same"]
    assert then["same_rules"]
    assert then["verdict"] == then["again"]
    shifted = f"{(at(11) + timedelta(hours=2)).isoformat()}+02:00"
    assert json.loads(why(OFFERED, "--json", "--as-of", shifted))["score_id"] == then["score_id"]


@pytest.mark.parametrize(
    "arguments",
    [
        (pull_uri(MARA, "never"),),
        (OFFERED, "--as-of", f"{at(9)}"),
        ("at://\x1b[31m\n'; drop table scores",),
        ("",),
    ],
)
def test_what_was_never_decided_by_then_is_one_sentence_and_exit_status_2(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"^Nothing had been decided about .* by then\.$") as problem:
        why(*arguments)
    assert problem.value.returncode == 2
    assert str(problem.value).isprintable()


@pytest.mark.parametrize("moment", ["yesterday", "2026-13-01", "", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_moment_that_is_none_is_refused_in_words(moment: str) -> None:
    with pytest.raises(CommandError, match="--as-of"):
        why(OFFERED, "--as-of", moment)


def test_without_anything_published_it_says_what_to_run(tmp_path: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR = tmp_path
    with pytest.raises(CommandError, match="run the worker") as problem:
        why(OFFERED)
    assert problem.value.returncode == 2


def test_a_decision_that_other_inputs_give_ends_with_exit_status_1(tmp_path: Path, settings: Settings) -> None:
    with opened(tmp_path) as result:
        take(result, settled("open"), at(10))
        with result.store.write() as txn:
            changed = """replace(inputs, '"denounced_by_seed":false', '"denounced_by_seed":true')"""
            txn.execute(f"update scores set inputs = {changed} where inputs is not null")
        publish(result.store, tmp_path / "snapshots")
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("why", OFFERED, stdout=out)
    assert ended.value.code == 1
    assert "Judged again from these inputs: needs_human" in out.getvalue()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_names_from_the_network_cannot_steer_the_terminal(more: list[str]) -> None:
    said = why(OFFERED, *more)
    assert "mara" in said
    assert said.replace("\n", "").isprintable()
    assert said.isascii() or "\u202e" not in said
