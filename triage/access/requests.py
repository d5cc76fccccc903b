"""The type of a request that views and access are given, and its session in the accounts' file.

A view may write the session together with what it did.
"""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db import OperationalError
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from ingest.store.snapshots import Snapshot
from triage.models import ApiToken, Person


class SessionStore(db.SessionStore):
    """Django's, where a drive that takes no bytes is told as that, and what was written is not written again."""

    _kept: tuple[str | None, bytes] | None = None

    def keep(self) -> None:
        """Write it at once, in the transaction of whoever calls, so that what they do and this are done or undone."""
        self.save()
        self._kept = self._content()

    def save(self, must_create: bool = False) -> None:
        """Write it unless it was kept as it is; OperationalError where the file takes nothing, UpdateError if it ended.

        Django says UpdateError of both: 400, "the session was deleted".
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
        return self.session_key, self.serializer().dumps(self._get_session())  # `encode` would sign the time with it


class Request(HttpRequest):
    """The request that views are given; an annotation, never made."""

    user: Person | AnonymousUser
    session: SessionStore
    htmx: HtmxDetails
    snapshot: Snapshot | None  # None: nothing was published yet
    answer_tag: str  # the ETag of a JSON answer, once `triage.api.base` found it
    page_state: str  # what `triage.context` found, once it was asked
    token: ApiToken | None  # what came as a bearer token, once `triage.access.tokens` looked it up
    offers: Any  # what `triage.presenters.row_actions.offers_to` found, once it was asked
    roles: Any  # triage.access.permissions.Roles of whoever reads, once `triage.access.sign_in.viewing` asked for them
