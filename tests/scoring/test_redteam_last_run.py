"""The file that keeps the red team's last run: whole or not at all, and read without trusting it."""

import json
from pathlib import Path
from typing import Any

import pytest

from scoring.redteam.baselines import OURS
from scoring.redteam.render import LastRun, got_through, keep, read_last_run

RUN = LastRun(
    at=1_795_262_400.0,
    scale="brief",
    people=7_440,
    vouches=51_160,
    tried=10,
    above=80,
    on_two=0,
    in_lane=0,
    record=20,
    in_lane_with_record=0,
    lane_open=True,
    bought=20,
    in_lane_by_bought=7,
)


def test_a_run_is_kept_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "redteam.json"
    keep(path, RUN)
    keep(path, RUN)
    assert read_last_run(path) == RUN
    assert [file.name for file in tmp_path.iterdir()] == ["redteam.json"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"at": "now"}', b"[" * 100_000, b" " * 5_000 + b"{}"],
)
def test_a_file_that_is_no_run_reads_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "redteam.json"
    assert read_last_run(path) is None
    path.write_bytes(content)
    assert read_last_run(path) is None


def test_a_run_of_an_older_version_reads_without_the_bought_vouches(tmp_path: Path) -> None:
    path = tmp_path / "redteam.json"
    keep(path, RUN)
    older = {name: value for name, value in json.loads(path.read_text()).items() if "bought" not in name}
    path.write_text(json.dumps(older | {"crowd": 1_000}))
    found = read_last_run(path)
    assert found is not None
    assert (found.above, found.bought, found.in_lane_by_bought) == (80, 0, 0)


def test_figures_out_of_every_range_read_as_none(tmp_path: Path) -> None:
    path = tmp_path / "redteam.json"
    keep(path, RUN)
    for wrong in ({"at": 1e300}, {"at": -1}, {"above": -3}, {"above": 10**13}, {"people": 2.5}):
        path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
        assert read_last_run(path) is None
        keep(path, RUN)


def test_a_drive_that_cannot_be_written_keeps_the_run_before(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        keep(tmp_path / "gone" / "redteam.json", RUN)


def report(**stolen: int | bool) -> dict[str, Any]:
    """As much of a report as says what got through."""
    told = {"above": 0, "in_lane_with_record": 0, "lane_open": True, **stolen}
    return {
        "scale": {"bought": (5, 20)},
        "fitted": [{"fast": (0, 0, 0)}],
        "bombing": [{"moved": 0}],
        "scores": {OURS: {"self_lift": 1.0}},
        "stolen": told,
    }


def test_what_held_is_not_said_to_have_got_through() -> None:
    assert got_through(report()) == ()
    assert got_through(report(in_lane_with_record=3, lane_open=False)) == ()


def test_everything_that_got_through_is_said_the_nearest_to_the_lane_first() -> None:
    found = report(above=37, in_lane_with_record=3)
    found["fitted"].append({"fast": (0, 2, 7)})
    found["bombing"].append({"moved": 4})
    found["scores"][OURS]["self_lift"] = 1.2
    told = got_through(found)
    assert [sentence.split(" ")[0] for sentence in told] == ["With", "One", "One", "Fakes", "Somebody"]
    assert "up to 20 bought vouches" in told[0]
    assert "7 of them" in told[0]
    assert "3 fakes" in told[1]
    assert "37 fakes" in told[2]
    assert "4 honest people" in told[3]
    assert "1.200 times" in told[4]
