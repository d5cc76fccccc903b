"""`python -m trustsite.setup {base,dev}`: make the virtual environment and caches below DATA_ROOT, for the Makefile.

Runs on the bare interpreter, so only the standard library is used. It writes to stderr; stdout carries one line, the
folder it used, whose `venv/bin/python` then runs everything else.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trustsite import drive

CLONE = Path(__file__).resolve().parent.parent
OWN = CLONE / ".sunstead"
PINS = {kind: CLONE / "requirements" / f"{kind}.txt" for kind in ("base", "dev")}


class SetupProblem(Exception):
    """The virtual environment could not be made; the text is one sentence with the remedy."""


def main(arguments: Sequence[str]) -> int:
    """Make missing parts and print the folder; return 2 with one sentence on stderr if that is impossible."""
    parser = argparse.ArgumentParser(prog="python -m trustsite.setup")
    parser.add_argument("kind", choices=PINS)
    parser.add_argument("--own", action="store_true", help="use .sunstead/ in the clone where DATA_ROOT is not set")
    options = parser.parse_args(arguments)
    try:
        root = choose_root(os.environ.get("DATA_ROOT", ""), options.own)
        with (root / ".setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # `make demo` and `make test` may be started together
            install(root, options.kind)
    except (drive.DriveProblem, SetupProblem) as problem:
        _say(str(problem))
        return 2
    if root == OWN:
        _say(f"DATA_ROOT is not set: {root} is used and kept ({_size(root)}).")
    sys.stdout.write(f"{root}\n")
    return 0


def choose_root(data_root: str, own: bool) -> Path:
    """Return the folder of the virtual environment: DATA_ROOT, or `.sunstead/` if `own`. Raises DriveProblem.

    With `own` a missing DATA_ROOT is created, since everything that such a target stores there can be made again.
    Others refuse it: a missing drive may not be mounted.
    """
    if data_root or not own:
        root = Path(data_root).absolute() if data_root else drive.UNSET
        if own and data_root and not any(character.isspace() for character in data_root):
            _make_folder(root)
        drive.check_ground(root)
        return root
    if any(character.isspace() for character in str(OWN)):
        raise drive.DriveProblem(f"{OWN} has a space in it: set DATA_ROOT to a folder without one.")
    OWN.mkdir(mode=0o700, exist_ok=True)
    drive.check_ground(OWN)
    return OWN


def _make_folder(root: Path) -> None:
    """Make the folder if it is missing. Raises SetupProblem if that fails. Another kind of file is refused later."""
    try:
        with suppress(FileExistsError):
            root.mkdir(mode=0o700, parents=True)
    except OSError as problem:
        raise SetupProblem(f"DATA_ROOT={root} cannot be made ({problem.strerror}): choose another folder.") from problem


def install(root: Path, kind: str) -> None:
    """Bring `root/venv` to the pins of `kind`; do nothing if they have not changed."""
    venv = root / "venv"
    # Pins and interpreter together: another Python needs another environment.
    pins_wanted = {
        name: hashlib.sha256(PINS[name].read_bytes() + sys.version.encode()).hexdigest() for name in ("base", kind)
    }  # dev holds all that base does
    stamp = venv / ".pins"
    installed = dict(line.split() for line in stamp.read_text().splitlines()) if stamp.exists() else {}
    if pins_wanted.items() <= installed.items():
        return
    environment = {**os.environ, **drive.child_environment(root), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    uv = shutil.which("uv")
    if not installed:
        drive.empty(venv)  # removes a half-made environment of an earlier set-up
        _say(f"Set-up: {venv} is made with {'uv' if uv else 'venv and pip'}.")
        make = (
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable]
            if uv
            else [sys.executable, "-m", "venv"]
        )
        _run_child([*make, str(venv)], environment, "install the venv module of this Python (python3-venv) or uv")
    _say(f"Set-up: {PINS[kind].relative_to(CLONE)} is installed (a minute or two, once).")
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--no-input", "--quiet"]  # quiet twice: errors only
    tool = [uv, "pip", "install", "--python", python] if uv else pip
    _run_child(
        [*tool, "--quiet", "-r", str(PINS[kind])], environment, "see the lines above, then run the same command again"
    )
    stamp.write_text("".join(f"{name} {value}\n" for name, value in pins_wanted.items()))


def _run_child(command: list[str], environment: dict[str, str], remedy: str) -> None:
    """Run one child with its output on stderr: stdout belongs to the next command of make."""
    if subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode:
        raise SetupProblem(f"Set-up failed at `{' '.join(command)}`: {remedy}.")


def _size(root: Path) -> str:
    """Return the folder's size on the disk; files shared by the cache and the environment count once."""
    blocks = {status.st_ino: status.st_blocks for status in (path.lstat() for path in root.rglob("*"))}
    return f"{sum(blocks.values()) * 512 / 1_000_000:,.0f} MB"


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
