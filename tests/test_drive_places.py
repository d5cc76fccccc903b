"""Demo and replay: folders of their own on the drive, which nothing exported leads out of."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.test_drive import files_below
from trustsite import drive


def test_demo_and_replay_have_folders_of_their_own(tmp_path: Path) -> None:
    def place(*arguments: str) -> drive.Place:
        return drive.choose_place(["manage.py", *arguments], tmp_path)

    assert place("worker") == drive.Place("drive", tmp_path)
    assert place("demo", "--check") == place("digest", "--demo") == drive.Place("demo", tmp_path / "demo")
    replay = drive.replay_place(tmp_path, "recording")
    assert replay.root.parent == tmp_path / "replay"
    assert len(replay.root.name) == 16
    for arguments in (("recording",), ("-v", "2", "recording"), ("--serve", "recording"), ("./a/../recording",)):
        assert place("replay", *arguments) == replay
    for arguments in (("--replay", "recording"), ("--replay=recording",)):
        assert place("digest", *arguments) == replay
    assert place("redteam", "--demo") == place("backtest", "--demo") == place("demo")
    assert place("redteam", "--replay", "recording", "--json") == replay
    assert place("redteam") == place("digest") == place("replay") == drive.Place("drive", tmp_path)
    assert place("worker", "--demo") == place("web", "demo") == drive.Place("drive", tmp_path)


def test_a_linked_recording_is_the_same_replay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert drive.replay_place(tmp_path, tmp_path / "link") == drive.replay_place(tmp_path, tmp_path / "real")


def test_a_demo_needs_no_mark_and_leaves_none(tmp_path: Path) -> None:
    place = drive.demo_place(tmp_path)
    drive.require(place)
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700
    assert files_below(tmp_path) == ["demo", f"demo/{drive.MADE}"]


SHOW_PATHS = """
import sys
sys.argv = sys.argv[1:]
from trustsite import settings
names = "DUCKDB_PATH PYG_ROOT STAGING_DIR DIFF_CORPUS_DIR MODEL_DIR LOG_DIR SNAPSHOT_DIR".split()
names += ["QUEUE_PATH", "STATUS_PATH"]
print(settings.DATABASES["default"]["NAME"], *(getattr(settings, name) for name in names), sep="\\n")
"""


@pytest.mark.parametrize("arguments", [["demo"], ["replay", "recording"], ["digest", "--replay", "recording"]])
def test_no_path_of_a_demo_or_replay_is_the_drives_own_whatever_is_exported(
    tmp_path: Path, arguments: list[str]
) -> None:
    own = dict.fromkeys(
        ("DUCKDB_PATH", "PYG_ROOT", "STAGING_DIR", "DIFF_CORPUS_DIR", "MODEL_DIR", "LOG_DIR"), tmp_path / "own"
    )
    command = [sys.executable, "-c", SHOW_PATHS, "manage.py", *arguments]
    environment = with_environment({"DATA_ROOT": tmp_path, **own})
    shown = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    place = drive.choose_place(["manage.py", *arguments], tmp_path)
    assert place.mode in ("demo", "replay")
    assert [path for path in map(Path, shown.stdout.split()) if place.root not in path.parents] == []
