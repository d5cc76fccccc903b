"""Removes people from a submission for a reviewer that must not know its author.

Every name becomes a typed placeholder such as <email-1>; within a submission equal texts get the same one. Lines stay
lines, so that a flag keeps its place. Scanners run before, on the text as sent.

Rules also remove people that a text names itself: in lines of a file, in prose, in mentions.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from scoring.anonymise.known import KnownPeople
from scoring.anonymise.people_files import scrub_lines
from scoring.anonymise.placeholders import Placeholders
from scoring.anonymise.rules import CODE_RULES, HANDLE_RULES, MENTION_RULES, WORD_MENTION_RULES, WORD_RULES
from scoring.diff.change import Change, FileChange, Hunk, Mail
from scoring.scanners.submission import Account, Knowledge, Submission
from scoring.types import Finding

_PROSE = (".md", ".rst", ".txt", ".adoc", ".org")
_COMMENT = re.compile(r"(?:#|//|/\*|^[ \t]{0,80}\*|--|<!--)[^\n]{1,2000}", re.MULTILINE)


def scrub_code(text: str, path: str, known: KnownPeople, places: Placeholders) -> str:
    """Scrub lines of a file; their number stays. Mentions count in comments of code, and anywhere in prose."""
    text = known.scrub(CODE_RULES.scrub(text, places), places)
    text = HANDLE_RULES.scrub(text, places)
    if path.lower().endswith(_PROSE):
        return MENTION_RULES.scrub(text, places)
    return _COMMENT.sub(lambda match: MENTION_RULES.scrub(match[0], places), text) if "@" in text else text


def scrub_words(text: str, known: KnownPeople, places: Placeholders) -> str:
    """Scrub a title, a description, a message or a discussion, where dates and all mentions name people too."""
    return WORD_MENTION_RULES.scrub(known.scrub(WORD_RULES.scrub(text, places), places), places)


class Scrubber:
    """Removes people from one submission. `others` are names of further people, such as the repository's owner."""

    def __init__(self, accounts: Iterable[Account] = (), others: Iterable[str] = ()) -> None:
        self._known = KnownPeople(accounts, others)
        self._places = Placeholders()

    @classmethod
    def of(cls, submission: Submission, other_names: Iterable[str] = ()) -> "Scrubber":
        """Build a scrubber that knows the submission's account and the authors of its mails."""
        account = submission.knowledge.account
        mails = [text for mail in submission.change.mails for text in (mail.author, mail.email) if text]
        return cls([account] if account else [], [*other_names, *mails])

    @property
    def counts(self) -> dict[str, int]:
        """Replacements per kind so far, for the log; never the strings."""
        return dict(self._places.counts)

    def submission(self, submission: Submission) -> Submission:
        """Scrub change, title, description and discussion, in this order; other knowledge is left out."""
        return Submission(
            change=self.change(submission.change),
            title=self.text(submission.title),
            description=self.text(submission.description),
            discussion=tuple((role, self.text(text)) for role, text in submission.discussion),
            knowledge=Knowledge(),
        )

    def change(self, change: Change) -> Change:
        """Scrub a change; files, hunks and lines stay, mails keep subject and message."""
        files = tuple(self._file(file) for file in change.files)
        mails = tuple(Mail("", "", "", self.text(mail.subject), self.text(mail.message)) for mail in change.mails)
        problems = tuple(self.finding(problem) for problem in change.problems)
        return replace(change, files=files, mails=mails, problems=problems)

    def text(self, text: str) -> str:
        """Scrub free text; the number of lines stays."""
        return scrub_words(text, self._known, self._places)

    def path(self, path: str) -> str:
        """Scrub the path of a file; its folders stay."""
        return scrub_code(path, "", self._known, self._places)

    def finding(self, finding: Finding) -> Finding:
        """Scrub the path and the quoted line of a finding."""
        file = None if finding.file is None else self.path(finding.file)
        (quote,) = self._lines(finding.file or "", [finding.quote])
        return replace(finding, file=file, quote=quote)

    def _file(self, file: FileChange) -> FileChange:
        texts = [text for hunk in file.hunks for text in (hunk.section, *(line.text for line in hunk.lines))]
        path, old_path = self.path(file.path), self.path(file.old_path)
        scrubbed = self._lines(file.path, texts)
        hunks = file.hunks if scrubbed == texts else _rebuilt(file.hunks, scrubbed)
        return replace(file, path=path, old_path=old_path, hunks=hunks)

    def _lines(self, path: str, lines: list[str]) -> list[str]:
        text = "\n".join(scrub_lines(path, lines, self._places))
        return scrub_code(text, path, self._known, self._places).split("\n")


def _rebuilt(hunks: tuple[Hunk, ...], texts: list[str]) -> tuple[Hunk, ...]:
    """Return the hunks with these texts, in the order of sections and lines."""
    following = iter(texts)
    return tuple(
        replace(
            hunk,
            section=next(following),
            lines=tuple(
                line if line.text == text else replace(line, text=text)
                for line, text in zip(hunk.lines, following, strict=False)
            ),
        )
        for hunk in hunks
    )
