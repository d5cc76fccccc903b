"""Scenes of attacks: denounces, farmed merges and stolen accounts, their report, and the file of the newest run."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import RECORDS, Ground, LaneCounts, choose_regulars, count_lanes, simulate_theft
from scoring.redteam.attacks import MERGES, Plan, simulate_bombing, simulate_evidence, simulate_farming
from scoring.redteam.render import (
    ShownAttack,
    ShownReport,
    aligned,
    read_report,
    report_lines,
    say_result,
    shown_report,
    write_report,
)
from scoring.redteam.report import BRIEF, MOST_TRUSTED, RANDOM, Grid, attack_everything
from scoring.thresholds import Thresholds
from scoring.trust.first_passage import first_passage
from scoring.trust.what_if import exposure_of
from tests.scoring.redteam.attack_table import fit
from tests.scoring.trust.graphs import advogato, edges_of, people, young_forge

Count = Callable[[int, int], int]
DEFAULTS = Parameters()
NOW = datetime(2026, 11, 20)
OPENED = Policy(thresholds=Thresholds(t_high=0.6))
FORGE = Ground(edges_of(young_forge()), people(0, 1, 2, 3), 600)
TINY = replace(BRIEF, grid=Grid(fakes=(5, 20), bought=(1, 2)), people=2, stolen=2)


def tree(width: int) -> Ground:
    """Seeds 0 to 3 all vouch for 4, who vouches for `width` people."""
    fan = [(4, 5 + place, 1.0) for place in range(width)]
    return Ground(edges_of([(0, 4, 1.0), (1, 4, 1.0), (2, 4, 1.0), (3, 4, 1.0), *fan]), people(0, 1, 2, 3), 5 + width)


@pytest.fixture(scope="module")
def developers(shared: Path) -> Ground:
    """Advogato."""
    return Ground(*advogato(shared))


def test_a_thousand_fakes_who_denounce_the_twenty_most_trusted_cost_them_at_most_a_hundredth(
    developers: Ground, count: Count
) -> None:
    for key in range(count(2, 20)):
        found = simulate_bombing(developers, Plan(), DEFAULTS, 1.0, np.random.default_rng(key))
        assert 0 < found.trust_lost <= 0.01
        assert (found.plan.fakes, found.bought, found.denounced) == (1_000, 50, 20)
        assert found.moved <= 0.01 * found.trusted
        assert found.moved_plainly > 5 * found.moved


def test_denounces_by_fakes_whom_nobody_vouched_for_cost_exactly_nothing() -> None:
    found = simulate_bombing(
        FORGE, Plan(fakes=50, bought=1, victims=5), Parameters(hops=1), 1.0, np.random.default_rng(1)
    )
    assert (found.trust_lost, found.mass_lost, found.moved) == (0.0, 0.0, 0)


def test_nobody_is_denounced_where_nobody_has_trust() -> None:
    with pytest.raises(ValueError, match="nobody to denounce"):
        simulate_bombing(Ground(edges_of([]), people(0), 3), Plan(), DEFAULTS, 1.0, np.random.default_rng(1))


def test_farmed_merges_bring_no_more_than_their_cap_and_reach_half_only_from_a_cap_of_c_on() -> None:
    below = simulate_farming(FORGE, 20, each=0.03, cap=0.09, parameters=DEFAULTS)
    assert [row.merges for row in below] == list(MERGES) == [1, 2, 5, 10, 20]
    assert [row.weight for row in below] == pytest.approx([0.03, 0.06, 0.09, 0.09, 0.09])
    assert below[-1].by_seed == pytest.approx(0.09 / 0.19)
    assert {row.above for row in below} == {0}
    at = simulate_farming(FORGE, 20, each=0.05, cap=0.1, parameters=DEFAULTS)
    assert [row.above for row in at] == [0, 20, 20, 20, 20]
    assert all(row.by_trusted < row.by_seed for row in (*below, *at))


def test_a_stolen_account_brings_what_its_trust_lasts_for_and_nobody_by_two_ways() -> None:
    ground = tree(0)  # F of the account is .4, three hops are left: at most 120 fakes at .01 each
    found = simulate_theft(ground, 4, OPENED)
    assert found.trust == pytest.approx(0.4 / 0.41)
    assert 90 <= found.brought.above <= 120
    assert found.brought.on_two == 0
    assert found.brought.fast == (0, 0, 0)


def test_without_the_rules_of_the_lane_a_stolen_account_would_bring_a_thousand() -> None:
    ground = tree(0)
    thresholds = OPENED.thresholds
    weak = simulate_theft(ground, 4, replace(OPENED, thresholds=replace(thresholds, trust=0.0, two_ways=False))).brought
    assert weak.fast == (0, 1_000, 1_000)
    half = simulate_theft(ground, 4, replace(OPENED, thresholds=replace(thresholds, two_ways=False))).brought
    assert half.fast[-1] == half.above >= 90, "trust alone leaves those whom it lasts for"
    ways = simulate_theft(ground, 4, replace(OPENED, thresholds=replace(thresholds, trust=0.0))).brought
    assert ways.fast == (0, 0, 0), "the second way alone keeps everybody out"


def test_no_stolen_account_brings_more_than_the_exposure_that_maintainers_are_told() -> None:
    passage = first_passage(FORGE.edges, FORGE.seeds, FORGE.size, DEFAULTS)
    found = {
        int(person): simulate_theft(FORGE, int(person), OPENED).brought.above
        for person in choose_regulars(FORGE, DEFAULTS, 5)
    }
    most = {person: exposure_of(passage, person, DEFAULTS, 0.5).lanes for person in found}
    assert all(found[person] <= most[person] for person in found)
    assert max(found.values()) >= 0.5 * max(most.values()) > 0, "the bound is no empty one"


def test_an_account_with_little_trust_brings_nobody_to_half() -> None:
    found = simulate_theft(tree(10), 5, OPENED)
    assert found.trust > 0.5
    assert found.brought.above == 0


def test_the_regulars_are_trusted_no_seeds_and_the_most_trusted_is_among_them() -> None:
    trust = first_passage(FORGE.edges, FORGE.seeds, FORGE.size, DEFAULTS).trust
    found = choose_regulars(FORGE, DEFAULTS, 4)
    assert len(found) == 4
    assert trust[found[0]] == np.delete(trust, FORGE.seeds).max()
    assert (trust[found] >= 0.5).all()
    assert not set(found.tolist()) & {0, 1, 2, 3}
    assert len(choose_regulars(Ground(edges_of([]), people(0), 3), DEFAULTS, 4)) == 0


def test_a_clique_fitted_to_the_budget_gains_from_the_most_trusted_but_stays_within_the_bound(
    developers: Ground, count: Count
) -> None:
    found = [fit(developers, 20, MOST_TRUSTED, OPENED, np.random.default_rng(key)) for key in range(count(1, 10))]
    assert 0 < max(one.above for one in found) < 3
    assert fit(developers, 5, RANDOM, OPENED, np.random.default_rng(1)).above <= 1


def test_the_gate_itself_sorts_the_fakes() -> None:
    crowd = np.array([0.0, 0.2, 0.2, 0.5, 0.9, 0.9])
    two = np.array([False, False, True, True, True, False])
    assert count_lanes(crowd, two, 20, Policy()) == LaneCounts(20, fast=0, normal=6, human=0), "shut"
    assert count_lanes(crowd, two, 0, OPENED) == LaneCounts(0, fast=0, normal=6, human=0), "no record"
    assert count_lanes(crowd, two, 20, OPENED) == LaneCounts(20, fast=2, normal=4, human=0)
    strict = replace(OPENED, thresholds=Thresholds(t_low=0.95, t_high=0.99))
    assert count_lanes(crowd, two, 20, strict) == LaneCounts(20, fast=0, normal=6, human=0), "20 clean and none bad"


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30), st.sampled_from(RECORDS))
def test_halving_finds_the_lanes_that_judging_each_fake_finds(fakes: list[tuple[float, bool]], record: int) -> None:
    trust, two = np.array([one for one, _ in fakes]), np.array([two for _, two in fakes], dtype=bool)
    found = count_lanes(trust, two, record, OPENED)
    alone = [count_lanes(np.array([s]), np.array([safe]), record, OPENED) for s, safe in fakes]
    assert (found.fast, found.normal) == (sum(one.fast for one in alone), sum(one.normal for one in alone))
    assert found.fast + found.normal + found.human == len(fakes)


def test_quoted_merges_lift_a_friendly_vouch_to_a_full_one_and_no_further() -> None:
    rows = simulate_evidence(tree(0), 5, base=0.75, each=0.125, parameters=DEFAULTS)
    assert [row.merges for row in rows] == [0, *MERGES]
    assert [row.weight for row in rows] == pytest.approx([0.75, 0.875, 1, 1, 1, 1])
    assert [row.gain for row in rows] == pytest.approx([1, 0.875 / 0.75, *[1 / 0.75] * 4])
    assert [
        row.gain for row in simulate_evidence(tree(0), 5, base=1.0, each=0.5, parameters=DEFAULTS)
    ] == pytest.approx([1.0] * 6)
    assert {row.above for row in rows} == {5}, "behind somebody with s = .98 friendly vouches pass with and without"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Everything that is played, on the young forge and in the smallest sizes."""
    return attack_everything(FORGE, TINY, OPENED, 3, lambda words: None)


