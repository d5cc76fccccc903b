"""`manage.py trust` as it is typed: any graph in files, no drive, one sentence where something is wrong."""

import csv
import json
import re
from io import StringIO
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.redteam.render import read_report, report_lines
from tests.conftest import Count, Manage
from tests.sources import PROJECT
from tests.triage.worlds.site import Site
from trustsite import drive

EDGES = """source,target,weight,created_at
root,ana,1,2024-01-02
root,ben,1,2022-01-02
ana,mara,1,2024-01-02
=x,+y,1,2024-01-02
"""
HEADER = "node,s,first_passage,eigentrust,distance,dominator"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with edges, seeds and denounces."""
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "seeds.txt").write_text("root\n")
    (tmp_path / "denounces.csv").write_text("source,target\nroot,mara\n")
    return tmp_path


def call(folder: Path, *arguments: str) -> tuple[list[str], list[str]]:
    """The command in this process: the lines of stdout and of stderr."""
    out, err = StringIO(), StringIO()
    given = ["--edges", str(folder / "edges.csv"), "--seeds", str(folder / "seeds.txt"), *arguments]
    call_command("trust", *given, stdout=out, stderr=err)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a result in CSV, by node."""
    with path.open(newline="") as file:
        return {row["node"]: row for row in csv.DictReader(file)}


def test_it_judges_and_explains_a_graph_without_a_drive_and_writes_nothing_else(manage: Manage, files: Path) -> None:
    home = files / "home"
    home.mkdir()
    given = ("--edges", str(files / "edges.csv"), "--seeds", str(files / "seeds.txt"), "--explain", "mara")
    done = manage("trust", *given, "--out", str(files / "out.csv"), DATA_ROOT=None, HOME=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mara: s 0.5 (first passage 0.01, EigenTrust ")
    assert "all of it runs through the node ana" in done.stdout
    assert "        0.01  root > ana > mara\n" in done.stdout
    assert "        0.01  100.0%  ana\n" in done.stdout
    assert (files / "out.csv").read_text().splitlines()[0].replace('"', "") == HEADER
    rows = rows_of(files / "out.csv")
    assert list(rows) == ["+y", "=x", "ana", "ben", "mara", "root"]
    assert [float(row["s"]) for row in rows.values()] == pytest.approx([0, 0, 10 / 11, 10 / 12, 0.5, 1], rel=1e-9)
    assert [row["distance"] for row in rows.values()] == ["", "", "1", "1", "2", "0"]
    assert [row["dominator"] for row in rows.values()] == ["", "", "root", "root", "ana", ""]
    assert list(home.iterdir()) == []
    assert {path.name for path in files.iterdir()} == {"denounces.csv", "edges.csv", "home", "out.csv", "seeds.txt"}


def test_what_is_wrong_is_one_sentence_and_status_2(files: Path) -> None:
    (files / "seeds.txt").write_text("root\neve\x1b[31m\n")
    with pytest.raises(CommandError) as problem:
        call(files, "--out", str(files / "out.csv"))
    assert (problem.value.returncode, str(problem.value)) == (2, "1 of 2 seeds appear in no edge: eve\\u001b[31m.")
    assert not (files / "out.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--explain", "ana", "--edges", "absent.csv"), "absent.csv cannot be read (No such file or directory)."),
        ((), "Say where the result goes, --out FILE, or ask about one node, --explain NODE."),
        (("--out", "out.txt"), "out.txt must end in .csv or .parquet"),
        (("--out", "edges.csv"), "edges.csv would be replaced by what is made from it"),
        (("--out", "absent/out.csv"), "absent/out.csv cannot be written (No such file or directory)."),
        (("--explain", "eve"), "eve is in none of the files."),
        (("--explain", "ana", "--as-of", "today"), "today is not a date or time such as 2026-11-20"),
        (("--explain", "ana", "--denounces", "seeds.txt"), "seeds.txt must end in .csv or .parquet"),
    ],
)
def test_what_cannot_be_done_is_said(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(files)
    before = sorted(path.name for path in files.iterdir())
    with pytest.raises(CommandError) as problem:
        call(Path(), *arguments)
    assert str(problem.value).startswith(words)
    assert problem.value.returncode == 2
    assert sorted(path.name for path in files.iterdir()) == before


def test_self_edges_and_duplicates_are_said_in_one_line_each(files: Path) -> None:
    (files / "edges.csv").write_text("source,target,weight\nroot,ana,.5\nroot,ana,1\nana,ana,1\nana,ana,1\n")
    _, told = call(files, "--out", str(files / "out.csv"))
    assert told == [
        "2 edges from a node to itself: dropped.",
        "1 edge for a pair that is named before: the largest weight counts.",
    ]
    assert float(rows_of(files / "out.csv")["ana"]["s"]) == pytest.approx(10 / 11, rel=1e-12)


def test_denounces_age_and_the_settings_of_trust_count(files: Path, settings: Settings) -> None:
    call(files, "--denounces", str(files / "denounces.csv"), "--out", str(files / "out.csv"))
    assert float(rows_of(files / "out.csv")["mara"]["s"]) == 0
    (files / "denounces.csv").write_text("source,target,weight\nben,mara,1\n")
    kept = []
    for settings.TRUST_DENOUNCE_STRENGTH in (0.0, 0.5, 1.0):
        call(files, "--denounces", str(files / "denounces.csv"), "--out", str(files / "out.csv"))
        kept.append(float(rows_of(files / "out.csv")["mara"]["first_passage"]))
    assert kept == pytest.approx([0.01, 0.0075, 0.005], rel=1e-9), "ben has half of the trust of ana"
    call(files, "--as-of", "2022-06-01", "--out", str(files / "out.csv"))
    assert float(rows_of(files / "out.csv")["ana"]["s"]) == 0
    settings.TRUST_HOPS, settings.TRUST_HALF_LIFE_DAYS = 1, 365.0
    call(files, "--out", str(files / "out.csv"))
    rows = rows_of(files / "out.csv")
    assert rows["mara"]["distance"] == ""
    assert float(rows["ben"]["s"]) == pytest.approx(2.5 / 3.5, rel=1e-12)


def test_the_commands_of_the_readme_run_as_they_stand(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^.*manage\.py (trust .*?) *#", (PROJECT / "docs" / "tools.md").read_text(), re.MULTILINE)
    assert len(lines) == 2
    monkeypatch.chdir(files)
    (files / "edges.csv").rename("vouches.csv")
    out = StringIO()
    for line in lines:
        call_command(*line.split(), stdout=out)
    assert "ana" in rows_of(files / "trust.csv")
    assert out.getvalue().startswith("ana: s 0.9091 (")


def test_parquet_goes_in_and_comes_out(files: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"source": [1, 2], "target": [2, 3]}), files / "edges.parquet")
    (files / "seeds.txt").write_text("1\n")
    call(files, "--edges", str(files / "edges.parquet"), "--out", str(files / "out.parquet"))
    rows = pyarrow.parquet.read_table(files / "out.parquet")
    assert rows.column_names == HEADER.split(",")
    assert rows["node"].to_pylist() == ["1", "2", "3"]
    assert rows["distance"].to_pylist() == [0, 1, 2]
    assert rows["dominator"].to_pylist() == [None, "1", "2"]


