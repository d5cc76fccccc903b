"""Sessions that people's authorization servers granted: stored encrypted, refreshed once, ended and revoked.

A refresh token works once: whoever sends a used one ends the session at its server. So whoever refreshes holds a lease
of the row, and stores the new tokens before anybody uses them; all others wait and read the row again.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from ingest.errors import FetchProblem, OAuthRefused
from ingest.http.fetcher import end_within
from ingest.oauth.client import Client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Grant, refresh, revoke
from triage.access.oauth.client import bound_client
from triage.access.oauth.encryption import Undecryptable, seal, unseal
from triage.access.oauth.keys import KeyProblem
from triage.access.requests import Request
from triage.access.tokens import new_secret
from triage.models import OAuthSession, Person

IN_BROWSER = "oauth_session"  # key in a browser's session: the id of its row here
EARLY = timedelta(seconds=30)  # before their end tokens count as expired
LEASE = timedelta(minutes=2)  # longer than the longest refresh: six requests, each bounded
WAIT_SECONDS = 20.0
LOOK_SECONDS = 0.05
USED_STEP = timedelta(minutes=1)  # a write for each use would queue everybody behind SQLite's one writer
MOST_LIVE = 20  # sessions of a person
REVOKED_WITHIN = timedelta(days=1)  # then a server that cannot be told is left to its own expiry
ERASED_SECONDS = 60.0  # for the revocations of one erased person
REVOKED_AT_ONCE, OF_ONE_ISSUER = 20, 2  # sessions in a run: one slow server may not hold all the others up
FREE = datetime(1970, 1, 1, tzinfo=UTC)  # `lease_until` of a row that nobody refreshes
log = logging.getLogger(__name__)


class SessionEnded(Exception):
    """The person has to sign in again before anything is done with their account."""

    def __init__(self) -> None:
        super().__init__("Your sign-in at your own server has ended. Sign in again.")


def begin_session(grant: Grant, client: Client, person: Person, browser: str, now: datetime) -> OAuthSession:
    """Store a granted session, in the caller's transaction."""
    row = uuid.uuid4()
    return OAuthSession.objects.create(
        id=row,
        person=person,
        issuer=grant.issuer,
        server=grant.pds,
        client_id=client.client_id,
        key_id=grant.kid,
        scope=grant.scope,
        browser=browser,
        sealed=_seal_tokens(row, grant),
        tokens_expire_at=grant.expires_at.replace(tzinfo=UTC),
        lease_until=FREE,
        made_at=now,
        last_used_at=now,
    )


def current_grant(
    session: uuid.UUID, sender: DpopSender, refused: str = "", clock: Callable[[], datetime] = timezone.now
) -> Grant:
    """Return the session with tokens that are valid now, refreshed by one caller if they are not.

    `refused`: the access token that the data server took no more; if the row has another by now, that one is returned.
    Raises SessionEnded, or OAuthRefused with `retry` while it cannot be refreshed.
    """
    gives_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        now, row = clock(), _read_row(session, clock())
        grant = _open_row(row, now)
        if grant.access_token != refused and row.tokens_expire_at > now + EARLY:
            _note_use(row, now)
            return grant
        if lease := _take_lease(row, now):
            return _refresh_row(row, grant, lease, sender, clock)
        if time.monotonic() > gives_up_at:
            raise OAuthRefused("your sign-in is being renewed; try again in a minute", retry=True)
        time.sleep(LOOK_SECONDS)


def surplus_sessions(person: Person) -> list[uuid.UUID]:
    """Return a person's live sessions beyond MOST_LIVE, those that were used longest ago."""
    live = OAuthSession.objects.filter(person=person, ended_at=None).order_by("-last_used_at", "-made_at")
    return list(live.values_list("pk", flat=True)[MOST_LIVE:])


