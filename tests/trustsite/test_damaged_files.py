"""A queue or a key that is damaged is one sentence that says what to do: from worker, web, commands and the doctor."""

from pathlib import Path

import pytest

from tests.conftest import Manage
from tests.trustsite.ports import free_port
from trustsite import drive


def refusal(manage: Manage, command: str, root: Path) -> str:
    """The one sentence with which a command ends."""
    done = manage(command, DATA_ROOT=root, BIND=f"127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


def test_a_damaged_queue_ends_the_worker_in_one_sentence(manage: Manage, new_drive: Path) -> None:
    """The file begins as SQLite's do and holds nothing that makes sense."""
    (new_drive / "queue.sqlite3").write_bytes(b"SQLite format 3\0" + b"\x10\0\x02\x02\0@  " + b"\xff" * 9_000)
    sentence = refusal(manage, "worker", new_drive)
    assert "queue.sqlite3 is damaged" in sentence
    assert "stop worker and web and delete it, nothing is lost" in sentence


def test_a_damaged_key_is_refused_in_one_sentence_and_the_doctor_looks_at_all_beside_it(
    manage: Manage, new_drive: Path
) -> None:
    (new_drive / "keys" / "django").write_text("")
    for command in ("worker", "web"):
        sentence = refusal(manage, command, new_drive)
        assert "keys/django is empty or damaged: put its backup there, or delete it" in sentence
    done = manage("doctor", DATA_ROOT=new_drive)
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 16, done.stdout + done.stderr
    (line,) = [line for line in lines if line.split()[1] == "keys"]
    assert line.startswith("look")
    assert "django missing or damaged" in line


@pytest.mark.parametrize("held", ["", "half a k", "x" * 64, "a" * 63, "a" * 65, "a" * 63 + "\n"])
def test_every_key_of_a_drive_is_looked_at_and_a_damaged_one_never_signs(new_drive: Path, held: str) -> None:
    for name in drive.KEYS:
        drive.require_keys(new_drive)
        path = new_drive / "keys" / name
        path.write_text(held)
        with pytest.raises(drive.DriveProblem, match=f"keys/{name} is empty or damaged: put its backup there"):
            drive.require_keys(new_drive)
        assert drive.key(new_drive, name) != drive.key(new_drive, name)
        path.unlink()
