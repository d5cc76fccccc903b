"""Places of state: every refusal in its own sentence, through a real `manage.py` on real file systems."""

import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.backup import restore
from tests.conftest import Manage, count, with_environment
from tests.sources import PROJECT
from trustsite import drive
from trustsite.setup import SetupProblem, choose_root

# A command with state that Django itself brings: it would make web.sqlite3 if it were let through.
STATEFUL = "migrate"
# Root may write where the mode forbids it, unless that right is taken away.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A marked drive."""
    folder = tmp_path / "drive"
    folder.mkdir()
    drive.mark(folder)
    return folder


@pytest.fixture
def mounted(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """A prefix that runs a child with a small file system of the given kind at `tmp_path/small`."""
    (tmp_path / "small").mkdir()

    def prefix(options: str) -> tuple[str, ...]:
        unshare = ("unshare", "--mount", "--ipc", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
        mount = f'mount {options} none "{tmp_path / "small"}" && exec "$@"'
        started = (*unshare, "sh", "-c", mount, "sh")
        if (
            not shutil.which("unshare")
            or subprocess.run([*started, "true"], capture_output=True, check=False).returncode
        ):
            pytest.skip("this machine lets nobody mount a file system of their own")
        return started

    return prefix


def refusal(result: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a refusal; fails on a traceback, on more lines, on output, on another exit status."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert "DATA_ROOT" in result.stderr
    return result.stderr.strip()


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def refused(root: Path | None, *arguments: str) -> str:
    """The sentence in which this command is refused, as `manage.py` does before it starts."""
    argv = ["manage.py", *arguments]
    assert drive.needs_state(argv) or arguments == ("init_drive",)
    place = drive.choose_place(argv, root)
    with pytest.raises(drive.DriveProblem) as problem:
        drive.mark(place.root) if arguments == ("init_drive",) else drive.require(place)
    return str(problem.value)


def test_without_data_root_every_start_with_state_is_refused(manage: Manage) -> None:
    assert "is not set: export DATA_ROOT=" in refusal(manage(STATEFUL, DATA_ROOT=None))
    assert "is not set: export DATA_ROOT=" in refusal(manage("init_drive", DATA_ROOT=""))
    for command in (STATEFUL, "web", "demo", "init_drive", "worker", "replay"):
        assert "is not set: export DATA_ROOT=" in refused(None, command)


@pytest.mark.parametrize("command", [["--help"], ["makemigrations", "--help"]])
def test_commands_without_state_run_without_a_drive(manage: Manage, command: list[str]) -> None:
    result = manage(*command, DATA_ROOT=None)
    assert result.returncode == 0, result.stderr
    for other in (["version"], ["check"], ["web", "--help"]):
        assert not drive.needs_state(["manage.py", *other])


def test_commands_without_state_write_nothing_on_an_unmarked_drive(manage: Manage, tmp_path: Path) -> None:
    assert manage("check", "--deploy", DATA_ROOT=tmp_path).returncode == 0
    assert files_below(tmp_path) == []


def test_an_unmarked_drive_is_refused_and_left_empty(manage: Manage, tmp_path: Path) -> None:
    sentence = refusal(manage(STATEFUL, DATA_ROOT=tmp_path))
    assert "has no mark (.sunstead)" in sentence
    assert "init_drive" in sentence
    assert files_below(tmp_path) == []


def test_a_missing_drive_is_refused_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "not" / "mounted"
    assert "is not a folder: mount the drive" in refused(missing, STATEFUL)
    assert "is not a folder" in refused(missing, "init_drive")
    assert "is not a folder" in refused(missing, "demo")
    assert not missing.exists()


def test_set_up_makes_a_missing_folder_only_for_what_can_be_made_again(tmp_path: Path) -> None:
    missing = tmp_path / "not" / "there"
    with pytest.raises(drive.DriveProblem, match="is not a folder"):
        choose_root(str(missing), own=False)
    assert not missing.exists()
    assert choose_root(str(missing), own=True) == missing
    assert stat.S_IMODE(missing.stat().st_mode) == 0o700
    assert choose_root(str(missing), own=True) == missing
    (tmp_path / "file").write_text("")
    with pytest.raises(drive.DriveProblem, match="is not a folder"):
        choose_root(str(tmp_path / "file"), own=True)
    with pytest.raises(SetupProblem, match="cannot be made"):
        choose_root(str(tmp_path / "file" / "below"), own=True)
    with pytest.raises(drive.DriveProblem, match="has a space in it"):
        choose_root(str(tmp_path / "my drive"), own=True)
    assert not (tmp_path / "my drive").exists()


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refused(tmp_path / "file", "init_drive")


def test_a_space_in_the_path_is_refused(tmp_path: Path) -> None:
    spaced = tmp_path / "my drive"
    spaced.mkdir()
    assert "has a space in it" in refused(spaced, STATEFUL)
    assert "has a space in it" in refused(spaced, "init_drive")
    assert files_below(spaced) == []


@pytest.mark.skipif(bool(UNPRIVILEGED) and not shutil.which("setpriv"), reason="root can write everywhere here")
def test_an_unwritable_drive_is_refused(manage: Manage, root: Path) -> None:
    root.chmod(0o500)
    assert "cannot be written" in refusal(manage(STATEFUL, DATA_ROOT=root, prefix=UNPRIVILEGED))
    root.chmod(0o700)


MARKING = """
import sys
from pathlib import Path
from trustsite import drive
try:
    drive.mark(Path(sys.argv[1]))
except drive.DriveProblem as problem:
    print(problem)
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-t tmpfs -o ro", "cannot be written"),
        ("-t tmpfs -o size=190m", "is full (less than 200 MB free)"),
        ("-t mqueue", "without symbolic links"),  # a file system that any Linux can mount and that has none
    ],
)
def test_a_drive_that_is_read_only_full_or_without_symbolic_links_is_refused(
    mounted: Callable[[str], tuple[str, ...]], tmp_path: Path, options: str, words: str
) -> None:
    command = [*mounted(options), sys.executable, "-c", MARKING, str(tmp_path / "small")]
    marked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert words in marked.stdout


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "cannot be written"),
        (errno.EROFS, "cannot be written"),
        (errno.ENOSPC, "is full"),
        (errno.EPERM, "without symbolic links"),
        (errno.ENOTSUP, "without symbolic links"),
    ],
)
def test_each_error_of_the_file_system_has_its_own_sentence(number: int, words: str) -> None:
    assert words in drive._failing(OSError(number, os.strerror(number)))


@pytest.mark.parametrize("folder", [Path("/"), Path.home(), Path(tempfile.gettempdir())])
def test_what_is_shared_with_the_machine_is_never_marked(folder: Path) -> None:
    before = folder.stat().st_mode
    with pytest.raises(drive.DriveProblem, match="shared with the rest of the machine"):
        drive.mark(folder)
    assert folder.stat().st_mode == before


def test_init_drive_marks_a_folder_for_its_owner_alone(manage: Manage, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    result = manage("init_drive", DATA_ROOT=tmp_path)
    assert result.returncode == 0, result.stderr
    drive.mark(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE(key.stat().st_mode) for key in (tmp_path / "keys").iterdir()} == {0o600}
    drive.require(drive.Place("drive", tmp_path))


def test_a_drive_that_was_unmounted_is_not_written_to(manage: Manage, root: Path) -> None:
    drive.key(root, "django")
    (root / drive.MARKER).rename(root.parent / "elsewhere")
    before = files_below(root)
    assert "has no mark" in refusal(manage(STATEFUL, DATA_ROOT=root))
    assert files_below(root) == before


def test_a_drive_with_half_a_restored_backup_is_refused(root: Path) -> None:
    (root / drive.RESTORING).parent.mkdir()
    (root / drive.RESTORING).touch()
    assert Path(restore.STAGED) / restore.SWAPPING == drive.RESTORING
    assert "run `manage.py restore DIR --replace` once more" in refused(root, STATEFUL)
    (root / drive.RESTORING).unlink()
    drive.require(drive.Place("drive", root))


def test_a_wrong_setting_is_one_sentence(manage: Manage, root: Path) -> None:
    result = manage(STATEFUL, DATA_ROOT=root, T_LOW="high")
    assert (result.returncode, result.stdout) == (2, "")
    assert "T_LOW" in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


def test_the_wsgi_module_refuses_an_unmarked_drive(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import trustsite.wsgi"]
    environment = with_environment({"DATA_ROOT": tmp_path})
    result = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert "has no mark" in refusal(result)


@pytest.mark.skipif(bool(UNPRIVILEGED) and not shutil.which("setpriv"), reason="root can write everywhere here")
def test_a_start_writes_nothing_into_the_home_folder_or_the_folder_that_it_is_started_in(
    manage: Manage, root: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    there = (*UNPRIVILEGED, "env", "-C", str(home))
    result = manage("init_drive", DATA_ROOT=root, HOME=home, XDG_CACHE_HOME=None, prefix=there)
    assert result.returncode == 0, result.stderr
    assert files_below(home) == []


def test_a_key_is_the_same_for_everyone_and_none_reads_half_of_it(root: Path) -> None:
    for name in map(str, range(count(20, 200))):
        with ThreadPoolExecutor(8) as pool:
            seen = set(pool.map(lambda _: drive.key(root, name), range(8)))  # noqa: B023 - done before the next name
        assert len(seen) == 1
        assert len(seen.pop()) == 64
    assert len({path.read_text() for path in (root / "keys").iterdir()}) == count(20, 200)


def test_a_demo_keeps_a_key_of_its_own(root: Path) -> None:
    place = drive.demo_place(root)
    drive.require(place)
    assert drive.key(place.root, "django") == drive.key(place.root, "django") != drive.key(root, "django")


def test_a_key_without_a_drive_is_random_and_kept_nowhere(tmp_path: Path) -> None:
    assert drive.key(tmp_path / "missing", "django") != drive.key(tmp_path / "missing", "django")
    assert len(drive.key(drive.UNSET, "django")) == 64
    assert files_below(tmp_path) == []


def test_the_caches_of_child_processes_lie_below_the_drive(root: Path) -> None:
    environment = drive.child_environment(root)
    assert set(environment) >= {"PIP_CACHE_DIR", "UV_CACHE_DIR", "HF_HOME", "TRANSFORMERS_CACHE", "TORCH_HOME"}
    assert all(root in Path(path).parents for path in environment.values())


def test_a_port_in_use_is_one_sentence_and_changes_nothing(manage: Manage, root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = "{}:{}".format(*taken.getsockname())
        result = manage("web", DATA_ROOT=root, BIND=bind)
    assert result.returncode == 2
    assert f"BIND={bind} is in use by another program" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (root / "web.sqlite3").exists()


@pytest.mark.parametrize("bind", ["127.0.0.1:port", "198.51.100.7:8000"])
def test_an_address_that_cannot_be_listened_on_is_one_sentence(manage: Manage, root: Path, bind: str) -> None:
    result = manage("web", DATA_ROOT=root, BIND=bind)
    assert result.returncode == 2
    assert re.search(f"^(?:CommandError: )?BIND={re.escape(bind)} ", result.stderr, re.MULTILINE)
    assert "Traceback" not in result.stderr


def test_what_a_process_makes_is_its_users_alone_also_outside_the_drive(manage: Manage, tmp_path: Path) -> None:
    (tmp_path / "drive").mkdir()
    own = {name: tmp_path / name.lower() for name in ("STAGING_DIR", "LOG_DIR", "DIFF_CORPUS_DIR", "MODEL_DIR")}
    own |= {"DATA_ROOT": tmp_path / "drive", "DUCKDB_PATH": tmp_path / "second" / "trust.duckdb"}
    for command in ("init_drive", "compact"):
        assert manage(command, **own).returncode == 0
    made = [path for path in tmp_path.rglob("*") if path.name != "drive"]
    assert own["DUCKDB_PATH"] in made
    assert [path for path in made if path.lstat().st_mode & 0o077] == []
