"""`manage.py set_review`: who reads is chosen for each watched repository; any other is refused in one sentence."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.records.watched import add_maintainer
from tests.ingest.stream.frames import ANA, MALLORY, REPO, SEED, SOURCE, at, rows, take
from tests.scoring.small import settled
from tests.stores import use_own_store
from trustsite.worker.handover import open_store

MODES = "select review from watched_repositories"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store with seed's watched repository; no worker runs, so the command owns it."""
    use_own_store(tmp_path, settings)
    settings.ANTHROPIC_API_KEY = ""
    store = open_store()
    store.bind(SOURCE)
    take(store, settled("open"))
    add_maintainer(store, ANA, [REPO], at(9))
    store.close()


def call(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("set_review", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def modes() -> list[tuple[object, ...]]:
    store = open_store()
    try:
        return rows(store, MODES)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("mode", "meaning"), [("off", "only the scanners read"), ("deterministic", "only the scanners review")]
)
def test_a_mode_is_kept_and_its_meaning_said(mode: str, meaning: str) -> None:
    out, err = call(mode, f"{SEED}/lantern")
    assert out.startswith(f"Review of {SEED}/lantern is {mode} from now on: {meaning}")
    assert (err, modes()) == ("", [(mode,)])


def test_claude_without_a_key_is_kept_and_what_is_missing_is_said(settings: Settings) -> None:
    out, err = call("claude", REPO)
    assert "diffs without names go to Anthropic" in out
    assert "ANTHROPIC_API_KEY is not set" in err
    assert modes() == [("claude",)]
    settings.ANTHROPIC_API_KEY = "sk-ant-x"
    assert call("claude", REPO)[1] == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["all", REPO], "'all' is not a MODE: write off, deterministic or claude first, then the repositories."),
        (["claude", f"{MALLORY}/lantern"], "is not known yet"),
        ([f"{SEED}/lantern", "off"], "lantern' is not a MODE"),
        (["claude"], "required: REPO"),
    ],
)
def test_a_refusal_changes_nothing(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call(*arguments)
    assert modes() == [("deterministic",)]
