"""Comments as shown: those on the forge, and what maintainers wrote here, with how far it is on its way there.

Also what the viewer sent in their own name, with what taking it back deletes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from ingest.oauth.records import COMMENT, LABEL, STATUS, VOUCH
from ingest.oauth.scopes import Act
from scoring.formatting import visible
from scoring.queries.read import Comment, QueueRow
from triage.access.tokens import author_address
from triage.models import Action, OAuthSession, OwnRecord
from triage.presenters import rights
from triage.services.actions import TO_AUTHOR, is_own
from triage.services.own_name import own_records

KINDS = {
    "note": "for maintainers",
    "request_changes": "change request",
    "close": "why it should be closed",
    "answer": "answer here",
}
BY_LINK = "answer here, by a private link"
LEFT = {
    Act.COMMENT: "It is gone here too.",
    Act.CLOSE: "Tangled goes back to what others said of it, or to open. Your request to close it ends here too.",
    Act.APPROVE: "Your approval here stays.",
    Act.LABEL: "",
}
STATES = {OwnRecord.State.WAITING: "is being sent to Tangled", OwnRecord.State.WRITTEN: "sent to Tangled"}


@dataclass(frozen=True, slots=True)
class SentView:
    """A record of the viewer's own on their server, which `key` takes back.

    `name` says what it is ("comment"), `left` what stays or ends once it is deleted, `problem` why that failed.
    """

    key: str
    name: str
    sent_at: datetime
    collection: str
    uri: str
    left: str
    problem: str
    is_going: bool


@dataclass(frozen=True, slots=True)
class CommentView:
    """A comment as shown; `place` says where it is to be read besides.

    `key` is that of an action whose record the viewer may send from here, "" elsewhere; `problem` is why sending it
    failed, `record` the address of what was sent, `sent` what the viewer can take back of it.
    """

    author: str
    made_at: datetime
    place: str
    text: str
    key: str = ""
    problem: str = ""
    record: str = ""
    sent: SentView | None = None


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The account with which the viewer is signed in, as the forms name it, and the kinds of records they write.

    `host` is its data server.
    """

    name: str
    host: str
    comment_record: str = COMMENT
    status_record: str = STATUS
    vouch_record: str = VOUCH
    label_record: str = LABEL
    approval_record: str = ""


def own_account(session: OAuthSession | None) -> OwnAccount | None:
    """Return the account of a session for display."""
    if session is None:
        return None
    name, host = visible(str(session.person)), visible(session.server.removeprefix("https://"))
    return OwnAccount(name, host, approval_record=f"{settings.LEXICON_AUTHORITY}.approval")


def comment_views(
    told: Sequence[Comment],
    notes: Sequence[Action],
    records: Mapping[int, OwnRecord],
    session: OAuthSession | None,
    sent: Mapping[str, SentView],
) -> tuple[CommentView, ...]:
    """Return the comments on the forge and those that maintainers and the author wrote here, the oldest first.

    `records` are those of the notes (`own_records.records_of`); with a `session` its person can send their own, and
    take back what is in `sent` (`sent_views`).
    """
    on_forge = [
        CommentView(
            visible(one.author.name),
            one.written_at.replace(tzinfo=UTC),
            "on Tangled",
            one.text,
            sent=sent.get(one.uri),
        )
        for one in told
    ]
    sender = session.person if session else None
    here = [_view_note(one, records.get(one.pk), one.person == sender, sent) for one in notes]
    return tuple(sorted([*on_forge, *here], key=lambda one: one.made_at))


def sent_views(session: OAuthSession | None, uri: str) -> dict[str, SentView]:
    """Return what the session's person sent about a pull request and can take back, by its address, oldest first."""
    if session is None:
        return {}
    return {sent.row.uri: _view_sent(sent) for sent in own_records.sent_records(session.person, uri)}


def _view_sent(sent: own_records.Sent) -> SentView:
    row, deletion = sent.row, sent.deletion
    return SentView(
        row.key,
        _name_sent(row),
        row.settled_at,
        row.collection,
        visible(row.uri),
        LEFT[row.act],
        visible(deletion.problem) if deletion else "",
        sent.is_going,
    )


def _name_sent(row: OwnRecord) -> str:
    if row.act == Act.COMMENT:
        return "request for changes" if row.action.kind == Action.Kind.REQUEST_CHANGES else "comment"
    if row.act == Act.APPROVE:
        return f"approval of round {row.record['round'] + 1}"
    return f"label {visible(row.record['add'][0]['value'])}" if row.act == Act.LABEL else "closing"


def not_on_forge(
    told: Sequence[Comment], notes: Sequence[Action], records: Mapping[int, OwnRecord]
) -> tuple[Action, ...]:
    """Return the notes without those that the forge shows by now: as they were sent, or pasted for the author."""
    on_forge = {one.uri for one in told}

    def is_there(note: Action) -> bool:
        address, text = author_address(note.pull_uri), rights.shown_lines(note.note)
        by_its_writer = [one.text for one in told if one.author.did == note.person.did]
        is_pasted = note.kind in TO_AUTHOR and any(address in one and text in one for one in by_its_writer)
        record = records.get(note.pk)
        return is_pasted or (record is not None and record.uri in on_forge)

    return tuple(one for one in notes if not is_there(one))


def text_for_author(
    row: QueueRow, notes: Sequence[Action], records: Mapping[int, OwnRecord], is_requested: bool
) -> str:
    """Return one text that brings to a pull request's author what maintainers wrote about its newest round.

    "" where all of that is answered, or was sent to the forge. `is_requested`: a request for changes was not withdrawn.
    """
    asked: list[Action] = []
    kinds = TO_AUTHOR if is_requested else (Action.Kind.COMMENT,)
    for note in notes:
        is_new = note.kind in kinds and (note.round, note.patch_id) == (row.round, row.patch_id)
        if note.kind == Action.Kind.ANSWER:
            asked = []
        elif is_new and not is_own(note) and not _is_sent(records.get(note.pk)):
            asked.append(note)
    return request_text(asked, row.label) if asked else ""


def request_text(asked: Sequence[Action], label: str) -> str:
    """Return the text that brings these comments and requests on one pull request to its author; it holds no secret."""
    asks = any(one.kind == Action.Kind.REQUEST_CHANGES for one in asked)
    signs_in = bool(settings.PUBLIC_ORIGIN) and not settings.STAGED and settings.SIGN_IN == "anyone"
    texts, address = [one.note for one in asked], author_address(asked[0].pull_uri)
    return rights.request_text(label, asks, texts, address, signs_in)


def _is_sent(record: OwnRecord | None) -> bool:
    return record is not None and record.state in STATES


def _view_note(note: Action, record: OwnRecord | None, is_senders: bool, sent: Mapping[str, SentView]) -> CommentView:
    place, state = KINDS.get(note.kind, "here"), STATES.get(record.state, "") if record else ""
    is_ours = note.kind not in (Action.Kind.NOTE, Action.Kind.ANSWER)
    if note.kind == Action.Kind.ANSWER and note.by_link:
        place = BY_LINK
    if is_ours:
        place = f"{place}, {state or 'not sent to Tangled'}"
    return CommentView(
        visible(str(note.person)),
        note.made_at,
        place,
        note.note,
        str(note.key) if is_senders and is_ours and not state else "",
        visible(record.problem) if record else "",
        record.uri if record and record.state == OwnRecord.State.WRITTEN else "",
        sent.get(record.uri) if record else None,
    )
