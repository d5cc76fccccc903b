"""Records in people's own names: asked for here, withdrawn within 10 s, then sent by the worker, each once.

The key of a record is chosen when it is asked for. A try is counted before it is sent, so after a kill in between the
worker looks first for what it may have written, and never writes it twice. What was sent can be taken back: its
deletion waits and is sent in the same way.
"""

import logging
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ingest.atproto.syntax import make_tid
from ingest.errors import FetchProblem, OAuthRefused
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Grant
from ingest.oauth.records import COMMENT, LABEL, STATUS, make_approval, make_comment, make_label, make_status
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope, missing_scopes
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import PublicLane
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import SessionEnded, current_grant
from triage.models import Action, OAuthSession, OwnRecord, Person
from triage.models.accounts import is_any, log_change
from triage.services.actions import WINDOW, ActionProblem, undo_sent
from triage.services.publishing.labels import VALUES
from triage.services.publishing.public_lanes import public_lanes
from triage.services.publishing.records import label_definition

AT_ONCE = 50
TRIES = 8
AGAIN = timedelta(seconds=30)
LATEST = timedelta(hours=1)  # later nobody expects it to be sent any more
CHANGES_REQUESTED = "**Changes requested.**"
ACTS: Mapping[str, Act] = {
    Action.Kind.COMMENT: Act.COMMENT,
    Action.Kind.REQUEST_CHANGES: Act.COMMENT,
    Action.Kind.CLOSE: Act.CLOSE,
    Action.Kind.APPROVE: Act.APPROVE,
}
TAKE_BACK: Mapping[str, Act] = {
    Act.COMMENT: Act.TAKE_BACK_COMMENT,
    Act.CLOSE: Act.TAKE_BACK_CLOSE,
    Act.APPROVE: Act.TAKE_BACK_APPROVAL,
    Act.LABEL: Act.TAKE_BACK_LABEL,
}
UNDONE = (Act.COMMENT, Act.CLOSE)  # with the record of these ends what was said here; an approval here stays
STANDING = (OwnRecord.State.WAITING, OwnRecord.State.WRITTEN)
ASKED = "select 1 from triage_ownrecord where person_id = %s and state = 'waiting' limit 1"
NOT_YOURS = "Nothing was sent: you wrote nothing here that can be sent."
SENT_ALREADY = "It was sent already, or is about to be."
NOT_SENT = "Nothing was taken back: no record of yours with this key stands on your server."
GOING_ALREADY = "It is being taken back already."
NO_RECORD = "Nothing was sent: the pull request's record is not known here yet. Try again in a minute."
TOO_LATE = "it waited too long for the worker; try again"
log = logging.getLogger(__name__)


class ScopeNeeded(Exception):
    """The person has to allow this act at their own server first; nothing was changed."""

    def __init__(self, act: Act) -> None:
        super().__init__(f"You have not allowed this site to {act} in your name.")
        self.act = act


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that somebody wants to be written; `record` is None for a deletion."""

    act: Act
    subject: str
    repo_key: str
    collection: str
    rkey: str
    record: Mapping[str, Any] | None
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that a person sent and that stands, with the newest try to take it back that was not withdrawn."""

    row: OwnRecord
    deletion: OwnRecord | None

    @property
    def is_going(self) -> bool:
        """Return whether its deletion waits to be sent."""
        return self.deletion is not None and self.deletion.state == OwnRecord.State.WAITING


def covers(session: OAuthSession, act: Act) -> bool:
    """Return whether the person has allowed this act in this session."""
    return not missing_scopes(session.scope, act_scope(act, settings.LEXICON_AUTHORITY))


def new_key(now: datetime) -> str:
    """Return a record key of this moment."""
    return make_tid(now.astimezone(UTC).replace(tzinfo=None), secrets.randbelow(1_024))


