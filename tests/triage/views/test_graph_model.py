"""The switch of the graph network: off, no page knows of it and no file is read; on, card and chance are shown."""

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from django.test import Client
from pytest_django import Settings

from scoring.graph import checkpoint
from scoring.graph.checkpoint import point
from scoring.models.serving import LABEL
from scoring.training import summary
from scoring.training.graph_card import trial_lines, write_graph_backtest
from scoring.training.summary import (
    ENDING,
    GRAPH_FORM,
    ShownGraph,
    ShownRings,
    ShownTimes,
    ShownTrial,
    write_summary,
)
from tests.triage.worlds.drawn_rows import NOW, drawn_rows
from tests.triage.worlds.pages_world import DrawnWorld, draw
from triage.presenters.graph_model import NOT_TRIED, graph_card, graph_words
from triage.views.lanes import dashboard

pytestmark = pytest.mark.django_db
NAME = "ab" * 32
TRIAL = ShownTrial(
    LABEL, "change", "all", 2239, 700, 0.805, 0.52, -0.003, -0.013, 0.007, 0.002, 0.0, False, "It does not beat blend."
)
RINGS = ShownRings(1161, 0.64, 0.594, 0.6, (0.022, 0.069), (0.017, 0.063))
CARD = ShownGraph(GRAPH_FORM, NOW, 13_228, 3, (TRIAL,), (RINGS,), NAME, ShownTimes(65.0, 4.0, 30_000_000))


def text(client: Client, path: str = "/backtest") -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return re.sub(r'csrfmiddlewaretoken" value="\w+"', "", html.unescape(response.content.decode()))


def store(folder: Path, card: ShownGraph = CARD) -> None:
    write_summary(folder / f"{NAME}{ENDING}", card)
    point(folder, LABEL, NAME)
    write_graph_backtest(folder, of_backtest(card))


def of_backtest(card: ShownGraph) -> ShownGraph:
    return ShownGraph(card.form, card.at, card.cases, card.seeds, card.trials)


