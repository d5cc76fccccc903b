"""The lines that a model's flags are about: its answer names places, and the line is read from the patch."""

from collections.abc import Mapping

from django.conf import settings

from ingest.snapshot import Snapshot
from scoring import read
from scoring.assessment import DETERMINISTIC
from scoring.content.change import Change
from scoring.content.finding import QUOTE_LENGTH
from scoring.content.reading import read_change
from scoring.figures import visible
from scoring.read import ContentReview
from triage.diff_notes import line_anchor, masks
from triage.diff_places import named_path, place_anchor, read_place

PATCH = 200_000  # bytes of a patch that is read for an open row: 10 ms of CPU at most


def flag_quotes(snapshot: Snapshot, uri: str, review: ContentReview | None) -> Mapping[str, str]:
    """The quoted line by the id of its place; {} where no model flagged anything, or its patch is large or gone."""
    if review is None or review.reviewer == DETERMINISTIC or not review.flags:
        return {}
    text = read.kept_text(settings.DIFF_CORPUS_DIR, read.newest_patch(snapshot, uri, PATCH))
    return quoted_lines(read_change(text), review) if text else {}


def quoted_lines(change: Change, review: ContentReview) -> dict[str, str]:
    """The line that each flag names, by the id of its place; a line with a secret as its scanner masked it."""
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