def draft_of(action: Action, now: datetime) -> Draft:
    """Return the record that tells of an action. Raises ActionProblem for what has none."""
    act = ACTS.get(action.kind)
    if act is None or action.undone_at is not None:
        raise ActionProblem(NOT_YOURS)
    if action.record_cid is None:
        raise ActionProblem(NO_RECORD)
    moment = now.astimezone(UTC).replace(tzinfo=None)
    if act is Act.CLOSE:
        collection, record = STATUS, make_status(action.pull_uri, "closed", moment)
    elif act is Act.APPROVE:
        seen = (action.pull_uri, action.record_cid, action.round, action.patch_id)
        collection, record = f"{settings.LEXICON_AUTHORITY}.approval", make_approval(*seen, moment)
    else:
        asks = action.kind == Action.Kind.REQUEST_CHANGES
        text = f"{CHANGES_REQUESTED}\n\n{action.note}" if asks else action.note
        collection, record = COMMENT, make_comment(action.pull_uri, action.record_cid, action.round, text, moment)
    return Draft(act, action.pull_uri, action.repo_key, collection, new_key(now), record)


def put_record(session: OAuthSession, draft: Draft, now: datetime, action: Action | None = None) -> OwnRecord:
    """Have a record written 10 s from now. Raises ScopeNeeded."""
    if not covers(session, draft.act):
        raise ScopeNeeded(draft.act)
    with transaction.atomic():
        row = OwnRecord.objects.create(
            key=secrets.token_hex(16),
            person=session.person,
            session=session,
            action=action,
            act=draft.act,
            repo_key=draft.repo_key,
            subject=draft.subject,
            collection=draft.collection,
            rkey=draft.rkey,
            record=draft.record,
            replaces=draft.replaces,
            made_at=now,
            due_at=now + WINDOW,
        )
        what = "record.deletion_asked" if draft.record is None else "record.asked"
        log_change(session.person, what, now, row.repo_key, row.subject, record=row.uri)
        transaction.on_commit(wake_worker)
    return row


def label_to_offer(person: Person, snapshot: Snapshot, uri: str, now: datetime) -> PublicLane | None:
    """Return the lane that this person may put on a pull request as a label of Tangled, in their own name.

    It may be told publicly, they may push to its repository, as Tangled asks, and they have not said it yet.
    """
    if not label_definition():
        return None
    lanes = public_lanes(snapshot, now.astimezone(UTC).replace(tzinfo=None))
    lane = next((lane for lane in lanes if lane.uri == uri and lane.lane in VALUES and not lane.shadow), None)
    if lane is None or lane.repository not in read.pushes_to(snapshot, str(person.did)):
        return None
    mine = OwnRecord.objects.filter(person=person, subject=uri, act=Act.LABEL, state__in=STANDING)
    newest = mine.order_by("-pk").first()
    return None if newest and newest.record["add"][0]["value"] == VALUES[lane.lane] else lane


def send_label(session: OAuthSession, lane: PublicLane, now: datetime) -> OwnRecord:
    """Have a lane written as a label in the name of the session's person. Raises ScopeNeeded."""
    moment = now.astimezone(UTC).replace(tzinfo=None)
    record = make_label(lane.uri, label_definition(), VALUES[lane.lane], moment)
    return put_record(session, Draft(Act.LABEL, lane.uri, lane.repository, LABEL, new_key(now), record), now)


def is_asked(action: Action) -> bool:
    """Return whether the record of an action waits or is written."""
    return OwnRecord.objects.filter(action=action, state__in=STANDING).exists()


def send_action(action: Action, session: OAuthSession, now: datetime) -> OwnRecord:
    """Have the record of a person's own action written. Raises ActionProblem, or ScopeNeeded."""
    draft = draft_of(action, now)
    with transaction.atomic():
        if is_asked(action):
            raise ActionProblem(SENT_ALREADY)
        return put_record(session, draft, now, action)


def sent_records(person: Person, uri: str) -> list[Sent]:
    """Return this person's records about a pull request that stand and can be taken back, oldest first."""
    acts = [*TAKE_BACK, *TAKE_BACK.values()]
    mine = OwnRecord.objects.filter(person=person, subject=uri, act__in=acts).exclude(state=OwnRecord.State.WITHDRAWN)
    rows = list(mine.select_related("person", "action").order_by("pk"))
    deletions = {row.uri: row for row in rows if row.record is None}
    written = [row for row in rows if row.record is not None and row.state == OwnRecord.State.WRITTEN]
    return [Sent(row, deletions.get(row.uri)) for row in written]


