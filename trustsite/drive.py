"""The drive behind DATA_ROOT: its mark, its keys, and the folders of demo and replay.

Everything here runs before a file is opened and before Django is imported, so only the standard library is used.
"""

import argparse
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mode = Literal["drive", "demo", "replay"]

MARKER = ".sunstead"
MARK = "State of Sunstead lies below this folder; this file tells it from an empty mount point.\n"
MADE = ".made-by-sunstead"  # in folders that are emptied without asking
PRIVATE = 0o077  # umask of every process and its children: folders outside the drive may be open to others
FREE_BYTES = 200_000_000
RESTORING = Path(".restoring") / "swapping"  # while a restore moves files: ingest/backup/restore.py
# Below a file, so that no call can ever create it; every error of an open() names the missing setting.
UNSET = Path(os.devnull) / "DATA_ROOT is not set"
HELP = frozenset({"--help", "-h"})
STATELESS = HELP | {"help", "version", "--version"}
STATELESS |= {
    "check",
    "check_models",
    "makemigrations",
    "overlay",
    "review_diff",
    "trust",
    "doctor",
    "init_drive",
    "restore",  # it checks the drive itself, also after an interrupted restore
    "sample_stream",
}
# The keys of a drive, each with the remedy if there is no backup; a store with erased people needs its own key.
KEYS = {
    "django": ", or delete it; then everybody signs in again",
    "audit": ", or delete it; then audits use a new key",
    "tombstones": "",
    "webhook": ", or delete it and give the receiver of the webhook the new one",
    "push": ", or delete it; then everybody turns on notifications again",
    "oauth": ", or delete it; then everybody who signed in with their AT Protocol account signs in again",
}
CACHES = {
    "PIP_CACHE_DIR": "cache/pip",
    "UV_CACHE_DIR": "cache/uv",
    "HF_HOME": "cache/huggingface",
    "TRANSFORMERS_CACHE": "cache/transformers",
    "SENTENCE_TRANSFORMERS_HOME": "cache/sentence_transformers",
    "TORCH_HOME": "cache/torch",
    "MPLCONFIGDIR": "cache/matplotlib",
}


class DriveProblem(Exception):
    """State cannot be stored there; the text is one sentence that names DATA_ROOT and the remedy."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of this process's state: the drive's own store, or a folder of its own for a demo or a replay."""

    mode: Mode
    root: Path

    @property
    def data_root(self) -> Path:
        """Return the folder that DATA_ROOT names; `root` lies in it or is it."""
        return {"drive": self.root, "demo": self.root.parent, "replay": self.root.parent.parent}[self.mode]


def demo_place(data_root: Path) -> Place:
    """Return the folder of the demo, emptied at each start."""
    return Place("demo", data_root / "demo")


def replay_place(data_root: Path, folder: str | Path) -> Place:
    """Return the folder of a replay of `folder`, one for each resolved path, so that a killed replay continues."""
    name = hashlib.sha256(os.fsencode(Path(folder).resolve())).hexdigest()[:16]
    return Place("replay", data_root / "replay" / name)


def choose_place(argv: Sequence[str], data_root: Path | None) -> Place:
    """Return the place of the state below `data_root` for the command line `argv` (program, command, arguments).

    Never fails: without DATA_ROOT the root is a path that cannot be opened, and `require` reports it in words.
    """
    root = data_root.absolute() if data_root else UNSET
    command = argv[1] if len(argv) > 1 else ""
    options = _parse_place_options(command, argv[2:])
    if options.demo:
        return demo_place(root)
    return replay_place(root, options.replay) if options.replay else Place("drive", root)


