"""The red team's report as titled tables, for a page and as aligned lines for a terminal. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scoring.redteam.lanes import RECORDS
from scoring.redteam.rivals import OURS

Row = Sequence[str]
SCORES_NOTE = """\
fakes/vouch: most fakes at s >= .5 for each bought vouch (a rival's mark lets as many honest people pass);
two ways: the same behind one bought vouch, without those whose trust one account can end."""

FARMING_NOTE = "Other weights are played beside the one that is set: TRUST_MERGE_WEIGHT, where 0 has no merge count so."
QUOTING_NOTE = "Other weights are played beside those that are set: TRUST_VOUCH_WEIGHT and TRUST_EVIDENCE_WEIGHT."


@dataclass(frozen=True, slots=True)
class Section:
    """One attack: its table, heads in the first row and names in the first column, and how to read it."""

    title: str
    rows: Sequence[Row]
    note: str = ""


def sections(report: dict[str, Any]) -> tuple[Section, ...]:
    """The tables of a report by `scoring.redteam.report`."""
    return (
        Section("Regions of fakes, side by side", _scores(report), SCORES_NOTE),
        Section("Where the gate sends the fakes of the worst attack", _lanes(report)),
        Section("Denounce bombing", _bombing(report)),
        Section("Merge farming: 1 to 20 trivial merges that count as one vouch", _farming(report), FARMING_NOTE),
        Section(
            "Trivial merges used as evidence by the most trusted person who is not a seed",
            _quoting(report),
            QUOTING_NOTE,
        ),
        Section("Cliques fitted to the budget", _fitted(report)),
    )


def told(report: dict[str, Any]) -> list[str]:
    """The lines of a report by `scoring.redteam.report`."""
    lines = list(ground_words(report))
    for section in sections(report):
        lines += ["", section.title, *aligned(section.rows), *section.note.splitlines()]
    return [*lines, "", *stolen_words(report["stolen"])]


def aligned(rows: Sequence[Row]) -> list[str]:
    """The rows as lines with columns of one width: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def ground_words(report: dict[str, Any]) -> list[str]:
    """On which graph it was played, and how much."""
    graph, scale = report["graph"], report["scale"]
    fakes, bought = (" / ".join(f"{n:,}" for n in scale[name]) for name in ("fakes", "bought"))
    return [
        f"{graph['people']:,} people, {graph['vouches']:,} vouches, {graph['seeds']:,} seeds; "
        f"{graph['reached']:,} reached, {graph['trusted']:,} at s >= .5.",
        f"The {scale['name']} grid: 9 shapes x {fakes} fakes x {bought} bought vouches x {_counted(scale['draws'])}, "
        f"bought from anybody trusted and from the most trusted 5 %; {scale['people']} people rewire in 10 ways.",
    ]


def _scores(report: dict[str, Any]) -> list[Row]:
    head = ("", "self-lift", "AUC", "worst", "fakes/vouch", "two ways", "share caught", "growth")
    rows: list[Row] = [head]
    for pool, words in (("random", "anybody"), ("most_trusted", "top 5 %")):
        for name, found in report["scores"].items():
            one = found[pool]
            two = "-" if one["on_two_behind_one"] is None else f"{one['on_two_behind_one']:.2f}"
            growth = "-" if one["growth"] is None else f"{one['growth']:.3f}"
            figures = (f"{one['auc']:.3f}", f"{one['auc_worst']:.3f}", f"{one['above_worst']:,.2f}", two)
            lift = f"{found['self_lift']:,.3f}"
            rows.append((f"{name}, {words} bought", lift, *figures, f"{one['share_worst']:.2%}", growth))
    return rows


def _lanes(report: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("", "fast lane", "normal queue", "a human", "fast behind one vouch")]
    for pool, words in (("random", "anybody"), ("most_trusted", "top 5 %")):
        for one in report["scores"][OURS][pool]["lanes"]:
            counts = (f"{one[name]:,}" for name in ("fast", "normal", "human", "fast_behind_one"))
            rows.append((f"{words} bought, {one['record']} clean merges each", *counts))
    return rows


def _bombing(report: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("", "s lost", "mass lost", "honest below .5", "if any denounce zeroes")]
    for one in report["bombing"]:
        plan = one["plan"]
        pool = "anybody" if plan["top"] == 1 else "top 5 %"
        name = f"{plan['fakes']:,} fakes, {one['bought']} vouches ({pool}), {one['denounced']} denounced"
        moved = (f"{one['moved']:,} of {one['trusted']:,}", f"{one['moved_plainly']:,}")
        rows.append((name, f"{one['trust_lost']:.2%}", f"{one['mass_lost']:.2%}", *moved))
    return rows


def _farming(report: dict[str, Any]) -> list[Row]:
    merges = sorted({row["merges"] for row in report["farming"]})
    rows: list[Row] = [("weight of a merge, at most", *(f"{n} merged" for n in merges))]
    for each, cap in dict.fromkeys((row["each"], row["cap"]) for row in report["farming"]):
        found = [row for row in report["farming"] if (row["each"], row["cap"]) == (each, cap)]
        rows.append((f"{each:.2f}, {cap:.2f}: s behind a seed", *(f"{row['by_seed']:.2f}" for row in found)))
        rows.append((f"{each:.2f}, {cap:.2f}: behind one trusted", *(f"{row['by_trusted']:.2f}" for row in found)))
    return rows


def _quoting(report: dict[str, Any]) -> list[Row]:
    merges = sorted({row["merges"] for row in report["quoting"]})
    rows: list[Row] = [("weight without evidence, by each merge", *(f"{n} merged" for n in merges))]
    for base, each in dict.fromkeys((row["base"], row["each"]) for row in report["quoting"]):
        found = [row for row in report["quoting"] if (row["base"], row["each"]) == (base, each)]
        rows.append((f"{base:.2f}, {each:.3f}: s", *(f"{row['by_trusted']:.2f}" for row in found)))
        rows.append((f"{base:.2f}, {each:.3f}: gain", *(f"{row['gain']:.2f}" for row in found)))
    return rows


def _fitted(report: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("", "fakes/vouch", "two ways", f"in the fast lane with {RECORDS[-1]} clean merges")]
    for one in report["fitted"]:
        pool = "anybody" if one["top"] == 1 else "top 5 %"
        figures = (f"{one['above']:.2f}", f"{one['on_two']:.2f}", f"{one['fast'][-1]:,}")
        rows.append((f"{one['bought']} vouches ({pool})", *figures))
    return rows


def stolen_words(stolen: dict[str, Any]) -> list[str]:
    """What one stolen account would bring."""
    lane = (
        f"Into the fast lane: {stolen['in_lane']:,} fakes without a record, "
        f"{stolen['in_lane_with_record']:,} with {stolen['record']} clean merges each."
    )
    return [
        f"The worst of {stolen['tried']:,} compromised regulars would bring {stolen['above']:,} fakes to "
        f"s >= .5 (median {stolen['above_median']:,.0f}), {stolen['on_two']:,} of them over two paths.",
        lane if stolen["lane_open"] else "The fast lane is shut, so nobody gets there.",
    ]


def _counted(draws: int) -> str:
    return "1 draw" if draws == 1 else f"{draws} draws"
