"""Text about a finding that a comment or a request for changes begins with, and the links that ask for it.

An address only names a finding, so that no link of a stranger can put words into a form. A draft is sent to nobody: a
person edits and saves it like any other text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from triage.presenters.review import NoteView

KINDS = {"comment": "Comment", "request_changes": "Ask for a change"}
LENGTH = 600  # characters of a draft, so that most of a note's 2,000 are left to its writer
FINDING_GONE = "The latest round does not have this finding, so no text was prepared."


@dataclass(frozen=True, slots=True)
class Draft:
    """The text with which the form of this kind begins."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """Links of a page from its findings to a form: each an address up to the finding's digest, and its words.

    `in_pane`: htmx swaps the pane.
    """

    links: tuple[tuple[str, str], ...] = ()
    in_pane: bool = False

    def rendered(self, note: NoteView) -> SafeString:
        """The links under one finding as HTML; "" for one that cannot be named or is called a false alarm."""
        if not note.digest or note.dismissed:
            return SafeString("")
        # The form opens with its line in sight; a browser gives no field the focus where an address names a place.
        place = f"{note.digest}#{note.anchor}" if note.anchor else note.digest
        about = f'<span class="unseen">: {escape(note.kind)}, {escape(note.place)}</span>'
        return SafeString(
            "".join(
                f' <a href="{escape(address)}{note.digest}"{self._swap(address + place)}>{words}{about}</a>'
                for address, words in self.links
            )
        )

    def _swap(self, address: str) -> str:
        return f' hx-get="{escape(address)}" hx-target="#open" hx-swap="innerHTML"' if self.in_pane else ""


def draft_links(address: str, in_pane: bool, is_approved: bool) -> DraftLinks:
    """Return the links to the forms of the page at `address`; an approved round has no request for changes."""
    kinds = [kind for kind in KINDS if kind == "comment" or not is_approved]
    step = "&" if "?" in address else "?"
    return DraftLinks(tuple((f"{address}{step}say={kind}&about=", KINDS[kind]) for kind in kinds), in_pane)


def read_draft(values: Mapping[str, str], notes: Iterable[NoteView]) -> tuple[Draft | None, str]:
    """Return the draft that an address asks for, and why there is none where its finding is not among `notes`."""
    kind, about = values.get("say", ""), values.get("about", "")
    if kind not in KINDS or not about:
        return None, ""
    note = next((one for one in notes if one.digest == about), None)
    if note is None:
        return None, FINDING_GONE
    told = f"{note.place}: {note.kind}. {note.text}"
    return Draft(kind, told if len(told) <= LENGTH else f"{told[: LENGTH - 1]}…"), ""
