"""`make` before it installs anything: what it refuses, it refuses in one sentence and with nothing written."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.test_drive import files_below, refusal
from trustsite import drive, setup


def make(*arguments: str, **environment: str | Path | None) -> subprocess.CompletedProcess[str]:
    """One make target that ends before set-up installs anything; make's own closing line is taken off."""
    command = ["make", *arguments]
    result = subprocess.run(
        command, cwd=PROJECT, env=with_environment(environment), capture_output=True, text=True, check=False
    )
    result.stderr = "".join(line for line in result.stderr.splitlines(keepends=True) if not line.startswith("make"))
    return result


@pytest.mark.parametrize("target", [["run"], ["replay", "DIR=recording"]])
def test_make_refuses_a_start_with_state_without_data_root(target: list[str]) -> None:
    assert "is not set: export DATA_ROOT=" in refusal(make(*target, DATA_ROOT=None))


def test_make_refuses_a_virtual_environment_folder_that_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "mine").write_text("mine")
    sentence = refusal(make("setup", DATA_ROOT=tmp_path))
    assert f"{tmp_path / 'venv'} holds files that Sunstead did not put there" in sentence
    assert (tmp_path / "venv" / "bin" / "mine").read_text() == "mine"


def test_a_virtual_environment_that_was_left_half_made_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("")
    monkeypatch.setattr(setup, "PINS", {"base": nothing, "dev": nothing})
    monkeypatch.setattr(setup, "CLONE", tmp_path)
    drive.claim(tmp_path / "venv")
    (tmp_path / "venv" / "half").write_text("")
    setup.install(tmp_path, "base")
    assert not (tmp_path / "venv" / "half").exists()
    assert (tmp_path / "venv" / "bin" / "python").exists()
    made = (tmp_path / "venv" / ".pins").stat().st_mtime_ns
    setup.install(tmp_path, "base")
    assert (tmp_path / "venv" / ".pins").stat().st_mtime_ns == made


@pytest.mark.parametrize("target", ["setup", "demo", "run", "test", "bench"])
def test_make_refuses_a_space_in_data_root_before_it_installs(target: str, tmp_path: Path) -> None:
    spaced = tmp_path / "my drive"
    spaced.mkdir()
    assert "has a space in it" in refusal(make(target, DATA_ROOT=spaced))
    assert files_below(spaced) == []


def test_make_replay_asks_for_its_folder(tmp_path: Path) -> None:
    result = make("replay", DATA_ROOT=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "make replay DIR=folder" in result.stderr
    assert files_below(tmp_path) == []
