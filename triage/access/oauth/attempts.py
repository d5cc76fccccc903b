"""A sign-in under way: begun with a handle, it waits ten minutes for the same browser to come back once."""

import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from ingest.errors import OAuthRefused
from ingest.oauth.client import Client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import START_AGAIN, Account, Begun, Grant, discover, push_request, redeem, revoke
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import IDENTITY
from triage.access.oauth.client import bound_client
from triage.access.oauth.encryption import Undecryptable, seal, unseal
from triage.access.tokens import new_secret, secret_hash
from triage.models import OAuthRequest

AWAITED = timedelta(minutes=10)
STRANGE = f"this answer belongs to no sign-in that was begun in this browser; {START_AGAIN}"
BROWSER = re.compile(r"[A-Za-z0-9_-]{43}")  # the cookie's value: `new_secret`
BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows")),
    *(("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


@dataclass(frozen=True, slots=True)
class Departure:
    """The next step of a person: the address at their own server, and the secret that their browser keeps."""

    account: Account
    address: str = field(repr=False)
    browser: str = field(repr=False)


def begin_attempt(
    name: str,
    client: Client,
    target: str,
    browser: str,
    sender: DpopSender,
    now: datetime,
    scope: str = IDENTITY,
    purpose: str = "",
) -> Departure:
    """Look up an account and tell its server what will be asked. Raises OAuthRefused.

    `target`: the page to show afterwards; `browser`: the secret that the browser holds already, if any. `scope`: what
    to ask for; by itself a sign-in asks who the person is, and for no right to read or write anything. `purpose`: what
    the session is for, as `OAuthRequest` has it.
    """
    account = discover(sender.fetcher, settings.PLC_URL, name)
    begun = push_request(sender, client, account, scope)
    secret = browser if BROWSER.fullmatch(browser) else new_secret()
    row = uuid.uuid4()
    secrets = {"state": begun.state, "verifier": begun.verifier, "key": begun.key}
    asked = {"issuer": begun.issuer, "scope": begun.scope, "redirect_uri": client.redirect_uri}
    handles = {"handle": begun.handle or "", "claimed_handle": begun.claimed_handle or ""}
    forget_expired(now)
    OAuthRequest.objects.create(
        id=row,
        state_hash=secret_hash(begun.state),
        browser_hash=secret_hash(secret),
        did=account.did,
        client_id=client.client_id,
        key_id=client.kid,
        next=target[:2048],
        purpose=purpose,
        sealed=seal(row, secrets | asked | handles),
        expires_at=now + AWAITED,
    )
    return Departure(account, begun.address, secret)


def find_attempt(state: str, browser: str, now: datetime) -> OAuthRequest:
    """Return the attempt with this state that this browser began. Raises OAuthRefused."""
    hashes = {"state_hash": secret_hash(state), "browser_hash": secret_hash(browser)}
    attempt = OAuthRequest.objects.filter(**hashes, expires_at__gt=now).first()
    if attempt is None:
        raise OAuthRefused(STRANGE)
    return attempt


def finish_attempt(attempt: OAuthRequest, query: Mapping[str, str], sender: DpopSender) -> tuple[Grant, Client]:
    """Return what the person's server grants, and the client that it is bound to; each attempt is answered once.

    Raises OAuthRefused.
    """
    # Forgotten before the code is sent: a code that is sent twice ends the person's session at their server.
    if not OAuthRequest.objects.filter(pk=attempt.pk).delete()[0]:
        raise OAuthRefused(STRANGE)
    try:
        secrets = unseal(attempt.id, attempt.sealed)
    except Undecryptable:
        raise OAuthRefused(STRANGE) from None
    client = bound_client(attempt.client_id, attempt.key_id, secrets.pop("redirect_uri"))
    if client is None:
        raise OAuthRefused(f"the key of this site was removed meanwhile; {START_AGAIN}")
    handle, claimed_handle = secrets.pop("handle") or None, secrets.pop("claimed_handle") or None
    begun = Begun(address="", did=attempt.did, handle=handle, claimed_handle=claimed_handle, **secrets)
    grant = redeem(sender, settings.PLC_URL, client, begun, query)
    try:
        if not OwnServer(sender, grant).get_session().active:
            raise OAuthRefused("your account is deactivated at its own server; activate it there, then sign in again")
    except OAuthRefused:
        give_back(grant, client, sender)
        raise
    return grant, client


def give_back(grant: Grant, client: Client, sender: DpopSender) -> None:
    """Tell the server that a session which was granted is not wanted, if it can be told."""
    with suppress(OAuthRefused):
        revoke(sender, client, grant)


def forget_expired(now: datetime) -> int:
    """Delete the attempts that nobody came back from in time."""
    return OAuthRequest.objects.filter(expires_at__lte=now).delete()[0]


def describe_browser(user_agent: str) -> str:
    """Return a browser and its system in a few words of our own, such as "Firefox on Linux"."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "A browser")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser
