"""Merge an approved pull request on its knot in a maintainer's own name: at once, after a click, never by itself.

The attempt is stored before anything is sent. If the process is killed in between, or the knot's answer is lost, nobody
knows whether it was merged: then a person looks at the branch and says what they saw before anybody here tries again.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from ingest.errors import FetchProblem
from ingest.lookups.forge import Merged, MergeOrder, Outcome, merge
from ingest.oauth.dpop import DpopSender
from ingest.oauth.records import STATUS, make_status
from ingest.oauth.resource import OwnServer, Written
from ingest.oauth.scopes import Act
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.merge_orders import NoOrder, build_order, is_merged
from triage.access.oauth.sessions import SessionEnded, current_grant
from triage.models import OAuthSession, OwnRecord
from triage.models.accounts import log_change
from triage.services.actions import ActionProblem
from triage.services.own_name.own_records import STANDING, ScopeNeeded, covers, new_key, wake_worker

UNDER_WAY = timedelta(minutes=5)  # longer than the longest merge
STATES = {
    Outcome.MERGED: OwnRecord.State.WRITTEN,
    Outcome.NOT_RECORDED: OwnRecord.State.WAITING,  # the worker writes the status as soon as it can
    Outcome.UNKNOWN: OwnRecord.State.UNKNOWN,
}
MERGED_ALREADY = "Nothing was merged. It was merged from here already."
RUNNING = "Nothing was merged. Somebody is merging it just now."
LOOK_FIRST = "Nothing was merged. An earlier try may have merged it: look at the branch, then say what you saw."
NOT_UNCLEAR = "Nothing was sent. No earlier try of yours to merge it is unclear."
TOLD = "Nothing was merged now. Your server is told that it is merged."
ABSENT, PRESENT = "absent", "present"  # what somebody saw who looked at the branch
ENDED = "Nothing was merged: your sign-in at your own server has ended. Sign in again."


@dataclass(frozen=True, slots=True)
class _WithKey:
    """A session whose one record, the status, has a key that was chosen before."""

    server: OwnServer
    rkey: str

    def service_token(self, audience: str, method: str) -> str:
        return self.server.service_token(audience, method)

    def create_record(self, collection: str, record: dict[str, Any]) -> Written:
        return self.server.create_record(collection, record, self.rkey)


def unclear_attempt(uri: str, now: datetime) -> OwnRecord | None:
    """Return the earlier try that may have merged this, so that somebody has to look first; None for none."""
    return next((row for row in _attempts(uri) if _is_unclear(row, now)), None)


def merged_here(uri: str) -> OwnRecord | None:
    """Return the merge that was made from here, None where none was."""
    return next((row for row in _attempts(uri) if row.state in STANDING), None)


def merge_as(
    session: OAuthSession,
    snapshot: Snapshot,
    uri: str,
    seen: str,
    sender: DpopSender,
    clock: Callable[[], datetime],
) -> Merged:
    """Merge the approved round in the name of the session's person, or only write that it is merged.

    `seen` is what they saw on the branch after an unclear try: ABSENT, or PRESENT, and "" if they did not look.
    Raises ActionProblem or ScopeNeeded with nothing tried.
    """
    if not covers(session, Act.MERGE):
        raise ScopeNeeded(Act.MERGE)
    if seen == PRESENT:
        return _tell_merged(session, uri, clock())
    try:
        order, now = build_order(snapshot, settings.DIFF_CORPUS_DIR, uri), clock()
    except NoOrder as problem:
        raise ActionProblem(f"Nothing was merged. {problem}") from None
    row = _begin(session, order, uri, _repository_key(snapshot, uri), seen, now)
    try:
        server = OwnServer(sender, current_grant(session.id, sender))
    except (SessionEnded, FetchProblem) as problem:
        sentence = ENDED if isinstance(problem, SessionEnded) else f"Nothing was merged: {problem}."
        merged = Merged(Outcome.FAILED, sentence)
    else:
        naive = now.astimezone(UTC).replace(tzinfo=None)
        told = _WithKey(server, row.rkey)
        merged = merge(sender.fetcher, told, order, naive, lambda base: is_merged(snapshot, base))
    _end(row, merged, clock())
    return merged


def _repository_key(snapshot: Snapshot, uri: str) -> str:
    return read.subjects(snapshot, [uri])[uri].repository_key


def _attempts(uri: str) -> list[OwnRecord]:
    tried = OwnRecord.objects.filter(subject=uri, act=Act.MERGE).exclude(state=OwnRecord.State.REFUSED)
    return list(tried.select_related("person").order_by("pk"))


def _is_unclear(row: OwnRecord, now: datetime) -> bool:
    is_left = row.state == OwnRecord.State.MERGING and now > row.made_at + UNDER_WAY
    return is_left or row.state == OwnRecord.State.UNKNOWN


def _begin(session: OAuthSession, order: MergeOrder, uri: str, repo_key: str, seen: str, now: datetime) -> OwnRecord:
    """Store the attempt before anything is sent. Raises ActionProblem beside another one."""
    with transaction.atomic():
        for row in _attempts(uri):
            if _is_unclear(row, now):
                if seen != ABSENT:
                    raise ActionProblem(LOOK_FIRST)
                OwnRecord.objects.filter(pk=row.pk).update(state=OwnRecord.State.REFUSED, settled_at=now)
            else:
                raise ActionProblem(RUNNING if row.state == OwnRecord.State.MERGING else MERGED_ALREADY)
        return OwnRecord.objects.create(
            key=secrets.token_hex(16),
            person=session.person,
            session=session,
            act=Act.MERGE,
            repo_key=repo_key,
            subject=uri,
            collection=STATUS,
            rkey=new_key(now),
            record=make_status(order.pull_uri, "merged", now.astimezone(UTC).replace(tzinfo=None)),
            state=OwnRecord.State.MERGING,
            made_at=now,
            due_at=now,
            tries=1,
        )


def _tell_merged(session: OAuthSession, uri: str, now: datetime) -> Merged:
    """Have the worker write the status of an unclear try that merged it. Raises ActionProblem.

    The try keeps its key, so that a status which it wrote already is found and not written twice.
    """
    with transaction.atomic():
        row = unclear_attempt(uri, now)
        if row is None or row.person != session.person:
            raise ActionProblem(NOT_UNCLEAR)
        OwnRecord.objects.filter(pk=row.pk).update(
            state=OwnRecord.State.WAITING, session=session, made_at=now, due_at=now, settled_at=now
        )
        log_change(session.person, "record.asked", now, row.repo_key, row.subject, record=row.uri)
        transaction.on_commit(wake_worker)
    return Merged(Outcome.MERGED, TOLD)


def _end(row: OwnRecord, merged: Merged, now: datetime) -> None:
    state = STATES.get(merged.outcome, OwnRecord.State.REFUSED)
    is_done = merged.outcome is Outcome.MERGED
    with transaction.atomic():
        OwnRecord.objects.filter(pk=row.pk).update(
            state=state, problem="" if is_done else merged.sentence[:500], settled_at=now
        )
        details = {"record": row.uri} if is_done else {"because": merged.sentence[:300]}
        is_in = merged.outcome in (Outcome.MERGED, Outcome.NOT_RECORDED)
        what = "pull.merged" if is_in else "pull.not_merged"
        log_change(row.person, what, now, row.repo_key, row.subject, **details)
