"""The attack simulations in words: one row an attack, for a terminal and for the page that shows the newest run. Pure.

The command keeps the rows in a file that names nobody; a page reads it as something that anybody may have written.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scoring.certificates.certificate import Moment, Unit
from scoring.config.policy import Policy
from scoring.formatting import percent_in_full, things, trust_bound, trust_figure
from scoring.redteam.measures import HALF, RECORDS
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
LARGEST = 64 * 1024  # bytes of a file that is read; a run needs 3 KB
Text = Annotated[str, msgspec.Meta(max_length=300)]


class ShownAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack in words; `in_lane` fakes reached the fast lane."""

    name: Text
    cost: Text
    reached: Text
    stops: Text
    in_lane: Size = 0


class ShownReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run at `at` (naive UTC). The gate took the fast lane as open from `t_high`, also where it was shut."""

    form: Literal["sunstead-redteam/2"]
    at: Moment
    people: Size
    vouches: Size
    seeds: Size
    trusted: Size
    lane_open: bool
    t_high: Unit
    attacks: Annotated[tuple[ShownAttack, ...], msgspec.Meta(min_length=1, max_length=50)]


def shown_report(report: Mapping[str, Any], policy: Policy, lane_open: bool, at: datetime) -> ShownReport:
    """A report by `scoring.redteam.report` as it is kept; `policy` is the one that it was played by."""
    counts = [report["graph"][name] for name in ("people", "vouches", "seeds", "trusted")]
    t_high = policy.thresholds.t_high or 1.0
    return ShownReport(FORM, at.replace(microsecond=0), *counts, lane_open, t_high, tuple(_attacks(report, policy)))


def answer(shown: ShownReport) -> str:
    """Say in one or two sentences whether an attack reached the fast lane."""
    through = [one.name.lower() for one in shown.attacks if one.in_lane]
    count = len(shown.attacks)
    if through:
        said = f"{len(through)} of {count} simulated attacks reached the fast lane: {'; '.join(through)}."
    else:
        said = f"None of {count} simulated attacks reached the fast lane."
    shut = f" It is shut; they met one that is open from {percent_in_full(shown.t_high)}."
    return said if shown.lane_open else said + shut


def ground_words(shown: ShownReport) -> str:
    """Say on which graph it was played."""
    return (
        f"{things(shown.people, 'person', 'people')}, {things(shown.vouches, 'vouch', 'vouches')}, "
        f"{things(shown.seeds, 'seed')}; {shown.trusted:,} trusted ({trust_bound(HALF)} or more)."
    )


def told(shown: ShownReport) -> list[str]:
    """The lines that the command prints."""
    rows = [HEADS, *((one.name, one.cost, one.reached, one.stops) for one in shown.attacks)]
    return [answer(shown), ground_words(shown), "", *aligned(rows)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _attacks(report: Mapping[str, Any], policy: Policy) -> Iterator[ShownAttack]:
    rules = _lane_rules(policy)
    for one in _told_regions(report["regions"]):
        yield _region(one, rules)
    yield _stolen(report["stolen"], rules)
    yield _rewiring(report["rewiring"])
    yield _bombing(max(report["bombing"], key=lambda one: (one["moved"], one["mass_lost"])), policy)
    yield _farming(report["farming"])
    yield _quoting(report["quoting"])


def _told_regions(found: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The fewest bought vouches and the most, from anybody; the most from the most trusted."""
    bought = sorted({one["play"]["bought"] for one in found})
    wanted = dict.fromkeys([(False, bought[0]), (False, bought[-1]), (True, bought[-1])])
    for is_top, count in wanted:
        yield from (one for one in found if (one["play"]["top"] < 1, one["play"]["bought"]) == (is_top, count))


def _lane_rules(policy: Policy) -> str:
    """Return what the fast lane asks for besides a record, as the settings have it."""
    wanted = [f"a trust of {trust_bound(policy.thresholds.trust)}"] if policy.thresholds.trust > 0 else []
    wanted += ["two separate paths"] if policy.thresholds.two_ways else []
    return f"The fast lane asks for {' over '.join(wanted) or 'a record'}."


def _region(one: Mapping[str, Any], rules: str) -> ShownAttack:
    play, fast = one["play"], one["lanes"][-1]["fast"]
    whose = "of the most trusted 5 %" if play["top"] < 1 else "of anybody trusted"
    vouches = things(play["bought"], "bought vouch", "bought vouches")
    return ShownAttack(
        f"Fakes behind {vouches} {whose}",
        f"{things(play['fakes'], 'account')} {FARMED}, {vouches}",
        _reached(one["trusted"], fast),
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


def _rewiring(found: Mapping[str, Any]) -> ShownAttack:
    lift = found["lift"]
    return ShownAttack(
        "Somebody changes their own vouches",
        f"1,000 fresh accounts; {things(found['people'], 'person', 'people')} tried {found['ways']} ways",
        f"{lift:.2f} times the trust" if lift > 1 + SLACK else "No more trust than before",
        "Trust comes only from seeds; nobody's own vouches raise it.",
    )


def _bombing(one: Mapping[str, Any], policy: Policy) -> ShownAttack:
    plan = one["plan"]
    return ShownAttack(
        f"Fakes warn about the {things(one['denounced'], 'most trusted person', 'most trusted people')}",
        f"{things(plan['fakes'], 'account')}, {things(one['bought'], 'bought vouch', 'bought vouches')}",
        f"{one['moved']:,} of {things(one['trusted'], 'trusted person', 'trusted people')} fall below "
        f"{trust_bound(HALF)}",
        "A warning weighs what its author is trusted."
        if policy.denounce_strength > 0
        else "Warnings by others than seeds change no score here.",
    )


def _farming(found: Mapping[str, Any] | None) -> ShownAttack:
    name = "Small merges in place of vouches"
    if found is None:
        return ShownAttack(name, "Any number of merges", "Nothing", "Merges do not count as vouches here.")
    reached = f"A trust of {trust_figure(found['by_seed'])} each, below {trust_bound(HALF)}"
    return ShownAttack(
        name,
        f"{things(found['fakes'], 'account')}, {found['merges']} small merges each by one seed",
        f"{things(found['above'], 'account')} trusted" if found["above"] else reached,
        f"All merges by one person weigh at most {found['cap']:g} of a vouch.",
    )


def _quoting(found: Mapping[str, Any]) -> ShownAttack:
    before, after = trust_figure(found["without"]), trust_figure(found["by_trusted"])
    change = f"A trust of {after} each" if before == after else f"A trust of {after} each, {before} without"
    return ShownAttack(
        "Small merges as evidence on a vouch",
        f"{things(found['fakes'], 'account')}, {found['merges']} small merges each, a vouch by the most trusted person",
        f"{change}; {found['above']:,} trusted",
        "Evidence makes a vouch at most a full one.",
    )


def keep_report(folder: Path, shown: ShownReport) -> Path:
    """Put the run in the place of the one before. Raises OSError."""
    return write_summary(folder / FILE, shown)


def read_report(folder: Path) -> ShownReport | None:
    """The newest run that was kept; None where there is none, or none that can be read."""
    return read_summary(folder / FILE, ShownReport, LARGEST)