def test_an_empty_graph_gives_the_seeds_alone(files: Path) -> None:
    (files / "edges.csv").write_text("source,target\n")
    call(files, "--out", str(files / "out.csv"))
    assert rows_of(files / "out.csv") == {
        "root": {"node": "root", "s": "1", "first_passage": "0", "eigentrust": "1", "distance": "0", "dominator": ""}
    }


def test_a_star_is_judged_right_up_to_a_million_edges(files: Path, count: Count) -> None:
    size = count(100_000, 1_000_000)
    rays = pyarrow.table({"source": pyarrow.repeat("hub", size), "target": pyarrow.array(range(size))})
    pyarrow.parquet.write_table(rays, files / "edges.parquet")
    (files / "seeds.txt").write_text("hub\n")
    call(files, "--edges", str(files / "edges.parquet"), "--out", str(files / "out.parquet"))
    table = pyarrow.parquet.read_table(files / "out.parquet").to_pandas().set_index("node")
    rest = table.drop(index="hub")
    assert len(rest) == size
    assert rest["s"].min() == rest["s"].max() == pytest.approx(10 / 11, rel=1e-12)
    assert set(rest["dominator"]) == {"hub"}
    assert table.loc["hub", "s"] == 1.0


def test_the_advogato_graph_is_judged_as_it_was_measured(files: Path, shared: Path) -> None:
    whole = pyarrow.parquet.read_table(shared / "data" / "trust_advogato_edges.parquet").to_pandas()
    vouches = whole[(whole["snapshot"] == "latest") & (whole["level"] >= 1)][["source", "target"]]
    vouches.to_parquet(files / "edges.parquet")
    (files / "seeds.txt").write_text("1\n2\n3\n4\n")
    call(files, "--edges", str(files / "edges.parquet"), "--out", str(files / "out.parquet"))
    table = pyarrow.parquet.read_table(files / "out.parquet").to_pandas().set_index("node")
    trusted = table[(table["s"] >= 0.5) & (table["distance"] > 0)]
    two_ways = trusted["dominator"].isna() | trusted["dominator"].isin(["1", "2", "3", "4"])
    assert len(trusted) == 593
    assert two_ways.sum() == 588  # hardly anybody who is well trusted hangs on one account


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