def test_off_the_page_is_the_same_with_a_network_and_without_and_no_file_of_it_is_read(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = text(client)
    store(folder)

    def fail(*arguments: object) -> None:
        raise AssertionError("a file of the network was read")

    for module in (summary, checkpoint):
        monkeypatch.setattr(module, "pointed", fail)
    for name in ("read_graph", "read_graph_backtest"):
        monkeypatch.setattr(dashboard, name, fail)
    assert text(client) == before
    assert "GraphSAGE" not in before


def test_on_the_card_answers_and_shows_trials_rings_and_times(client: Client, folder: Path, settings: Settings) -> None:
    settings.SHOW_GRAPH_MODEL = True
    store(folder)
    page = text(client)
    assert "The rule refused it in 1 of 1 trials: it decides nothing." in page
    for words in ("It does not beat blend.", "-0.013 to +0.007", "+0.022 to +0.069", "4.0 ms", "30.0 MB", "0.805"):
        assert words in page
    assert "Trained here" in page
    assert "In the backtest" in page


def test_the_newer_of_both_cards_answers() -> None:
    passed = msgspec.structs.replace(TRIAL, promoted=True)
    later = msgspec.structs.replace(of_backtest(CARD), at=NOW + timedelta(days=1), trials=(passed,))
    assert graph_card(CARD, later).answer.startswith("It passed 1 of 1 trials")
    assert graph_card(msgspec.structs.replace(CARD, at=NOW + timedelta(days=2)), later).answer.startswith("The rule")
    assert graph_card(None, later).answer.startswith("It passed")


def test_a_trial_that_passed_and_lost_in_the_quarters_after_it_is_told_so() -> None:
    passed = msgspec.structs.replace(TRIAL, promoted=True, later=(-0.011, -0.027, 0.006))
    card = graph_card(None, msgspec.structs.replace(of_backtest(CARD), trials=(passed, TRIAL)))
    assert card.answer == (
        "It passed 1 of 2 trials of the rule; the model beside it serves all the same, since it explains no chance, "
        "and in the quarters after them it was no better in 1 of these 1."
    )
    assert card.judged is not None
    place = card.judged.columns.index("Gain over the blend in the quarters after it")
    assert [row[place] for row in card.judged.rows] == ["-0.011, -0.027 to +0.006", ""]
    assert "- the same over the blend in the quarters after the trial: -0.011 [-0.027, +0.006]" in trial_lines(passed)
    won = msgspec.structs.replace(passed, later=(0.004, 0.001, 0.006))
    answer = graph_card(None, msgspec.structs.replace(of_backtest(CARD), trials=(won,))).answer
    assert answer.endswith("since it explains no chance.")


def test_a_card_without_a_trial_counts_none() -> None:
    empty = msgspec.structs.replace(CARD, trials=())
    assert graph_card(empty, None).answer == "No trial had cases to judge it on: it decides nothing."


def test_what_is_gained_alone_is_told_of_a_person_where_it_is_measured_and_left_blank_of_a_change() -> None:
    person = msgspec.structs.replace(TRIAL, scope="person", self_lift=0.013)
    table = graph_card(msgspec.structs.replace(CARD, trials=(TRIAL, person)), None).trained
    assert table is not None
    place = table.columns.index("Most that anybody gains alone")
    assert [row[place] for row in table.rows] == ["", "1.3 %"]
    assert [line for line in trial_lines(TRIAL) if "lift" in line] == []
    assert "- largest lift of one's own: 1.3 %" in trial_lines(person)


@pytest.mark.parametrize("damage", ["nothing", "another", "not JSON", "too long", "a pointer elsewhere"])
def test_on_without_a_readable_card_one_sentence_says_what_to_install_and_run(
    client: Client, folder: Path, settings: Settings, damage: str
) -> None:
    settings.SHOW_GRAPH_MODEL = True
    if damage != "nothing":
        store(folder)
        (folder / f"graphsage{ENDING}").unlink()
    path = folder / f"{NAME}{ENDING}"
    if damage == "another":
        write_summary(path, of_backtest(CARD))
    elif damage == "not JSON":
        path.write_bytes(b"\x80\x04")
    elif damage == "too long":
        path.write_bytes(path.read_bytes() + b" " * 300_000)
    elif damage == "a pointer elsewhere":
        point(folder, LABEL, "../../etc/passwd")
    page = text(client)
    assert NOT_TRIED in page
    assert page.count("GraphSAGE") == 1


def test_a_backtest_alone_shows_its_trials_and_says_that_no_network_is_stored(
    client: Client, folder: Path, settings: Settings
) -> None:
    settings.SHOW_GRAPH_MODEL = True
    write_graph_backtest(folder, of_backtest(CARD))
    page = text(client)
    assert "No network is stored: run manage.py train" in page
    assert "It does not beat blend." in page
    assert "# GraphSAGE" in (folder / "graphsage.md").read_text()


def test_words_of_a_stranger_in_a_card_are_escaped(client: Client, folder: Path, settings: Settings) -> None:
    settings.SHOW_GRAPH_MODEL = True
    trial = msgspec.structs.replace(TRIAL, why="<script>alert(1)</script>")
    store(folder, ShownGraph(GRAPH_FORM, NOW, 1, 3, (trial,), (), NAME))
    assert b"<script>alert" not in client.get("/backtest").content


@pytest.mark.parametrize("shown", [False, True])
def test_the_pane_has_its_chance_beside_the_served_one_only_where_it_is_shown(
    client: Client, folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    settings.SHOW_GRAPH_MODEL = shown
    row = replace(drawn_rows()[0], graph=0.629)
    draw(monkeypatch, DrawnWorld(rows=(row,)))
    page = text(client, f"/pull/{row.uri}")
    assert ("GraphSAGE, which decides nothing: 62 %." in page) is shown
    assert graph_words(replace(row, graph=None)) == ""
    unknown = replace(row.verdict, estimate=replace(row.verdict.estimate, probability=None))
    assert graph_words(replace(row, verdict=unknown)) == "", "beside nothing it would stand for a chance"