def test_the_report_is_plain_json_that_names_nobody(report: dict[str, Any]) -> None:
    assert json.loads(json.dumps(report, allow_nan=False))["graph"]["people"] == 600
    assert report["rewiring"]["lift"] == pytest.approx(1.0, abs=1e-9)
    behind_one = [one for one in report["regions"] if one["play"]["bought"] == 1]
    assert [(one["play"]["top"], one["on_two"]) for one in behind_one] == [(RANDOM, 0), (MOST_TRUSTED, 0)]
    assert "regular" not in report["stolen"]


def test_equal_keys_give_equal_reports(report: dict[str, Any]) -> None:
    heard: list[str] = []
    assert json.dumps(attack_everything(FORGE, TINY, OPENED, 3, heard.append)) == json.dumps(report)
    assert heard[0] == "regions: clique"


def test_the_report_plays_denounces_and_merges_as_they_are_served(report: dict[str, Any]) -> None:
    served = replace(OPENED, denounce_strength=0.0, merge_weight=0.02, merge_cap=0.08)
    found = attack_everything(FORGE, TINY, served, 3, lambda words: None)
    assert all(one["mass_lost"] == 0 for one in found["bombing"])
    assert any(one["mass_lost"] > 0 for one in report["bombing"])
    assert (found["farming"]["merges"], found["farming"]["weight"]) == (20, pytest.approx(0.08))
    none = attack_everything(FORGE, TINY, replace(served, merge_weight=0.0), 3, lambda words: None)
    assert none["farming"] is None
    rows = {one.name: one for one in shown_report(none, served, True, NOW).attacks}
    assert rows["Small merges in place of vouches"].stops == "Merges do not count as vouches here."


