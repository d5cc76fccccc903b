"""Joins all that a change adds into one text: a pattern reads it in one call, and a hit is traced to its line."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from scoring.content.budget import spend
from scoring.content.change import FileChange, Line
from scoring.content.submission import Submission


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of a line of the text. Without file and line: something said beside the change."""

    file: FileChange | None
    line: Line | None


@dataclass(frozen=True, slots=True)
class AddedText:
    """Lines joined by a line feed. `starts[i]` is the offset at which the line of `places[i]` begins."""

    text: str
    starts: tuple[int, ...]
    places: tuple[Place, ...]

    def index(self, offset: int) -> int:
        """Return the number of the line, from 0, that holds this offset."""
        return bisect_right(self.starts, offset) - 1

    def line(self, index: int) -> str:
        """The text of one line."""
        start = self.starts[index]
        end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.text)
        return self.text[start:end]


def added_text(submission: Submission) -> AddedText:
    """Join every added line of the change, then title, description, discussion and the messages of its mails."""
    places, lines = [], []
    for file in submission.change.files:
        spend()
        for line in file.added():
            places.append(Place(file, line))
            lines.append(line.text.replace("\n", " "))
    for text in said(submission):
        for line in text.split("\n"):
            places.append(Place(None, None))
            lines.append(line)
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return AddedText("\n".join(lines), tuple(starts), tuple(places))


def removed_text(submission: Submission) -> str:
    """Join every line that the change removes by line feeds."""
    return "\n".join(line.text for file in submission.change.files for line in file.removed())


def said(submission: Submission) -> Iterator[str]:
    """Yield the texts beside the change that are not empty: title, description, discussion, commit messages."""
    yield from filter(None, (submission.title, submission.description, *(text for _, text in submission.discussion)))
    for mail in submission.change.mails:
        yield from filter(None, (mail.subject, mail.message))
