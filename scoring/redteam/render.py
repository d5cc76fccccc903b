"""Puts the attack simulations into words: one row an attack, for a terminal and for the page of the newest run. Pure.

The command writes the rows to a file that names nobody; a page reads it as untrusted.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scoring.certificates.certificate import Moment, Unit
from scoring.config.policy import Policy
from scoring.formatting import percent_in_full, things, trust_bound, trust_figure
from scoring.redteam.attack import HALF, RECORDS
from scoring.training.summary import Size, read_summary, write_summary

NOT_PLAYED = (
    "A seed that is bought or hacked. A seed's word counts fully, so it can open any door. "
    "Choose few, and look at the list in the repository's settings.",
    "Somebody who earns a real record over months and then sends one bad change: trust and record are true then. "
    "What helps then: the review of the change itself, the random audit and the budget.",
    "Somebody with push access who merges fakes on purpose: each of these counts as a verified merge.",
    "The content of a change: this is about vouches. The scanners have tests of their own.",
)
HEADS = ("Attack", "What it cost", "What it reached", "What stops it")
STILL = "Not the graph. What remains: the review of each change, the random audit and the budget."
FARMED = f"with {RECORDS[-1]} clean merges each"
SLACK = 1e-6  # of a ratio of two sums
FORM = "sunstead-redteam/2"
FILE = "redteam.json"
FILE_LIMIT = 64 * 1024  # bytes of a file that is read; a run needs 3 KB
Text = Annotated[str, msgspec.Meta(max_length=300)]


class ShownAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack in words; `in_lane` fakes reached the fast lane."""

    name: Text
    cost: Text
    reached: Text
    stops: Text
    in_lane: Size = 0


class ShownReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run at `at` (naive UTC). The simulated gate had an open fast lane from `t_high`, also if it was shut."""

    form: Literal["sunstead-redteam/2"]
    at: Moment
    people: Size
    vouches: Size
    seeds: Size
    trusted: Size
    lane_open: bool
    t_high: Unit
    attacks: Annotated[tuple[ShownAttack, ...], msgspec.Meta(min_length=1, max_length=50)]


def shown_report(report: Mapping[str, Any], policy: Policy, lane_open: bool, moment: datetime) -> ShownReport:
    """Convert a report by `scoring.redteam.report` for its file; `policy` is that of the run."""
    counts = [report["graph"][name] for name in ("people", "vouches", "seeds", "trusted")]
    t_high = policy.thresholds.t_high or 1.0
    return ShownReport(FORM, moment.replace(microsecond=0), *counts, lane_open, t_high, tuple(_attacks(report, policy)))


def say_result(report: ShownReport) -> str:
    """Say in one or two sentences whether an attack reached the fast lane."""
    through = [row.name.lower() for row in report.attacks if row.in_lane]
    count = len(report.attacks)
    if through:
        sentence = f"{len(through)} of {count} simulated attacks reached the fast lane: {'; '.join(through)}."
    else:
        sentence = f"None of {count} simulated attacks reached the fast lane."
    shut = f" It is shut; they met one that is open from {percent_in_full(report.t_high)}."
    return sentence if report.lane_open else sentence + shut


def say_graph(report: ShownReport) -> str:
    return (
        f"{things(report.people, 'person', 'people')}, {things(report.vouches, 'vouch', 'vouches')}, "
        f"{things(report.seeds, 'seed')}; {report.trusted:,} trusted ({trust_bound(HALF)} or more)."
    )


def report_lines(report: ShownReport) -> list[str]:
    rows = [HEADS, *((row.name, row.cost, row.reached, row.stops) for row in report.attacks)]
    return [say_result(report), say_graph(report), "", *aligned(rows)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _attacks(report: Mapping[str, Any], policy: Policy) -> Iterator[ShownAttack]:
    asked = f"a trust of {trust_bound(policy.thresholds.trust)}" if policy.thresholds.trust > 0 else ""
    if policy.thresholds.two_ways:
        asked = f"{asked or 'trust'} that does not hang on one account that is no seed"
    rules = f"The fast lane asks for {asked or 'a record'}."
    for figures in _choose_regions(report["regions"]):
        yield _region(figures, rules)
    yield _stolen(report["stolen"], rules)
    yield _rewiring(report["rewiring"])
    yield _bombing(max(report["bombing"], key=lambda figures: (figures["moved"], figures["mass_lost"])), policy)
    yield _farming(report["farming"])
    yield _quoting(report["quoting"])


def _choose_regions(regions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the regions with the fewest and the most bought vouches of anybody, and the most of the most trusted."""
    bought = sorted({region["play"]["bought"] for region in regions})
    choices = dict.fromkeys([(False, bought[0]), (False, bought[-1]), (True, bought[-1])])
    for is_top, count in choices:
        yield from (
            region for region in regions if (region["play"]["top"] < 1, region["play"]["bought"]) == (is_top, count)
        )


