"""The red team's report as titled tables, for a page and as aligned lines for a terminal. Pure.

What the red team found last, in one small file beside the store: the dashboard reads it, nobody's name is in it.

What of the red team's attacks got through, and what it does not play at all, in sentences. Pure.

The red team's newest report as its page shows it: a file that the command writes, with tables and nobody's name.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ingest.files import sync
from scoring.redteam.baselines import OURS
from scoring.redteam.measures import HALF, RECORDS
from scoring.training.summary import keep_shown, read_shown

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


FILE_BYTES = 4096
LATEST = 253_402_300_799  # the last second of the year 9999
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run on the present graph, at `at` (unix seconds).

    `above` of the fakes of the worst of `tried` stolen accounts reach s >= .5, `on_two` of them by two ways; `in_lane`
    get the fast lane without a record, `in_lane_with_record` with `record` clean merges each. With that record
    `in_lane_by_bought` get it behind up to `bought` bought vouches, in the worst attack; 0 where an older version ran.
    """

    at: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    scale: Annotated[str, msgspec.Meta(max_length=20)]
    people: Count
    vouches: Count
    tried: Count
    above: Count
    on_two: Count
    in_lane: Count
    record: Count
    in_lane_with_record: Count
    lane_open: bool
    bought: Count = 0
    in_lane_by_bought: Count = 0


_decoder = msgspec.json.Decoder(LastRun)


def last_run_of(report: dict[str, Any], at: float) -> LastRun:
    """What of a report by `scoring.redteam.report` is kept."""
    stolen = {name: report["stolen"][name] for name in LastRun.__struct_fields__ if name in report["stolen"]}
    graph, pools = report["graph"], [report["scores"][OURS][pool]["lanes"] for pool in ("random", "most_trusted")]
    fast = [*(lanes[-1]["fast"] for lanes in pools), *(one["fast"][-1] for one in report["fitted"])]
    return LastRun(
        at=at,
        scale=report["scale"]["name"],
        people=graph["people"],
        vouches=graph["vouches"],
        bought=max(report["scale"]["bought"]),
        in_lane_by_bought=max(fast),
        **stolen,
    )


def keep(path: Path, run: LastRun) -> None:
    """Put the run in the place of the one before, whole or not at all. Raises OSError."""
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(run))
        sync(aside)
        aside.rename(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def read_last_run(path: Path) -> LastRun | None:
    """The run that was kept; None where there is none, or none that can be read."""
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(FILE_BYTES))
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return None


SLACK = 1e-6  # of a ratio of two sums
NOT_PLAYED = (
    "A seed that is bought or hacked. A seed's word counts fully, so it can open any door. "
    "Choose few, and look at the list in the repository's settings.",
    "Somebody who earns a real record over months and then sends one bad change: trust and record are true then. "
    "What helps then: the review of the change itself, the random audit and the budget.",
    "Somebody with push access who merges fakes on purpose: each of these counts as a verified merge.",
    "The content of a change: this is about vouches. The scanners have tests of their own.",
)


def got_through(report: dict[str, Any]) -> tuple[str, ...]:
    """What did not hold in a report by `scoring.redteam.report`, the nearest to the lane first; () for nothing."""
    return tuple(_got_through(report))


def _got_through(report: dict[str, Any]) -> Iterator[str]:
    merges, stolen = RECORDS[-1], report["stolen"]
    fast = max((one["fast"][-1] for one in report["fitted"]), default=0)
    if fast:
        yield (
            f"With up to {max(report['scale']['bought']):,} bought vouches and {merges} farmed clean merges for each "
            f"fake, {fast:,} of them reach the fast lane."
        )
    if stolen["lane_open"] and stolen["in_lane_with_record"]:
        yield (
            f"One stolen account brings {stolen['in_lane_with_record']:,} fakes with {merges} clean merges each into "
            "the fast lane."
        )
    if stolen["above"]:
        yield f"One stolen account brings {stolen['above']:,} fakes to s >= {HALF:g}, though not into the lane by that."
    moved = max((one["moved"] for one in report["bombing"]), default=0)
    if moved:
        yield f"Fakes who denounce together push {moved:,} honest people below s = {HALF:g}."
    if (lift := report["scores"][OURS]["self_lift"]) > 1 + SLACK:
        yield f"Somebody who rewires their own vouches raises their own score to {lift:.3f} times what it was."


FORM = "sunstead-redteam/1"
FILE = "redteam.json"
LARGEST = 256 * 1024  # bytes of a file that is read; the whole grid needs 10 KB
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Line = Annotated[tuple[Text, ...], msgspec.Meta(max_length=20)]
Moment = Annotated[datetime, msgspec.Meta(tz=False)]  # naive UTC


class ShownSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack as a table: `heads` of the columns (the first is that of the names), and how to read it."""

    title: Text
    note: Text
    heads: Line
    rows: Annotated[tuple[Line, ...], msgspec.Meta(max_length=200)]


class ShownReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run at `at` (naive UTC): on what it was played, what of it got through, and every table."""

    form: Literal["sunstead-redteam/1"]
    at: Moment
    ground: Line
    stolen: Line
    through: Line
    sections: Annotated[tuple[ShownSection, ...], msgspec.Meta(max_length=50)]


def shown_report(report: dict[str, Any], at: datetime) -> ShownReport:
    """A report by `scoring.redteam.report` as it is kept."""
    tables = tuple(
        ShownSection(one.title, one.note, tuple(one.rows[0]), tuple(tuple(row) for row in one.rows[1:]))
        for one in sections(report)
    )
    said = (tuple(ground_words(report)), tuple(stolen_words(report["stolen"])), got_through(report))
    return ShownReport(FORM, at.replace(microsecond=0), *said, tables)


def keep_report(folder: Path, shown: ShownReport) -> Path:
    """Put the run in the place of the one before. Raises OSError."""
    return keep_shown(folder / FILE, shown)


def read_report(folder: Path) -> ShownReport | None:
    """The newest run that was kept; None where there is none, or none that can be read."""
    found = read_shown(folder / FILE, ShownReport, LARGEST)
    if found is None or any(len(row) != len(one.heads) for one in found.sections for row in one.rows):
        return None
    return found