def test_each_attack_is_one_row_with_its_cost_what_it_reached_and_what_stops_it(report: dict[str, Any]) -> None:
    shown = shown_report(report, OPENED, True, NOW)
    lines = report_lines(shown)
    assert lines[0] == say_result(shown)
    assert say_result(shown).startswith(
        "2 of 8 simulated attacks reached the fast lane: fakes behind 2 bought vouches of "
    )
    assert lines[1].startswith("600 people, 1,500 vouches, 4 seeds; ")
    rows = {one.name: one for one in shown.attacks}
    one = rows["Fakes behind 1 bought vouch of anybody trusted"]
    assert one.cost.endswith(" accounts with 20 clean merges each, 1 bought vouch")
    assert one.reached.endswith(", 0 in the fast lane")
    assert one.stops == "The fast lane asks for a trust of 0.50 that does not hang on one account that is no seed."
    assert rows["Somebody changes their own vouches"].reached == "No more trust than before"
    text = "\n".join(lines)
    assert all(part in text for row in shown.attacks for part in (row.name, row.cost, row.reached, row.stops))


def test_what_reaches_the_lane_is_said_first_and_a_shut_lane_hides_nothing(report: dict[str, Any]) -> None:
    stolen = report["stolen"] | {"tried": 10, "trusted": 80, "fast": [0, 3, 1_000]}
    none = [one for one in report["regions"] if one["play"]["bought"] == 1]
    kept = report | {"regions": none}
    assert say_result(shown_report(kept, OPENED, True, NOW)) == "None of 7 simulated attacks reached the fast lane."
    through = shown_report(kept | {"stolen": stolen}, OPENED, False, NOW)
    assert say_result(through) == (
        "1 of 7 simulated attacks reached the fast lane: a trusted account is stolen. "
        "It is shut; they met one that is open from 60 %."
    )
    row = next(one for one in through.attacks if one.in_lane)
    assert row.reached == "80 accounts trusted, 1,000 in the fast lane"
    assert row.stops.startswith("Not the graph.")
    nobody = shown_report(report | {"stolen": stolen | {"tried": 0}}, OPENED, True, NOW)
    assert nobody.attacks[3].stops == "There is nobody to steal."
    lifted = report["rewiring"] | {"lift": 1.25}
    assert shown_report(report | {"rewiring": lifted}, OPENED, True, NOW).attacks[4].reached == "1.25 times the trust"


def test_columns_have_one_width() -> None:
    assert aligned([("", "a"), ("long", "12.5")]) == ["      a", "long  12.5"]


def test_no_more_are_bought_and_denounced_than_there_are() -> None:
    found = simulate_bombing(tree(3), Plan(fakes=5), DEFAULTS, 1.0, np.random.default_rng(1))
    assert (found.bought, found.denounced) == (4, 4)


RUN_AT = datetime(2026, 11, 20, 12)
STOLEN = ShownAttack("A trusted account is stolen", "1 account, the worst of 10 tried", "7 in the fast lane", "It", 7)
RUN = ShownReport("sunstead-redteam/2", RUN_AT, 7_440, 51_160, 2, 15, True, 0.9, (STOLEN,))


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