def _region(region: Mapping[str, Any], rules: str) -> ShownAttack:
    play, fast = region["play"], region["lanes"][-1]["fast"]
    vouchers = "of the most trusted 5 %" if play["top"] < 1 else "of anybody trusted"
    vouches = things(play["bought"], "bought vouch", "bought vouches")
    return ShownAttack(
        f"Fakes behind {vouches} {vouchers}",
        f"{things(play['fakes'], 'account')} {FARMED}, {vouches}",
        _reached(region["trusted"], fast),
        STILL if fast else rules,
        fast,
    )


def _reached(trusted: int, fast: int) -> str:
    return f"{things(trusted, 'account')} trusted, {fast:,} in the fast lane"


def _stolen(stolen: Mapping[str, Any], rules: str) -> ShownAttack:
    name, cost = "A trusted account is stolen", f"1 account, the worst of {stolen['tried']:,}; fakes {FARMED}"
    if not stolen["tried"]:
        return ShownAttack(name, "1 account", "Nothing: nobody but the seeds is trusted.", "There is nobody to steal.")
    fast = stolen["fast"][-1]
    return ShownAttack(name, cost, _reached(stolen["trusted"], fast), STILL if fast else rules, fast)


def _rewiring(rewiring: Mapping[str, Any]) -> ShownAttack:
    lift = rewiring["lift"]
    return ShownAttack(
        "Somebody changes their own vouches",
        f"1,000 fresh accounts; {things(rewiring['people'], 'person', 'people')} tried {rewiring['ways']} ways",
        f"{lift:.2f} times the trust" if lift > 1 + SLACK else "No more trust than before",
        "Trust comes only from seeds; nobody's own vouches raise it.",
    )


def _bombing(bombing: Mapping[str, Any], policy: Policy) -> ShownAttack:
    plan = bombing["plan"]
    return ShownAttack(
        f"Fakes warn about the {things(bombing['denounced'], 'most trusted person', 'most trusted people')}",
        f"{things(plan['fakes'], 'account')}, {things(bombing['bought'], 'bought vouch', 'bought vouches')}",
        f"{bombing['moved']:,} of {things(bombing['trusted'], 'trusted person', 'trusted people')} fall below "
        f"{trust_bound(HALF)}",
        "A warning weighs what its author is trusted."
        if policy.denounce_strength > 0
        else "Warnings by others than seeds change no score here.",
    )


def _farming(farming: Mapping[str, Any] | None) -> ShownAttack:
    name = "Small merges in place of vouches"
    if farming is None:
        return ShownAttack(name, "Any number of merges", "Nothing", "Merges do not count as vouches here.")
    reached = f"A trust of {trust_figure(farming['by_seed'])} each, below {trust_bound(HALF)}"
    return ShownAttack(
        name,
        f"{things(farming['fakes'], 'account')}, {farming['merges']} small merges each by one seed",
        f"{things(farming['above'], 'account')} trusted" if farming["above"] else reached,
        f"All merges by one person weigh at most {farming['cap']:g} of a vouch.",
    )


def _quoting(quoting: Mapping[str, Any]) -> ShownAttack:
    before, after = trust_figure(quoting["without"]), trust_figure(quoting["by_trusted"])
    change = f"A trust of {after} each" if before == after else f"A trust of {after} each, {before} without"
    return ShownAttack(
        "Small merges as evidence on a vouch",
        f"{things(quoting['fakes'], 'account')}, {quoting['merges']} small merges each, a vouch by the most trusted "
        "person",
        f"{change}; {quoting['above']:,} trusted",
        "Evidence makes a vouch at most a full one.",
    )


def write_report(folder: Path, report: ShownReport) -> Path:
    """Write the run over the earlier one. Raises OSError."""
    return write_summary(folder / FILE, report)


def read_report(folder: Path) -> ShownReport | None:
    """Read the newest run; None without a readable one."""
    return read_summary(folder / FILE, ShownReport, FILE_LIMIT)
