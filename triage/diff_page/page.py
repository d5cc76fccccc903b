"""Build the page of a change, or of the difference between two rounds, from the texts of their patches.

A model's flags name places; the quoted lines are read from the patch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.conf import settings

from ingest.store.snapshots import Snapshot
from scoring.diff.change import Change, Mail
from scoring.diff.compare import compare_rounds
from scoring.diff.parser import Limits, read_change
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import ContentReview, ShownFinding
from scoring.review.schema import DETERMINISTIC
from scoring.types import QUOTE_LENGTH
from triage.diff_page.facts import comparison_words, rest_words
from triage.diff_page.rows import FileView, How, file_views, line_anchor, lines_of, masks, place_notes, with_ids
from triage.presenters.queue.review import (
    NoteGroup,
    NoteView,
    finding_notes,
    group_notes,
    named_path,
    place_anchor,
    read_place,
    review_notes,
    strongest_first,
    with_dismissals,
)

LIMITS = Limits(lines=50_000, seconds=1.5)  # bounds of a page: 50,000 lines take .5 s of CPU
MAILS, MESSAGE = 20, 2_000  # messages shown of a series, and characters of each


@dataclass(frozen=True, slots=True)
class DiffPage:
    """Files with their lines; `findings` are all findings, `loose` those outside the files of the change."""

    files: tuple[FileView, ...] = ()
    findings: tuple[NoteView, ...] = ()
    loose: tuple[tuple[str, NoteView], ...] = ()  # each with its id
    sentences: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    unnamed: int = 0  # number of files that are not listed
    rest: str = ""
    missing: tuple[str, str] = ("", "")  # why nothing is shown, and what to do

    @property
    def groups(self) -> tuple[NoteGroup, ...]:
        """Return the findings by name, file and severity."""
        return group_notes(self.findings)

    @property
    def beyond_lines(self) -> tuple[NoteGroup, ...]:
        """Return the groups that no single line of the page represents: several places, or a line that is not shown."""
        elsewhere = {note for _, note in self.loose} | {note for file in self.files for _, note in file.notes}
        return tuple(group for group in self.groups if len(group.notes) > 1 or not elsewhere.isdisjoint(group.notes))


@dataclass(frozen=True, slots=True)
class Dismissals:
    """Dismissed findings of one patch: words on them by digest."""

    patch_id: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)


def change_page(
    text: str,
    review: ContentReview | None,
    masked: bool,
    sealed: bool,
    only: int = 0,
    dismissals: Dismissals | None = None,
    acts: Callable[[NoteView], str] | None = None,
) -> DiffPage:
    """Build the page of a whole round; without its review where it is `sealed`, without found secrets where `masked`.

    `only` is the number of one file, from 1; 0, or an unknown number: all of them.
    """
    change = read_change(text, LIMITS)
    only = only if only <= len(change.files) else 0
    notes = _notes(change, None if sealed else review, dismissals or Dismissals())
    placed, loose = place_notes(change.files, notes)
    how = How(masks(change, review) if masked else {}, acts=acts)
    if only:
        placed, loose = {only: placed.get(only, {})}, ()
        notes = tuple(note for notes_of_place in placed[only].values() for note in notes_of_place)
    page = _page(change, file_views(change.files, placed, how, only), only)
    return replace(page, findings=notes, loose=with_ids(loose), messages=_messages(change.mails, how.masks))


def comparison_page(
    before: str, after: str, same_patch: bool, reviews: Sequence[ContentReview | None], masked: bool, only: int = 0
) -> DiffPage:
    """Build the page of the changes from one round to another; `same_patch`: both have the same patch-id."""
    changes = [read_change(text, LIMITS) for text in (before, after)]
    comparison = compare_rounds(*changes)
    masked_lines: dict[str, str] = {}
    for change, review in zip(changes, reviews, strict=True):
        masked_lines |= masks(change, review) if masked else {}
    only = only if only <= len(comparison.files) else 0
    how = How(masked_lines, compared=True, by_patch=comparison.by_patch)
    page = _page(Change(comparison.files, (), (), 1.0), file_views(comparison.files, {}, how, only), only)
    return replace(page, sentences=comparison_words(comparison, same_patch))


def _page(change: Change, files: tuple[FileView, ...], only: int) -> DiffPage:
    lines = lines_of(change.files)
    if only:
        return DiffPage(files, rest=rest_words(sum(file.rest for file in files), 1))
    cut = [file for file in files if file.rest]
    unnamed = len(change.files) - len(files)
    rest = lines - sum(file.lines - file.rest for file in files)
    return DiffPage(files, unnamed=unnamed, rest=rest_words(rest, len(cut) + unnamed))


def _notes(change: Change, review: ContentReview | None, dismissals: Dismissals) -> tuple[NoteView, ...]:
    """Return the review's findings, and problems of this reading that the review does not contain."""
    notes = with_dismissals(review_notes(review, dismissals.patch_id) if review else (), dismissals.words)
    known = {(note.text, note.anchor) for note in notes}
    problems = finding_notes(map(ShownFinding.of, change.problems))
    return strongest_first([*notes, *(note for note in problems if (note.text, note.anchor) not in known)])


def _messages(mails: Sequence[Mail], hidden: Mapping[str, str]) -> tuple[str, ...]:
    texts = [f"{mail.subject}\n\n{mail.message}".strip() for mail in mails[:MAILS]]
    shown = ["\n".join(visible(hidden.get(line, line)) for line in text[:MESSAGE].split("\n")) for text in texts]
    return tuple(text for text in shown if text)


PATCH = 200_000  # largest patch read for an open row, in bytes: 10 ms of CPU at most


def flag_quotes(snapshot: Snapshot, uri: str, review: ContentReview | None) -> Mapping[str, str]:
    """Return the quoted line by the id of its place.

    {} without a model's flags, or where its patch is large or gone.
    """
    if review is None or review.reviewer == DETERMINISTIC or not review.flags:
        return {}
    text = read.kept_text(settings.DIFF_CORPUS_DIR, read.newest_patch(snapshot, uri, PATCH))
    return quoted_lines(read_change(text), review) if text else {}


def quoted_lines(change: Change, review: ContentReview) -> dict[str, str]:
    """Return the line that each flag names, by the id of its place; a line with a secret is masked."""
    wanted = {place_anchor(*read_place(flag.location)) for flag in review.flags}
    paths = {read_place(flag.location)[0] for flag in review.flags} - {""}
    hidden = masks(change, review)
    files = [(place_anchor(path), file) for file in change.files if (path := named_path(file.path)) in paths]
    return {
        anchor: visible(hidden.get(line.text, line.text)[:QUOTE_LENGTH])
        for base, file in files
        for hunk in file.hunks
        for line in hunk.lines
        if (anchor := line_anchor(base, line)) in wanted
    }
