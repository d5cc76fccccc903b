"""`manage.py review_diff`: review a diff in a file or on standard input, without a store."""

import sys
import time
from json import dumps
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scoring.explain.reasons import missing_words
from scoring.formatting import risk_percent
from scoring.review.by_hand import SentPatch, review_json, review_patch
from scoring.review.cache import MemoryLedger
from scoring.review.settings import reviewer_from_settings
from scoring.scanners.submission import Knowledge

LARGEST = 64 * 1024 * 1024  # bytes that are read of one file: the rest is reported as not read
MARKS = {"high": "HIGH", "med": "MED ", "low": "LOW "}


class Command(BaseCommand):
    """Read diffs and print reviews; no drive and no store are needed."""

    help = (
        "Review a unified diff or a format-patch series, gzipped or not. The scanners alone judge, unless --claude has "
        "the configured model read it too; nothing is kept. With --json one object a line and file."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add FILE …, --title, --description, --licence, --sarif, --secret-rules, --claude, --json."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="a patch; - for standard input")
        parser.add_argument("--title", default="", help="title of the pull request")
        parser.add_argument("--description", default="", help="the author's description")
        parser.add_argument("--licence", metavar="SPDX", help="licence of the target repository")
        parser.add_argument(
            "--sarif", type=Path, action="append", default=[], metavar="LOG", help="a log of other tools"
        )
        parser.add_argument("--secret-rules", type=Path, metavar="TOML", help="rules in gitleaks' format")
        parser.add_argument("--claude", action="store_true", help="also review with CLAUDE_MODEL; this costs money")
        parser.add_argument("--json", action="store_true", help="one JSON object a line")

    def handle(self, *args: object, files: list[str], json: bool, claude: bool, **options: Any) -> None:
        """Review each file. Raises CommandError (2) for an unreadable one, before anything is printed for it."""
        if claude and not settings.ANTHROPIC_API_KEY:
            raise CommandError("--claude needs ANTHROPIC_API_KEY.", returncode=2)
        reviewer = reviewer_from_settings(MemoryLedger(settings.REVIEW_DOLLARS_A_DAY), time.sleep) if claude else None
        knowledge = _build_knowledge(options)
        for name in files:
            artefact = SentPatch(_read(name), options["title"], options["description"])
            review, findings = review_patch(artefact, knowledge, reviewer)
            shown = review_json(review, findings)
            if json and review.reason:  # the object has no place for it
                self.stderr.write(f"{_printable(name)}: no content verdict: {_missing_reason(review.reason)}.")
            self.stdout.write(dumps(shown) if json else _text(name, shown, review.reason))


def _build_knowledge(options: dict[str, Any]) -> Any:
    rules = options["secret_rules"]
    return Knowledge(
        licence=options["licence"],
        sensitive_paths=tuple(settings.SENSITIVE_PATHS),
        secret_rules=None if rules is None else _read(str(rules)).decode("utf-8", "replace"),
        sarif=tuple(_read(str(log)).decode("utf-8", "replace") for log in options["sarif"]),
    )


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(LARGEST)
        with Path(name).open("rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.", returncode=2) from error


def _text(name: str, shown: dict[str, Any], missing: str | None) -> str:
    """Return a review as text for a terminal; no text of the change can move the cursor there."""
    wish = "a person should read it" if shown["review_recommended"] else "no review recommended"
    lines = [
        f"{_printable(name)}: content risk {risk_percent(shown['content_risk'])}, {wish}"
        + (f" (no content verdict: {_missing_reason(missing)})" if missing else ""),
        _printable(shown["summary"]),
    ]
    for flag in shown["flags"]:
        lines.append(f"  {MARKS[flag['severity']]} {_printable(flag['location'])}: {_printable(flag['explanation'])}")
    reviewer = "the deterministic reviewer" if shown["reviewer"] == "deterministic" else shown["reviewer"]
    lines.append(f"  Read by {reviewer}: {int(100 * shown['coverage'])} % of the changed lines.")
    return "\n".join(lines)


def _missing_reason(reason: str) -> str:
    return missing_words(reason) or reason


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