def take_back(session: OAuthSession, key: str, sender: DpopSender, clock: Callable[[], datetime]) -> OwnRecord:
    """Have a record that was sent deleted 10 s from now, if it is then as it is now.

    Raises ActionProblem or ScopeNeeded.
    """
    row = _find_sent(session.person, key)
    act = TAKE_BACK[row.act]
    if not covers(session, act):
        raise ScopeNeeded(act)
    try:
        stored = OwnServer(sender, current_grant(session.id, sender)).read_record(row.collection, row.rkey)
    except SessionEnded as problem:
        raise ActionProblem(f"Nothing was taken back: {problem}") from None
    except FetchProblem as problem:
        raise ActionProblem(f"Nothing was taken back: {problem}.") from None
    cid = stored.cid if stored else ""
    draft = Draft(act, row.subject, row.repo_key, row.collection, row.rkey, None, cid)
    with transaction.atomic():
        _find_sent(session.person, key)  # another request may have been faster
        return put_record(session, draft, clock())  # reading it may have taken seconds


def _find_sent(person: Person, key: str) -> OwnRecord:
    """Return a record that can be taken back. Raises ActionProblem."""
    row = OwnRecord.objects.filter(person=person, key=key).first()
    sent = next((one for one in sent_records(person, row.subject) if one.row == row), None) if row else None
    if sent is None:
        raise ActionProblem(NOT_SENT)
    if sent.is_going:
        raise ActionProblem(GOING_ALREADY)
    return sent.row


def _end_sent(deletion: OwnRecord, now: datetime) -> None:
    """Note that the record is gone, in the caller's transaction, and undo the action of a comment or a closing."""
    place = {"person": deletion.person, "collection": deletion.collection, "rkey": deletion.rkey}
    for row in OwnRecord.objects.filter(**place, act__in=TAKE_BACK, state=OwnRecord.State.WRITTEN):
        if row.action is not None and row.act in UNDONE:
            undo_sent(row.action, now)
        OwnRecord.objects.filter(pk=row.pk).update(state=OwnRecord.State.WITHDRAWN)


def hand_on(person: Person, before: uuid.UUID, session: OAuthSession) -> None:
    """Have what waits with one session of a person sent with their next one."""
    waiting = OwnRecord.objects.filter(person=person, session=before, state=OwnRecord.State.WAITING)
    waiting.update(session=session)


def withdraw_record(person: Person, key: str, now: datetime) -> OwnRecord | None:
    """Withdraw a record that is not begun; None where this person has none with this key that still waits."""
    mine = OwnRecord.objects.filter(person=person, key=key, state=OwnRecord.State.WAITING, tries=0, due_at__gte=now)
    with transaction.atomic():
        if not mine.update(state=OwnRecord.State.WITHDRAWN, settled_at=now):
            return None
        row = OwnRecord.objects.get(key=key)
        log_change(person, "record.withdrawn", now, row.repo_key, row.subject, record=row.uri)
    return row


def waiting_records(person: Person, now: datetime) -> list[OwnRecord]:
    """Return what this person can still withdraw, newest first, besides what goes with an action of the same moment."""
    if not is_any(ASKED, person.pk):
        return []
    mine = OwnRecord.objects.filter(person=person, state=OwnRecord.State.WAITING, tries=0, due_at__gte=now)
    return [row for row in mine.select_related("action").order_by("-pk") if not _is_with_action(row)]


def _is_with_action(row: OwnRecord) -> bool:
    return row.action is not None and row.action.effective_at == row.due_at


def records_of(actions: Iterable[Action]) -> dict[int, OwnRecord]:
    """Return the newest record of each action that has one and did not withdraw it, by the action's id."""
    shown = OwnRecord.objects.filter(action__in=list(actions)).exclude(state=OwnRecord.State.WITHDRAWN)
    return {row.action_id: row for row in shown.select_related("person").order_by("pk")}


def newest_by_action(keys: Iterable[str]) -> dict[str, OwnRecord]:
    """Return the newest record of each of these actions that was ever to be sent, by the action's key."""
    rows = OwnRecord.objects.filter(action__key__in=list(keys)).select_related("action").order_by("pk")
    return {row.action.key: row for row in rows}