def end_sessions(sessions: Collection[uuid.UUID], because: OAuthSession.Ended, now: datetime) -> int:
    """End these sessions and sign out their browsers; return how many were live. The worker revokes them.

    The browsers are read before the transaction: of 20,000 that takes over a second, in which nobody else could write.
    Inside only those are read that came meanwhile, in 26 ms.
    """
    live = OAuthSession.objects.filter(pk__in=sessions, ended_at=None)
    if not live.exists():
        return 0
    browsers, names = _read_browsers({}), {str(session) for session in sessions}
    with transaction.atomic():
        ended = live.update(ended_at=now, ended_because=because)
        browsers |= _read_browsers(browsers)
        Session.objects.filter(pk__in=[key for key, name in browsers.items() if name in names]).delete()
    return ended


def end_sessions_of(browser: SessionBase, now: datetime) -> None:
    """End the session that this browser holds, if any."""
    if name := browser.get(IN_BROWSER):
        end_sessions([uuid.UUID(name)], OAuthSession.Ended.PERSON, now)


def held_session(request: Request) -> OAuthSession | None:
    """Return the live session of whoever asks, in this browser; None where they signed in otherwise or not at all."""
    name = request.session.get(IN_BROWSER) if isinstance(request.user, Person) else None
    if name is None:
        return None
    mine = OAuthSession.objects.filter(pk=uuid.UUID(name), person=request.user, ended_at=None)
    return mine.select_related("person").first()


def end_unused(now: datetime) -> int:
    """End live sessions whose browser is signed out, and those of people who were switched off."""
    live = OAuthSession.objects.filter(ended_at=None)
    switched_off = list(live.filter(person__is_active=False).values_list("pk", flat=True))
    of_browsers = live.filter(service_accounts=None)  # the grant by which this site publishes has none
    rows = list(
        of_browsers.values_list("pk", flat=True)
    )  # before the browsers: whoever signs in meanwhile is not among them
    signed_in = set(_read_browsers({}).values())
    ended = end_sessions(switched_off, OAuthSession.Ended.ACCOUNT, now)
    return ended + end_sessions([row for row in rows if str(row) not in signed_in], OAuthSession.Ended.PERSON, now)


def revoke_ended(sender: DpopSender, now: datetime) -> int:
    """Tell the servers of ended sessions, and delete those rows; return how many are gone.

    A server that cannot be told is asked again for a day; then the row goes, and with it the tokens. The sessions that
    were tried longest ago come first: a try that failed leaves its time in `lease_until`.
    """
    waiting = OAuthSession.objects.filter(ended_at__isnull=False, lease_until__lte=now)
    chosen, of_issuer = list[uuid.UUID](), Counter[str]()
    for row_id, issuer in waiting.order_by("lease_until", "ended_at").values_list("pk", "issuer").iterator():
        of_issuer[issuer] += 1
        if of_issuer[issuer] <= OF_ONE_ISSUER:
            chosen.append(row_id)
        if len(chosen) == REVOKED_AT_ONCE:
            break
    return sum(_revoke_row(row, sender, now) for row in OAuthSession.objects.filter(pk__in=chosen))


def revoke_all_of(did: str, sender: DpopSender) -> int:
    """Tell the servers of all sessions of a person, who is about to be erased, as far as they answer within a minute.

    Their server may be slow on purpose, and the erasure waits for this.
    """
    rows = OAuthSession.objects.filter(person__did=did)
    with end_within(ERASED_SECONDS):
        return sum(_is_revoked(row, sender) for row in rows)


def _read_browsers(known: Mapping[str, str]) -> dict[str, str]:
    """Return the browsers' sessions beyond those that are `known`, by key: the id of ours that each holds, or "".

    Their data is signed, so each is decoded. One is never given another of ours: signing in changes its key.
    """
    live = Session.objects.filter(expire_date__gt=timezone.now())
    if known:
        live = live.filter(pk__in=set(live.values_list("pk", flat=True)) - known.keys())
    return {str(row.pk): row.get_decoded().get(IN_BROWSER, "") for row in live}


