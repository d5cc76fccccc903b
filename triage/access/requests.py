"""The type of a request that views and access are given."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from ingest.store.snapshots import Snapshot
from triage.access.sessions import SessionStore
from triage.models import ApiToken, Person


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