def next_due() -> datetime | None:
    """Return when the next record is due."""
    waiting = OwnRecord.objects.filter(state=OwnRecord.State.WAITING).order_by("due_at")
    return waiting.values_list("due_at", flat=True).first()


def send_due(sender: DpopSender, clock: Callable[[], datetime]) -> int:
    """Send what is due, each with its person's own session; return how many records were written."""
    due = OwnRecord.objects.filter(state=OwnRecord.State.WAITING, due_at__lte=clock())
    return sum(
        _send(row, sender, clock) for row in due.select_related("person", "session").order_by("due_at", "pk")[:AT_ONCE]
    )


def _send(row: OwnRecord, sender: DpopSender, clock: Callable[[], datetime]) -> bool:
    # Count the try first: from then on it cannot be withdrawn, and a later try knows that this one may have written.
    waiting = OwnRecord.objects.filter(pk=row.pk, state=OwnRecord.State.WAITING)
    if not waiting.update(tries=F("tries") + 1):
        return False
    try:
        if clock() > row.made_at + LATEST:
            raise OAuthRefused(TOO_LATE)
        if row.session is None:
            raise SessionEnded
        _write(row, sender)
    except KeyProblem as problem:
        log.error("%s could not be sent and is tried again: %s", row.key, problem)
        waiting.update(problem="this site cannot prove itself to your server just now", due_at=clock() + AGAIN)
        return False
    except SessionEnded:
        return _refuse(row, "your sign-in at your own server has ended; sign in again", clock())
    except FetchProblem as problem:
        is_stale = isinstance(problem, OAuthRefused) and problem.stale
        if (problem.retry or is_stale) and row.tries + 1 < TRIES:
            waiting.update(problem=str(problem)[:500], due_at=clock() + AGAIN)
            return False
        return _refuse(row, str(problem), clock())
    now = clock()
    with transaction.atomic():
        waiting.update(state=OwnRecord.State.WRITTEN, problem="", settled_at=now)
        what = "record.deleted" if row.record is None else "record.written"
        log_change(row.person, what, now, row.repo_key, row.subject, record=row.uri)
        if row.record is None:
            _end_sent(row, now)
    return True


def _refuse(row: OwnRecord, sentence: str, now: datetime) -> bool:
    with transaction.atomic():
        OwnRecord.objects.filter(pk=row.pk).update(
            state=OwnRecord.State.REFUSED, problem=sentence[:500], settled_at=now
        )
        log_change(row.person, "record.refused", now, row.repo_key, row.subject, because=sentence[:300])
    return False


def _write(row: OwnRecord, sender: DpopSender) -> None:
    """Write the record, with new tokens where the session's were renewed meanwhile. Raises FetchProblem."""
    grant = current_grant(row.session.pk, sender)
    try:
        _write_as(row, sender, grant)
    except OAuthRefused as problem:
        if not problem.stale:
            raise
        _write_as(row, sender, current_grant(row.session.pk, sender, refused=grant.access_token))


def _write_as(row: OwnRecord, sender: DpopSender, grant: Grant) -> None:
    server = OwnServer(sender, grant)
    # What somebody deleted elsewhere meanwhile is gone too.
    if (row.tries or row.record is None) and _is_written(row, server):
        return
    if row.record is None:
        server.delete_record(row.collection, row.rkey, row.replaces)
    elif row.act == Act.VOUCH:
        server.put_record(row.collection, row.rkey, row.record, row.replaces or None)
    else:
        server.create_record(row.collection, row.record, row.rkey)


def _is_written(row: OwnRecord, server: OwnServer) -> bool:
    """Return whether an earlier try arrived whose answer was lost. Raises FetchProblem."""
    stored = server.read_record(row.collection, row.rkey)
    if stored is None or row.record is None:
        return stored is None and row.record is None
    return stored.value == {"$type": row.collection, **row.record}


def wake_worker() -> None:
    """Have the worker send what is due as soon as it can be."""
    from triage.tasks import wake_sender

    wake_sender()
