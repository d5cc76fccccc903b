"""The file that keeps the newest attack simulations: whole or not at all, and read without trusting it."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from scoring.redteam.render import ShownAttack, ShownReport, read_report, write_report

NOW = datetime(2026, 11, 20, 12)
STOLEN = ShownAttack("A trusted account is stolen", "1 account, the worst of 10 tried", "7 in the fast lane", "It", 7)
RUN = ShownReport("sunstead-redteam/2", NOW, 7_440, 51_160, 2, 15, True, 0.9, (STOLEN,))


def test_a_run_is_kept_whole_and_read_back(tmp_path: Path) -> None:
    write_report(tmp_path, RUN)
    write_report(tmp_path, RUN)
    assert read_report(tmp_path) == RUN
    assert [file.name for file in tmp_path.iterdir()] == ["redteam.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"form": "sunstead-redteam/1"}', b"[" * 100_000, b" " * 70_000 + b"{}"]
)
def test_a_file_that_is_no_run_reads_as_none(tmp_path: Path, content: bytes) -> None:
    assert read_report(tmp_path) is None
    (tmp_path / "redteam.json").write_bytes(content)
    assert read_report(tmp_path) is None


@pytest.mark.parametrize("wrong", [{"at": -1}, {"people": -3}, {"vouches": 10**13}, {"t_high": 1.5}, {"attacks": []}])
def test_figures_out_of_every_range_read_as_none(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = write_report(tmp_path, RUN)
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    assert read_report(tmp_path) is None


def test_a_drive_that_cannot_be_written_keeps_the_run_before(tmp_path: Path) -> None:
    write_report(tmp_path, RUN)
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        write_report(tmp_path / "taken", RUN)
    assert read_report(tmp_path) == RUN