def _read_row(session: uuid.UUID, now: datetime) -> OAuthSession:
    row = OAuthSession.objects.select_related("person").filter(pk=session, ended_at=None).first()
    if row is None:
        raise SessionEnded
    if not row.person.is_active:
        end_sessions([row.id], OAuthSession.Ended.ACCOUNT, now)
        raise SessionEnded
    return row


def _open_row(row: OAuthSession, now: datetime) -> Grant:
    try:
        return _grant_of(row)
    except Undecryptable:
        end_sessions([row.id], OAuthSession.Ended.SECRET, now)
        raise SessionEnded from None


def _grant_of(row: Any) -> Grant:
    """Return a stored session. Raises Undecryptable."""
    return Grant(
        did=row.person.did,
        handle=row.person.handle or None,
        pds=row.server,
        issuer=row.issuer,
        scope=row.scope,
        expires_at=row.tokens_expire_at.replace(tzinfo=None),
        kid=row.key_id,
        **unseal(row.id, row.sealed),
    )


def _seal_tokens(row: uuid.UUID, grant: Grant) -> bytes:
    tokens = {"access_token": grant.access_token, "refresh_token": grant.refresh_token, "key": grant.key}
    return seal(row, tokens)


def _take_lease(row: OAuthSession, now: datetime) -> str:
    """Return a lease of the row as it was read; "" if somebody has one, or has changed the row meanwhile."""
    lease = new_secret()
    same = OAuthSession.objects.filter(pk=row.id, ended_at=None, lease_until__lte=now, sealed=row.sealed)
    return lease if same.update(lease=lease, lease_until=now + LEASE) else ""


def _refresh_row(
    row: OAuthSession, grant: Grant, lease: str, sender: DpopSender, clock: Callable[[], datetime]
) -> Grant:
    """Refresh under the lease and store what came before anybody uses it; without new tokens give the lease back."""
    held = OAuthSession.objects.filter(pk=row.id, lease=lease)
    try:
        client = bound_client(row.client_id, row.key_id)
        if client is None:
            end_sessions([row.id], OAuthSession.Ended.SECRET, clock())
            raise SessionEnded
        fresh = refresh(sender, settings.PLC_URL, client, grant)
    except (OAuthRefused, KeyProblem, SessionEnded) as problem:
        is_ended = isinstance(problem, OAuthRefused) and problem.ended
        if is_ended:
            end_sessions([row.id], OAuthSession.Ended.SERVER, clock())
        held.update(lease="", lease_until=FREE)
        if is_ended:
            raise SessionEnded from None
        raise
    now = clock()
    stored = held.update(
        sealed=_seal_tokens(row.id, fresh),
        scope=fresh.scope,
        server=fresh.pds,
        tokens_expire_at=fresh.expires_at.replace(tzinfo=UTC),
        last_used_at=now,
        lease="",
        lease_until=FREE,
    )
    if not stored or not OAuthSession.objects.filter(pk=row.id, ended_at=None).exists():
        raise SessionEnded  # somebody ended it meanwhile
    return fresh


def _note_use(row: OAuthSession, now: datetime) -> None:
    if now - row.last_used_at >= USED_STEP:
        OAuthSession.objects.filter(pk=row.id).update(last_used_at=now)


def _revoke_row(row: OAuthSession, sender: DpopSender, now: datetime) -> int:
    if _is_revoked(row, sender) or now - row.ended_at > REVOKED_WITHIN:
        return OAuthSession.objects.filter(pk=row.id).delete()[0]
    OAuthSession.objects.filter(pk=row.id).update(lease_until=now)
    return 0


def _is_revoked(row: OAuthSession, sender: DpopSender) -> bool:
    """Tell the server; return False if it should be asked again."""
    if row.ended_because == OAuthSession.Ended.SERVER:
        return True
    try:
        client, grant = bound_client(row.client_id, row.key_id), _grant_of(row)
        if client is not None:
            revoke(sender, client, grant)
    except Undecryptable:
        return True
    except KeyProblem as problem:  # the operator may put the key file back
        log.error("a session could not be revoked: %s", problem)
        return False
    except FetchProblem as problem:
        return not problem.retry
    return True
