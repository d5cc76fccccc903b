"""The type of a request that views and access are given."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from ingest.snapshot import Snapshot
from triage.models import ApiToken, Person
from triage.sessions import SessionStore


class Request(HttpRequest):
    """What views are given; an annotation, never made."""

    user: Person | AnonymousUser
    session: SessionStore
    htmx: HtmxDetails
    snapshot: Snapshot | None  # None: nothing was published yet
    answer_tag: str  # the ETag of a JSON answer, once `triage.api.base` found it
    page_state: str  # what `triage.page_state` found, once it was asked
    token: ApiToken | None  # what came as a bearer token, once `triage.token_access` looked it up
    offers: Any  # what `triage.acting.offers_to` found, once it was asked
    roles: Any  # triage.permissions.Roles of whoever reads, once `triage.access.viewing` asked for them