def _parse_place_options(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the argument of `demo` or `replay DIR`, or the `--demo` or `--replay DIR` of a reading command."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.set_defaults(demo=command == "demo", replay="")
    if command == "replay":
        # Django's own options with a value, so that `-v 2 DIR` does not take 2 for the folder.
        for option in (("-v", "--verbosity"), ("--settings",), ("--pythonpath",)):
            parser.add_argument(*option)
        parser.add_argument("replay", nargs="?", default="")
    if command in ("backtest", "digest", "redteam", "train", "why"):
        parser.add_argument("--demo", action="store_true")
        parser.add_argument("--replay", default="")
    try:
        return parser.parse_known_args(list(arguments))[0]
    except argparse.ArgumentError:  # the command's own parser reports it better soon after
        return argparse.Namespace(demo=command == "demo", replay="")


def needs_state(argv: Sequence[str]) -> bool:
    """Return True if the command line reads or writes state, and so needs a drive that `require` accepts."""
    command, arguments = (argv[1], argv[2:]) if len(argv) > 1 else ("help", [])
    if command in STATELESS or HELP & set(arguments):
        return False
    return not (command == "redteam" and any(argument.split("=")[0] == "--edges" for argument in arguments))


def require(place: Place) -> None:
    """Raise DriveProblem for a place that cannot hold state; make the folder of a demo or replay (mode 700)."""
    check_ground(place.data_root)
    if place.mode == "drive" and not (place.root / MARKER).is_file():
        raise DriveProblem(
            f"DATA_ROOT={place.root} has no mark ({MARKER}), like a drive that is not mounted: "
            "mount it, or run `manage.py init_drive` once if this is the right folder."
        )
    if (place.root / RESTORING).exists():
        raise DriveProblem(
            f"DATA_ROOT={place.root} holds half a restored backup: run `manage.py restore DIR --replace` once more."
        )
    if place.mode == "demo":
        claim(place.root)
    if place.mode == "replay":
        place.root.parent.mkdir(mode=0o700, exist_ok=True)
        place.root.mkdir(mode=0o700, exist_ok=True)


def require_store_folder(store: Path, root: Path) -> None:
    """Raise DriveProblem if the folder of DUCKDB_PATH lies on another drive than `root` that may not be mounted.

    It has a mark too; a folder with a store but without a mark, as from older versions, is marked here.
    """
    folder = store.parent
    if not is_outside(folder, root) or (folder / MARKER).is_file():
        return
    if not store.exists():
        raise DriveProblem(
            f"DUCKDB_PATH={store} lies in a folder outside DATA_ROOT without a mark ({MARKER}), as a drive that is not "
            "mounted: mount it, or run `manage.py init_drive` once if this is the right folder."
        )
    mark_store_folder(store, root)


def is_outside(folder: Path, root: Path) -> bool:
    """Return True if a folder lies outside the drive, links followed: it may be a drive of its own."""
    return not folder.resolve().is_relative_to(root.resolve())


def mark_store_folder(store: Path, root: Path) -> None:
    """Make the folder of DUCKDB_PATH (mode 700 if it is new) and mark it, if it lies outside the drive."""
    if not is_outside(store.parent, root):
        return
    try:
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (store.parent / MARKER).write_text(MARK)
    except OSError as problem:
        raise DriveProblem(
            f"DUCKDB_PATH={store}: its folder cannot be marked ({problem.strerror}): give this user the folder."
        ) from problem


def claim(folder: Path) -> None:
    """Make `folder` (mode 700) one of ours, which may be emptied. Raises DriveProblem if it has other files."""
    if folder.exists() and not folder.is_dir():
        raise DriveProblem(f"{folder} is not a folder: move it away, or set DATA_ROOT to another folder.")
    folder.mkdir(mode=0o700, exist_ok=True)
    if (folder / MADE).is_file():
        return
    if any(folder.iterdir()):
        raise DriveProblem(
            f"{folder} holds files that Sunstead did not put there and would delete: "
            "move them away, or set DATA_ROOT to another folder."
        )
    (folder / MADE).write_text("Sunstead created this folder and deletes its files: keep nothing here.\n")


def empty(folder: Path) -> None:
    """Delete everything in a folder of ours. Raises DriveProblem, with nothing deleted, for another folder."""
    claim(folder)
    for path in folder.iterdir():
        if path.name == MADE:  # it stays, so that after a kill here the next start still knows the folder
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def alone(place: Place) -> Generator[None]:
    """Hold the folder of a demo during the block. Raises DriveProblem while another process holds it."""
    with place.root.with_name(f".{place.root.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise DriveProblem(
                f"Another {place.mode} runs in {place.root}: stop that one first, or set DATA_ROOT to another folder."
            ) from problem
        yield


def check_ground(root: Path) -> None:
    """Raise DriveProblem for a folder that cannot hold our state, marked or not."""
    if root == UNSET:
        raise DriveProblem(
            "DATA_ROOT is not set: export DATA_ROOT=/path/to/a/folder that holds all state (.envrc.example shows how)."
        )
    if any(character.isspace() for character in str(root)):
        raise DriveProblem(
            f"DATA_ROOT={root} has a space in it, which installed programs cannot start from: choose one without."
        )
    if not root.is_dir():
        raise DriveProblem(f"DATA_ROOT={root} is not a folder: mount the drive, or make the folder first (mkdir -p).")
    _try_link(root)
    if shutil.disk_usage(root).free < FREE_BYTES:
        raise DriveProblem(
            f"DATA_ROOT={root} is full (less than {FREE_BYTES // 1_000_000} MB free): "
            "free space there or choose another folder."
        )


def _try_link(root: Path) -> None:
    """Make and remove one symbolic link: this detects a read-only, full or link-less file system."""
    probe = root / f".link-{secrets.token_hex(8)}"
    try:
        probe.symlink_to("nowhere")
    except OSError as problem:
        raise DriveProblem(f"DATA_ROOT={root} {_failing(problem)}") from problem
    probe.unlink()


def _failing(problem: OSError) -> str:
    if problem.errno in (errno.EACCES, errno.EROFS):
        return "cannot be written: make it writable for this user, or choose another folder."
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return "is full: free space there or choose another folder."
    return "is on a file system without symbolic links: choose a folder on one that has them (ext4, xfs, btrfs, apfs)."


def mark(root: Path) -> None:
    """Make `root` the drive: mode 700 and the marker. Repeating is harmless. Raises DriveProblem."""
    if root != UNSET and _is_shared(root):
        raise DriveProblem(f"DATA_ROOT={root} is shared with the rest of the machine: choose a folder of its own.")
    check_ground(root)
    try:
        root.chmod(0o700)
        (root / MARKER).write_text(MARK)
    except OSError as problem:
        raise DriveProblem(
            f"DATA_ROOT={root} cannot be marked ({problem.strerror}): give this user the folder."
        ) from problem


def _is_shared(root: Path) -> bool:
    """Return True for folders that mode 700 would break for others: /, the home folder, the temporary folder."""
    resolved = root.resolve()
    return resolved in {Path(resolved.anchor), Path.home().resolve(), Path(tempfile.gettempdir()).resolve()}


def key(root: Path, name: str) -> str:
    """Return the random key `name` (64 hex digits) of a place, made once for all its processes.

    If none can be stored, or it is damaged, return a throwaway key: it is enough for commands without state, which sign
    nothing that is read later; `require` refuses any other command.
    """
    path = root / "keys" / name
    try:
        if _is_ours(root) and not path.exists():
            _make_key(path)
        return path.read_text() if is_key(path) else secrets.token_hex(32)
    except OSError:
        return secrets.token_hex(32)


def is_key(path: Path) -> bool:
    """Return True if a file holds a key: 64 hex digits and nothing else."""
    content = path.read_bytes()[:100] if path.is_file() else b""
    return len(content) == 64 and set(content) <= set(b"0123456789abcdef")


def require_keys(root: Path) -> None:
    """Raise DriveProblem if an existing key of the drive is empty or damaged."""
    for name, loss in KEYS.items():
        path = root / "keys" / name
        if path.exists() and not is_key(path):
            raise DriveProblem(f"{path} is empty or damaged: put its backup there{loss}.")


def _is_ours(root: Path) -> bool:
    """Return True for a marked drive, or the folder of a demo or replay: `check --deploy` needs a key on any drive."""
    return (root / MARKER).is_file() or (root / MADE).is_file() or root.parent.name == "replay"


def _make_key(path: Path) -> None:
    """Write the key aside, then link it, so that it is whole and the first of two processes wins."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(aside)
    finally:
        aside.unlink(missing_ok=True)


def child_environment(root: Path) -> dict[str, str]:
    """Return the caches of installers and model libraries, all below `root`, as environment of child processes."""
    return {name: str(root / folder) for name, folder in CACHES.items()}
