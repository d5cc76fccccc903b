"""Comments as shown: those on the forge, and what maintainers wrote here, with how far it is on its way there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from ingest.oauth.records import COMMENT, LABEL, STATUS, VOUCH
from scoring.formatting import visible
from scoring.queries.read import Comment
from triage.models import Action, OAuthSession, OwnRecord

ALIKE = 1_900  # first characters by which a comment on the forge is known: longer ones are shown cut
KINDS = {"note": "for maintainers", "request_changes": "change request", "close": "why it should be closed"}
STATES = {OwnRecord.State.WAITING: "is being sent to Tangled", OwnRecord.State.WRITTEN: "sent to Tangled"}


@dataclass(frozen=True, slots=True)
class CommentView:
    """A comment as shown; `place` says where it is to be read besides.

    `key` is that of an action whose record the viewer may send from here, "" elsewhere; `problem` is why sending it
    failed, `record` the address of what was sent.
    """

    author: str
    made_at: datetime
    place: str
    text: str
    key: str = ""
    problem: str = ""
    record: str = ""


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
) -> tuple[CommentView, ...]:
    """Return the comments on the forge and those that maintainers wrote here, the oldest first.

    `records` are those of the notes (`own_records.records_of`); with a `session` its person can send their own.
    """
    on_forge = [
        CommentView(visible(one.author.name), one.written_at.replace(tzinfo=UTC), "on Tangled", visible(one.text))
        for one in told
    ]
    sender = session.person if session else None
    here = [_view_note(one, records.get(one.pk), one.person == sender) for one in notes]
    return tuple(sorted([*on_forge, *here], key=lambda one: one.made_at))


def not_on_forge(
    told: Sequence[Comment], notes: Sequence[Action], records: Mapping[int, OwnRecord]
) -> tuple[Action, ...]:
    """Return the notes without those that the forge shows by now."""
    texts = {(one.author.did, one.text[:ALIKE]) for one in told}
    return tuple(one for one in notes if (one.person.did, _sent_text(records.get(one.pk))[:ALIKE]) not in texts)


def _sent_text(record: OwnRecord | None) -> str:
    if record is None or record.state != OwnRecord.State.WRITTEN or "body" not in record.record:
        return ""
    return record.record["body"]["text"]


def _view_note(note: Action, record: OwnRecord | None, is_own: bool) -> CommentView:
    place, state = KINDS.get(note.kind, "here"), STATES.get(record.state, "") if record else ""
    if note.kind != Action.Kind.NOTE:
        place = f"{place}, {state or 'not sent to Tangled'}"
    can_send = is_own and note.kind != Action.Kind.NOTE and not state
    return CommentView(
        visible(str(note.person)),
        note.made_at,
        place,
        visible(note.note),
        str(note.key) if can_send else "",
        visible(record.problem) if record else "",
        record.uri if record and record.state == OwnRecord.State.WRITTEN else "",
    )
