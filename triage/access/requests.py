"""The type of a request for views and access, where it came from, and its session in the accounts' file.

A view may write the session in the transaction of its other changes.
"""

import ipaddress
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db import OperationalError
from django.http import HttpRequest
from django.http.request import split_domain_port
from django_htmx.middleware import HtmxDetails

from ingest.store.snapshots import Snapshot
from triage.models import ApiToken, Person


class SessionStore(db.SessionStore):
    """Django's store, which reports a drive that takes no bytes, and does not write saved content again."""

    _kept: tuple[str | None, bytes] | None = None

    def keep(self) -> None:
        """Write it at once, in the caller's transaction, so that both are committed or rolled back."""
        self.save()
        self._kept = self._content()

    def save(self, must_create: bool = False) -> None:
        """Write it unless it is unchanged since `keep`.

        OperationalError where the file takes nothing, UpdateError if it ended.

        Django raises UpdateError for both: 400, "the session was deleted".
        """
        if self._kept is not None and self._kept == self._content():
            return
        try:
            super().save(must_create)
        except UpdateError as problem:
            if isinstance(problem.__context__, OperationalError):
                raise problem.__context__ from None
            raise

    def _content(self) -> tuple[str | None, bytes]:
        return self.session_key, self.serializer().dumps(self._get_session())  # `encode` would sign the time too


class Request(HttpRequest):
    """The request that views get; only an annotation, never created."""

    user: Person | AnonymousUser
    session: SessionStore
    htmx: HtmxDetails
    snapshot: Snapshot | None  # None: nothing was published yet
    answer_tag: str  # the ETag of a JSON answer, once `triage.api.base` found it
    page_state: str  # what `triage.context` found, once it was asked
    token: ApiToken | None  # what came as a bearer token, once `triage.access.tokens` looked it up
    offers: Any  # what `triage.presenters.queue.row_actions.offers_to` found, once it was asked
    session_roles: Any  # triage.access.permissions.Roles of the signed-in person, once they were asked for
    roles: Any  # triage.access.permissions.Roles of whoever reads, once `triage.access.sign_in.viewing` asked for them


def is_local(request: HttpRequest) -> bool:
    """Return whether the request came over loopback and named a loopback host.

    Either alone is possible from elsewhere: the name by DNS rebinding, the address through a proxy on this machine.
    """
    host, _ = split_domain_port(request.get_host())
    return _is_loopback(host.strip("[]")) and _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
