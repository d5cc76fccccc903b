"""The account as which this site publishes: connect it by a grant or with an app password, and look how it is."""

import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from ingest.errors import FetchProblem, OAuthRefused
from ingest.oauth.app_password import PasswordServer
from ingest.oauth.client import Client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Grant, discover
from ingest.oauth.resource import DataServer, OwnServer
from ingest.oauth.scopes import missing_scopes, service_scope
from triage.access.oauth.encryption import Undecryptable, seal, unseal
from triage.access.oauth.sessions import SessionEnded, begin_session, current_grant, end_sessions
from triage.models import OAuthSession, Person, PublishedRecord, ServiceAccount
from triage.models.accounts import log_change
from triage.services.publishing.records import wake_worker

BROWSER = "this site, to publish"  # where a person's sessions are listed
NOT_STAGED = "A demo or a replay publishes nothing: its people are made up."
OTHER = "records of {did} are still public: take them back first, then connect another account"
NOT_ALLOWED = "the account does not allow its collections ({scopes}); connect it again and allow them"


class ConnectProblem(Exception):
    """The account was not connected; the message is one sentence."""


def needed_scope(with_schemas: bool = False) -> str:
    """Return the smallest scope with which this site publishes all that it should."""
    return service_scope(settings.LEXICON_AUTHORITY, with_schemas, with_label=settings.LANE_LABEL)


def connect_grant(grant: Grant, client: Client, by: Person | None, now: datetime) -> ServiceAccount:
    """Publish with this grant from now on. Raises ConnectProblem, and keeps the account that was there before."""
    if missing := missing_scopes(grant.scope, needed_scope()):
        raise ConnectProblem(NOT_ALLOWED.format(scopes=", ".join(missing)))
    with transaction.atomic():
        person, _ = Person.objects.get_or_create(did=grant.did, defaults={"handle": grant.handle or ""})
        session = begin_session(grant, client, person, BROWSER, now)
        fields = {"session": session, "sealed": None, "handle": grant.handle or "", "server": grant.pds}
        return _connect(grant.did, uuid.uuid4(), fields, by, now)


def connect_password(name: str, password: str, sender: DpopSender, now: datetime) -> ServiceAccount:
    """Publish with this app password from now on. Raises ConnectProblem."""
    try:
        account = discover(sender.fetcher, settings.PLC_URL, name)
        server = PasswordServer(sender.fetcher, settings.PLC_URL, account.did, password)
        server.sign_in()
        if not server.get_session().active:
            raise ConnectProblem("the account is deactivated at its own server")
    except FetchProblem as problem:
        raise ConnectProblem(str(problem)) from None
    row = uuid.uuid4()
    fields: dict[str, Any] = {"session": None, "sealed": seal(row, {"password": password})}
    fields |= {"handle": account.handle or "", "server": server.pds}
    with transaction.atomic():
        return _connect(account.did, row, fields, None, now)


def _connect(did: str, row: uuid.UUID, fields: dict[str, Any], by: Person | None, now: datetime) -> ServiceAccount:
    """Write the one row, and end the grant of the one before."""
    if settings.STAGED:
        raise ConnectProblem(NOT_STAGED)
    before = ServiceAccount.objects.first()
    if before and before.did != did and PublishedRecord.objects.exclude(cid="").exists():
        raise ConnectProblem(OTHER.format(did=before.did))
    ServiceAccount.objects.all().delete()
    account = ServiceAccount.objects.create(id=row, did=did, connected_at=now, **fields)
    if before and before.session:
        end_sessions([before.session.pk], OAuthSession.Ended.PERSON, now)
    PublishedRecord.objects.update(due_at=now)
    log_change(by, "publishing.connected", now, "", did, server=account.server)
    transaction.on_commit(wake_worker)
    return account


def open_server(
    account: ServiceAccount, sender: DpopSender, held: DataServer | None = None, renew: bool = False
) -> DataServer:
    """Return the account's data server, ready to be written to. `held` is one from before, `renew`: its token is stale.

    Raises SessionEnded, KeyProblem or FetchProblem.
    """
    if isinstance(held, PasswordServer) and not renew:
        return held
    server = _server_by_password(account, sender) if account.sealed else _server_by_grant(account, sender, held, renew)
    if server.pds != account.server:  # it moved
        ServiceAccount.objects.filter(pk=account.pk).update(server=server.pds)
    return server


def _server_by_grant(account: ServiceAccount, sender: DpopSender, held: DataServer | None, renew: bool) -> OwnServer:
    if account.session is None:
        raise SessionEnded
    refused = held.grant.access_token if renew and isinstance(held, OwnServer) else ""
    return OwnServer(sender, current_grant(account.session.pk, sender, refused))


def _server_by_password(account: ServiceAccount, sender: DpopSender) -> PasswordServer:
    try:
        password = unseal(account.id, account.sealed)["password"]
    except Undecryptable:
        raise OAuthRefused("the app password cannot be decrypted with the keys of this drive", ended=True) from None
    return PasswordServer(sender.fetcher, settings.PLC_URL, account.did, password)
