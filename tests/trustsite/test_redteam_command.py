"""`manage.py redteam`: on a graph in files, on the present one, and what it keeps for the dashboard."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.redteam.render import read_report, report_lines
from tests.triage.worlds.site import Site
from trustsite import drive


@pytest.fixture
def graph(tmp_path: Path) -> tuple[Path, Path]:
    """A seed who vouches for six people, each of whom vouches for three more; and the file that names the seed."""
    rows = [f"ana,friend{n}" for n in range(6)]
    rows += [f"friend{n},other{n * 2 + step}" for n in range(6) for step in range(3)]
    edges, seeds = tmp_path / "edges.csv", tmp_path / "seeds.txt"
    edges.write_text("source,target\n" + "\n".join(rows) + "\n")
    seeds.write_text("ana\n")
    return edges, seeds


def test_a_graph_in_files_needs_no_drive_and_gives_one_json_object(graph: tuple[Path, Path], tmp_path: Path) -> None:
    given, printed = ["redteam", "--edges", str(graph[0]), "--seeds", str(graph[1]), "--json"], StringIO()
    assert not drive.needs_state(["manage.py", *given])
    call_command(*given, stdout=printed)
    report = json.loads(printed.getvalue())
    assert report["graph"] == {"people": 20, "vouches": 24, "seeds": 1, "reached": 19, "trusted": 19}
    assert report["scale"]["name"] == "brief"
    assert report["rewiring"]["lift"] == pytest.approx(1.0, abs=1e-9)
    assert "friend" not in printed.getvalue()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "seeds.txt"]


def test_the_present_graph_is_attacked_in_memory_and_the_run_is_kept_beside_the_store(
    site: Site, settings: Settings
) -> None:
    settings.LOG_DIR = site.folder / "logs"
    before = {path: path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}
    printed = StringIO()
    call_command("redteam", stdout=printed)
    shown = read_report(settings.LOG_DIR)
    assert shown is not None
    assert printed.getvalue().splitlines() == report_lines(shown)
    assert (shown.lane_open, shown.t_high) == (True, 0.6), "the lane that serves is met"
    after = {path: path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}
    assert {path for path in after if after[path] != before.get(path)} == {settings.LOG_DIR / "redteam.json"}
    assert "did:" not in (settings.LOG_DIR / "redteam.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--edges", "graph.csv"], "needs both, --edges FILE and --seeds FILE"),
        (["--seeds", "seeds.txt"], "needs both, --edges FILE and --seeds FILE"),
        (["--edges", "no.csv", "--seeds", "no.txt"], "no.csv cannot be read"),
        (["--key", "-1"], "--key must be 0 or more"),
        ([], "Nothing was published there yet"),
    ],
)
def test_what_cannot_be_attacked_is_said_in_one_sentence(
    arguments: list[str], sentence: str, settings: Settings, tmp_path: Path
) -> None:
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    with pytest.raises(CommandError, match=sentence) as raised:
        call_command("redteam", *arguments)
    assert raised.value.returncode == 2


def test_where_the_lane_is_shut_the_attacks_meet_one_that_is_open(graph: tuple[Path, Path]) -> None:
    printed = StringIO()
    call_command("redteam", "--edges", str(graph[0]), "--seeds", str(graph[1]), stdout=printed)
    assert "It is shut; they met one that is open from 90 %." in printed.getvalue().splitlines()[0]
    assert "nobody gets there" not in printed.getvalue()


def test_a_graph_whose_seeds_vouch_for_nobody_cannot_be_attacked(graph: tuple[Path, Path]) -> None:
    graph[1].write_text("other0\n")
    with pytest.raises(CommandError, match="Nothing to simulate: no vouch leads from a seed"):
        call_command("redteam", "--edges", str(graph[0]), "--seeds", str(graph[1]))
